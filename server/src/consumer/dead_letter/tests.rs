//! Copies of records: what they carry, and what is left out when they are too large.

use ackgate_lane::{Offset, Order};
use ackgate_proto::v1;
use bytes::Bytes;

use super::{
    Letter, alias,
    alias::Facts,
    form::{self, Form},
    origin::Origin,
};
use crate::{
    broker::{Outgoing, TopicPartition},
    config::{Alias, LetterPartition},
    consumer::tests::configured,
    headers,
};

fn origin() -> Origin {
    Origin {
        topic: "orders".to_owned(),
        partition: 258,
        offset: 1 << 40,
        timestamp_ms: 1_700_000_000_000,
        dedupe_id: "billing/orders/258/1099511627776".to_owned(),
        round: None,
    }
}

fn set(alias: Alias, reason: &str) -> Vec<(String, Vec<u8>)> {
    let facts = Facts {
        origin: &origin(),
        subscription: "orders-by-billing",
        group: "billing",
        cause: "rejected",
        reason,
        deliveries: 3,
        timestamp_type: v1::TimestampType::LogAppendTime,
    };
    let headers = alias::headers(&[alias], &facts).into_iter();
    headers
        .map(|(name, value)| (name, value.unwrap().to_vec()))
        .collect()
}

fn expect(alias: Alias, reason: &str, expected: &[(&str, &[u8])]) {
    let expected: Vec<_> = expected
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.to_vec()))
        .collect();
    assert_eq!(set(alias, reason), expected);
}

#[test]
fn connect_tells_everything_in_text() {
    expect(
        Alias::Connect,
        "bad total",
        &[
            ("__connect.errors.topic", b"orders"),
            ("__connect.errors.partition", b"258"),
            ("__connect.errors.offset", b"1099511627776"),
            ("__connect.errors.connector.name", b"orders-by-billing"),
            ("__connect.errors.task.id", b"0"),
            ("__connect.errors.stage", b"TASK_PUT"),
            ("__connect.errors.class.name", b"ackgate"),
            ("__connect.errors.exception.class.name", b"ackgate.rejected"),
            ("__connect.errors.exception.message", b"bad total"),
        ],
    );
}

#[test]
fn streams_tells_everything_in_text() {
    expect(
        Alias::Streams,
        "bad total",
        &[
            ("__streams.errors.exception", b"ackgate.rejected: bad total"),
            ("__streams.errors.message", b"bad total"),
            ("__streams.errors.topic", b"orders"),
            ("__streams.errors.partition", b"258"),
            ("__streams.errors.offset", b"1099511627776"),
        ],
    );
}

#[test]
fn spring_has_its_numbers_with_the_highest_byte_first() {
    expect(
        Alias::Spring,
        "",
        &[
            ("kafka_dlt-original-topic", b"orders"),
            ("kafka_dlt-original-partition", &[0, 0, 1, 2]),
            ("kafka_dlt-original-offset", &[0, 0, 1, 0, 0, 0, 0, 0]),
            (
                "kafka_dlt-original-timestamp",
                &[0, 0, 0x01, 0x8b, 0xcf, 0xe5, 0x68, 0],
            ),
            ("kafka_dlt-original-timestamp-type", b"LogAppendTime"),
            ("kafka_dlt-original-consumer-group", b"billing"),
            ("kafka_dlt-exception-fqcn", b"ackgate.rejected"),
            ("kafka_dlt-exception-message", b"rejected"),
        ],
    );
}

#[test]
fn share_groups_tell_everything_in_text() {
    expect(
        Alias::Share,
        "bad total",
        &[
            ("__dlq.errors.topic", b"orders"),
            ("__dlq.errors.partition", b"258"),
            ("__dlq.errors.offset", b"1099511627776"),
            ("__dlq.errors.group", b"billing"),
            ("__dlq.errors.delivery.count", b"3"),
            ("__dlq.errors.message", b"bad total"),
        ],
    );
}

