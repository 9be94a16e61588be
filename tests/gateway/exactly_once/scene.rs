//! A case's topics and group, and whether what is in them agrees.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use tokio::task::spawn_blocking;

use super::kafka::{Committed, committed, ends, letters};
use crate::support::{Outgoing, PATIENCE, Stage, Subscription, Topic, eventually};

/// A record that is settled, was not acked, and has no dead letter.
fn missing(
    committed: &BTreeMap<i32, Committed>,
    letters: &[(i32, i64, usize)],
) -> Option<(i32, i64)> {
    let there: BTreeSet<(i32, i64)> = letters.iter().map(|of| (of.0, of.1)).collect();
    let settled = committed.iter().flat_map(|(&partition, state)| {
        let all = (0..state.position).chain(state.settled.iter().copied());
        all.map(move |offset| (partition, offset))
    });
    let mut bad = settled.filter(|(_, offset)| offset % 3 != 0);
    bad.find(|of| !there.contains(of))
}

/// A case's topics and group.
pub(super) struct Scene<'a> {
    stage: &'a Stage,
    pub(super) topic: Topic,
    pub(super) dead: Topic,
    group: String,
    partitions: u16,
}

impl<'a> Scene<'a> {
    pub(super) async fn new(stage: &'a Stage, name: &str, partitions: u16) -> Self {
        Self {
            stage,
            topic: stage.topic(&format!("orders-{name}"), partitions).await,
            dead: stage.topic(&format!("dead-{name}"), 1).await,
            group: stage.named(&format!("group-{name}")),
            partitions,
        }
    }

    pub(super) fn subscription(&self) -> Subscription {
        self.stage
            .subscription(&self.topic)
            .dead_letter(&self.dead)
            .set("group", &format!("\"{}\"", self.group))
            .set("dead_letter.exactly_once", "true")
            .set("commit.interval", "\"200ms\"")
    }

    /// `count` records in each partition, of which every third is to be acked.
    pub(super) async fn produce(&self, count: usize) {
        for partition in 0..i32::from(self.partitions) {
            let value = |n: usize| if n.is_multiple_of(3) { "{}" } else { "no json" };
            let records = (0..count).map(|n| Outgoing::value(partition, value(n)));
            self.stage.broker.produce(&self.topic.name, records).await;
        }
    }

    /// Committed states and dead letters, after a look at whether they agree. The
    /// letters are read in between: what came later is in the second state alone.
    pub(super) async fn look(&self) -> (BTreeMap<i32, Committed>, Vec<(i32, i64, usize)>) {
        let client = self
            .stage
            .broker
            .client()
            .set("group.id", &self.group)
            .clone();
        let (topic, dead) = (self.topic.name.clone(), self.dead.name.clone());
        let partitions = i32::from(self.partitions);
        let look = move || {
            let before = committed(&client, &topic, partitions);
            let deadline = Instant::now() + PATIENCE;
            // Kafka writes the end of a transaction to its partitions one by one.
            loop {
                let letters = letters(&client, &dead, 1);
                match missing(&before, &letters) {
                    Some(offset) if Instant::now() > deadline => {
                        panic!("{offset:?} is settled and not there: {letters:?}")
                    }
                    Some(_) => std::thread::park_timeout(Duration::from_millis(100)),
                    None => return (letters, committed(&client, &topic, partitions)),
                }
            }
        };
        let (letters, after) = spawn_blocking(look).await.unwrap();
        let mut once = BTreeSet::new();
        for &(partition, offset, _) in &letters {
            assert!(
                once.insert((partition, offset)),
                "twice: {offset}: {letters:?}"
            );
            assert!(offset % 3 != 0, "{offset} was acked: {letters:?}");
            assert!(
                after[&partition].settles(offset),
                "{offset} is not settled: {after:?}"
            );
        }
        (after, letters)
    }

    /// Everything is settled in the end, and each dead letter is there once.
    pub(super) async fn ends(&self, count: i64) {
        eventually("everything is settled", async || {
            let (committed, letters) = self.look().await;
            let is_done = committed.values().all(|of| of.position == count);
            let bad = (0..count).filter(|offset| offset % 3 != 0).count();
            if is_done && letters.len() == bad * usize::from(self.partitions) {
                Ok(())
            } else {
                Err(format!("{} letters, {committed:?}", letters.len()))
            }
        })
        .await;
    }

    /// Ends of the topic of dead letters: see [`ends`].
    pub(super) async fn ends_of_letters(&self) -> Result<(i64, i64), String> {
        let (client, dead) = (self.stage.broker.client(), self.dead.name.clone());
        let asked = spawn_blocking(move || ends(&client, &dead)).await.unwrap();
        asked.map_err(|error| error.to_string())
    }
}
