//! Records that publishers write through the gateway: every byte arrives, every record
//! has its result in order, and what is refused says why.

use ackgate_proto::v1::{
    Acks, Header, OutgoingRecord, PublishBatchRequest, PublishError, PublishOptions, PublishResult,
};
use tonic::Code;

use super::support::{Case, Gateway, Publishing, Seen, Stage, Topic, calls, cases, reason, record};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        both:
            record_arrives_byte_for_byte,
            results_come_in_the_order_sent_whatever_the_partition,
            topics_that_are_not_allowed_are_refused_one_by_one;
        kafka:
            key_decides_the_partition_as_in_the_java_client,
            record_that_is_too_large_is_refused_alone,
            unknown_topic_and_partition_are_told_soon_and_noticed_when_they_appear,
            record_that_kafka_refuses_does_not_condemn_those_beside_it,
            acks_are_as_asked_for;
        embedded:
            call_writes_its_records_and_answers_in_order;
    ]
}

/// A gateway that takes records for everything that begins with the stage's name.
pub(crate) async fn publishing(stage: &Stage, more: &str) -> Gateway {
    let top = format!(
        "clusters.main.publish.topics = [\"{}\"]\n{more}",
        stage.named("*")
    );
    Gateway::start_with(stage, &[], &top).await
}

pub(crate) async fn open(gateway: &Gateway) -> Publishing {
    Publishing::open(gateway.address, PublishOptions::default()).await
}

pub(crate) fn error(result: &PublishResult) -> PublishError {
    PublishError::try_from(result.error).expect("an error that is known")
}

pub(crate) fn written(result: &PublishResult) -> (i32, i64) {
    assert_eq!(error(result), PublishError::Unspecified, "{result:?}");
    let place = result.partition.zip(result.offset);
    place.unwrap_or_else(|| panic!("no place in {result:?}"))
}

fn header(key: &str, value: Option<&'static [u8]>) -> Header {
    Header {
        key: key.to_owned(),
        value: value.map(Into::into),
    }
}

// FC-57 and FC-59: null and empty differ, repeats and their order are kept.
async fn record_arrives_byte_for_byte(stage: Stage) {
    let topic = stage.topic("bytes", 1).await;
    let gateway = publishing(&stage, "").await;
    let bytes = |bytes: &'static [u8]| Some(bytes.into());
    let sent = vec![
        OutgoingRecord {
            topic: topic.name.clone(),
            timestamp_ms: Some(1_600_000_000_001),
            ..OutgoingRecord::default()
        },
        OutgoingRecord {
            key: bytes(b""),
            value: bytes(b""),
            ..record(&topic, "")
        },
        OutgoingRecord {
            key: bytes(b"\x00\xff"),
            value: bytes(b"\xfe\x00\x01"),
            partition: Some(0),
            headers: vec![
                header("b", Some(b"1")),
                header("a", None),
                header("b", Some(b"")),
                header("b", Some(b"\x00\xff")),
                header("a", Some(b"1")),
            ],
            ..record(&topic, "")
        },
    ];
    let mut stream = open(&gateway).await;
    stream.records(sent.clone()).await;
    let closed = stream.close().await;
    assert_eq!((closed.records, closed.written), (3, 3));
    let offsets: Vec<(i32, i64)> = stream.results.iter().map(written).collect();
    assert_eq!(offsets, [(0, 0), (0, 1), (0, 2)]);
    let seen = stage.holds(&topic, 3).await;
    for (sent, seen) in sent.iter().zip(&seen) {
        assert_eq!(seen.key.as_deref(), sent.key.as_deref());
        assert_eq!(seen.value.as_deref(), sent.value.as_deref());
        let headers: Vec<(String, Option<Vec<u8>>)> = sent
            .headers
            .iter()
            .map(|it| (it.key.clone(), it.value.as_deref().map(<[u8]>::to_vec)))
            .collect();
        assert_eq!(seen.headers, headers);
    }
    assert_eq!(seen[0].timestamp, Some(1_600_000_000_001));
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let age = now.as_millis() as i64 - seen[1].timestamp.expect("it is now where none is given");
    assert!((0..600_000).contains(&age), "{age}");
}

