//! Which lane is where and whose: for those that come back, and for leases.

use std::collections::BTreeMap;

use ackgate_lane::{Epoch, Generation, Subscriber};

use super::{super::mutation, Entry, Lanes};
use crate::broker::TopicPartition;

impl Lanes {
    /// Gives the lane a new number: what is said under the old one is fenced.
    pub(in crate::consumer) fn renumber(&mut self, generation: Generation) {
        if let Some(entry) = self.entries.get_mut(&generation) {
            self.by_number.remove(&entry.number);
            entry.number = self.numbers.next();
            mutation::number(entry.number, generation.0);
            self.by_number.insert(entry.number, generation);
        }
    }

    /// The lane of each partition, with its epoch.
    pub(in crate::consumer) fn by_partition(
        &self,
    ) -> BTreeMap<TopicPartition, (Generation, Epoch)> {
        let mut lanes = BTreeMap::new();
        for (generation, entry) in &self.entries {
            let lane = (*generation, entry.lane.epoch());
            let known = lanes.entry(entry.partition.clone()).or_insert(lane);
            // Of a lane that is about to go and its next assignment, the later one.
            *known = (*known).max(lane);
        }
        lanes
    }

    /// Lanes that belong to one subscriber at a time and do not end, in a fixed order.
    pub(in crate::consumer) fn leasable(&self) -> Vec<Generation> {
        let is_leasable = |entry: &Entry| entry.lease.is_some() && !entry.lane.is_draining();
        let mut found: Vec<(&TopicPartition, Generation)> = self
            .entries
            .iter()
            .filter(|(_, entry)| is_leasable(entry))
            .map(|(generation, entry)| (&entry.partition, *generation))
            .collect();
        found.sort_unstable_by(|(a, g), (b, h)| {
            (&a.topic, a.partition, g).cmp(&(&b.topic, b.partition, h))
        });
        found
            .into_iter()
            .map(|(_, generation)| generation)
            .collect()
    }

    /// Lanes that belong to `subscriber`.
    pub(in crate::consumer) fn leased_to(
        &self,
        subscriber: Subscriber,
    ) -> impl Iterator<Item = Generation> {
        let is_its =
            move |entry: &Entry| entry.lease.and_then(|lease| lease.holder()) == Some(subscriber);
        let found = self.entries.iter().filter(move |(_, entry)| is_its(entry));
        found.map(|(generation, _)| *generation)
    }
}
