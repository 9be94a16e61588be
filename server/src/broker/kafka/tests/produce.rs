//! Records that are written and reported.

use std::{sync::Arc, time::Duration};

use tokio::sync::mpsc;

use ackgate_proto::v1;
use bytes::Bytes;
use prost::Message as _;

use super::support::{Member, PATIENCE, cluster, mock, subscription};
use crate::{
    broker::{
        Answers, ErrorKind, Outgoing, Placed, Producer as _, Receipt, Unwritten, Why, Write as _,
        kafka::KafkaProducer,
    },
    config::{Acks, Publish, StartAt},
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
    assert_eq!(error.kind, ErrorKind::Full, "{error}");
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
    crate::broker::Producer::flushed(&*producer, PATIENCE)
        .await
        .unwrap();
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

/// Passes answers on.
#[derive(Debug)]
struct Heard(mpsc::Sender<(u64, Result<Placed, Unwritten>)>);

impl Answers for Heard {
    fn answer(&self, number: u64, answer: Result<Placed, Unwritten>) {
        self.0.try_send((number, answer)).expect("there is room");
    }
}

fn publisher(bootstrap: &str, properties: &[(&str, &str)]) -> KafkaProducer {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let publish = Publish {
        cluster: "main".to_owned(),
        topics: vec!["*".to_owned()],
        reserved: Vec::new(),
        acks: Acks::All,
        idempotence: None,
        max_record_bytes: 1 << 20,
        max_in_flight_records: 100,
        max_in_flight_bytes: 1 << 20,
        producer_properties: properties.iter().map(owned).collect(),
    };
    let within = Duration::from_secs(30);
    KafkaProducer::publishing(&cluster(bootstrap), &publish, Acks::All, true, within).unwrap()
}

#[tokio::test]
async fn receipts_are_answered_by_their_numbers() {
    let mock = mock(TOPIC, 2);
    let producer = publisher(&mock.bootstrap_servers(), &[]);
    let (answers, mut heard) = mpsc::channel(100);
    let to: Arc<dyn Answers> = Arc::new(Heard(answers));
    for (number, partition) in [(0, 0), (1, 1), (2, 0), (3, 7)] {
        let record = Outgoing {
            partition: Some(partition),
            ..outgoing(TOPIC)
        };
        let receipt = Receipt::new(Arc::clone(&to), number);
        producer.enqueue(&record, receipt).expect("there is room");
    }
    let receipt = Receipt::new(Arc::clone(&to), 4);
    producer
        .enqueue(&outgoing("a\0b"), receipt)
        .expect("there is room");
    let mut found = std::collections::BTreeMap::new();
    while found.len() < 5 {
        let answer = tokio::time::timeout(PATIENCE, heard.recv()).await;
        let (number, answer) = answer.expect("in time").expect("an answer");
        let answer = answer.map(|it| (it.partition, it.offset));
        let former = found.insert(number, answer.map_err(|it| it.why));
        assert_eq!(former, None, "{number} was answered twice");
    }
    let expected = [
        (0, Ok((0, 0))),
        (1, Ok((1, 0))),
        (2, Ok((0, 1))),
        (3, Err(Why::NotFound)),
        (4, Err(Why::Refused)),
    ];
    assert_eq!(found, std::collections::BTreeMap::from(expected));
}

#[tokio::test]
async fn full_queue_gives_the_receipt_back() {
    // Nobody listens there, so nothing leaves the queue.
    let producer = publisher("127.0.0.1:9", &[("queue.buffering.max.messages", "1")]);
    let (answers, mut heard) = mpsc::channel(100);
    let to: Arc<dyn Answers> = Arc::new(Heard(answers));
    let receipt = |number| Receipt::new(Arc::clone(&to), number);
    producer
        .enqueue(&outgoing(TOPIC), receipt(0))
        .expect("there is room");
    let back = producer.enqueue(&outgoing(TOPIC), receipt(1)).unwrap_err();
    assert!(heard.try_recv().is_err(), "nobody has an answer yet");
    drop(back);
    let (number, answer) = heard.try_recv().expect("a dropped receipt answers");
    assert_eq!((number, answer.unwrap_err().why), (1, Why::TimedOut));
}

#[tokio::test]
async fn partitions_are_told_and_an_outage_is_told_to_all_who_ask_within_seconds() {
    let mock = mock(TOPIC, 3);
    let producer = KafkaProducer::new(&cluster(&mock.bootstrap_servers()), &[]).unwrap();
    assert_eq!(producer.partitions(TOPIC).await.unwrap(), Some(3));

    // Nobody listens there.
    let producer = KafkaProducer::new(&cluster("127.0.0.1:9"), &[]).unwrap();
    let asking = (0..1000).map(|_| producer.partitions(TOPIC));
    let answers = tokio::time::timeout(PATIENCE, futures::future::join_all(asking)).await;
    for answer in answers.expect("all are answered") {
        let error = answer.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Transient, "{error}");
        assert!(error.detail.contains(TOPIC), "{error}");
    }
}

#[tokio::test]
async fn partition_that_is_not_there_is_refused_and_makes_what_is_known_doubtful() {
    let mock = mock(TOPIC, 3);
    let producer = KafkaProducer::new(&cluster(&mock.bootstrap_servers()), &[]).unwrap();
    assert_eq!(producer.partitions(TOPIC).await.unwrap(), Some(3));
    let elsewhere = Outgoing {
        partition: Some(7),
        ..outgoing(TOPIC)
    };
    producer.produce(elsewhere).await.unwrap_err();
    assert!(producer.knows_nothing_of(TOPIC));
}