async fn results_come_in_the_order_sent_whatever_the_partition(stage: Stage) {
    let topic = stage.topic("spread", 4).await;
    let gateway = publishing(&stage, "").await;
    let mut stream = open(&gateway).await;
    let record = |number: usize| OutgoingRecord {
        partition: Some((number % 4) as i32),
        ..record(&topic, number.to_string())
    };
    for message in 0..10 {
        let records = (0..100).map(|at| record(message * 100 + at)).collect();
        stream.records(records).await;
    }
    // The end of the input means the same as `Close`.
    stream.half_close();
    assert_eq!(stream.end().await.written, 1000);
    let seen = stage.holds(&topic, 1000).await;
    for (number, result) in stream.results.iter().enumerate() {
        let place = written(result);
        assert_eq!(place.0, (number % 4) as i32);
        let there = |seen: &&Seen| (seen.partition, seen.offset) == place;
        let seen = seen
            .iter()
            .find(there)
            .expect("it is where the result says");
        assert_eq!(seen.value.as_deref(), Some(number.to_string().as_bytes()));
    }
}

async fn key_decides_the_partition_as_in_the_java_client(stage: Stage) {
    let topic = stage.topic("keys", 100).await;
    let gateway = publishing(&stage, "").await;
    // Murmur2 as Kafka's own tests have it, for 100 partitions without the sign.
    let hashes: [(&[u8], i64); 6] = [
        (b"21", -973_932_308),
        (b"foobar", -790_332_482),
        (b"a-little-bit-long-string", -985_981_536),
        (b"a-little-bit-longer-string", -1_486_304_829),
        (
            b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
            -58_897_971,
        ),
        (b"abc", 479_470_107),
    ];
    let keys = hashes.map(|(key, hash)| (key, ((hash & 0x7fff_ffff) % 100) as i32));
    // An empty key is a key: its hash is 275,646,681.
    let empty: (&[u8], i32) = (b"", 81);
    let mut stream = open(&gateway).await;
    let keyed = |key: &[u8]| OutgoingRecord {
        key: Some(key.to_vec().into()),
        ..record(&topic, "v")
    };
    let all: Vec<(&[u8], i32)> = keys.into_iter().chain([empty]).collect();
    stream
        .records(all.iter().map(|(key, _)| keyed(key)).collect())
        .await;
    let results = stream.answered(all.len()).await.to_vec();
    for ((key, partition), result) in all.iter().zip(&results) {
        assert_eq!(written(result).0, *partition, "{key:?}");
    }
    // A null key is no key: wherever the client likes.
    stream.records(vec![record(&topic, "v")]).await;
    written(&stream.answered(all.len() + 1).await[all.len()]);
}

async fn topics_that_are_not_allowed_are_refused_one_by_one(stage: Stage) {
    let topic = stage.topic("open", 1).await;
    let dead = stage.topic("dead", 1).await;
    let named = stage.topic("named-dead", 1).await;
    let subscription = stage.subscription(&topic).dead_letter(&dead);
    let other = stage.subscription(&topic).dead_letter(&named);
    let other = other.set("group", "\"other\"").renamed("others");
    let top = format!(
        "clusters.main.publish.topics = [\"{}\", \"{}\"]",
        stage.named("*"),
        named.name
    );
    let gateway = Gateway::start_with(&stage, &[subscription, other], &top).await;
    let mut stream = open(&gateway).await;
    let to = |name: &str| Topic {
        name: name.to_owned(),
    };
    let long = "x".repeat(250);
    let refused = [
        (to("elsewhere"), PublishError::NotAllowed),
        (dead, PublishError::NotAllowed),
        (to("__consumer_offsets"), PublishError::NotAllowed),
        (to(""), PublishError::Invalid),
        (to("a b"), PublishError::Invalid),
        (to("a\0b"), PublishError::Invalid),
        (to(&long), PublishError::Invalid),
    ];
    for (topic, _) in &refused {
        stream.records(vec![record(topic, "v")]).await;
    }
    let bad = [
        OutgoingRecord {
            partition: Some(-1),
            ..record(&topic, "v")
        },
        OutgoingRecord {
            timestamp_ms: Some(0),
            ..record(&topic, "v")
        },
        OutgoingRecord {
            timestamp_ms: Some(-1),
            ..record(&topic, "v")
        },
        OutgoingRecord {
            headers: vec![header("", None)],
            ..record(&topic, "v")
        },
    ];
    stream.records(bad.to_vec()).await;
    stream
        .records(vec![record(&topic, "fits"), record(&named, "fits")])
        .await;
    let closed = stream.close().await;
    assert_eq!((closed.written, closed.failed), (2, 11));
    let expected = refused.map(|(_, error)| error).into_iter();
    let expected: Vec<PublishError> = expected.chain([PublishError::Invalid; 4]).collect();
    for (result, expected) in stream.results.iter().zip(expected) {
        assert_eq!(error(result), expected, "{result:?}");
        assert!(!result.detail.is_empty());
        assert_eq!(result.offset, None);
    }
    written(&stream.results[11]);
    written(&stream.results[12]);
}

