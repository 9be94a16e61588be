//! Records come in, for the first time or again.
//!
//! **Invariant**: only received offsets are waited for; what was received and is not
//! there when read again is released and reported (L7).

use crate::{
    Lane, OffsetRange, Position, Time,
    key_order::Incoming,
    lane::Phase,
    rewind::Rewind,
    slot::{Outcome, Slot, State},
};

impl Lane {
    /// Takes records that were fetched: every offset of `range` exists in the log.
    /// Calls come in offset order; offsets between two calls do not exist (any
    /// more). After a seek the calls begin again at the seek's target.
    ///
    /// Records passed in twice change nothing; those settled already are answered
    /// with [`Effect::Skipped`](crate::Effect::Skipped). A draining lane takes
    /// nothing, nor does one that waits for a seek: it reads them again.
    ///
    /// In key order these are records without keys; those with keys come by
    /// [`Self::handle_fetched_keyed`].
    pub fn handle_fetched(&mut self, now: Time, range: OffsetRange) {
        self.fetch(now, range, Incoming::new(range.first(), &[]));
    }

    pub(crate) fn fetch(&mut self, now: Time, range: OffsetRange, keys: Incoming<'_>) {
        if self.phase != Phase::Active || matches!(self.rewind, Rewind::Seeking { .. }) {
            return;
        }
        let first = range.first().position();
        let next = *self.next.get_or_insert(first);
        self.origin.get_or_insert_with(|| first.max(next));
        self.commits.begin_at(next);
        if let Some(again) = range.below(next) {
            self.skip_settled(again);
        }
        if let Some(fresh) = range.at_or_above(next) {
            if let Some(jumped) = OffsetRange::new(next.offset(), fresh.first().position()) {
                self.release_vanished(jumped);
            }
            self.receive(fresh, keys);
            self.next = Some(fresh.end());
        }
        self.end_turn(now);
    }

    /// Takes the end of the log: nothing below `position` exists that was not passed
    /// in since the lane began, or since its last seek. So what ends in transaction
    /// markers, or in records that were compacted away, shows no lag (L7).
    pub fn handle_end(&mut self, now: Time, position: Position) {
        if self.phase != Phase::Active || matches!(self.rewind, Rewind::Seeking { .. }) {
            return;
        }
        let next = *self.next.get_or_insert(position);
        self.commits.begin_at(next);
        if let Some(rest) = OffsetRange::new(next.offset(), position) {
            self.release_vanished(rest);
            self.next = Some(position);
            self.commits.moved();
        }
        self.end_turn(now);
    }

    /// Takes that the log begins at `oldest` now, and that reading goes on there:
    /// whatever lies below and is not held was lost, and is reported as
    /// [`Effect::Lost`](crate::Effect::Lost). Records that are held have their bodies
    /// here and go on.
    pub fn handle_gone(&mut self, now: Time, oldest: Position) {
        if self.phase != Phase::Active || matches!(self.rewind, Rewind::Seeking { .. }) {
            return;
        }
        let next = *self.next.get_or_insert(oldest);
        self.commits.begin_at(next);
        if let Some(gone) = OffsetRange::new(next.offset(), oldest) {
            self.lose(gone);
            self.next = Some(oldest);
            self.commits.moved();
        }
        self.end_turn(now);
    }

    /// Takes records that somebody else holds and reads for this lane: every offset of
    /// `range` exists, and calls come in any order. `keys` as in [`Self::handle_fetched_keyed`].
    pub(crate) fn entrust(&mut self, now: Time, range: OffsetRange, keys: &[Option<u64>]) {
        if self.phase != Phase::Active {
            return;
        }
        let first = range.first().position();
        self.origin = Some(self.origin.map_or(first, |origin| origin.min(first)));
        self.next = self.next.max(Some(range.end()));
        self.receive(range, Incoming::new(range.first(), keys));
        if self.rewind != Rewind::None {
            // It may lie below what is given up: that is void, as above a failure.
            self.note_failure(range.first(), now);
        }
        self.end_turn(now);
    }

