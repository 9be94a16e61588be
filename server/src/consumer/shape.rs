//! When a batch is worth handing out: a subscriber may ask that records wait for each
//! other.
//!
//! **Invariant**: no record waits longer than the subscriber's linger from when it could
//! first have been handed to it, and none waits that nothing could join.

use ackgate_lane::{Generation, OffsetRange, Ready, Subscriber, Time};

use super::{
    bodies::{Bodies, Size},
    driver::Driver,
    lanes::Entry,
    subscribers::{Allowance, MAX_RUNS},
};
use crate::config::Batch;

/// Batches that wait.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// When the first of those that the last look left waiting must go.
    due: Option<Time>,
}

impl Waits {
    /// A new look at all lanes begins.
    pub(super) const fn begin(&mut self) {
        self.due = None;
    }

    /// When to look again without anything having happened.
    pub(super) const fn due(&self) -> Option<Time> {
        self.due
    }
}

impl Driver {
    /// Whether `to` is better served by waiting for a fuller batch of the lane, whose
    /// `first` run it could have now.
    pub(super) fn waits_for_more(
        &mut self,
        now: Time,
        generation: Generation,
        first: &Ready,
        to: &Allowance,
    ) -> bool {
        let Some(attached) = self.subscribers.get(to.subscriber) else {
            return false;
        };
        let (shape, until_drained) = (attached.batch, attached.until_drained);
        // The default, and a look at nothing else.
        if shape.linger.is_zero() || first.alone {
            return false;
        }
        let Some(entry) = self.lanes.get_mut(generation) else {
            return false;
        };
        if !can_grow(entry) || (until_drained && entry.at_end.is_some()) {
            return false;
        }
        let since = entry.waiting_since(now, to.subscriber);
        let due = since.after(shape.linger);
        if due <= now || is_full_enough(entry, &shape, to) {
            return false;
        }
        self.waits.due = Some(self.waits.due.map_or(due, |before| before.min(due)));
        true
    }
}

impl Entry {
    /// Since when something has been ready for `subscriber`: now, if nothing was before.
    fn waiting_since(&mut self, now: Time, subscriber: Subscriber) -> Time {
        *self.waiting.entry(subscriber).or_insert(now)
    }
}

/// Whether records may come that would join what is ready: there is room in the window
/// and the consumer may fetch.
fn can_grow(entry: &Entry) -> bool {
    entry.lane.room() > 0 && entry.granted.records > 0 && entry.granted.bytes > 0
}

/// Whether what is ready fills the asked part of a batch, or as much of it as the
/// credit allows.
fn is_full_enough(entry: &Entry, shape: &Batch, to: &Allowance) -> bool {
    let records = part_of(u64::from(shape.max_records), shape.min_fill).min(to.records);
    let bytes = part_of(shape.max_bytes, shape.min_fill).min(to.bytes);
    let runs = entry.lane.ready_runs(to.subscriber).take(MAX_RUNS);
    let (count, ready) = total(&entry.bodies, runs, records);
    count >= MAX_RUNS || ready.records >= records || ready.bytes >= bytes
}

/// Runs, and what they hold, until there are `enough` records.
fn total(bodies: &Bodies, runs: impl Iterator<Item = OffsetRange>, enough: u64) -> (usize, Size) {
    let (mut count, mut total) = (0, Size::default());
    for run in runs {
        let size = bodies.size(run);
        count += 1;
        total.records += size.records;
        total.bytes += size.bytes;
        if total.records >= enough {
            break;
        }
    }
    (count, total)
}

/// `part` of `limit`, at least 1.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "limits are below 2^25 and parts between 0 and 1"
)]
fn part_of(limit: u64, part: f64) -> u64 {
    ((limit as f64 * part).ceil() as u64).clamp(1, limit.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_of_a_limit_is_rounded_up_and_never_nothing() {
        assert_eq!(part_of(10, 1.0), 10);
        assert_eq!(part_of(10, 0.25), 3);
        assert_eq!(part_of(1, 0.01), 1);
        assert_eq!(part_of(16 << 20, 1.0), 16 << 20);
    }
}