async fn record_that_is_too_large_is_refused_alone(stage: Stage) {
    let topic = stage.topic("large", 1).await;
    let small = Topic {
        name: stage.named("small"),
    };
    let limit = Some(("max.message.bytes", "100000"));
    stage.broker.create(&small.name, 1, limit).await;
    let more = "clusters.main.publish.max_record_bytes = \"512KiB\"\n\
                clusters.main.publish.producer.\"compression.type\" = \"none\"";
    let gateway = publishing(&stage, more).await;
    let mut stream = open(&gateway).await;
    assert_eq!(stream.opened.as_ref().unwrap().max_record_bytes, 512 * 1024);
    let header = Header {
        key: "h".to_owned(),
        value: None,
    };
    let exactly = OutgoingRecord {
        headers: vec![header],
        ..record(&topic, vec![b'x'; 512 * 1024 - 1])
    };
    let over = record(&topic, vec![b'x'; 512 * 1024 + 1]);
    stream
        .records(vec![
            record(&topic, "a"),
            over,
            exactly,
            record(&topic, "b"),
        ])
        .await;
    let errors: Vec<_> = stream.answered(4).await.iter().map(error).collect();
    let [fine, large] = [PublishError::Unspecified, PublishError::TooLarge];
    assert_eq!(errors, [fine, large, fine, fine]);
    // Smaller than the gateway's limit and larger than the topic's.
    stream
        .records(vec![record(&small, vec![b'x'; 200_000])])
        .await;
    assert_eq!(error(&stream.answered(5).await[4]), large);
    stream.records(vec![record(&small, "c")]).await;
    written(&stream.answered(6).await[5]);
    // Together more than the topic takes in one batch, and each less.
    let each = record(&small, vec![b'x'; 30_000]);
    stream.records(vec![each; 10]).await;
    let results = stream.answered(16).await;
    results.iter().skip(6).map(written).for_each(drop);
    stage.holds(&small, 11).await;
}

