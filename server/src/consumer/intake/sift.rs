//! Which records of a chunk are not to be handed out, and why.

use ackgate_lane::{Offset, OffsetRange};
use ackgate_proto::v1;
use bytes::Bytes;
use prost::Message as _;

use super::{content, is_too_old};
use crate::{
    broker::{Chunk, RecordIndex, TopicPartition},
    config::{Check, Intake, OnFailure},
    filter::{Failure, Subject},
};

/// What was found out about a record that is not simply handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::consumer) enum Finding {
    /// It is older than `max_age`.
    Expired,
    /// The filter says no.
    Filtered,
    /// The filter says nothing; told for each record, and the next check follows.
    FilterFailed(Failure),
    /// Its value is not what it must be.
    Unfit(OnFailure, Check),
}

impl Finding {
    /// Whether the record is not handed out.
    pub(super) const fn takes_out(&self) -> bool {
        match self {
            Self::Expired | Self::Filtered => true,
            Self::FilterFailed(_) => false,
            Self::Unfit(route, _) => !matches!(route, OnFailure::Deliver),
        }
    }
}

/// Looks at every record of `chunk`. Neighbours with equal findings are one run, which
/// may span offsets that the log does not have; failures stand alone.
pub(super) fn sift(
    intake: &Intake,
    chunk: &Chunk,
    of: &TopicPartition,
    wall_ms: i64,
) -> Vec<(OffsetRange, Finding)> {
    let mut findings = Findings::default();
    let mut start = 0;
    for record in &chunk.records {
        let end = record.end as usize;
        let field = chunk.bytes.slice(start..end.max(start));
        start = end;
        look_at(intake, record, field, of, wall_ms, &mut findings);
    }
    findings.found
}

fn look_at(
    intake: &Intake,
    index: &RecordIndex,
    field: Bytes,
    of: &TopicPartition,
    wall_ms: i64,
    findings: &mut Findings,
) {
    let offset = Offset::new(index.offset);
    let is_old = |max_age| is_too_old(index.timestamp_ms, wall_ms, max_age);
    if intake.max_age.is_some_and(is_old) {
        return findings.add(offset, Finding::Expired);
    }
    if !intake.looks_inside() {
        return findings.pass();
    }
    let Some(record) = decode(field) else {
        // The gateway's own encoding: a record that it cannot read is handed out as it is.
        return findings.pass();
    };
    if let Some(filter) = &intake.filter {
        let subject = Subject {
            topic: &of.topic,
            partition: of.partition,
            record: &record,
        };
        match filter.matches(&subject) {
            Ok(true) => {}
            Ok(false) => return findings.add(offset, Finding::Filtered),
            Err(failure) => findings.add(offset, Finding::FilterFailed(failure)),
        }
    }
    if let Some(content) = intake.content
        && let Some(value) = &record.value
        && !content::passes(content.check, value)
    {
        return findings.add(offset, Finding::Unfit(content.on_failure, content.check));
    }
    findings.pass();
}

#[derive(Debug, Default)]
struct Findings {
    found: Vec<(OffsetRange, Finding)>,
    /// The last record looked at belongs to the last finding.
    goes_on: bool,
}

impl Findings {
    /// The record is handed out.
    const fn pass(&mut self) {
        self.goes_on = false;
    }

    fn add(&mut self, offset: Offset, finding: Finding) {
        let one_by_one = match finding {
            Finding::Expired | Finding::Filtered => false,
            Finding::FilterFailed(_) => true,
            Finding::Unfit(route, _) => route == OnFailure::Deliver,
        };
        if self.goes_on
            && !one_by_one
            && let Some((range, last)) = self.found.last_mut()
            && *last == finding
            && let Some(longer) = OffsetRange::inclusive(range.first(), offset)
        {
            *range = longer;
            return;
        }
        self.found.push((OffsetRange::one(offset), finding));
        self.goes_on = !one_by_one;
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
fn decode(field: Bytes) -> Option<v1::Record> {
    v1::Batch::decode(field).ok()?.records.pop()
}

#[cfg(test)]
mod tests;