    /// `range`, from `next` on, is there.
    fn receive(&mut self, range: OffsetRange, keys: Incoming<'_>) {
        let mut from = range.first().position();
        self.each_piece(range, |lane, piece, slot| {
            if let Some(new) = OffsetRange::new(from.offset(), piece.first().position()) {
                lane.admit_new(new, keys);
            }
            from = piece.end();
            match slot.state {
                State::Unread { .. } => {
                    lane.line_up(piece, slot, keys, |lane, part| lane.admit(part, slot))
                }
                State::Settled { .. } => {
                    // Restored: the floor may pass it without anything settling anew.
                    lane.commits.moved();
                    lane.effects.skipped(piece);
                }
                State::Ready { .. }
                | State::Behind
                | State::Dispatched { .. }
                | State::Out { .. }
                | State::Delayed { .. }
                | State::Acked { .. }
                | State::Refused { .. }
                | State::DeadLettering { .. }
                | State::Held { .. } => {}
            }
        });
        if let Some(new) = range.at_or_above(from) {
            self.admit_new(new, keys);
        }
    }

    /// `piece` has never been here: what is first of its key is admitted.
    fn admit_new(&mut self, piece: OffsetRange, keys: Incoming<'_>) {
        let slot = Slot::fresh(State::READY);
        self.line_up(piece, slot, keys, |lane, first| lane.admit(first, slot));
    }

    /// Makes `piece` ready, unless it waits for a seek or has nothing left to try.
    fn admit(&mut self, piece: OffsetRange, slot: Slot) {
        if self.rewind != Rewind::None {
            if !matches!(slot.state, State::Unread { .. }) {
                self.window
                    .set(piece, slot.with(State::Unread { late: None }));
            }
        } else if let Some(cause) = self.exhausted(slot) {
            self.give_up(piece, slot, cause, None);
        } else {
            // What is new has a key that nobody has, and lane order has no keys.
            self.window.set(piece, slot.with(State::READY));
        }
    }

    /// The parts of `range` that are neither unsettled nor ahead have settled or
    /// never counted.
    fn skip_settled(&mut self, range: OffsetRange) {
        let mut from = range.first().position();
        self.each_piece(range, |lane, piece, slot| {
            if let Some(gap) = OffsetRange::new(from.offset(), piece.first().position()) {
                lane.effects.skipped(gap);
            }
            from = piece.end();
            if matches!(slot.state, State::Settled { .. }) {
                lane.effects.skipped(piece);
            }
        });
        if let Some(rest) = range.at_or_above(from) {
            self.effects.skipped(rest);
        }
    }

    /// `range` was jumped over: what was to be read again there is gone, and so is what
    /// was refused after its body had gone with a seek.
    fn release_vanished(&mut self, range: OffsetRange) {
        self.each_piece(range, |lane, piece, slot| {
            if slot.state.needs_body() {
                lane.effects.lost(piece);
            }
        });
        self.each_piece(range, |lane, piece, slot| {
            if slot.state.needs_body() {
                lane.settle(piece, Outcome::Gone);
            }
        });
    }

    /// Retention has taken `range`, from `next` on: what had settled there is no loss.
    fn lose(&mut self, range: OffsetRange) {
        let mut from = range.first().position();
        self.each_piece(range, |lane, piece, slot| {
            if let Some(unseen) = OffsetRange::new(from.offset(), piece.first().position()) {
                lane.effects.lost(unseen);
            }
            from = piece.end();
            if slot.state.needs_body() {
                lane.effects.lost(piece);
            }
        });
        if let Some(unseen) = range.at_or_above(from) {
            self.effects.lost(unseen);
        }
        self.each_piece(range, |lane, piece, slot| {
            if slot.state.needs_body() {
                lane.settle(piece, Outcome::Gone);
            }
        });
    }
}
