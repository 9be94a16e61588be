//! What a broadcast lane shows of itself.

use super::{Broadcast, share::Share};
use crate::{
    Epoch, Generation, Hold, Lane, Offset, Position, Ready, Snapshot, Stop, Subscriber, Time,
};

impl Broadcast {
    /// The next run to hand out to `subscriber`, if there is one.
    #[must_use]
    pub fn ready_for(&self, subscriber: Subscriber) -> Option<Ready> {
        self.shares
            .get(&subscriber)
            .filter(|share| share.is_here() && !self.is_stopped())
            .and_then(|share| share.lane.ready_for(subscriber))
    }

    /// As [`Lane::owes`](crate::Lane::owes): what others owe does not count, but what
    /// has still to be fanned out does.
    #[must_use]
    pub fn owes(&self, subscriber: Subscriber) -> bool {
        self.share_of(subscriber)
            .is_some_and(|share| share.owes(subscriber) || self.trunk.window.has_ready())
    }

    /// The lane of a subscriber that is here.
    pub(crate) fn share_of(&self, subscriber: Subscriber) -> Option<&Lane> {
        let share = self.shares.get(&subscriber)?;
        share.is_here().then_some(&share.lane)
    }

    /// Whether something may be handed out, to whomever.
    #[must_use]
    pub fn has_ready(&self) -> bool {
        !self.is_stopped()
            && self
                .shares
                .values()
                .any(|share| share.is_here() && share.lane.has_ready())
    }

    /// As [`Lane::oldest_out`](crate::Lane::oldest_out), over all subscribers.
    #[must_use]
    pub fn oldest_out(&self) -> Option<(Offset, Subscriber, Time)> {
        let shares = self.shares.values();
        let out = shares.filter_map(|share| share.lane.oldest_out());
        out.min_by_key(|(offset, _, sent)| (*sent, *offset))
    }

    /// As [`Lane::stop`](crate::Lane::stop).
    #[must_use]
    pub fn stop(&self) -> Option<Stop> {
        self.trunk.stop()
    }

    /// What has been fanned out waits too while the trunk hands nothing out.
    pub(crate) const fn is_stopped(&self) -> bool {
        self.trunk.is_stopped()
    }

    /// Whether a drain has begun, or ended.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.trunk.is_draining()
    }

    /// Whether a drain has ended.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.trunk.is_done()
    }

    /// How many more records may be fetched now, within the window.
    #[must_use]
    pub fn room(&self) -> u32 {
        self.trunk.room()
    }

    /// The floor, as [`Lane::floor`](crate::Lane::floor): where the slowest stands.
    #[must_use]
    pub fn floor(&self) -> Option<Position> {
        self.trunk.floor()
    }

    /// The lane as operators see it. Deliveries are counted for each subscriber.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = self.trunk.snapshot();
        let counts = self.shares.values().map(|share| share.lane.window.counts());
        (snapshot.in_flight, snapshot.delayed) = counts.fold((0, 0), |(out, delayed), counts| {
            (out + counts.in_flight, delayed + counts.delayed)
        });
        snapshot.hold = snapshot.hold.or_else(|| self.hold(&snapshot));
        snapshot
    }

    fn hold(&self, snapshot: &Snapshot) -> Option<Hold> {
        let floor = snapshot.floor?;
        let offset = floor.offset();
        if let Some((subscriber, until)) = self.awaited(floor) {
            return Some(Hold::Subscriber {
                offset,
                subscriber,
                until,
            });
        }
        let owes = |share: &&Share| share.owes(offset);
        self.shares
            .values()
            .filter(owes)
            .find_map(|share| share.lane.hold())
    }

    /// When to call [`Self::handle_timeout`] next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        [self.trunk.poll_timeout(), self.members_due()]
            .into_iter()
            .flatten()
            .min()
    }

    /// The assignment that this lane is.
    #[must_use]
    pub const fn generation(&self) -> Generation {
        self.trunk.generation()
    }

    /// The history that this lane belongs to.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.trunk.epoch()
    }

    /// How many things the lane remembers one by one: its memory, up to a factor.
    #[doc(hidden)]
    #[must_use]
    pub fn tracked(&self) -> usize {
        let shares = self.shares.values();
        let of = |share: &Share| share.lane.tracked() + share.refused.len() + 1;
        self.trunk.tracked() + self.tally.len() + shares.map(of).sum::<usize>()
    }
}
