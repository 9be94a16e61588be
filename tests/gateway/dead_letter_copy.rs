//! What a dead letter contains, header by header and byte by byte, and which partition
//! it goes to.

use std::collections::BTreeMap;

use ackgate_proto::v1::Outcome;

use crate::support::{Case, Gateway, Outgoing, Seen, Stage, Topic, cases};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        both: repeated_headers_keep_their_order_in_the_copy,
            all_alias_sets_stand_behind_the_records_own_headers,
            round_trips_add_no_headers_and_keep_the_dedupe_id,
            reason_is_printable_and_bounded,
            copy_goes_to_its_records_partition_modulo_those_there_are;
        kafka: copy_at_the_topics_limit_loses_the_gateways_headers_and_nothing_else,
            copy_beyond_the_topics_limit_names_both_sizes,
            small_copies_do_not_make_each_other_too_large;
    ]
}

const PREFIX: &str = "ackgate.dead-letter.";

fn header(key: &str, value: &[u8]) -> (String, Option<Vec<u8>>) {
    (key.to_owned(), Some(value.to_vec()))
}

/// Bytes that no compression makes smaller.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

/// Rejects everything that comes until this many records have come.
async fn reject(gateway: &Gateway, count: usize) {
    let mut stream = gateway.open().await;
    let records = stream.records(count).await;
    stream.answer_all(&records, Outcome::Rejected).await;
    stream.close().await;
}

/// One record of one partition, rejected.
async fn letter_of(stage: &Stage, record: Outgoing) -> (Topic, Seen) {
    let topic = stage.topic("orders", 1).await;
    let dead = stage.topic("dead", 1).await;
    stage.broker.produce(&topic.name, [record]).await;
    let subscription = stage.subscription(&topic).dead_letter(&dead).set(
        "dead_letter.aliases",
        "[\"share\", \"spring\", \"streams\", \"connect\"]",
    );
    let gateway = stage.gateway(&[subscription]).await;
    reject(&gateway, 1).await;
    (topic, stage.holds(&dead, 1).await.remove(0))
}

// FC-59.
async fn repeated_headers_keep_their_order_in_the_copy(stage: Stage) {
    let headers = [("x", "1"), ("y", "o"), ("x", "2"), ("x", "1")];
    let headers: Vec<_> = headers
        .iter()
        .map(|(key, value)| header(key, value.as_bytes()))
        .collect();
    let record = Outgoing {
        headers: headers.clone(),
        ..Outgoing::value(0, "v")
    };
    let (_, letter) = letter_of(&stage, record).await;
    assert_eq!(letter.headers[..4], headers[..]);
    let behind = letter.headers[4..].iter();
    let own = behind.filter(|(name, _)| ["x", "y"].contains(&name.as_str()));
    assert_eq!(own.count(), 0);
}

// FC-52.
async fn all_alias_sets_stand_behind_the_records_own_headers(stage: Stage) {
    // Under names that the gateway uses too, and written by somebody else.
    let own = [
        header("__connect.errors.topic", b"elsewhere"),
        header("kafka_dlt-original-offset", &[0, 0, 0, 0, 0, 0, 0, 9]),
    ];
    let record = Outgoing {
        headers: own.to_vec(),
        timestamp: Some(1_700_000_000_000),
        ..Outgoing::value(0, "v")
    };
    let (topic, letter) = letter_of(&stage, record).await;
    assert_eq!(letter.headers[..2], own[..]);
    let aliases = letter.headers[2..].iter();
    let aliases: Vec<_> = aliases
        .filter(|(name, _)| !name.starts_with(PREFIX))
        .cloned()
        .collect();
    let (topic, group) = (topic.name.as_bytes(), stage.group());
    let expected = [
        header("__connect.errors.topic", topic),
        header("__connect.errors.partition", b"0"),
        header("__connect.errors.offset", b"0"),
        header("__connect.errors.connector.name", b"orders"),
        header("__connect.errors.task.id", b"0"),
        header("__connect.errors.stage", b"TASK_PUT"),
        header("__connect.errors.class.name", b"ackgate"),
        header("__connect.errors.exception.class.name", b"ackgate.rejected"),
        header("__connect.errors.exception.message", b"rejected"),
        header("__streams.errors.exception", b"ackgate.rejected"),
        header("__streams.errors.message", b"rejected"),
        header("__streams.errors.topic", topic),
        header("__streams.errors.partition", b"0"),
        header("__streams.errors.offset", b"0"),
        header("kafka_dlt-original-topic", topic),
        header("kafka_dlt-original-partition", &[0; 4]),
        header("kafka_dlt-original-offset", &[0; 8]),
        header(
            "kafka_dlt-original-timestamp",
            &1_700_000_000_000_i64.to_be_bytes(),
        ),
        header("kafka_dlt-original-timestamp-type", b"CreateTime"),
        header("kafka_dlt-original-consumer-group", group.as_bytes()),
        header("kafka_dlt-exception-fqcn", b"ackgate.rejected"),
        header("kafka_dlt-exception-message", b"rejected"),
        header("__dlq.errors.topic", topic),
        header("__dlq.errors.partition", b"0"),
        header("__dlq.errors.offset", b"0"),
        header("__dlq.errors.group", group.as_bytes()),
        header("__dlq.errors.delivery.count", b"1"),
        header("__dlq.errors.message", b"rejected"),
    ];
    assert_eq!(aliases, expected);
}

