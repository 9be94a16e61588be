//! Sessions that end soon although the gateway goes on: the connection is too old.
//!
//! **Invariant**: nothing new goes out to such a session, and its verdicts count until it
//! ends. It ends when its time is over, or when nothing has been out to it for a moment,
//! so that a subscriber which says goodbye by itself is not cut short. What is out then
//! is lost as with a broken stream: it waits for who can come back, and goes to others.

use std::time::Duration;

use super::{
    driver::Driver,
    handle::{Departure, DrainReason, End, Outbound},
    opening::Session,
};
use ackgate_lane::Time;

impl Driver {
    /// Tells a session that it ends within `grace`. In a stop it knows already.
    pub(super) fn drain_session(&mut self, session: Session, grace: Duration) {
        let Some(subscriber) = self.subscribers.of(session) else {
            return;
        };
        if self.stopping.is_some() {
            return;
        }
        let now = self.now();
        if !self.subscribers.begin_leaving(subscriber, now.after(grace)) {
            return;
        }
        let told = Outbound::Drain(grace, DrainReason::ConnectionAge);
        let _missed = self.subscribers.inform(subscriber, told);
        self.give_up_keys(now, subscriber);
        self.leases_moved = true;
    }

    /// Ends the sessions whose time is over, or that have nothing left to say.
    pub(super) fn end_leaving(&mut self, now: Time) {
        if self.stopping.is_some() {
            return;
        }
        for subscriber in self.subscribers.leaving() {
            let owed = self.durable.owes(subscriber);
            if !self.subscribers.is_goodbye_due(subscriber, now, owed) {
                continue;
            }
            let Some(session) = self.subscribers.get(subscriber).map(|it| it.session) else {
                continue;
            };
            tracing::info!(
                subscription = self.parts.subscription.name,
                subscriber = %self.name(subscriber),
                session = session.0,
                "session ends: its connection is too old"
            );
            self.subscribers.say_last(subscriber, End::ConnectionAged);
            self.depart(session, Departure::Lost);
        }
    }
}
