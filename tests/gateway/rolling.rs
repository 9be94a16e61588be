//! Gateways come and go under load: stopped in order they lose and repeat nothing,
//! killed they lose nothing and repeat little.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use ackgate_client::{Delivery, Subscriber};
use tokio::time::Instant;
use tokio_stream::StreamExt as _;

use crate::support::{Case, Gateway, Outgoing, Stage, Topic, cases};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        kafka: stopped_gateways_lose_and_repeat_nothing,
            killed_gateways_lose_nothing_and_repeat_little;
    ]
}

const PARTITIONS: i32 = 16;
/// Records written to each partition between two stops.
const STEP: i64 = 300;
/// For a step to be read through, on a slow machine.
const LIMIT: Duration = Duration::from_secs(120);

/// How often each record was received.
#[derive(Clone, Debug, Default)]
struct Received {
    times: Arc<Mutex<BTreeMap<(i32, i64), u32>>>,
}

impl Received {
    fn note(&self, delivery: &Delivery) {
        let record = (delivery.partition(), delivery.offset());
        *self.times.lock().unwrap().entry(record).or_default() += 1;
    }

    fn count(&self) -> usize {
        self.times.lock().unwrap().len()
    }

    fn repeated(&self) -> Vec<(i32, i64)> {
        let times = self.times.lock().unwrap();
        let more_than_once = |(one, times): (&(i32, i64), &u32)| (*times > 1).then_some(*one);
        times.iter().filter_map(more_than_once).collect()
    }
}

/// Receives for as long as the test runs, takes its time over each record and acks
/// it, so that at any moment many records are out.
async fn work(address: SocketAddr, received: Received) {
    let mut subscriber = Subscriber::builder(format!("http://{address}"), "orders")
        .credit(64, 1 << 20)
        .connect()
        .await
        .expect("the gateway takes the subscriber");
    while let Some(delivery) = subscriber.next().await {
        let delivery = delivery.expect("the subscriber connects again by itself");
        received.note(&delivery);
        let work = Duration::from_millis(5 + delivery.offset().unsigned_abs() * 7 % 40);
        tokio::spawn(async move {
            tokio::time::sleep(work).await;
            delivery.ack();
        });
    }
}

/// Two gateways, a subscriber on each, and what was received so far.
struct Pair {
    topic: Topic,
    gateways: Vec<Gateway>,
    received: Received,
    written: i64,
}

impl Pair {
    async fn start(stage: &Stage) -> Self {
        let topic = stage.topic("orders", PARTITIONS as u16).await;
        let subscription = stage
            .subscription(&topic)
            // Members learn of a rebalance with a heartbeat: often, so that it is quick.
            .consumer_property("heartbeat.interval.ms", "500");
        let mut gateways = Vec::new();
        for _ in 0..2 {
            gateways.push(Gateway::start(stage, std::slice::from_ref(&subscription)).await);
        }
        let received = Received::default();
        for gateway in &gateways {
            tokio::spawn(work(gateway.address, received.clone()));
        }
        Self {
            topic,
            gateways,
            received,
            written: 0,
        }
    }

    /// Writes a part of a step to each partition.
    async fn write(&mut self, stage: &Stage, records: i64) {
        let (from, to) = (self.written, self.written + records);
        let records = (from..to).flat_map(|number| {
            (0..PARTITIONS).map(move |partition| Outgoing::value(partition, number.to_string()))
        });
        stage.broker.produce(&self.topic.name, records).await;
        self.written = to;
    }

    /// Waits until so much of what was written has been received.
    async fn read(&mut self, records: usize) {
        let deadline = Instant::now() + LIMIT;
        loop {
            let count = self.received.count();
            if count >= records {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "{count} of {records} records were received"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Every record was received, and is committed.
    async fn finish(&mut self, stage: &Stage) {
        self.read((self.written * i64::from(PARTITIONS)) as usize)
            .await;
        for partition in 0..PARTITIONS {
            stage.commits(&self.topic, partition, self.written).await;
        }
    }
}

async fn stopped_gateways_lose_and_repeat_nothing(stage: Stage) {
    const STOPS: usize = 20;
    let mut pair = Pair::start(&stage).await;
    for stop in 0..STOPS {
        pair.write(&stage, STEP / 2).await;
        // Half of what is there at least is read by now, the rest is on its way.
        let before = pair.received.count();
        pair.read(before + (STEP * i64::from(PARTITIONS)) as usize / 4)
            .await;
        pair.gateways[stop % 2].terminate();
        pair.write(&stage, STEP / 2).await;
        pair.gateways[stop % 2].restart().await;
    }
    pair.finish(&stage).await;
    assert_eq!(pair.received.repeated(), [], "received twice");
}

// L12 is another test's: here nobody asked for durable answers, so what was acked
// since the last commit comes again.
async fn killed_gateways_lose_nothing_and_repeat_little(stage: Stage) {
    const KILLS: usize = 20;
    let mut pair = Pair::start(&stage).await;
    for kill in 0..KILLS {
        pair.write(&stage, STEP / 2).await;
        let before = pair.received.count();
        pair.read(before + (STEP * i64::from(PARTITIONS)) as usize / 4)
            .await;
        pair.gateways[kill % 2].kill_and_restart().await;
        pair.write(&stage, STEP / 2).await;
    }
    pair.finish(&stage).await;
    // A step and a half is all that can be acked and not committed when a gateway is
    // killed: the one being read, and the rest of the one before it.
    let bound = KILLS * (STEP * i64::from(PARTITIONS)) as usize * 3 / 2;
    let repeated = pair.received.repeated().len();
    assert!(repeated <= bound, "{repeated} records came again");
}