async fn round_trips_add_no_headers_and_keep_the_dedupe_id(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let dead = stage.topic("dead", 1).await;
    let retry = stage.topic("retry", 1).await;
    let own = [header("a", b"1"), header("__dlq.errors.topic", b"own")];
    let first = Outgoing {
        headers: own.to_vec(),
        timestamp: Some(1_700_000_000_000),
        ..Outgoing::value(0, "v")
    };
    stage.broker.produce(&topic.name, [first]).await;
    let subscription = stage
        .subscription(&topic)
        .dead_letter(&dead)
        .set("dead_letter.retry_topic", &format!("\"{}\"", retry.name))
        .set("dead_letter.aliases", "[\"share\"]");
    let gateway = stage.gateway(&[subscription]).await;
    let mut stream = gateway.open().await;
    let id = format!("{}/{}/0/0", stage.group(), topic.name);
    let mut count = None;
    for round in 1..=3_usize {
        let record = stream.record().await;
        stream.reject(&record).await;
        let letter = stage.holds(&dead, round).await.remove(round - 1);
        for (name, value) in [
            ("topic", topic.name.as_str()),
            ("partition", "0"),
            ("offset", "0"),
            ("timestamp", "1700000000000"),
            ("dedupe-id", &id),
        ] {
            let found = letter.header(&format!("{PREFIX}{name}"));
            assert_eq!(found, Some(value), "{name} in round {round}");
        }
        assert_eq!(letter.headers[..2], own[..], "round {round}");
        // The number of the round is there from the second one on.
        let added = letter.headers.len() - usize::from(round > 1);
        assert_eq!(*count.get_or_insert(added), added, "round {round}");

        // All of the letter comes back, as a careless tool would put it back.
        let origin = [
            ("topic", topic.name.clone()),
            ("partition", "0".to_owned()),
            ("offset", "0".to_owned()),
            ("timestamp", "1700000000000".to_owned()),
            ("dedupe-id", id.clone()),
            ("round", round.to_string()),
        ];
        let origin = origin.iter();
        let origin = origin
            .map(|(name, value)| header(&format!("ackgate.redrive.{name}"), value.as_bytes()));
        let again = Outgoing {
            partition: 0,
            key: letter.key,
            value: letter.value,
            headers: letter.headers.into_iter().chain(origin).collect(),
            timestamp: letter.timestamp,
        };
        stage.broker.produce(&retry.name, [again]).await;
    }
}

async fn reason_is_printable_and_bounded(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let dead = stage.topic("dead", 1).await;
    stage.produce(&topic, &["v"]).await;
    let gateway = stage
        .gateway(&[stage.subscription(&topic).dead_letter(&dead)])
        .await;
    let mut stream = gateway.open().await;
    let mut verdict = stream.record().await.verdict(Outcome::Rejected);
    verdict.reason = format!("bad\r\n\u{1b}[31m\0{}", "ä".repeat(2000));
    assert_eq!(stream.settle(vec![verdict]).await.answers, []);
    let letter = stage.holds(&dead, 1).await.remove(0);
    let reason = letter.header(&format!("{PREFIX}reason")).unwrap();
    assert!(reason.starts_with("bad[31mää"), "{reason}");
    assert!((1000..=1024).contains(&reason.len()), "{}", reason.len());
}

async fn copy_goes_to_its_records_partition_modulo_those_there_are(stage: Stage) {
    let topic = stage.topic("orders", 4).await;
    for partitions in [1_u16, 2, 4, 8] {
        let dead = stage.topic(&format!("dead-{partitions}"), partitions).await;
        let records = (0..4).map(|partition| Outgoing::value(partition, "v").keyed("same"));
        stage.broker.produce(&topic.name, records).await;
        let group = stage.named(&format!("group-{partitions}"));
        let subscription = stage
            .subscription(&topic)
            .dead_letter(&dead)
            .set("group", &format!("\"{group}\""));
        let gateway = stage.gateway(&[subscription]).await;
        // Those of the rounds before are there too.
        let so_far = 4 * (1 + partitions.ilog2() as usize);
        reject(&gateway, so_far).await;
        let mut seen: BTreeMap<i32, usize> = BTreeMap::new();
        for letter in stage.holds(&dead, so_far).await {
            let source = letter.header(&format!("{PREFIX}partition")).unwrap();
            let source: i32 = source.parse().unwrap();
            assert_eq!(letter.partition, source % i32::from(partitions));
            *seen.entry(letter.partition).or_default() += 1;
        }
        assert_eq!(seen.len(), usize::from(partitions.min(4)), "{seen:?}");
    }
}

