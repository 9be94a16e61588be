//! What a subscription's driver tells its tracer, and when: fetches, deliveries, dead
//! letters, commits, seeks, rebalances.
//!
//! **Boundary**: decides nothing. **Invariant**: a lane without traced records costs one
//! test for each batch, range or message.

mod end;
mod lane;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, time::SystemTime};

use ackgate_lane::{
    Generation, Offset, OffsetRange, Position, Ready, Return, Standing, Subscriber, Time,
};
use ackgate_proto::v1;
use opentelemetry::trace::SpanContext;

use self::lane::Delivered;
pub(super) use self::{
    end::End,
    lane::{Ended, Traces},
};
use super::{
    dead_letter::{GivenUp, cause_name},
    driver::Driver,
    lanes::Entry,
    tell::tell,
};
use crate::{
    broker::{self, Chunk, Commit, ErrorKind, Placed},
    telemetry::{
        episode::Episode,
        traces::{Allowance, Operation, Polled, Span, Tracer, names},
    },
};

/// Commits and seeks that are told of and have no answer yet; one for each lane as a rule.
const MAX_ASKED: usize = 4096;

/// What Kafka was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Asked {
    Commit(Generation, u64),
    Seek(Generation, u64),
}

/// Spans of a driver that belong to no record, and what its records may have.
#[derive(Debug)]
pub(super) struct Spans {
    asked: BTreeMap<Asked, Span>,
    /// Lanes are about to go.
    revoking: Option<Span>,
    /// Holds back records whose producers chose their traces' ids.
    allowance: Option<Allowance>,
    /// Records that were held back.
    held_back: Episode<Time>,
}

impl Spans {
    /// None yet, of a subscription with that tracer.
    pub(super) fn new(tracer: &Tracer) -> Self {
        Self {
            asked: BTreeMap::new(),
            revoking: None,
            allowance: tracer.allowance(),
            held_back: Episode::default(),
        }
    }

    /// So many records have come.
    pub(super) fn came(&mut self, records: usize) {
        if let Some(allowance) = &mut self.allowance {
            allowance.came(records);
        }
    }

    fn ask(&mut self, what: Asked, span: Span) {
        // What is never answered makes room.
        if self.asked.len() >= MAX_ASKED {
            self.asked.pop_first();
        }
        self.asked.insert(what, span);
    }
}

impl Driver {
    /// A fetch that is told of.
    pub(super) fn trace_fetched(&mut self, now: Time, chunk: &Chunk, mut polled: Polled) {
        let count = polled.traces.len();
        self.hold_back(now, chunk, &mut polled);
        let tracer = &self.parts.tracer;
        let was_told_for_them = count > 0 && polled.traces.is_empty();
        if was_told_for_them && !tracer.takes_one() {
            return;
        }
        let Some(entry) = self.lanes.get_mut(chunk.generation) else {
            return;
        };
        let topic = Some(&*entry.partition.topic);
        let Some(mut span) = tracer.begin(Operation::Poll, topic, polled.began) else {
            return;
        };
        span.set(names::PARTITION, entry.partition.partition.to_string());
        span.set_number(names::BATCH_MESSAGE_COUNT, chunk.records.len() as u64);
        if let (Some(first), Some(last)) = (chunk.records.first(), chunk.records.last()) {
            span.set_number(names::FIRST_OFFSET, first.offset);
            span.set_number(names::LAST_OFFSET, last.offset);
        }
        let parents = polled.traces.iter().filter_map(|it| it.parent.as_ref());
        parents.for_each(|parent| span.link(&parent.span));
        entry.traces.fetched(tracer, polled.traces, span.context());
        tracer.end(span, polled.ended);
    }

    /// Leaves out what is beyond the allowance of records that say a trace of their own.
    fn hold_back(&mut self, now: Time, chunk: &Chunk, polled: &mut Polled) {
        let Some(entry) = self.lanes.get_mut(chunk.generation) else {
            return;
        };
        let Some(allowance) = &mut self.spans.allowance else {
            return;
        };
        allowance.tick(polled.ended);
        if allowance.is_full()
            && let Some(count) = self.spans.held_back.over()
        {
            tell!(info, self, entry;
                count,
                "no more records bring a sampled trace than the ratio makes likely"
            );
        }
        polled.traces.retain(|trace| {
            let is_free = trace.parent.is_none() || entry.traces.knows(trace.offset);
            if is_free || allowance.take() {
                return true;
            }
            if let Some(count) = self.spans.held_back.again(now) {
                tell!(warn, self, entry;
                    offset = trace.offset,
                    count,
                    "more records bring a sampled trace than the ratio makes likely: some are \
                     not traced"
                );
            }
            false
        });
    }

