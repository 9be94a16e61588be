//! Subscribers that make room for the next record of one lane.

use ackgate_lane::{Generation, Subscriber, Time};

use super::{Attached, Subscribers};

/// A subscriber that makes room for a lane's next record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reservation {
    lane: Generation,
    until: Time,
}

impl Attached {
    /// Whether it may take records of `lane`.
    pub(super) fn is_free_for(&self, lane: Generation) -> bool {
        self.reserved.is_none_or(|reserved| reserved.lane == lane)
    }
}

impl Subscribers {
    /// Lets `subscriber` take nothing but from `lane` until what is ready there fits:
    /// otherwise small records of other lanes would take up what becomes free, and a
    /// large one, or one that goes out alone, would wait for ever. That lasts as long
    /// as a verdict may take: by then what it has is answered or void, unless it is
    /// extended, and then it has to do with others for as long.
    ///
    /// Says whether it does that now.
    pub(in crate::consumer) fn reserve(
        &mut self,
        now: Time,
        subscriber: Subscriber,
        lane: Generation,
    ) -> bool {
        let may = |a: &&mut Attached| a.reserved.is_none() && a.reservable <= now;
        let attached = self.attached.get_mut(&subscriber).filter(may);
        attached.is_some_and(|attached| {
            let until = now.after(attached.ack_deadline);
            attached.reserved = Some(Reservation { lane, until });
            true
        })
    }

    /// Whether somebody makes room for `lane`: of several that could take a record one
    /// is enough.
    pub(in crate::consumer) fn is_any_reserved_for(&self, lane: Generation) -> bool {
        let mut reserved = self.attached.values().filter_map(|a| a.reserved);
        reserved.any(|reservation| reservation.lane == lane)
    }

    /// `subscriber` makes no room for `lane` any more.
    pub(in crate::consumer) fn release(&mut self, subscriber: Subscriber, lane: Generation) {
        if let Some(attached) = self.attached.get_mut(&subscriber)
            && attached.reserved.is_some_and(|r| r.lane == lane)
        {
            attached.reserved = None;
        }
    }

    /// Nobody makes room for `lane` any more.
    pub(in crate::consumer) fn release_from(&mut self, lane: Generation) {
        for attached in self.attached.values_mut() {
            if attached.reserved.is_some_and(|r| r.lane == lane) {
                attached.reserved = None;
            }
        }
    }

    /// Ends reservations that have lasted too long.
    pub(in crate::consumer) fn end_reservations(&mut self, now: Time) {
        for attached in self.attached.values_mut() {
            if attached.reserved.is_some_and(|r| r.until <= now) {
                attached.reserved = None;
                attached.reservable = now.after(attached.ack_deadline);
            }
        }
    }

    /// When the next reservation ends by itself.
    pub(in crate::consumer) fn next_reservation_end(&self) -> Option<Time> {
        let reserved = self.attached.values().filter_map(|a| a.reserved);
        reserved.map(|reservation| reservation.until).min()
    }
}