/// What is written is what is taken away after a round trip: a name that only one of
/// the two lists has would grow with each.
#[test]
fn every_alias_is_known_as_added() {
    for (alias, _) in Alias::ALL {
        for (name, _) in set(alias, "x") {
            let marker = format!("{}topic", headers::DEAD_LETTER);
            let after = headers::own(vec![marker, name.clone()], |it| it);
            assert_eq!(after.count(), 0, "{name}");
            let before = headers::own(vec![name.clone()], |it| it);
            assert_eq!(before.collect::<Vec<_>>(), [name]);
        }
    }
}

fn wire(headers: &[(&str, &str)]) -> v1::Record {
    let headers = headers.iter().map(|(key, value)| v1::Header {
        key: (*key).to_owned(),
        value: Some(Bytes::copy_from_slice(value.as_bytes())),
    });
    v1::Record {
        timestamp_ms: 9,
        headers: headers.collect(),
        ..v1::Record::default()
    }
}

fn origin_of(topic: &str, record: &v1::Record) -> Origin {
    let source = TopicPartition {
        topic: topic.into(),
        partition: 1,
    };
    let mut subscription = configured(Order::None);
    if let Some(dead_letter) = &mut subscription.dead_letter {
        dead_letter.retry_topic = Some("orders.retry".to_owned());
    }
    Origin::of(record, &source, Offset::new(5), &subscription)
}

#[test]
fn origin_and_dedupe_id_stay_those_of_the_first_delivery() {
    let headers = [
        ("ackgate.redrive.topic", "orders"),
        ("ackgate.redrive.partition", "258"),
        ("ackgate.redrive.offset", "1099511627776"),
        ("ackgate.redrive.timestamp", "1700000000000"),
        (
            "ackgate.redrive.dedupe-id",
            "billing/orders/258/1099511627776",
        ),
        ("ackgate.redrive.round", "2"),
    ];
    let again = Origin {
        round: Some(2),
        ..origin()
    };
    assert_eq!(origin_of("orders.retry", &wire(&headers)), again);

    let own = Origin {
        topic: "orders.retry".to_owned(),
        partition: 1,
        offset: 5,
        timestamp_ms: 9,
        dedupe_id: "billing/orders.retry/1/5".to_owned(),
        round: None,
    };
    assert_eq!(origin_of("orders.retry", &wire(&[])), own);
    // Nor in any topic but the retry topic.
    assert_eq!(origin_of("orders", &wire(&headers)).topic, "orders");
    // Anybody can write headers: half of them, or what makes no sense, is no origin.
    for at in 0..5 {
        let mut some = headers.to_vec();
        some.remove(at);
        assert_eq!(
            origin_of("orders.retry", &wire(&some)),
            own,
            "without {}",
            headers[at].0
        );
    }
    for (at, value) in [
        (0, "no topic!"),
        (1, "-1"),
        (2, "x"),
        (3, ""),
        (4, "a\nb"),
        (4, ""),
    ] {
        let mut some = headers.to_vec();
        some[at].1 = value;
        assert_eq!(origin_of("orders.retry", &wire(&some)), own, "{value:?}");
    }
}

fn letter() -> Letter {
    let bytes = Bytes::from_static;
    Letter {
        record: Outgoing {
            topic: "dead".to_owned(),
            partition: None,
            key: Some(bytes(b"key")),
            value: Some(bytes(b"value")),
            headers: vec![("a".to_owned(), None), ("a".to_owned(), Some(bytes(b"1")))],
            timestamp_ms: Some(7),
        },
        source: 3,
        partition: LetterPartition::Same,
        provenance: vec![
            ("offset", "4".to_owned()),
            ("reason", "because".to_owned()),
            ("dedupe-id", "g/t/3/4".to_owned()),
        ],
        aliases: vec![("__dlq.errors.offset".to_owned(), Some(bytes(b"4")))],
    }
}

fn names(outgoing: &Outgoing) -> Vec<&str> {
    let names = outgoing.headers.iter().map(|(name, _)| name.as_str());
    names
        .map(|name| name.strip_prefix(headers::DEAD_LETTER).unwrap_or(name))
        .collect()
}

