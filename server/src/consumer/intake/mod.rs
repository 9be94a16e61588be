//! What stands between the consumer and a lane: a chunk passes through here before
//! the lane learns of it.
//!
//! ```text
//! chunk ─► gate (min_age, or the not-before of a redriven record) ─► sift (max_age, filter, content) ─► bodies, lane
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
mod retry;
mod sift;
mod wall;
mod wanted;

use ackgate_lane::{
    Cause, Generation, Offset, OffsetRange, OnExpired, Order, Position, Subscriber, Time,
};

use self::sift::{Fate, Sifted};
pub use self::wall::Wall;
pub(super) use self::{gate::Gate, retry::redriven, sift::decode};
use super::{
    counts::Counts,
    driver::Driver,
    lanes::{Entry, Grant},
    mutation,
};
use crate::{
    broker::{self, Chunk, RecordIndex},
    config::{Intake, MaxAge},
    telemetry::episode::Episode,
};

/// What the intake of a subscription remembers beside its lanes.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) counts: Counts,
    /// The subscription's name, for the log.
    name: String,
    /// What is told as an episode: one of each kind of finding.
    filter_failures: Episode<Time>,
    unfit: Episode<Time>,
    expired: Episode<Time>,
    pub(super) dropped: Episode<Time>,
    pub(super) parked: Episode<Time>,
    pub(super) oversize: Episode<Time>,
    pub(super) seek_failures: Episode<Time>,
    pub(super) cut_off: Episode<Time>,
    pub(super) join_failures: Episode<Time>,
}

impl Driver {
    /// Takes a chunk that follows what its lane has fetched.
    pub(super) fn take_in(&mut self, now: Time, chunk: Chunk) {
        let min_age = self.parts.subscription.intake.min_age;
        let generation = chunk.generation;
        let Some(entry) = self.lanes.touch(generation) else {
            return;
        };
        if entry.retry {
            // Its age is the original record's, who redrives it has decided that it counts.
            let not_before = retry::not_before(&chunk);
            entry.gate.hold_until(chunk, now, not_before);
        } else if min_age.is_zero() {
            self.pass_on(now, chunk);
            return;
        } else {
            entry.gate.hold(chunk, now);
        }
        self.open_gate(now, generation);
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
        if let Some(entry) = self.lanes.touch(generation) {
            entry.hear_of_log(now, None);
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
        let is_keyed = matches!(subscription.policy.order, Order::Key { .. });
        let first = chunk.records.first();
        entry.hear_of_log(now, first.map(|record| Position::new(record.offset)));
        if intake.is_idle() {
            tell(&chunk.records, is_keyed, |range, keys| {
                entry.lane.handle_fetched_keyed(now, range, keys);
            });
            entry.bodies.insert(chunk);
            return;
        }
        let of = sift::From {
            partition: &entry.partition,
            retry: entry.retry,
        };
        let sifted = sift::sift(intake, &chunk, of, self.parts.wall.now_ms());
        self.tally.note(now, entry, intake, &sifted);
        let mut told = 0;
        let records = &chunk.records;
        let end = (records.len()..records.len(), None);
        let fates = sifted
            .fates
            .into_iter()
            .map(|(run, fate)| (run, Some(fate)));
        for (run, fate) in fates.chain([end]) {
            // Those before it are handed out.
            let before = records.get(told..run.start).unwrap_or_default();
            tell(before, is_keyed, |range, keys| {
                entry.lane.handle_fetched_keyed(now, range, keys);
            });
            told = run.end;
            let concerned = records.get(run).unwrap_or_default();
            tell(concerned, is_keyed, |range, keys| {
                if let Some(fate) = fate {
                    self.tally.take_out(now, entry, intake, fate, (range, keys));
                }
            });
        }
        entry.bodies.insert(chunk);
    }
}

/// Calls `lane` with the runs of `records` and their keys, if these mean anything.
fn tell(
    records: &[RecordIndex],
    is_keyed: bool,
    mut lane: impl FnMut(OffsetRange, &[Option<u64>]),
) {
    let keys: Vec<Option<u64>> = if is_keyed {
        records.iter().map(|record| record.key).collect()
    } else {
        Vec::new()
    };
    let mut keys = keys.as_slice();
    for run in mutation::runs(broker::runs(records)) {
        let count = usize::try_from(run.len()).unwrap_or(usize::MAX);
        let (these, rest) = keys.split_at_checked(count).unwrap_or((keys, &[]));
        keys = rest;
        lane(run, these);
    }
}

impl Tally {
    pub(super) fn of(subscription: &str) -> Self {
        Self {
            name: subscription.to_owned(),
            ..Self::default()
        }
    }