async fn unknown_topic_and_partition_are_told_soon_and_noticed_when_they_appear(stage: Stage) {
    let topic = stage.topic("there", 1).await;
    let gateway = publishing(&stage, "").await;
    let mut stream = open(&gateway).await;
    let late = Topic {
        name: stage.named("late"),
    };
    let beyond = OutgoingRecord {
        partition: Some(1),
        ..record(&topic, "v")
    };
    stream
        .records(vec![beyond, record(&late, "v"), record(&topic, "v")])
        .await;
    let results = stream.answered(3).await;
    assert_eq!(error(&results[0]), PublishError::NotFound, "{results:?}");
    assert_eq!(results[0].partition, Some(1));
    assert_eq!(error(&results[1]), PublishError::NotFound, "{results:?}");
    written(&results[2]);
    stage.broker.create(&late.name, 1, None).await;
    let mut number = 3;
    loop {
        stream.records(vec![record(&late, "v")]).await;
        number += 1;
        let result = &stream.answered(number).await[number - 1];
        if error(result) == PublishError::Unspecified {
            break;
        }
        assert_eq!(error(result), PublishError::NotFound, "{result:?}");
        assert!(number < 1000, "it is never noticed");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

async fn record_that_kafka_refuses_does_not_condemn_those_beside_it(stage: Stage) {
    let topic = stage.topic("future", 1).await;
    let more = "clusters.main.publish.producer.\"linger.ms\" = 500";
    let gateway = publishing(&stage, more).await;
    let mut stream = open(&gateway).await;
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let future = OutgoingRecord {
        timestamp_ms: Some(now.as_millis() as i64 + 1_000_000_000),
        ..record(&topic, "future")
    };
    let beside = OutgoingRecord {
        key: Some(b"".as_slice().into()),
        value: None,
        headers: vec![header("h", None), header("h", Some(b""))],
        timestamp_ms: Some(1_600_000_000_002),
        ..record(&topic, "")
    };
    stream.records(vec![beside.clone(), future, beside]).await;
    let errors: Vec<_> = stream.answered(3).await.iter().map(error).collect();
    let [fine, refused] = [PublishError::Unspecified, PublishError::Refused];
    assert_eq!(errors, [fine, refused, fine], "{:?}", stream.results);
    let seen = stage.holds(&topic, 2).await;
    for (seen, result) in seen.iter().zip([&stream.results[0], &stream.results[2]]) {
        assert_eq!((seen.partition, seen.offset), written(result));
        assert_eq!(
            (seen.key.as_deref(), seen.value.as_deref()),
            (Some(&b""[..]), None)
        );
        let none_and_empty = [("h".to_owned(), None), ("h".to_owned(), Some(Vec::new()))];
        assert_eq!(seen.headers, none_and_empty);
        assert_eq!(seen.timestamp, Some(1_600_000_000_002));
    }
}

async fn acks_are_as_asked_for(stage: Stage) {
    let topic = stage.topic("acks", 1).await;
    let gateway = publishing(&stage, "clusters.main.publish.acks = \"leader\"").await;
    for (asked, idempotence, got) in [
        (Acks::Unspecified, None, (Acks::Leader, false)),
        (Acks::All, None, (Acks::All, true)),
        (Acks::All, Some(false), (Acks::All, false)),
        (Acks::None, None, (Acks::None, false)),
    ] {
        let options = PublishOptions {
            acks: asked.into(),
            idempotence,
            ..PublishOptions::default()
        };
        let mut stream = Publishing::open(gateway.address, options).await;
        let opened = stream.opened.clone().unwrap().options.unwrap();
        assert_eq!((opened.acks(), opened.idempotence), (got.0, Some(got.1)));
        assert_eq!(opened.cluster, "main");
        stream.records(vec![record(&topic, "v")]).await;
        let closed = stream.close().await;
        assert_eq!(closed.written, 1);
        let result = &stream.results[0];
        assert_eq!(result.offset.is_some(), got.0 != Acks::None, "{result:?}");
    }
    stage.holds(&topic, 4).await;
}

async fn call_writes_its_records_and_answers_in_order(stage: Stage) {
    let topic = stage.topic("call", 2).await;
    let gateway = publishing(&stage, "clusters.main.publish.max_in_flight_records = 7").await;
    let mut calls = calls(gateway.address).await;
    let number = |number: usize| OutgoingRecord {
        partition: Some((number % 2) as i32),
        ..record(&topic, number.to_string())
    };
    let mut records: Vec<OutgoingRecord> = (0..1000).map(number).collect();
    records.insert(
        3,
        record(
            &Topic {
                name: "no".to_owned(),
            },
            "x",
        ),
    );
    let request = PublishBatchRequest {
        options: None,
        records,
    };
    let results = calls
        .publish_batch(request)
        .await
        .unwrap()
        .into_inner()
        .results;
    assert_eq!(results.len(), 1001);
    assert_eq!(error(&results[3]), PublishError::NotAllowed);
    let seen = stage.holds(&topic, 1000).await;
    let others = results.iter().enumerate().filter(|(at, _)| *at != 3);
    for (number, (_, result)) in others.enumerate() {
        let place = written(result);
        let there = |seen: &&Seen| (seen.partition, seen.offset) == place;
        let seen = seen
            .iter()
            .find(there)
            .expect("it is where the result says");
        assert_eq!(seen.value.as_deref(), Some(number.to_string().as_bytes()));
    }
    for records in [0, 10_001] {
        let request = PublishBatchRequest {
            options: None,
            records: vec![record(&topic, "v"); records],
        };
        let status = calls.publish_batch(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert_eq!(reason(&status), "RECORDS_OUT_OF_RANGE");
    }
    stage.holds(&topic, 1000).await;
}
