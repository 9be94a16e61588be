//! [`Lease`]: one subscriber's right to a lane, for as long as it is heard of.
//!
//! Where a lane belongs to one subscriber at a time, this says to whom and until when;
//! who gets it next is its owner's choice. It knows no records.
//!
//! **Invariant**: a lease has one holder at most, and its end is an absolute time that
//! never moves to an earlier one while it is held.

use crate::{Subscriber, Time};

/// Who may take the records of a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lease {
    held: Option<Held>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    by: Subscriber,
    until: Time,
    /// It gets nothing new and goes once nothing is out.
    leaving: bool,
}

impl Lease {
    /// Gives the lease to `to` until `until`; `false` if somebody has it.
    #[must_use]
    pub const fn grant(&mut self, to: Subscriber, until: Time) -> bool {
        if self.held.is_some() {
            return false;
        }
        self.held = Some(Held {
            by: to,
            until,
            leaving: false,
        });
        true
    }

    /// `by` has been heard of: its lease runs until `until`, if that is later. A
    /// stranger's sign of life changes nothing.
    pub fn keep(&mut self, by: Subscriber, until: Time) {
        if let Some(held) = &mut self.held
            && held.by == by
        {
            held.until = held.until.max(until);
        }
    }

    /// Whether the holder is to go as soon as it has answered what it has. Meanwhile
    /// it gets nothing new.
    pub const fn set_leaving(&mut self, leaving: bool) {
        if let Some(held) = &mut self.held {
            held.leaving = leaving;
        }
    }

    /// Ends the lease, whatever time is left. Returns whose it was.
    pub fn end(&mut self) -> Option<Subscriber> {
        self.held.take().map(|held| held.by)
    }

    /// Ends the lease if its time is over. Returns whose it was.
    pub fn lapse(&mut self, now: Time) -> Option<Subscriber> {
        self.held.filter(|held| held.until <= now)?;
        self.end()
    }

    /// Whether `subscriber` may be given records now.
    #[must_use]
    pub fn may_take(&self, subscriber: Subscriber) -> bool {
        self.held
            .is_some_and(|held| held.by == subscriber && !held.leaving)
    }

    /// Whose it is.
    #[must_use]
    pub fn holder(&self) -> Option<Subscriber> {
        self.held.map(|held| held.by)
    }

    /// Whether the holder is to go.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.held.is_some_and(|held| held.leaving)
    }

    /// When it lapses unless its holder is heard of.
    #[must_use]
    pub fn until(&self) -> Option<Time> {
        self.held.map(|held| held.until)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const ONE: Subscriber = Subscriber(1);
    const TWO: Subscriber = Subscriber(2);

    fn at(seconds: u64) -> Time {
        Time(Duration::from_secs(seconds))
    }

    #[test]
    fn lease_has_one_holder_until_it_lapses() {
        let mut lease = Lease::default();
        assert!(!lease.may_take(ONE));
        assert!(lease.grant(ONE, at(30)));
        assert!(!lease.grant(TWO, at(90)), "it is taken");
        assert!(lease.may_take(ONE) && !lease.may_take(TWO));
        assert_eq!(lease.lapse(at(29)), None);
        assert_eq!(lease.lapse(at(30)), Some(ONE));
        assert!(!lease.may_take(ONE));
        assert!(lease.grant(TWO, at(90)));
    }

    #[test]
    fn only_the_holder_keeps_it_and_never_shortens_it() {
        let mut lease = Lease::default();
        assert!(lease.grant(ONE, at(30)));
        lease.keep(TWO, at(99));
        assert_eq!(lease.until(), Some(at(30)));
        lease.keep(ONE, at(40));
        lease.keep(ONE, at(35));
        assert_eq!(lease.until(), Some(at(40)));
    }

    #[test]
    fn leaving_holder_gets_nothing_new_and_keeps_what_it_has() {
        let mut lease = Lease::default();
        assert!(lease.grant(ONE, at(30)));
        lease.set_leaving(true);
        assert!(!lease.may_take(ONE));
        assert_eq!(lease.holder(), Some(ONE));
        lease.set_leaving(false);
        assert!(lease.may_take(ONE));
    }

    #[test]
    fn ending_twice_does_no_harm() {
        let mut lease = Lease::default();
        assert!(lease.grant(ONE, at(30)));
        assert_eq!(lease.end(), Some(ONE));
        assert_eq!(lease.end(), None);
        assert_eq!(lease.lapse(at(99)), None);
    }
}
