//! Lanes that belong to one subscriber at a time: who gets which, and when one moves.
//!
//! **Invariant**: a lane moves only when nothing of it is out, or when what is out is
//! void; each lease has a lane number of its own, so what is said under an earlier one
//! is fenced. Whether and until when a lease holds is the lane crate's to say.

mod plan;

use ackgate_lane::{Generation, Subscriber, Time};

use self::plan::{Move, Seat};
use super::{
    arrival::standby,
    driver::Driver,
    handle::{NoticeKind, Outbound},
    inputs::notice,
    lanes::Grant,
    tell::tell,
};
use crate::telemetry::logs::millis;

impl Driver {
    /// `subscriber` has been heard of: its leases go on. They are looked at when they
    /// would lapse, so a sign of life costs next to nothing.
    pub(super) fn sign_of_life(&mut self, subscriber: Subscriber) {
        let now = self.now();
        let silence = self.subscribers.hear(subscriber, now);
        if let Some(lease) = self.parts.subscription.lane_lease()
            && silence >= lease.duration
        {
            self.leases_moved = true;
        }
    }

    /// Ends the lane's lease if its holder was not heard of for too long: what is out
    /// is void, as if the holder were lost.
    pub(super) fn lapse_lease(&mut self, now: Time, generation: Generation) {
        let Some(terms) = self.parts.subscription.lane_lease() else {
            return;
        };
        let holder = self
            .lanes
            .get(generation)
            .and_then(|entry| entry.lease?.holder());
        let heard = holder.and_then(|holder| self.subscribers.heard(holder));
        let lease = self
            .lanes
            .get_mut(generation)
            .and_then(|entry| entry.lease.as_mut());
        let (Some(holder), Some(lease)) = (holder, lease) else {
            return;
        };
        if let Some(heard) = heard {
            lease.keep(holder, heard.after(terms.duration));
        }
        if lease.lapse(now).is_none() {
            return;
        }
        tracing::warn!(
            subscription = self.parts.subscription.name,
            subscriber = %self.name(holder),
            lease_ms = millis(terms.duration),
            "nothing heard of the subscriber: its lease of the lane lapses"
        );
        if let Some(entry) = self.lanes.touch(generation) {
            entry.lane.handle_subscriber_lost(now, holder);
        }
        self.lease_ended(
            generation,
            holder,
            "the lease lapsed: nothing was heard of its holder",
        );
    }

    /// Ends all leases of a subscriber that has gone, or whose place was taken.
    pub(super) fn end_leases_of(&mut self, subscriber: Subscriber) {
        let leased: Vec<Generation> = self.lanes.leased_to(subscriber).collect();
        for generation in leased {
            self.end_lease(
                generation,
                subscriber,
                "the lease ended with its holder's stream",
            );
        }
    }

    fn end_lease(&mut self, generation: Generation, holder: Subscriber, why: &str) {
        let entry = self.lanes.get_mut(generation);
        if let Some(lease) = entry.and_then(|entry| entry.lease.as_mut()) {
            lease.end();
            self.lease_ended(generation, holder, why);
        }
    }

    /// Tells the former holder under the number that it knows, which is void from here on.
    fn lease_ended(&mut self, generation: Generation, holder: Subscriber, why: &str) {
        if let Some(entry) = self.lanes.touch(generation) {
            let news = standby(entry.label(), why);
            let _missed = self.subscribers.inform(holder, news);
        }
        self.lanes.renumber(generation);
        self.leases_moved = true;
    }

    /// A holder that is to go has answered the last that was out to it.
    pub(super) fn see_lease_answered(&mut self, generation: Generation) {
        if let Some(entry) = self.lanes.get(generation)
            && entry.lease.is_some_and(|lease| lease.is_leaving())
            && entry.lane.snapshot().in_flight == 0
        {
            self.leases_moved = true;
        }
    }

    /// Gives lanes to whom they are due, if anything has happened since the last time.
    pub(super) fn spread_leases(&mut self, now: Time) {
        if !std::mem::take(&mut self.leases_moved) || self.stopping.is_some() {
            return;
        }
        let Some(terms) = self.parts.subscription.lane_lease() else {
            return;
        };
        let lanes = self.lanes.leasable();
        let seats: Vec<Seat> = lanes
            .iter()
            .filter_map(|generation| {
                let entry = self.lanes.get(*generation)?;
                let lease = entry.lease?;
                Some(Seat {
                    holder: lease.holder(),
                    is_awaited: lease
                        .holder()
                        .is_some_and(|s| self.subscribers.is_awaited(s)),
                    is_busy: entry.lane.snapshot().in_flight > 0,
                    is_leaving: lease.is_leaving(),
                })
            })
            .collect();
        let lively = self.subscribers.lively(now, terms.duration);
        let moves = plan::plan(&seats, &lively);
        for (generation, step) in lanes.into_iter().zip(moves) {
            self.move_lease(now, generation, step);
        }
    }

    fn move_lease(&mut self, now: Time, generation: Generation, step: Move) {
        let Some(lease) = self
            .lanes
            .get_mut(generation)
            .and_then(|entry| entry.lease.as_mut())
        else {
            return;
        };
        match step {
            Move::Stay => lease.set_leaving(false),
            Move::Leave => lease.set_leaving(true),
            Move::Free | Move::To(_) => {
                if let Some(holder) = lease.holder() {
                    self.end_lease(generation, holder, "the lane goes to another subscriber");
                    // This is that move.
                    self.leases_moved = false;
                }
                match step {
                    Move::To(subscriber) => self.grant_lease(now, generation, subscriber),
                    Move::Free | Move::Stay | Move::Leave => self.withdraw(generation),
                }
            }
        }
    }

    fn grant_lease(&mut self, now: Time, generation: Generation, to: Subscriber) {
        let (Some(terms), Some(heard)) = (
            self.parts.subscription.lane_lease(),
            self.subscribers.heard(to),
        ) else {
            return;
        };
        let name = self.name(to);
        let Some(entry) = self.lanes.touch(generation) else {
            return;
        };
        let until = heard.after(terms.duration).max(now);
        if !entry
            .lease
            .as_mut()
            .is_some_and(|lease| lease.grant(to, until))
        {
            return;
        }
        tell!(info, self, entry;
            subscriber = %name,
            "lane leased"
        );
        let label = entry.label();
        let leased = Outbound::Lane(notice(label.clone(), NoticeKind::Leased, None, ""));
        for other in self.subscribers.ids() {
            let news = if other == to {
                leased.clone()
            } else {
                standby(label.clone(), "")
            };
            let _missed = self.subscribers.inform(other, news);
        }
    }

    /// **L13**: nothing is fetched for nobody.
    fn withdraw(&mut self, generation: Generation) {
        let Some(entry) = self.lanes.touch(generation) else {
            return;
        };
        if entry.granted == Grant::default() {
            return;
        }
        entry.granted = Grant::default();
        if let Some(consumer) = self.membership.consumer() {
            consumer.withdraw(generation);
        }
    }

    /// Tells a newcomer which lanes are others'.
    pub(super) fn tell_of_leases(&self, subscriber: Subscriber) {
        for generation in self.lanes.leasable() {
            let entry = self.lanes.get(generation);
            let Some((entry, holder)) =
                entry.and_then(|entry| Some((entry, entry.lease?.holder()?)))
            else {
                continue;
            };
            let news = if holder == subscriber {
                Outbound::Lane(notice(entry.label(), NoticeKind::Leased, None, ""))
            } else {
                standby(entry.label(), "")
            };
            let _missed = self.subscribers.inform(subscriber, news);
        }
    }
}