    /// Counts and tells what is handed out although something is wrong with it.
    fn note(&mut self, now: Time, entry: &Entry, intake: &Intake, sifted: &Sifted) {
        let (topic, partition) = (&entry.partition.topic, entry.partition.partition);
        self.counts.filter_failures += sifted.failures;
        self.counts.content_delivered += sifted.delivered;
        let subscription = self.name.as_str();
        if let Some((offset, error)) = &sifted.failed
            && let Some(count) = self.filter_failures.again(now)
        {
            let total = self.counts.filter_failures;
            tracing::warn!(
                subscription, %topic, partition, offset, count, total, %error,
                "the filter says nothing about a record: it goes on as if wanted"
            );
        }
        if let (Some(offset), Some(content)) = (sifted.unfit, intake.content)
            && let Some(count) = self.unfit.again(now)
        {
            tracing::warn!(
                subscription, %topic, partition, offset, count,
                check = content.check.name(),
                on_failure = ?content.on_failure,
                "a value is not what content.check says"
            );
        }
    }

    /// Tells the lane of records that exist and are not to be handed out.
    fn take_out(
        &mut self,
        now: Time,
        entry: &mut Entry,
        intake: &Intake,
        fate: Fate,
        (range, keys): (OffsetRange, &[Option<u64>]),
    ) {
        let lane = &mut entry.lane;
        match fate {
            Fate::Filtered => self.counts.filtered += lane.handle_filtered(now, range),
            Fate::Skipped => self.counts.content_skipped += lane.handle_filtered(now, range),
            // Counted when it has settled.
            Fate::Rejected => {
                lane.handle_unfit(now, range, keys, Cause::Content);
            }
            Fate::Expired => {
                if let Some(MaxAge { then, .. }) = intake.max_age {
                    let expired = lane.handle_expired_on_arrival(now, range, keys, then);
                    self.expired(now, entry, range, then, expired);
                }
            }
        }
    }

    /// Takes what is too old of `range`, which is about to be handed out to `subscriber`
    /// for the first time, out of the line. Whether there was any.
    pub(super) fn expire_before_hand_over(
        &mut self,
        now: Time,
        entry: &mut Entry,
        intake: &Intake,
        wall: &Wall,
        (subscriber, range): (Subscriber, OffsetRange),
    ) -> bool {
        let Some(max_age) = intake.max_age.filter(|_| !entry.retry) else {
            return false;
        };
        let wall = wall.now_ms();
        let mut old: Vec<OffsetRange> = Vec::new();
        for record in entry.bodies.within(range) {
            if is_too_old(record.timestamp_ms, wall, max_age) {
                sift::extend(&mut old, Offset::new(record.offset));
            }
        }
        let mut any = false;
        for range in old {
            let then = max_age.then;
            let expired = entry.lane.handle_expired(now, subscriber, range, then);
            self.expired(now, entry, range, then, expired);
            any |= expired > 0;
        }
        any
    }

    fn expired(&mut self, now: Time, entry: &Entry, at: OffsetRange, then: OnExpired, count: u64) {
        if count == 0 {
            return;
        }
        match then {
            OnExpired::Drop => self.counts.expired += count,
            // Counted once it is stored.
            OnExpired::DeadLetter => {}
        }
        if let Some(count) = self.expired.again(now) {
            tracing::warn!(
                subscription = self.name,
                topic = %entry.partition.topic,
                partition = entry.partition.partition,
                offset = at.first().get(),
                count,
                "records are older than max_age before they are handed out"
            );
        }
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
pub(super) fn age(timestamp_ms: i64, wall_ms: i64) -> Option<std::time::Duration> {
    let age = wall_ms.saturating_sub(timestamp_ms);
    (timestamp_ms > 0).then(|| {
        let millis = u64::try_from(age).unwrap_or_default();
        std::time::Duration::from_millis(millis)
    })
}
