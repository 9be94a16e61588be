//! Bulk writing against the embedded broker.

use super::*;
use crate::broker::kafka::embedded::{Embedded, Options, Refusable};

fn broker() -> Embedded {
    let topics = vec![("orders".to_owned(), 2)];
    Embedded::start(Options {
        topics,
        ..Options::default()
    })
    .unwrap()
}

fn cluster(broker: &Embedded, properties: &[(&str, &str)]) -> Cluster {
    Cluster {
        name: "test".to_owned(),
        bootstrap: vec![broker.bootstrap()],
        properties: properties
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
    }
}

fn record(value: &[u8]) -> Record<'_> {
    Record {
        topic: "orders",
        value: Some(value),
        ..Record::default()
    }
}

#[test]
fn every_record_is_reported_as_written() {
    let broker = broker();
    for acks in [Acks::All, Acks::Leader] {
        let mut bulk = Bulk::new(&cluster(&broker, &[]), acks).unwrap();
        for _ in 0..5000 {
            bulk.send(&record(b"value"));
        }
        let mut last = Count::default();
        let count = bulk.finish(|count| last = count);
        assert_eq!(
            count,
            Count {
                sent: 5000,
                written: 5000,
                failed: 0
            }
        );
        assert_eq!(last, count);
    }
}

#[test]
fn full_queue_holds_the_sender_until_there_is_room() {
    let broker = broker();
    let small = [("queue.buffering.max.messages", "10")];
    let mut bulk = Bulk::new(&cluster(&broker, &small), Acks::All).unwrap();
    for _ in 0..200 {
        bulk.send(&record(b"value"));
    }
    assert_eq!(
        bulk.finish(|_| {}),
        Count {
            sent: 200,
            written: 200,
            failed: 0
        }
    );
}

#[test]
fn refused_record_is_named_by_its_number() {
    let broker = broker();
    let mut bulk = Bulk::new(&cluster(&broker, &[]), Acks::Leader).unwrap();
    let large = vec![0; 2_000_000];
    bulk.send(&record(b"fits"));
    bulk.send(&record(&large));
    bulk.send(&Record {
        partition: Some(1),
        ..record(b"fits")
    });
    bulk.send_as(7, &record(&large));
    assert_eq!(
        bulk.finish(|_| {}),
        Count {
            sent: 4,
            written: 2,
            failed: 2
        }
    );
    let failures = bulk.take_failures();
    let numbers: Vec<_> = failures.iter().map(|failure| failure.number).collect();
    assert_eq!(numbers, [1, 7]);
    assert!(!failures[0].is_unknown, "it was never sent");
    assert_eq!(failures[0].error.kind, ErrorKind::TooLarge);
    assert!(
        failures[0].error.detail.contains("orders"),
        "{}",
        failures[0].error
    );
    assert!(bulk.take_failures().is_empty());
}

#[test]
fn record_that_the_broker_refuses_is_failed_and_the_next_is_written() {
    let broker = broker();
    for acks in [Acks::All, Acks::Leader] {
        let mut bulk = Bulk::new(&cluster(&broker, &[]), acks).unwrap();
        broker.refuse(Refusable::Write, 1).unwrap();
        bulk.send(&Record {
            partition: Some(1),
            ..record(b"value")
        });
        assert_eq!(
            bulk.finish(|_| {}),
            Count {
                sent: 1,
                written: 0,
                failed: 1
            }
        );
        let failures = bulk.take_failures();
        assert_eq!(failures[0].error.kind, ErrorKind::Operator);
        assert!(
            failures[0].error.detail.contains("orders/1"),
            "{}",
            failures[0].error
        );
        bulk.send(&record(b"value"));
        assert_eq!(
            bulk.finish(|_| {}),
            Count {
                sent: 2,
                written: 1,
                failed: 1
            }
        );
    }
}

#[test]
fn partitions_of_a_topic_are_counted_and_a_dead_cluster_is_an_error() {
    let broker = broker();
    let bulk = Bulk::new(&cluster(&broker, &[]), Acks::All).unwrap();
    assert_eq!(
        bulk.partitions("orders", Duration::from_secs(20)).unwrap(),
        2
    );
    broker.set_reachable(false).unwrap();
    let bulk = Bulk::new(&cluster(&broker, &[]), Acks::All).unwrap();
    let error = bulk
        .partitions("orders", Duration::from_millis(300))
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Transient);
}

#[test]
fn unknown_property_is_refused_at_the_start_without_its_value() {
    let broker = broker();
    let error = Bulk::new(&cluster(&broker, &[("no.such", "hidden")]), Acks::All).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Operator);
    assert!(error.detail.contains("no.such"), "{error}");
    assert!(!error.detail.contains("hidden"), "{error}");
}
