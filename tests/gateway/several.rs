//! One subscriber of the client crate over several gateways.

use std::collections::{BTreeMap, BTreeSet};

use ackgate_client::{Stats, Subscriber};
use tokio::time::timeout;
use tokio_stream::StreamExt as _;

use crate::support::{Case, Gateway, PATIENCE, Stage, Topic, cases, eventually};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        both: killed_gateway_costs_no_record_and_no_order;
        embedded: subscriber_of_two_gateways_reads_all_lanes_and_leaves_both;
    ]
}

const PARTITIONS: u16 = 4;

async fn produce(stage: &Stage, topic: &Topic, values: std::ops::Range<u32>) {
    let values: Vec<String> = values.map(|it| it.to_string()).collect();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    for partition in 0..i32::from(PARTITIONS) {
        stage.produce_to(topic, partition, &values).await;
    }
}

async fn two(stage: &Stage, topic: &Topic, order: &str) -> (Gateway, Gateway) {
    let subscription = stage
        .subscription(topic)
        .set("order", order)
        .set("resume_grace", "\"1s\"");
    let first = stage.gateway(std::slice::from_ref(&subscription)).await;
    (first, stage.gateway(&[subscription]).await)
}

async fn subscriber(gateways: [&Gateway; 2]) -> Subscriber {
    let subscriber = Subscriber::builder(gateways.map(|it| it.address.to_string()), "orders")
        .credit(64, 1 << 20)
        .connect()
        .await
        .expect("it connects");
    eventually("both streams", async || match subscriber.gateways().len() {
        2 => Ok(()),
        open => Err(format!("{open} open")),
    })
    .await;
    subscriber
}

async fn next(subscriber: &mut Subscriber) -> ackgate_client::Delivery {
    timeout(PATIENCE, subscriber.next())
        .await
        .unwrap_or_else(|_| panic!("no delivery in time; {:?}", subscriber.stats()))
        .expect("the stream goes on")
        .expect("no error")
}

/// How often each of `count` records of each partition came. In lane order, what comes for
/// the first time comes in order.
async fn read(
    subscriber: &mut Subscriber,
    count: i64,
    seen: &mut BTreeMap<(i32, i64), u32>,
) -> Stats {
    let all = usize::try_from(count).expect("a count") * usize::from(PARTITIONS);
    while seen.len() < all {
        let delivery = next(subscriber).await;
        let at = (delivery.partition(), delivery.offset());
        if !seen.contains_key(&at) {
            let before = seen.keys().filter(|it| it.0 == at.0).count();
            let before = i64::try_from(before).expect("a count");
            assert_eq!(at.1, before, "of partition {}: {seen:?}", at.0);
        }
        *seen.entry(at).or_default() += 1;
        delivery.ack();
    }
    subscriber.stats()
}

async fn subscriber_of_two_gateways_reads_all_lanes_and_leaves_both(stage: Stage) {
    let topic = stage.topic("orders", PARTITIONS).await;
    let (first, second) = two(&stage, &topic, "\"lane\"").await;
    produce(&stage, &topic, 0..50).await;
    let mut both = subscriber([&first, &second]).await;
    let mut seen = BTreeMap::new();
    read(&mut both, 50, &mut seen).await;
    for partition in 0..i32::from(PARTITIONS) {
        stage.commits(&topic, partition, 50).await;
    }
    let stats = timeout(PATIENCE, both.close()).await.expect("in time");
    assert_eq!(stats.expect("goodbyes").reconnects, 0);
    for gateway in [&first, &second] {
        gateway.logs("subscriber attached").await;
    }
}

// FC-41, L9: the lanes of a killed gateway move, and go on where it was.
async fn killed_gateway_costs_no_record_and_no_order(stage: Stage) {
    let topic = stage.topic("orders", PARTITIONS).await;
    let (mut first, second) = two(&stage, &topic, "\"lane\"").await;
    produce(&stage, &topic, 0..50).await;
    let mut both = subscriber([&first, &second]).await;
    let mut seen = BTreeMap::new();
    read(&mut both, 50, &mut seen).await;
    // Some are in hand and others on their way when it dies.
    produce(&stage, &topic, 50..100).await;
    let in_hand = next(&mut both).await;
    seen.insert((in_hand.partition(), in_hand.offset()), 1);
    first.kill();
    in_hand.ack();
    let stats = read(&mut both, 100, &mut seen).await;
    for partition in 0..i32::from(PARTITIONS) {
        stage.commits(&topic, partition, 100).await;
    }
    let lanes: BTreeSet<i32> = seen.keys().map(|it| it.0).collect();
    assert_eq!(lanes.len(), usize::from(PARTITIONS), "{stats:?}");
    assert_eq!(both.gateways(), [second.address.to_string()]);
    timeout(PATIENCE, both.close())
        .await
        .expect("in time")
        .expect("a goodbye");
}
