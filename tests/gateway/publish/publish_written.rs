//! Records that are written: byte for byte, where their results say, as the options have
//! it.

use ackgate_proto::v1::{
    Acks, OutgoingRecord, PublishBatchRequest, PublishError, PublishOptions, PublishResult,
};
use tonic::Code;

use super::{error, header, open, publishing, written};
use crate::support::{Case, Publishing, Seen, Stage, Topic, calls, cases, reason, record};

pub(super) fn cases() -> Vec<Case> {
    cases![
        both:
            record_arrives_byte_for_byte,
            results_come_in_the_order_sent_whatever_the_partition;
        kafka:
            key_decides_the_partition_as_in_the_java_client,
            acks_are_as_asked_for;
        embedded:
            call_writes_its_records_and_answers_in_order;
    ]
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

/// The record with this number as its value is where its result says.
fn assert_is_there(result: &PublishResult, number: usize, seen: &[Seen]) {
    let place = written(result);
    let there = |seen: &&Seen| (seen.partition, seen.offset) == place;
    let seen = seen
        .iter()
        .find(there)
        .expect("it is where the result says");
    assert_eq!(seen.value.as_deref(), Some(number.to_string().as_bytes()));
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
        assert_eq!(written(result).0, (number % 4) as i32);
        assert_is_there(result, number, &seen);
    }
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
        assert_is_there(result, number, &seen);
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
