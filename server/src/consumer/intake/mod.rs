//! What stands between the consumer and a lane: a chunk passes through here before
//! the lane learns of it.
//!
//! ```text
//! chunk ─► gate (min_age) ─► sift (max_age, filter, content) ─► bodies, lane
//! ```
//!
//! **Boundary**: says which records are not to be handed out and why; what becomes of
//! them is the lane's decision. **Invariants**: the lane hears of records in offset
//! order and of none that is held at the gate, so none of those is committed, and all
//! of them are read again after a seek or a revoke; a subscription without options of
//! the intake pays one test per chunk.
//!
//! Ages are judged by the gateway's own clock against the record's timestamp, at the
//! moment of the judgement. A record without a timestamp, or with one of 0 or less, has
//! no age: it is never held back and never too old. One from the future has age 0.

mod content;
mod gate;
mod sift;
mod wall;

use ackgate_lane::{Cause, Generation, OffsetRange, OnExpired, Order, Subscriber, Time};

pub use self::wall::Wall;
pub(super) use self::{gate::Gate, sift::Finding};
use super::{
    counts::Counts,
    driver::Driver,
    episode::Episode,
    lanes::{Entry, Grant},
};
use crate::{
    broker::{self, Chunk},
    config::{Intake, MaxAge},
};

/// What the intake of a subscription remembers beside its lanes.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) counts: Counts,
    /// What is told as an episode: one of each kind of finding.
    filter_failures: Episode,
    unfit: Episode,
    expired: Episode,
}

impl Driver {
    /// Takes a chunk that follows what its lane has fetched.
    pub(super) fn take_in(&mut self, now: Time, chunk: Chunk) {
        let min_age = self.parts.subscription.intake.min_age;
        if min_age.is_zero() {
            self.pass_on(now, chunk);
            return;
        }
        let generation = chunk.generation;
        if let Some(entry) = self.lanes.touch(generation) {
            entry.gate.hold(chunk, now);
            self.open_gate(now, generation);
        }
    }

    /// Passes on what has become old enough at the gate of a lane.
    pub(super) fn open_gate(&mut self, now: Time, generation: Generation) {
        let min_age = self.parts.subscription.intake.min_age;
        loop {
            let Some(entry) = self.lanes.touch(generation) else {
                return;
            };
            if entry.lane.is_draining() {
                // It takes nothing more; all this is read again elsewhere.
                entry.gate.clear();
            }
            let wall = self.parts.wall.now_ms();
            let Some(chunk) = entry.gate.release(now, wall, min_age) else {
                break;
            };
            self.pass_on(now, chunk);
        }
        // What was granted before would be held as well.
        if let Some(entry) = self.lanes.touch(generation)
            && entry.gate.is_full()
            && entry.granted != Grant::default()
        {
            entry.granted = Grant::default();
            if let Some(consumer) = self.membership.consumer() {
                consumer.withdraw(generation);
            }
        }
    }

    /// Tells the lane of a chunk, and which of its records are not to be handed out.
    fn pass_on(&mut self, now: Time, chunk: Chunk) {
        let subscription = &self.parts.subscription;
        let intake = &subscription.intake;
        let Some(entry) = self.lanes.touch(chunk.generation) else {
            return;
        };
        let findings = if intake.is_idle() {
            Vec::new()
        } else {
            sift::sift(intake, &chunk, &entry.partition, self.parts.wall.now_ms())
        };
        let keys: Vec<Option<u64>> = match subscription.policy.order {
            Order::Key { .. } => chunk.records.iter().map(|record| record.key).collect(),
            Order::None | Order::Lane { .. } => Vec::new(),
        };
        let runs = broker::runs(&chunk.records);
        entry.bodies.insert(chunk);
        let mut keys = keys.as_slice();
        let mut findings = findings.as_slice();
        for run in runs {
            let count = usize::try_from(run.len()).unwrap_or(usize::MAX);
            let (these, rest) = keys.split_at_checked(count).unwrap_or((keys, &[]));
            keys = rest;
            let run = Run {
                range: run,
                keys: these,
            };
            findings = self.tally.pass_run_on(now, entry, intake, &run, findings);
        }
    }
}

/// Adjacent records that exist.
struct Run<'a> {
    range: OffsetRange,
    /// One for each record, or none at all.
    keys: &'a [Option<u64>],
}

impl Run<'_> {
    /// Passes `part` of it on, with its keys.
    fn pass_on(&self, now: Time, entry: &mut Entry, part: OffsetRange) {
        let skipped = part.first().get() - self.range.first().get();
        let keys = usize::try_from(skipped)
            .ok()
            .and_then(|skipped| self.keys.get(skipped..))
            .unwrap_or_default();
        entry.lane.handle_fetched_keyed(now, part, keys);
    }
}