    /// Deliveries came back without a verdict.
    pub(super) fn trace_returned(
        &mut self,
        generation: Generation,
        subscriber: Subscriber,
        range: OffsetRange,
        why: Return,
    ) {
        let is_fenced = self.fence.standing() != Standing::Sound;
        let Some(entry) = self.lanes.get_mut(generation) else {
            return;
        };
        if entry.traces.is_empty() {
            return;
        }
        let end = Ended {
            range,
            subscriber,
            how: End::without(why, is_fenced),
            code: "",
            at: SystemTime::now(),
        };
        let is_broadcast = entry.lane.is_broadcast();
        entry.traces.ended(&self.parts.tracer, is_broadcast, end);
    }

    /// Records are settled.
    pub(super) fn trace_settled(&mut self, generation: Generation, range: OffsetRange) {
        if let Some(entry) = self.lanes.get_mut(generation)
            && !entry.traces.is_empty()
        {
            entry.traces.settled(&self.parts.tracer, range);
        }
    }

    /// A dead letter was answered.
    pub(super) fn trace_letter(
        &mut self,
        generation: Generation,
        offset: Offset,
        result: Result<Option<&Placed>, &broker::Error>,
    ) {
        if let Some(entry) = self.lanes.get_mut(generation)
            && !entry.traces.is_empty()
        {
            let result = result.map_err(|error| error_type(error.kind));
            let result = result.map(|at| at.map(|at| (at.partition, at.offset)));
            let tracer = &self.parts.tracer;
            entry.traces.letter_answered(tracer, offset, result);
        }
    }

    /// A position is about to be committed.
    pub(super) fn trace_commit(&mut self, commit: &Commit) {
        let tracer = &self.parts.tracer;
        if !tracer.is_on() {
            return;
        }
        let Some(entry) = self.lanes.get_mut(commit.generation) else {
            return;
        };
        let links = entry.traces.committing(commit.position);
        if links.is_empty() && !tracer.takes_one() {
            return;
        }
        let topic = Some(&*entry.partition.topic);
        let begun = tracer.begin(Operation::Commit, topic, SystemTime::now());
        if let Some(mut span) = begun {
            span.set(names::PARTITION, entry.partition.partition.to_string());
            span.set_number(names::POSITION, commit.position.get());
            links.iter().for_each(|link| span.link(link));
            self.spans
                .ask(Asked::Commit(commit.generation, commit.serial), span);
        }
    }

    /// A commit was answered.
    pub(super) fn trace_committed(&mut self, commit: &Commit, result: &Result<(), broker::Error>) {
        if result.is_ok()
            && self.parts.tracer.is_on()
            && let Some(entry) = self.lanes.get_mut(commit.generation)
        {
            entry.traces.committed(commit.position);
        }
        self.trace_answered(Asked::Commit(commit.generation, commit.serial), result);
    }

    /// A lane is about to go back.
    pub(super) fn trace_seek(&mut self, generation: Generation, to: Position) {
        let Some(entry) = self.lanes.get_mut(generation) else {
            return;
        };
        let tracer = &self.parts.tracer;
        // How often a lane goes back is up to its subscribers.
        if entry.traces.is_empty() && !tracer.takes_one() {
            return;
        }
        let topic = Some(&*entry.partition.topic);
        let begun = tracer.begin(Operation::Seek, topic, SystemTime::now());
        if let Some(mut span) = begun {
            span.set(names::PARTITION, entry.partition.partition.to_string());
            span.set_number(names::POSITION, to.get());
            self.spans.ask(Asked::Seek(generation, entry.seek), span);
        }
    }

    /// A seek was answered.
    pub(super) fn trace_sought(
        &mut self,
        generation: Generation,
        seek: u64,
        result: &Result<(), broker::Error>,
    ) {
        self.trace_answered(Asked::Seek(generation, seek), result);
    }