/// What a topic takes unless it says otherwise.
const DEFAULT_LIMIT: usize = 1_048_588;

/// Head of a batch with one record, and the record's own lengths, at their least.
const LEAST_OVERHEAD: usize = 61 + 13;

// FC-49.
async fn copy_at_the_topics_limit_loses_the_gateways_headers_and_nothing_else(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let dead = stage.topic("dead", 1).await;
    let own = vec![header("a", b"1"), header("a", b"2")];
    // Room for nothing, for what is needed, and for all.
    let sizes = [0, 600, 3000].map(|room| DEFAULT_LIMIT - LEAST_OVERHEAD - 20 - room);
    let records = sizes.map(|size| Outgoing {
        headers: own.clone(),
        ..Outgoing::value(0, noise(size))
    });
    stage.broker.produce(&topic.name, records.clone()).await;
    let gateway = stage
        .gateway(&[stage.subscription(&topic).dead_letter(&dead)])
        .await;
    reject(&gateway, 3).await;
    let mut letters = stage.holds(&dead, 3).await;
    letters.sort_by_key(|letter| std::cmp::Reverse(letter.value.as_ref().map(Vec::len)));
    for (letter, record) in letters.iter().zip(&records) {
        assert_eq!(letter.value, record.value);
        assert_eq!(letter.headers[..2], own[..]);
    }
    let has = |letter: &Seen, name| letter.header(&format!("{PREFIX}{name}")).is_some();
    assert_eq!(letters[0].headers.len(), 2);
    assert!(has(&letters[1], "dedupe-id") && !has(&letters[1], "last-delivery"));
    assert!(has(&letters[2], "dedupe-id") && has(&letters[2], "last-delivery"));
    stage.commits(&topic, 0, 3).await;
}

// FC-49.
async fn copy_beyond_the_topics_limit_names_both_sizes(stage: Stage) {
    let topic = stage.topic("orders", 2).await;
    let dead = Topic {
        name: stage.named("dead"),
    };
    let half = DEFAULT_LIMIT / 2;
    let limit = half.to_string();
    let setting = Some(("max.message.bytes", limit.as_str()));
    stage.broker.create(&dead.name, 2, setting).await;
    let record = Outgoing {
        headers: vec![header("a", b"1")],
        timestamp: Some(1_700_000_000_000),
        ..Outgoing::value(0, noise(1_000_000)).keyed("key")
    };
    stage.broker.produce(&topic.name, [record]).await;
    let keys = noise(800_000);
    let keyed = Outgoing::value(0, noise(100_000)).keyed(keys);
    stage.broker.produce(&topic.name, [keyed]).await;
    stage.produce_to(&topic, 1, &["0", "1"]).await;
    let gateway = stage
        .gateway(&[stage.subscription(&topic).dead_letter(&dead)])
        .await;
    let mut stream = gateway.open().await;
    let records = stream.records(4).await;
    for record in &records {
        let outcome = if record.partition == 0 {
            Outcome::Rejected
        } else {
            Outcome::Acked
        };
        stream
            .answer_all(std::slice::from_ref(record), outcome)
            .await;
    }
    let letters = stage.holds(&dead, 2).await;
    let find = |offset: &str| {
        let name = format!("{PREFIX}offset");
        let mut letters = letters.iter();
        letters
            .find(|letter| letter.header(&name) == Some(offset))
            .unwrap()
    };
    let letter = find("0");
    assert_eq!(letter.key.as_deref(), Some(b"key".as_slice()), "it fits");
    assert_eq!(letter.value, None);
    assert_eq!(letter.headers[0], header("a", b"1"));
    assert_eq!(letter.timestamp, Some(1_700_000_000_000));
    assert_eq!(
        letter.header(&format!("{PREFIX}value-omitted")),
        Some(format!("too large for the topic: 1000005 bytes, and it takes {half}").as_str())
    );
    assert!(letter.header(&format!("{PREFIX}last-delivery")).is_some());
    let letter = find("1");
    assert_eq!((&letter.key, &letter.value), (&None, &None));
    assert!(letter.header(&format!("{PREFIX}key-omitted")).is_some());
    stage.commits(&topic, 0, 2).await;
    stage.commits(&topic, 1, 2).await;
    gateway
        .logs("a record is too large for its dead-letter topic")
        .await;
}

async fn small_copies_do_not_make_each_other_too_large(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let dead = Topic {
        name: stage.named("dead"),
    };
    let setting = Some(("max.message.bytes", "40000"));
    stage.broker.create(&dead.name, 1, setting).await;
    let values: Vec<_> = (0..200).map(|_| noise(10_000)).collect();
    let records = values.iter().map(|value| Outgoing::value(0, value.clone()));
    stage.broker.produce(&topic.name, records).await;
    let gateway = stage
        .gateway(&[stage.subscription(&topic).dead_letter(&dead)])
        .await;
    reject(&gateway, 200).await;
    for letter in stage.holds(&dead, 200).await {
        assert_eq!(letter.value.map(|value| value.len()), Some(10_000));
    }
}