// FC-49.
#[test]
fn gateways_headers_go_before_anything_of_the_record() {
    let letter = letter();
    let mut form = Form::Whole;
    let mut seen = Vec::new();
    loop {
        let outgoing = letter.in_form(form, Some(10));
        if form.has_the_record() {
            assert_eq!(outgoing.key, letter.record.key, "{form:?}");
            assert_eq!(outgoing.value, letter.record.value, "{form:?}");
            assert_eq!(outgoing.headers[..2], letter.record.headers, "{form:?}");
        }
        assert_eq!(outgoing.timestamp_ms, Some(7), "{form:?}");
        seen.push((form, form::size(&outgoing)));
        match form {
            Form::Whole => assert_eq!(
                names(&outgoing),
                [
                    "a",
                    "a",
                    "offset",
                    "reason",
                    "dedupe-id",
                    "__dlq.errors.offset"
                ]
            ),
            Form::Lean => assert_eq!(names(&outgoing), ["a", "a", "offset", "dedupe-id"]),
            Form::Bare => assert_eq!(outgoing, letter.record),
            Form::WithoutValue => {
                assert_eq!(
                    (outgoing.value, outgoing.key),
                    (None, letter.record.key.clone())
                );
                let (name, value) = outgoing.headers.last().unwrap();
                assert_eq!(name, "ackgate.dead-letter.value-omitted");
                assert_eq!(
                    value.as_deref(),
                    Some(b"too large for the topic: 11 bytes, and it takes 10".as_slice())
                );
            }
            Form::HeadersOnly => {
                assert_eq!(
                    (outgoing.value.as_ref(), outgoing.key.as_ref()),
                    (None, None)
                );
                let last = names(&outgoing);
                assert!(
                    last.ends_with(&["value-omitted", "key-omitted"]),
                    "{last:?}"
                );
            }
            Form::ProvenanceOnly => {
                let all = [
                    "offset",
                    "dedupe-id",
                    "value-omitted",
                    "key-omitted",
                    "headers-omitted",
                ];
                assert_eq!(names(&outgoing), all);
            }
        }
        let Some(next) = form.smaller(&letter) else {
            break;
        };
        form = next;
    }
    assert_eq!(seen.len(), 6, "{seen:?}");
}

#[test]
fn form_that_leaves_out_nothing_more_is_passed_over() {
    let mut letter = letter();
    letter.record.value = None;
    letter.record.headers.clear();
    assert_eq!(Form::Bare.smaller(&letter), Some(Form::HeadersOnly));
    assert_eq!(Form::HeadersOnly.smaller(&letter), None);
    letter.record.key = None;
    assert_eq!(Form::Bare.smaller(&letter), None);
}

/// Bytes of a length or a count as Kafka's record format writes it.
fn varint(number: usize) -> usize {
    let bits = (2 * number as u64 + 1).ilog2() as usize + 1;
    bits.div_ceil(7)
}

/// Less than a batch has would make a copy that does not fit be tried for ever.
#[test]
fn what_a_copy_takes_is_never_put_too_low() {
    let bytes = |many| Bytes::from(vec![b'x'; many]);
    for (many, name, value) in [
        (0, 0, 0),
        (5000, 1, 0),
        (70, 200, 20_000),
        (1, 9, 3_000_000),
    ] {
        let header = ("x".repeat(name), Some(bytes(value)));
        let outgoing = Outgoing {
            key: Some(bytes(100)),
            value: Some(bytes(1_000_000)),
            headers: vec![header; many],
            ..letter().record
        };
        let field = |many| varint(many) + many;
        let headers = varint(many) + many * (field(name) + field(value));
        // Attributes and the differences of time and offset are a byte each.
        let record = 3 + field(100) + field(1_000_000) + headers;
        let batch = 61 + field(record);
        assert!(form::at_most(&outgoing) >= batch as u64, "{many} headers");
    }
}