impl Tally {
    /// Tells the lane of a run in offset order: what is handed out, and what is not.
    /// Returns the findings that belong to later runs.
    fn pass_run_on<'a>(
        &mut self,
        now: Time,
        entry: &mut Entry,
        intake: &Intake,
        run: &Run<'_>,
        mut findings: &'a [(OffsetRange, Finding)],
    ) -> &'a [(OffsetRange, Finding)] {
        let mut rest = Some(run.range);
        while let Some(((range, finding), later)) = findings.split_first() {
            if range.first().position() >= run.range.end() {
                break;
            }
            // A finding may span runs, and offsets between them that do not exist.
            if let Some(part) = range.intersection(run.range) {
                if finding.takes_out() {
                    let before = rest.and_then(|rest| rest.below(part.first().position()));
                    if let Some(before) = before {
                        run.pass_on(now, entry, before);
                    }
                    rest = rest.and_then(|rest| rest.at_or_above(part.end()));
                }
                self.act(now, entry, intake, part, finding);
            }
            if range.end() > run.range.end() {
                break;
            }
            findings = later;
        }
        if let Some(rest) = rest {
            run.pass_on(now, entry, rest);
        }
        findings
    }

    fn act(
        &mut self,
        now: Time,
        entry: &mut Entry,
        intake: &Intake,
        range: OffsetRange,
        finding: &Finding,
    ) {
        let lane = &mut entry.lane;
        let (topic, partition) = (&entry.partition.topic, entry.partition.partition);
        let offset = range.first().get();
        match finding {
            Finding::Expired => {
                self.expire(now, entry, intake, None, range);
            }
            Finding::Filtered => self.counts.filtered += lane.handle_filtered(now, range),
            Finding::FilterFailed(failure) => {
                self.counts.filter_failures += 1;
                if let Some(count) = self.filter_failures.again(now) {
                    tracing::warn!(
                        %topic, partition, offset, count, %failure,
                        "the filter says nothing about a record: it goes on as if wanted"
                    );
                }
            }
            Finding::Unfit(route, check) => {
                let name = check.name();
                if let Some(count) = self.unfit.again(now) {
                    tracing::warn!(
                        %topic, partition, offset, count, check = name, ?route,
                        "a value is not what content.check says"
                    );
                }
                match route {
                    crate::config::OnFailure::Reject => {
                        lane.handle_unfit(now, range, Cause::Content);
                    }
                    crate::config::OnFailure::Skip => {
                        self.counts.content_skipped += lane.handle_filtered(now, range);
                    }
                    crate::config::OnFailure::Deliver => self.counts.content_delivered += 1,
                }
            }
        }
    }

    /// Takes what is too old of `range`, which is about to be handed out for the first
    /// time, out of the line. Whether there was any.
    pub(super) fn expire_before_hand_over(
        &mut self,
        now: Time,
        entry: &mut Entry,
        intake: &Intake,
        wall: &Wall,
        subscriber: Subscriber,
        range: OffsetRange,
    ) -> bool {
        let Some(max_age) = intake.max_age else {
            return false;
        };
        let wall = wall.now_ms();
        let mut old: Vec<OffsetRange> = Vec::new();
        for record in entry.bodies.within(range) {
            if is_too_old(record.timestamp_ms, wall, max_age) {
                sift::extend(&mut old, ackgate_lane::Offset::new(record.offset));
            }
        }
        old.into_iter()
            .map(|range| self.expire(now, entry, intake, Some(subscriber), range))
            .sum::<u64>()
            > 0
    }

    /// Takes `range` out of the line, as it comes in or as it was to go to a subscriber.
    fn expire(
        &mut self,
        now: Time,
        entry: &mut Entry,
        intake: &Intake,
        subscriber: Option<Subscriber>,
        range: OffsetRange,
    ) -> u64 {
        let Some(MaxAge { then, .. }) = intake.max_age else {
            return 0;
        };
        let lane = &mut entry.lane;
        let expired = match subscriber {
            None => lane.handle_expired_on_arrival(now, range, then),
            Some(subscriber) => lane.handle_expired(now, subscriber, range, then),
        };
        if expired > 0
            && let Some(count) = self.expired.again(now)
        {
            tracing::warn!(
                topic = %entry.partition.topic,
                partition = entry.partition.partition,
                offset = range.first().get(),
                count,
                "records are older than max_age before they are handed out"
            );
        }
        match then {
            OnExpired::Drop => self.counts.expired += expired,
            // Counted once it is stored.
            OnExpired::DeadLetter => {}
        }
        expired
    }

    /// A record that was given up for `cause` has settled.
    pub(super) fn given_up(&mut self, cause: Cause) {
        match cause {
            Cause::Content => self.counts.content_rejected += 1,
            Cause::Expired => self.counts.expired += 1,
            Cause::Rejected
            | Cause::AttemptsExhausted
            | Cause::DeliveriesExhausted
            | Cause::Oversize => {}
        }
    }
}

/// Whether a record of this timestamp is older than `max_age` allows.
fn is_too_old(timestamp_ms: i64, wall_ms: i64, max_age: MaxAge) -> bool {
    age(timestamp_ms, wall_ms).is_some_and(|age| age > max_age.age)
}

/// The age of a record; `None` if it has none.
fn age(timestamp_ms: i64, wall_ms: i64) -> Option<std::time::Duration> {
    let age = wall_ms.saturating_sub(timestamp_ms);
    (timestamp_ms > 0).then(|| {
        let millis = u64::try_from(age).unwrap_or_default();
        std::time::Duration::from_millis(millis)
    })
}
