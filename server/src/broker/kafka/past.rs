//! What a consumer has read before, over all its assignments: so that a partition that
//! comes without a committed position is told apart from one of a new group.

use std::{collections::BTreeMap, sync::Arc};

use super::start::Start;
use crate::broker::TopicPartition;

/// As many entries as the topics have had partitions.
#[derive(Debug, Default)]
pub(super) struct Past {
    lanes: BTreeMap<TopicPartition, Known>,
}

/// What is known of a partition from former assignments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// Where reading began that nothing was committed of yet.
    pub(super) start: Option<u64>,
    /// How far reading came.
    pub(super) next: Option<u64>,
    /// Kafka had a committed position.
    pub(super) committed: bool,
}

impl Past {
    /// A lane begins.
    pub(super) fn begins(&mut self, partition: &TopicPartition, start: &Start) {
        let position = start.position().map(ackgate_lane::Position::get);
        let known = Known {
            start: position,
            next: position,
            committed: matches!(start, Start::Committed(..)),
        };
        self.lanes.insert(partition.clone(), known);
    }

    /// A position of it was committed.
    pub(super) fn committed(&mut self, partition: &TopicPartition) {
        if let Some(known) = self.lanes.get_mut(partition) {
            known.committed = true;
        }
    }

    /// A lane has gone, and was read up to `next`.
    pub(super) fn ends(&mut self, partition: &TopicPartition, next: Option<u64>) {
        if let Some(known) = self.lanes.get_mut(partition) {
            known.next = next.or(known.next);
        }
    }

    /// What is known of a partition.
    pub(super) fn of(&self, topic: &Arc<str>, partition: i32) -> Option<Known> {
        let topic = Arc::clone(topic);
        self.lanes
            .get(&TopicPartition { topic, partition })
            .copied()
    }

    /// Whether any partition of a topic was read.
    pub(super) fn knows(&self, topic: &str) -> bool {
        self.lanes.keys().any(|lane| &*lane.topic == topic)
    }
}
