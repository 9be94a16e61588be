//! [`Probe`]: finds the traced ones among the records of a chunk, where rdkafka has them.

use std::time::SystemTime;

use rdkafka::message::Headers;

use super::guard::guarded;
use crate::{
    broker::TopicPartition,
    telemetry::traces::{Polled, RecordTrace, Sampling, Seed},
};

/// Looks at the records of one chunk after the other.
#[derive(Debug)]
pub(super) struct Probe {
    sampling: Sampling,
    /// Of the partition that is read now.
    seed: Option<Seed>,
    began: SystemTime,
    found: Vec<RecordTrace>,
}

impl Probe {
    pub(super) const fn new(sampling: Sampling) -> Self {
        Self {
            sampling,
            seed: None,
            began: SystemTime::UNIX_EPOCH,
            found: Vec::new(),
        }
    }

    /// What follows is of that partition.
    pub(super) fn begin(&mut self, partition: &TopicPartition, seed: &mut Option<Seed>) {
        let TopicPartition { topic, partition } = partition;
        self.seed = Some(*seed.get_or_insert_with(|| self.sampling.seed(topic, *partition)));
        self.began = SystemTime::now();
        self.found.clear();
    }

    /// Looks at a record: its offset, the length of its value, its headers, and which of
    /// them says its trace.
    pub(super) fn look<H: Headers>(
        &mut self,
        offset: u64,
        body: Option<usize>,
        headers: Option<&H>,
        parent: Option<usize>,
    ) {
        let Some(seed) = self.seed else { return };
        let parent = headers
            .zip(parent)
            .and_then(|(headers, index)| read(headers, index)?.1);
        let all = || headers.into_iter().flat_map(readable);
        if let Some((trace, parent)) = self.sampling.look(seed, offset, parent, all) {
            self.found.push(RecordTrace {
                offset,
                trace,
                parent,
                body,
            });
        }
    }

    /// What is to be told of the chunk, if anything.
    pub(super) fn take(&mut self) -> Option<Box<Polled>> {
        if self.found.is_empty() && !self.sampling.takes_one() {
            return None;
        }
        Some(Box::new(Polled {
            began: self.began,
            ended: SystemTime::now(),
            traces: std::mem::take(&mut self.found),
        }))
    }
}

/// Those whose keys are text.
fn readable<H: Headers>(headers: &H) -> impl Iterator<Item = (&str, Option<&[u8]>)> {
    (0..headers.count()).filter_map(|index| read(headers, index))
}

fn read<H: Headers>(headers: &H, index: usize) -> Option<(&str, Option<&[u8]>)> {
    guarded(|| {
        let header = headers.try_get(index)?;
        Some((header.key, header.value))
    })
    .flatten()
}
