//! Which records of a chunk are not to be handed out, and why.

use std::ops::Range;

use ackgate_lane::{Offset, OffsetRange};
use ackgate_proto::v1;
use bytes::Bytes;
use prost::Message as _;

use super::{content, is_too_old, retry};
use crate::{
    broker::{Chunk, RecordIndex, TopicPartition},
    config::{Intake, OnFailure},
    filter::{Failure, Filter, Subject},
};

/// What becomes of a record that is not handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is older than `max_age`.
    Expired,
    /// The filter says no.
    Filtered,
    /// Its value is not what it must be, and it is rejected for that.
    Rejected,
    /// Its value is not what it must be, and it is passed over for that.
    Skipped,
}

/// What was found out about the records of a chunk.
#[derive(Debug, Default)]
pub(super) struct Sifted {
    /// Places of records in the chunk, in order: neighbours of one fate are one run.
    pub(super) fates: Vec<(Range<usize>, Fate)>,
    /// The first offset that the filter said nothing about, why, and how many of them.
    pub(super) failed: Option<(u64, Failure)>,
    pub(super) failures: u64,
    /// The first offset whose value is not what it must be, and how many are handed out
    /// all the same.
    pub(super) unfit: Option<u64>,
    pub(super) delivered: u64,
}

/// Where the records of a chunk were read.
#[derive(Clone, Copy, Debug)]
pub(super) struct From<'a> {
    pub(super) partition: &'a TopicPartition,
    /// They were put back there from a dead-letter topic. None of them is too old then,
    /// and a filter sees where they came from.
    pub(super) retry: bool,
}

/// Looks at every record of `chunk`.
pub(super) fn sift(intake: &Intake, chunk: &Chunk, of: From<'_>, wall_ms: i64) -> Sifted {
    let mut sifted = Sifted::default();
    let mut start = 0;
    for (at, record) in chunk.records.iter().enumerate() {
        let end = record.end as usize;
        let field = chunk.bytes.slice(start..end.max(start));
        start = end;
        if let Some(fate) = sifted.look_at(intake, record, field, of, wall_ms) {
            sifted.add(at, fate);
        }
    }
    sifted
}

impl Sifted {
    /// `None`: it is handed out.
    fn look_at(
        &mut self,
        intake: &Intake,
        index: &RecordIndex,
        field: Bytes,
        of: From<'_>,
        wall_ms: i64,
    ) -> Option<Fate> {
        let is_old = |max_age| !of.retry && is_too_old(index.timestamp_ms, wall_ms, max_age);
        if intake.max_age.is_some_and(is_old) {
            return Some(Fate::Expired);
        }
        if !intake.looks_inside() {
            return None;
        }
        // The gateway's own encoding: a record that it cannot read goes out as it is.
        let mut record = decode(field)?;
        if let Some(filter) = &intake.filter {
            match of.ask(filter, &mut record) {
                Ok(true) => {}
                Ok(false) => return Some(Fate::Filtered),
                Err(failure) => {
                    self.failures += 1;
                    self.failed.get_or_insert((index.offset, failure));
                }
            }
        }
        let content = intake.content?;
        let value = record.value.as_ref()?;
        if content::passes(content.check, value) {
            return None;
        }
        self.unfit.get_or_insert(index.offset);
        match content.on_failure {
            OnFailure::Reject => Some(Fate::Rejected),
            OnFailure::Skip => Some(Fate::Skipped),
            OnFailure::Deliver => {
                self.delivered += 1;
                None
            }
        }
    }

    fn add(&mut self, at: usize, fate: Fate) {
        match self.fates.last_mut() {
            Some((run, last)) if *last == fate && run.end == at => run.end = at + 1,
            _ => self.fates.push((at..at + 1, fate)),
        }
    }
}

impl From<'_> {
    /// What `filter` says about the record, as it was where it came from.
    pub(super) fn ask(self, filter: &Filter, record: &mut v1::Record) -> Result<bool, Failure> {
        let origin = if self.retry {
            retry::origin(record)
        } else {
            None
        };
        let (topic, partition) = match &origin {
            Some((topic, partition)) => (topic.as_str(), *partition),
            None => (&*self.partition.topic, self.partition.partition),
        };
        filter.matches(&Subject {
            topic,
            partition,
            record,
        })
    }
}

/// Adds an offset to runs of adjacent ones.
pub(super) fn extend(runs: &mut Vec<OffsetRange>, offset: Offset) {
    if let Some(last) = runs.last_mut()
        && last.end().offset() == offset
        && let Some(longer) = OffsetRange::inclusive(last.first(), offset)
    {
        *last = longer;
        return;
    }
    runs.push(OffsetRange::one(offset));
}

/// Takes a record out of its encoded field, which is a `Batch` with nothing else.
pub(in crate::consumer) fn decode(field: Bytes) -> Option<v1::Record> {
    v1::Batch::decode(field).ok()?.records.pop()
}

#[cfg(test)]
mod tests;
