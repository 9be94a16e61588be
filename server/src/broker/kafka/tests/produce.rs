//! Records that are written and reported.

use std::{sync::Arc, time::Duration};

use ackgate_proto::v1;
use bytes::Bytes;
use prost::Message as _;

use super::support::{Member, PATIENCE, cluster, mock, subscription};
use crate::{
    broker::{ErrorKind, Outgoing, Producer as _, kafka::KafkaProducer},
    config::StartAt,
};

const TOPIC: &str = "dead";

fn outgoing(topic: &str) -> Outgoing {
    Outgoing {
        topic: topic.to_owned(),
        partition: Some(0),
        key: None,
        value: None,
        headers: Vec::new(),
        timestamp_ms: None,
    }
}

#[tokio::test]
async fn records_arrive_as_they_were_given() {
    let mock = mock(TOPIC, 1);
    let bootstrap = mock.bootstrap_servers();
    let producer = KafkaProducer::new(&cluster(&bootstrap), &[]).unwrap();
    let bytes = Bytes::from_static;
    let records = [
        Outgoing {
            timestamp_ms: Some(1_700_000_000_123),
            ..outgoing(TOPIC)
        },
        Outgoing {
            key: Some(bytes(b"")),
            value: Some(bytes(b"")),
            ..outgoing(TOPIC)
        },
        Outgoing {
            key: Some(bytes(b"\xff\x00")),
            value: Some(bytes(b"v")),
            headers: vec![
                ("b".to_owned(), Some(bytes(b"1"))),
                ("a".to_owned(), None),
                ("b".to_owned(), Some(bytes(b""))),
            ],
            ..outgoing(TOPIC)
        },
    ];
    for (offset, record) in records.iter().enumerate() {
        let placed = producer.produce(record.clone()).await.unwrap();
        assert_eq!((placed.partition, placed.offset), (0, offset as i64));
    }
    let mut member = Member::join(&bootstrap, &subscription(&[TOPIC], "g", StartAt::Earliest));
    let lane = member.lane().await;
    member.grant(lane.generation, 3);
    let mut found = Vec::new();
    while found.len() < 3 {
        found.extend(
            v1::Batch::decode(member.chunk().await.bytes)
                .unwrap()
                .records,
        );
    }
    for (record, found) in records.iter().zip(&found) {
        assert_eq!(found.key, record.key);
        assert_eq!(found.value, record.value);
        let headers: Vec<(String, Option<Bytes>)> = found
            .headers
            .iter()
            .map(|h| (h.key.clone(), h.value.clone()))
            .collect();
        assert_eq!(headers, record.headers);
    }
    assert_eq!(found[0].timestamp_ms, 1_700_000_000_123);
    member.close().await;
}

#[tokio::test]
async fn record_that_is_not_confirmed_in_time_is_a_transient_failure() {
    let mock = mock(TOPIC, 1);
    let properties = [("delivery.timeout.ms".to_owned(), "2000".to_owned())];
    let producer = KafkaProducer::new(&cluster(&mock.bootstrap_servers()), &properties).unwrap();
    producer.produce(outgoing(TOPIC)).await.unwrap();
    mock.broker_down(1).unwrap();
    let error = producer.produce(outgoing(TOPIC)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Transient, "{error}");
    assert!(error.detail.contains(TOPIC), "{error}");
}

#[tokio::test]
async fn full_queue_refuses_at_once() {
    let properties = [("queue.buffering.max.messages".to_owned(), "2".to_owned())];
    // Nobody listens there, so nothing leaves the queue.
    let producer = KafkaProducer::new(&cluster("127.0.0.1:9"), &properties).unwrap();
    let waiting = [
        producer.produce(outgoing(TOPIC)),
        producer.produce(outgoing(TOPIC)),
    ];
    let error = producer.produce(outgoing(TOPIC)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Transient, "{error}");
    let error = producer.flush(Duration::from_millis(50)).unwrap_err();
    assert!(error.detail.contains('2'), "{error}");
    drop(waiting);
}

#[tokio::test]
async fn topic_name_with_a_nul_is_refused() {
    let producer = KafkaProducer::new(&cluster("127.0.0.1:9"), &[]).unwrap();
    let error = producer.produce(outgoing("a\0b")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Operator);
}

#[tokio::test]
async fn close_waits_for_what_is_under_way() {
    let mock = mock(TOPIC, 1);
    let producer = Arc::new(KafkaProducer::new(&cluster(&mock.bootstrap_servers()), &[]).unwrap());
    let reports: Vec<_> = (0..50).map(|_| producer.produce(outgoing(TOPIC))).collect();
    producer.flushed(PATIENCE).await.unwrap();
    for report in reports {
        report.await.unwrap();
    }
}

#[tokio::test]
async fn dropped_producer_still_writes_what_it_accepted() {
    let mock = mock(TOPIC, 1);
    let producer = KafkaProducer::new(&cluster(&mock.bootstrap_servers()), &[]).unwrap();
    let reports: Vec<_> = (0..50).map(|_| producer.produce(outgoing(TOPIC))).collect();
    drop(producer);
    for report in reports {
        report.await.unwrap();
    }
}
