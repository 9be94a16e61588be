//! How sessions end, and what becomes of a subscriber whose stream broke: what is out
//! waits for it for a while, then it is lost.

use ackgate_lane::{Subscriber, Time};

use super::{
    driver::Driver,
    handle::{Departure, End, Outbound},
    opening::Session,
    tell::tell_of_session,
};
use crate::telemetry::logs::millis;

impl Driver {
    /// The session has ended. One that was cut off, refused or superseded is not known
    /// any more: nothing follows.
    pub(super) fn depart(&mut self, session: Session, how: Departure) {
        let Some(subscriber) = self.subscribers.of(session) else {
            return;
        };
        let Some(attached) = self.subscribers.get(subscriber) else {
            return;
        };
        let name = std::sync::Arc::clone(&attached.name);
        let pulls = attached.pulls;
        self.durable.forget(subscriber);
        match how {
            Departure::Closed => {
                self.take_back(subscriber, how);
                tell_of_session!(pulls, self;
                    subscriber = %name,
                    session = session.0,
                    "subscriber closed"
                );
                if let Some(attached) = self.subscribers.detach(subscriber) {
                    // If the outbox is full the session ends when it is dropped here.
                    let _full = attached.send(Outbound::End(End::Closed));
                }
            }
            Departure::Lost if self.may_come_back(subscriber) => {
                let grace = self.parts.subscription.resume_grace;
                tell_of_session!(pulls, self;
                    subscriber = %name,
                    session = session.0,
                    grace_ms = millis(grace),
                    "subscriber lost: what is out waits for it"
                );
                let now = self.now();
                let until = now.after(grace);
                self.subscribers.leave(subscriber, Some(until), until);
                self.give_up_keys(now, subscriber);
            }
            Departure::Lost => {
                let known_until = self.take_back(subscriber, how);
                tell_of_session!(pulls, self;
                    subscriber = %name,
                    session = session.0,
                    "subscriber lost"
                );
                self.subscribers.end(subscriber, known_until);
            }
        }
        self.leases_moved = true;
    }

    /// Whether anything would wait for a subscriber whose stream broke.
    fn may_come_back(&self, subscriber: Subscriber) -> bool {
        let holds = |subscriber| {
            self.subscribers.has_out(subscriber)
                || self.lanes.leased_to(subscriber).next().is_some()
        };
        self.stopping.is_none()
            && !self.parts.subscription.resume_grace.is_zero()
            && self.subscribers.is_resumable(subscriber)
            && holds(subscriber)
    }

    /// Ends the session of a subscriber that harms others: what is out comes again.
    pub(super) fn cut_off(&mut self, subscriber: Subscriber, why: End) {
        self.durable.forget(subscriber);
        let known_until = self.take_back(subscriber, Departure::Lost);
        if let Some(mut attached) = self.subscribers.end(subscriber, known_until) {
            let (subscription, subscriber) = (&self.parts.subscription.name, &attached.name);
            let reason = why.word();
            tracing::debug!(subscription, %subscriber, reason, "subscriber is cut off");
            let now = self.now();
            if let Some(count) = self.tally.cut_off.again(now) {
                tracing::warn!(
                    subscription, %subscriber, reason, count,
                    "subscribers are cut off"
                );
            }
            attached.cut(why);
        }
        self.leases_moved = true;
    }

    /// Gives up waiting for those whose time is over, or for all of them.
    pub(super) fn end_absences(&mut self, now: Time, all: bool) {
        for subscriber in self.subscribers.overdue(now, all) {
            // What was out may have expired meanwhile.
            if self.subscribers.owes(subscriber) {
                tracing::info!(
                    subscription = self.parts.subscription.name,
                    subscriber = %self.name(subscriber),
                    "subscriber did not come back: what is out is delivered again"
                );
            }
            let known_until = self.take_back(subscriber, Departure::Lost);
            self.subscribers.give_up(subscriber, known_until);
            self.leases_moved = true;
        }
        self.subscribers.forget_absent(now);
    }
}