    fn trace_answered(&mut self, what: Asked, result: &Result<(), broker::Error>) {
        if self.spans.asked.is_empty() {
            return;
        }
        if let Some(mut span) = self.spans.asked.remove(&what) {
            if let Err(error) = result {
                span.fail(error_type(error.kind));
            }
            self.parts.tracer.end(span, SystemTime::now());
        }
    }

    /// Lanes have come.
    pub(super) fn trace_assigned(&mut self, lanes: usize) {
        if let Some(span) = self.rebalance("assigned", lanes) {
            self.parts.tracer.end(span, SystemTime::now());
        }
    }

    /// Lanes are about to go.
    pub(super) fn trace_revoking(&mut self, lanes: usize, lost: bool) {
        let what = if lost { "lost" } else { "revoked" };
        self.spans.revoking = self.rebalance(what, lanes);
    }

    /// They have gone.
    pub(super) fn trace_revoked(&mut self) {
        if let Some(span) = self.spans.revoking.take() {
            self.parts.tracer.end(span, SystemTime::now());
        }
    }

    fn rebalance(&self, what: &'static str, lanes: usize) -> Option<Span> {
        let tracer = &self.parts.tracer;
        let mut span = tracer.begin(Operation::Rebalance, None, SystemTime::now())?;
        span.set(names::REBALANCE, what);
        span.set_number(names::LANES, lanes as u64);
        Some(span)
    }

    /// A lane begins anew.
    pub(super) fn trace_reset(&mut self, generation: Generation) {
        let Some(entry) = self.lanes.get_mut(generation) else {
            return;
        };
        let now = SystemTime::now();
        let topic = Some(&*entry.partition.topic);
        if let Some(mut span) = self.parts.tracer.begin(Operation::Reset, topic, now) {
            span.set(names::PARTITION, entry.partition.partition.to_string());
            span.set_number(names::EPOCH, entry.lane.epoch().0);
            self.parts.tracer.end(span, now);
        }
    }

    /// A lane is no more.
    pub(super) fn trace_gone(&self, traces: &mut Traces) {
        traces.gone(&self.parts.tracer);
    }
}

impl Entry {
    /// A run of a batch goes out to a subscriber of that name: `told` gets the spans of its
    /// traced records.
    pub(super) fn name_spans(
        &mut self,
        tracer: &Tracer,
        (range, numbers): (OffsetRange, Ready),
        (subscriber, name): (Subscriber, &str),
        told: &mut Vec<v1::RecordTrace>,
    ) {
        let part = Delivered {
            range,
            numbers,
            subscriber,
            name,
            is_broadcast: self.lane.is_broadcast(),
        };
        self.traces.handed_out(tracer, &self.partition, part, told);
    }
}

/// A kind of refusal as spans name it.
const fn error_type(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Transient => "transient",
        ErrorKind::Full => "full",
        ErrorKind::Fenced => "fenced",
        ErrorKind::TooLarge | ErrorKind::LetterTooLarge(_) => "too_large",
        ErrorKind::Operator => "operator",
    }
}

/// The most bytes that one entry takes in a message.
pub(super) const fn bytes_of(trace: &v1::RecordTrace) -> u64 {
    const AROUND: usize = 24;
    (AROUND + trace.traceparent.len() + trace.tracestate.len()) as u64
}

/// As many of them as `room` bytes hold.
pub(super) fn keep_within(room: u64, traces: &mut Vec<v1::RecordTrace>) {
    let mut taken = 0;
    let fits = |trace: &v1::RecordTrace| {
        taken += bytes_of(trace);
        taken <= room
    };
    let count = traces.iter().map(fits).take_while(|fits| *fits).count();
    traces.truncate(count);
}

/// What a dead letter of a record says of its trace.
pub(super) fn letter(
    entry: &mut Entry,
    tracer: &Tracer,
    given_up: &GivenUp,
    topic: Option<&str>,
) -> Option<SpanContext> {
    if entry.traces.is_empty() {
        return None;
    }
    let to = (topic?, cause_name(given_up.cause));
    let Entry {
        traces, partition, ..
    } = entry;
    traces.letter(tracer, given_up.offset, partition, to)
}
