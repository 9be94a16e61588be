//! Sessions that end once there is nothing left for them.
//!
//! **Invariant**: such a session ends only when every lane here has been read to the end
//! of its log since it began to take records, nothing is ready, delayed or out that
//! could still be its own, and every confirmation that it asked for has been given. What
//! cannot be read, and what may still come with a rebalance, is not nothing.

use std::time::Duration;

use ackgate_lane::{Subscriber, Time};

use super::{
    driver::Driver,
    handle::{Departure, End},
};

/// An end that was reached before the session began counts after this long without a
/// record: the consumer fetches ahead, so what was written meanwhile has come by then.
pub(super) const LOOKS_AGAIN: Duration = Duration::from_secs(1);

/// An assignment without lanes counts after this long. The first of a member that joins
/// others is empty, and is followed by another at once.
const EMPTY_COUNTS: Duration = Duration::from_secs(5);

/// When a subscriber began to take records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taking {
    pub(super) since: Time,
    /// The last look at an end before.
    pub(super) look: u64,
}

impl Driver {
    /// A subscriber that begins now.
    pub(super) fn taking(&self) -> Taking {
        Taking {
            since: self.now(),
            look: self.looks,
        }
    }

    /// Ends the sessions that nothing is left for.
    pub(super) fn end_drained(&mut self, now: Time) {
        if self.stopping.is_some() || !self.is_assignment_settled(now) {
            return;
        }
        for subscriber in self.subscribers.until_drained() {
            if self.is_drained(now, subscriber) {
                // Nothing is out to it; the goodbye commits what has settled at once.
                self.take_back(subscriber, Departure::Closed);
                let session = self.subscribers.get(subscriber).map(|it| it.session.0);
                tracing::info!(
                    subscription = self.parts.subscription.name,
                    subscriber = %self.name(subscriber),
                    session,
                    "subscriber drained: nothing is left for it"
                );
                self.end(subscriber, End::Drained);
                // L13: it may have been the last.
                self.follow_eligibility(now);
            }
        }
    }

    /// When a session may end without anything happening before.
    pub(super) fn next_drained(&self) -> Option<Time> {
        let now = self.now();
        let looks = self.subscribers.until_drained().into_iter();
        let looks = looks.filter_map(|it| {
            let taking = self.subscribers.get(it)?.taking?;
            Some(taking.since.after(LOOKS_AGAIN))
        });
        let empty = self
            .empty_counts_at()
            .filter(|_| self.subscribers.any_until_drained());
        looks.chain(empty).filter(|at| *at > now).min()
    }

    pub(super) fn empty_counts_at(&self) -> Option<Time> {
        let assigned = self.membership.assigned?;
        (self.lanes.len() == 0).then(|| assigned.after(EMPTY_COUNTS))
    }

    /// Whether what is assigned is all that is to be expected.
    pub(super) fn is_assignment_settled(&self, now: Time) -> bool {
        self.membership.assigned.is_some()
            && self.revokes.is_empty()
            && self.empty_counts_at().is_none_or(|at| at <= now)
    }

    fn is_drained(&self, now: Time, subscriber: Subscriber) -> bool {
        let Some(taking) = self.subscribers.get(subscriber).and_then(|it| it.taking) else {
            return false;
        };
        if self.durable.owes(subscriber) {
            return false;
        }
        let looked_again = taking.since.after(LOOKS_AGAIN) <= now;
        self.lanes.all().all(|entry| {
            let read = entry
                .at_end
                .is_some_and(|look| look > taking.look || looked_again);
            read && !entry.failed
                && entry.gate.is_empty()
                && !entry.lane.is_draining()
                && !entry.lane.owes(subscriber)
        })
    }
}
