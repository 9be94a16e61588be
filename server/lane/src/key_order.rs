//! Key order: one record of a key at a time, in the order of the log.
//!
//! **Invariant L9**: a record is ready or out only while every earlier record of its
//! key is settled. A key stays with the subscriber that got a record of it until all
//! records of it are settled, or that subscriber gives it up: by a release, an expiry, a
//! pause or by going away.

use crate::{
    Lane, Offset, OffsetRange, Order, Position, Subscriber, Time,
    keys::Keys,
    lane::Phase,
    slot::{Slot, State},
};

impl Order {
    /// The empty index of keys for a window of `records`.
    pub(crate) fn keys(self, records: u32) -> Keys {
        Keys::new(match self {
            Self::Key { share } => (u64::from(records) * u64::from(share) / 1000).max(1),
            Self::None | Self::Lane { .. } => u64::MAX,
        })
    }
}

/// The keys of records that come in, one for each offset from the first on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming<'a> {
    first: u64,
    keys: &'a [Option<u64>],
}

impl<'a> Incoming<'a> {
    /// The keys of the records from `first` on; those beyond `keys` have none.
    pub(crate) const fn new(first: Offset, keys: &'a [Option<u64>]) -> Self {
        Self {
            first: first.get(),
            keys,
        }
    }

    fn of(self, offset: u64) -> Option<u64> {
        let at = usize::try_from(offset.checked_sub(self.first)?).ok()?;
        self.keys.get(at).copied().flatten()
    }
}

impl Lane {
    /// Takes records as [`Self::handle_fetched`] does, and in key order the number of
    /// each one's key: one for each offset of `range`, `None` for a null key, which is
    /// no key. Equal keys have equal numbers; different keys that share one are kept in
    /// order with each other. In other orders the keys mean nothing.
    pub fn handle_fetched_keyed(&mut self, now: Time, range: OffsetRange, keys: &[Option<u64>]) {
        let keys = match self.policy.order {
            Order::Key { .. } => keys,
            Order::None | Order::Lane { .. } => &[],
        };
        self.fetch(now, range, Incoming::new(range.first(), keys));
    }

    /// `subscriber` takes nothing for now: what is out stays out, but its keys may go
    /// to others.
    pub fn handle_subscriber_paused(&mut self, now: Time, subscriber: Subscriber) {
        if self.phase == Phase::Done {
            return;
        }
        self.give_up_keys(subscriber);
        self.end_turn(now);
    }

    /// Calls `first` with the parts of `piece`, just come in, that may go out, and lets
    /// those wait whose key has an unsettled record before them.
    pub(crate) fn line_up(
        &mut self,
        piece: OffsetRange,
        slot: Slot,
        incoming: Incoming<'_>,
        mut first: impl FnMut(&mut Self, OffsetRange),
    ) {
        if incoming.keys.is_empty() {
            return first(self, piece);
        }
        let mut is_first = Vec::with_capacity(incoming.keys.len().min(1024));
        for offset in piece.first().get()..piece.end().get() {
            let key = incoming.of(offset);
            is_first.push(key.is_none_or(|key| self.keys.add(offset, key)));
        }
        let mut from = piece.first().get();
        for run in is_first.chunk_by(PartialEq::eq) {
            let end = from + run.len() as u64;
            if let Some(part) = OffsetRange::new(Offset::new(from), Position::new(end)) {
                if run.first() == Some(&true) {
                    first(self, part);
                } else {
                    self.window.set(part, slot.with(State::Behind));
                }
            }
            from = end;
        }
    }

    /// `piece` may be handed out, to those with whom its keys stay; `late` may still
    /// answer.
    pub(crate) fn make_ready(&mut self, piece: OffsetRange, slot: Slot, late: Option<Subscriber>) {
        if self.keys.is_empty() {
            let state = State::Ready { late, owner: None };
            return self.window.set(piece, slot.with(state));
        }
        let mut rest = Some(piece);
        while let Some(piece) = rest {
            let owner = self.keys.owner(piece.first().get());
            let end = (piece.first().get()..piece.end().get())
                .find(|offset| self.keys.owner(*offset) != owner)
                .map_or_else(|| piece.end(), Position::new);
            if let Some(part) = piece.below(end) {
                self.window
                    .set(part, slot.with(State::Ready { late, owner }));
            }
            rest = piece.at_or_above(end);
        }
    }

    /// Lets the records go on that have become the first of their key.
    pub(crate) fn advance_keys(&mut self) {
        while let Some(offset) = self.keys.next_unblocked().map(Offset::new) {
            if let Some((_, slot)) = self.window.run_at(offset)
                && matches!(slot.state, State::Behind)
            {
                let record = OffsetRange::one(offset);
                match self.exhausted(slot) {
                    Some(cause) => self.give_up(record, slot, cause, None),
                    None => self.make_ready(record, slot, None),
                }
            }
        }
    }

    /// What stayed with `subscriber` may go to anyone.
    pub(crate) fn give_up_keys(&mut self, subscriber: Subscriber) {
        for offset in self.keys.give_up(subscriber).into_iter().map(Offset::new) {
            if let Some((_, slot)) = self.window.run_at(offset)
                && let State::Ready { late, .. } = slot.state
            {
                let anyones = State::Ready { late, owner: None };
                self.window
                    .set(OffsetRange::one(offset), slot.with(anyones));
            }
        }
    }

    /// What is wrong with the order by key, if anything.
    pub(crate) fn key_fault(&self) -> Option<&'static str> {
        if let Some(fault) = self.keys.fault() {
            return Some(fault);
        }
        let mut behind = 0;
        for (offsets, owner) in self.keys.each() {
            for (place, offset) in offsets.into_iter().map(Offset::new).enumerate() {
                let Some((_, slot)) = self.window.run_at(offset) else {
                    return Some("a record with a key is not in the window");
                };
                let may_go = place == 0;
                match slot.state {
                    State::Behind if may_go => {
                        return Some("a record waits for its key and nothing is before it");
                    }
                    State::Behind => behind += 1,
                    State::Ready { owner: of, .. } if of != owner => {
                        return Some("a ready record is not its key's owner's");
                    }
                    State::Settled { .. } => return Some("a settled record holds its key"),
                    State::DeadLettering { .. } | State::Held { .. } => {}
                    State::Ready { .. }
                    | State::Dispatched { .. }
                    | State::Out { .. }
                    | State::Delayed { .. }
                        if may_go => {}
                    State::Ready { .. }
                    | State::Dispatched { .. }
                    | State::Out { .. }
                    | State::Delayed { .. }
                    | State::Unread { .. }
                    | State::Acked { .. }
                    | State::Refused { .. } => {
                        return Some("a record may go out before an earlier one of its key");
                    }
                }
            }
        }
        (behind != self.window.counts().behind).then_some("a record waits for no key")
    }
}
