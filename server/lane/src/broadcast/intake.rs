//! What comes in from the log, and what of it is not for everybody.
//!
//! **Boundary**: the trunk takes records in; who gets them is decided in `pump`.

use super::Broadcast;
use crate::{Cause, OffsetRange, OnExpired, Order, Position, Subscriber, Time};

impl Broadcast {
    /// As [`Lane::handle_fetched`](crate::Lane::handle_fetched): the records are fanned out to the members that are
    /// there, or wait for the first.
    pub fn handle_fetched(&mut self, now: Time, range: OffsetRange) {
        self.trunk.handle_fetched(now, range);
        self.pump(now);
    }

    /// As [`Lane::handle_fetched_keyed`](crate::Lane::handle_fetched_keyed).
    pub fn handle_fetched_keyed(&mut self, now: Time, range: OffsetRange, keys: &[Option<u64>]) {
        if let Order::Key { .. } = self.policy.order {
            let with_key = (range.first().get()..).zip(keys);
            self.keys
                .extend(with_key.filter_map(|(offset, key)| Some((offset, (*key)?))));
        }
        self.handle_fetched(now, range);
    }

    /// As [`Lane::handle_end`](crate::Lane::handle_end).
    pub fn handle_end(&mut self, now: Time, position: Position) {
        self.trunk.handle_end(now, position);
        self.pump(now);
    }

    /// As [`Lane::handle_gone`](crate::Lane::handle_gone).
    pub fn handle_gone(&mut self, now: Time, oldest: Position) {
        self.trunk.handle_gone(now, oldest);
        self.pump(now);
    }

    /// Records of `range`, which exist, are wanted by nobody: they are received and
    /// settle, and no member hears of them. Returns how many.
    pub fn handle_filtered(&mut self, now: Time, range: OffsetRange) -> u64 {
        self.trunk.handle_fetched(now, range);
        let records = self.trunk.handle_filtered(now, range);
        self.pump(now);
        records
    }

    /// Records of `range`, which exist, are nothing that may be handed out: they are
    /// received and go the way of rejected records. Returns how many.
    pub fn handle_unfit(&mut self, now: Time, range: OffsetRange, cause: Cause) -> u64 {
        self.trunk.handle_fetched(now, range);
        let records = self.trunk.handle_unfit(now, range, cause);
        self.pump(now);
        records
    }

    /// Records of `range`, which exist, are too old already: they are received, and
    /// those that were never handed out never will be. Returns how many.
    pub fn handle_expired_on_arrival(
        &mut self,
        now: Time,
        range: OffsetRange,
        then: OnExpired,
    ) -> u64 {
        self.trunk.handle_fetched(now, range);
        let records = self.trunk.handle_expired(now, range, then);
        self.pump(now);
        records
    }

    /// As [`Lane::handle_expired`](crate::Lane::handle_expired), for records that were about to go to `subscriber`:
    /// it counts as having refused them, or acked them if they are dropped.
    pub fn handle_expired(
        &mut self,
        now: Time,
        subscriber: Subscriber,
        range: OffsetRange,
        then: OnExpired,
    ) -> u64 {
        let share = self.shares.get_mut(&subscriber);
        let records = share.map_or(0, |share| share.lane.handle_expired(now, range, then));
        self.pump(now);
        records
    }

    /// Records of `range`, ready for `subscriber`, are nothing that it wants: they count
    /// as acked by it, and the others get them. Returns how many. This is where a
    /// subscriber's own filter belongs: before a hand-over, from what
    /// [`Self::ready_for`] returned.
    pub fn handle_unwanted(
        &mut self,
        now: Time,
        subscriber: Subscriber,
        range: OffsetRange,
    ) -> u64 {
        let share = self.shares.get_mut(&subscriber);
        let records = share.map_or(0, |share| share.lane.handle_filtered(now, range));
        self.pump(now);
        records
    }

    /// The keys of `range`, one for each offset; empty unless order is by key.
    pub(super) fn keys_of(&self, range: OffsetRange) -> Vec<Option<u64>> {
        match self.policy.order {
            Order::Key { .. } => (range.first().get()..range.end().get())
                .map(|offset| self.keys.get(&offset).copied())
                .collect(),
            Order::None | Order::Lane { .. } => Vec::new(),
        }
    }

    pub(super) fn forget_keys(&mut self, range: OffsetRange) {
        if self.keys.is_empty() {
            return;
        }
        let mut above = self.keys.split_off(&range.first().get());
        above = above.split_off(&range.end().get());
        self.keys.append(&mut above);
    }
}
