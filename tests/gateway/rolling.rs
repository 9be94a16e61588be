//! Gateways come and go under load: stopped in order they lose and repeat nothing,
//! killed they lose nothing and repeat little.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use crate::support::{Case, Gateway, Outgoing, Stage, Subscriber, Topic, cases};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        kafka: stopped_gateways_lose_and_repeat_nothing,
            killed_gateways_lose_nothing_and_repeat_little;
    ]
}

const PARTITIONS: i32 = 16;
/// Records written to each partition between two stops.
const STEP: i64 = 150;
/// For a step to be read through, on a slow machine.
const LIMIT: Duration = Duration::from_secs(120);

/// How often each record was printed, which a subscriber does before it acks it.
#[derive(Default)]
struct Printed {
    times: BTreeMap<(i32, i64), u32>,
}

impl Printed {
    fn take(&mut self, subscribers: &mut [Subscriber]) {
        for line in subscribers.iter_mut().flat_map(Subscriber::take) {
            *self.times.entry((line.partition, line.offset)).or_default() += 1;
        }
    }

    fn repeated(&self) -> Vec<(i32, i64)> {
        let more_than_once = |(one, times): (&(i32, i64), &u32)| (*times > 1).then_some(*one);
        self.times.iter().filter_map(more_than_once).collect()
    }
}

/// Two gateways, a subscriber on each, and what was printed so far.
struct Pair {
    topic: Topic,
    gateways: Vec<Gateway>,
    subscribers: Vec<Subscriber>,
    printed: Printed,
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
        let subscribers = gateways
            .iter()
            .map(|gateway| Subscriber::start(gateway.address, &[]))
            .collect();
        Self {
            topic,
            gateways,
            subscribers,
            printed: Printed::default(),
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

    /// Waits until so much of what was written has been printed.
    async fn read(&mut self, records: usize) {
        let deadline = Instant::now() + LIMIT;
        loop {
            self.printed.take(&mut self.subscribers);
            let count = self.printed.times.len();
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
        self.printed.take(&mut self.subscribers);
    }
}

async fn stopped_gateways_lose_and_repeat_nothing(stage: Stage) {
    const STOPS: usize = 20;
    let mut pair = Pair::start(&stage).await;
    for stop in 0..STOPS {
        pair.write(&stage, STEP / 2).await;
        // Half of what is there at least is read by now, the rest is on its way.
        let before = pair.printed.times.len();
        pair.read(before + (STEP * i64::from(PARTITIONS)) as usize / 4)
            .await;
        pair.gateways[stop % 2].terminate();
        pair.write(&stage, STEP / 2).await;
        pair.gateways[stop % 2].restart().await;
    }
    pair.finish(&stage).await;
    assert_eq!(pair.printed.repeated(), [], "received twice");
}

// L12 is another test's: here nobody asked for durable answers, so what was acked
// since the last commit comes again.
async fn killed_gateways_lose_nothing_and_repeat_little(stage: Stage) {
    const KILLS: usize = 8;
    let mut pair = Pair::start(&stage).await;
    for kill in 0..KILLS {
        pair.write(&stage, STEP / 2).await;
        let before = pair.printed.times.len();
        pair.read(before + (STEP * i64::from(PARTITIONS)) as usize / 4)
            .await;
        pair.gateways[kill % 2].kill_and_restart().await;
        pair.write(&stage, STEP / 2).await;
    }
    pair.finish(&stage).await;
    // A step and a half is all that can be acked and not committed when a gateway is
    // killed: the one being read, and the rest of the one before it.
    let bound = KILLS * (STEP * i64::from(PARTITIONS)) as usize * 3 / 2;
    let repeated = pair.printed.repeated().len();
    assert!(repeated <= bound, "{repeated} records came again");
}
