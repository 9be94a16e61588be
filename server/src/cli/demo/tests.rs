//! The parts of a demo that need no subscriber.

use std::time::{Duration, Instant};

use clap::Parser as _;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    broker::kafka::{
        bulk::{Acks, Bulk, Record},
        embedded::{Embedded, Options},
    },
    cli::target::Target,
    config::Cluster,
};

#[derive(clap::Parser)]
struct Cli {
    #[command(flatten)]
    args: Args,
}

fn setting() -> (Embedded, Cluster) {
    let topics = vec![
        (ORDERS.to_owned(), PARTITIONS),
        (DEAD_LETTERS.to_owned(), 1),
    ];
    let broker = Embedded::start(Options {
        topics,
        ..Options::default()
    })
    .unwrap();
    let cluster = Target::of(&broker.bootstrap()).cluster().unwrap().unwrap();
    (broker, cluster)
}

#[test]
fn more_orders_than_the_broker_keeps_are_refused() {
    assert!(Cli::try_parse_from(["demo", "--records", "0"]).is_err());
    assert!(Cli::try_parse_from(["demo", "--records", "20001"]).is_err());
    let args = Cli::try_parse_from(["demo", "--once"]).unwrap().args;
    assert_eq!((args.records, args.once), (1_000, true));
}

#[tokio::test]
async fn taken_port_is_told_with_what_to_do() {
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    let started = gateway::Running::start("127.0.0.1:9092", address.port()).await;
    let error = started.unwrap_err().to_string();
    assert!(error.starts_with(&format!("{address} is taken")), "{error}");
    assert!(error.contains("--port"), "{error}");
}

#[test]
fn most_orders_allowed_fit_into_the_broker() {
    use crate::broker::kafka::embedded::PARTITION_BYTES;
    let bytes: usize = orders::Orders::new(7)
        .take(20_000)
        .map(|it| it.value.len() + 80)
        .sum();
    // By key they are spread unevenly, so half of the room is left.
    assert!(
        (bytes as u64) < PARTITION_BYTES * u64::from(PARTITIONS) / 2,
        "{bytes}"
    );
}

#[test]
fn gateway_dead_letters_and_commits_as_the_demo_says() {
    let config = gateway::configured("127.0.0.1:9092", "127.0.0.1:0", "127.0.0.1:0").unwrap();
    let subscription = &config.subscriptions[0];
    assert_eq!(subscription.name, ORDERS);
    assert_eq!(subscription.group, GROUP);
    assert_eq!(
        subscription.dead_letter.as_ref().unwrap().topic,
        DEAD_LETTERS
    );
}

#[tokio::test]
async fn orders_are_written_once_or_until_told_to_stop() {
    let (_broker, cluster) = setting();
    let watch = watch::Watch::new(cluster.clone()).await.unwrap();
    let stop = CancellationToken::new();
    let orders = orders::Orders::new(7);
    let (written, task) = writer::start(cluster.clone(), orders.clone(), 300, true, stop.clone());
    task.await.unwrap().unwrap();
    assert!(written.has_begun());
    assert_eq!(written.records(), 300);
    let in_topic = |look: &watch::Look| look.lanes.iter().map(|lane| lane.end).sum::<i64>();
    assert_eq!(in_topic(&watch.look().await.unwrap()), 300);

    let (written, task) = writer::start(cluster, orders, 10, false, stop.clone());
    let deadline = Instant::now() + Duration::from_secs(20);
    while written.records() <= 10 {
        assert!(Instant::now() < deadline, "no trickle");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stop.cancel();
    task.await.unwrap().unwrap();
}

#[tokio::test]
async fn dead_letters_are_counted_by_the_record_they_are_of() {
    let (_broker, cluster) = setting();
    let writing = cluster.clone();
    tokio::task::spawn_blocking(move || {
        let mut bulk = Bulk::new(&writing, Acks::All).unwrap();
        for (partition, offset) in [("0", "1"), ("0", "1"), ("0", "2"), ("1", "1")] {
            let header = |name: &str, value: &str| {
                (
                    format!("ackgate.dead-letter.{name}"),
                    Some(value.as_bytes().to_vec()),
                )
            };
            let headers = [header("partition", partition), header("offset", offset)];
            bulk.send(&Record {
                topic: DEAD_LETTERS,
                headers: &headers,
                ..Record::default()
            });
        }
        assert_eq!(bulk.finish(|_| {}).written, 4);
    })
    .await
    .unwrap();
    let watch = watch::Watch::new(cluster).await.unwrap();
    assert_eq!(watch.look().await.unwrap().dead_letters, 4);
    assert_eq!(watch.dead_letters().await.unwrap(), 3);
}
