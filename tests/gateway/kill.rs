//! The promise under fire: subscribers and the gateway are killed in the middle of
//! a large run, and every record is answered for.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::{task::spawn_blocking, time::Instant};

use crate::support::{Case, Gateway, Outgoing, Stage, Subscriber, Topic, cases, eventually};

pub(crate) fn cases() -> Vec<Case> {
    cases![kafka: killed_subscriber_and_gateway_lose_nothing;]
}

const PARTITIONS: i32 = 8;
const RECORDS: usize = 200_000;
const EACH: i64 = (RECORDS / PARTITIONS as usize) as i64;
/// For all of it, on a slow machine.
const LIMIT: Duration = Duration::from_secs(300);

/// What subscribers have printed, which they do before they ack it, by partition.
#[derive(Default)]
struct Acked {
    offsets: BTreeMap<i32, BTreeSet<i64>>,
    count: usize,
}

impl Acked {
    fn take(&mut self, subscribers: &mut [Subscriber]) {
        for line in subscribers.iter_mut().flat_map(Subscriber::take) {
            if self
                .offsets
                .entry(line.partition)
                .or_default()
                .insert(line.offset)
            {
                self.count += 1;
            }
        }
    }

    /// The lowest offset of a partition that nobody has acked.
    fn floor(&self, partition: i32) -> i64 {
        let Some(offsets) = self.offsets.get(&partition) else {
            return 0;
        };
        (0..)
            .zip(offsets)
            .take_while(|(expected, offset)| expected == *offset)
            .count() as i64
    }
}

/// Committed positions never pass what was acked when they were read. Subscribers
/// print a record before they answer it, so only the pipe is in between: what is
/// missing must turn up at once.
async fn no_offset_is_passed(
    stage: &Stage,
    topic: &Topic,
    acked: &mut Acked,
    subscribers: &mut [Subscriber],
) {
    let committed = stage.broker.committed(&stage.group(), &topic.name).await;
    eventually("what is committed was acked", async || {
        acked.take(subscribers);
        for (&partition, &position) in &committed {
            let floor = acked.floor(partition);
            if position > floor {
                return Err(format!(
                    "partition {partition} is at {position}, acked below {floor}"
                ));
            }
        }
        Ok(())
    })
    .await;
}

/// Runs until this many records are acked.
async fn until(
    count: usize,
    stage: &Stage,
    topic: &Topic,
    acked: &mut Acked,
    subscribers: &mut [Subscriber],
) {
    let deadline = Instant::now() + LIMIT;
    while acked.count < count {
        no_offset_is_passed(stage, topic, acked, subscribers).await;
        assert!(
            Instant::now() < deadline,
            "{} of {count} records were acked",
            acked.count
        );
    }
}

async fn killed_subscriber_and_gateway_lose_nothing(stage: Stage) {
    let topic = stage.topic("orders", PARTITIONS as u16).await;
    let records =
        (0..RECORDS).map(|n| Outgoing::value(n as i32 % PARTITIONS, format!("order {n}")));
    stage.broker.produce(&topic.name, records).await;
    let subscription = stage
        .subscription(&topic)
        .consumer_property("session.timeout.ms", "6000");
    let mut gateway = Gateway::start(&stage, &[subscription]).await;
    let mut subscribers: Vec<Subscriber> = (0..3)
        .map(|_| Subscriber::start(gateway.address, &[]))
        .collect();
    let mut acked = Acked::default();

    until(RECORDS / 4, &stage, &topic, &mut acked, &mut subscribers).await;
    gateway.kill_and_restart().await;
    until(RECORDS / 2, &stage, &topic, &mut acked, &mut subscribers).await;
    subscribers[0].kill();
    until(RECORDS, &stage, &topic, &mut acked, &mut subscribers).await;

    let all: BTreeSet<i64> = (0..EACH).collect();
    for partition in 0..PARTITIONS {
        assert_eq!(acked.offsets[&partition], all, "partition {partition}");
    }
    let kafka = stage.broker.tools();
    eventually(
        "Kafka's tool shows every partition at its log end",
        async || {
            let (group, name) = (stage.group(), topic.name.clone());
            let shown = spawn_blocking(move || kafka.describe(&group, &name))
                .await
                .unwrap();
            let done = shown.len() == PARTITIONS as usize
                && shown
                    .values()
                    .all(|(committed, end)| *committed == Some(*end) && *end == EACH);
            if done {
                Ok(())
            } else {
                Err(format!("{shown:?}"))
            }
        },
    )
    .await;
}
