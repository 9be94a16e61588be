//! Records that are received and not handed out: filtered, unfit, too old.
//!
//! **Invariant**: only a record that nobody has and that is not decided can be taken
//! out of the line; what is taken out settles once, as everything does (L5), and by
//! policy alone (L2, L3).

use crate::{
    Cause, Lane, OffsetRange, OnExpired, Time,
    lane::Phase,
    slot::{Outcome, Slot, State},
};

impl Lane {
    /// Records of `range`, just received, are wanted by nobody: they settle. Returns
    /// how many; what is out, delayed or decided is passed over, and so is what a seek
    /// will bring again.
    pub fn handle_filtered(&mut self, now: Time, range: OffsetRange) -> u64 {
        self.take_out(
            now,
            range,
            |_| true,
            |lane, piece, _| {
                lane.settle(piece, Outcome::Filtered);
            },
        )
    }

    /// Records of `range`, just received, are nothing that may be handed out: they go
    /// the way of rejected records with this cause. Returns how many.
    pub fn handle_unfit(&mut self, now: Time, range: OffsetRange, cause: Cause) -> u64 {
        self.take_out(
            now,
            range,
            |_| true,
            |lane, piece, slot| {
                lane.give_up(piece, slot, cause, None);
            },
        )
    }

    /// Records of `range`, received, have become too old: those that were never handed
    /// out never will be. Returns how many.
    pub fn handle_expired(&mut self, now: Time, range: OffsetRange, then: OnExpired) -> u64 {
        let is_fresh = |slot: Slot| slot.deliveries == 0;
        self.take_out(now, range, is_fresh, |lane, piece, slot| match then {
            OnExpired::DeadLetter => lane.give_up(piece, slot, Cause::Expired, None),
            OnExpired::Drop => lane.settle(piece, Outcome::Filtered),
        })
    }

    fn take_out(
        &mut self,
        now: Time,
        range: OffsetRange,
        concerns: impl Fn(Slot) -> bool,
        mut act: impl FnMut(&mut Self, OffsetRange, Slot),
    ) -> u64 {
        if self.phase == Phase::Done {
            return 0;
        }
        let mut records = 0;
        self.each_piece(range, |lane, piece, slot| {
            // Key order: what waits behind an earlier record of its key was not out either.
            let is_in_line = matches!(slot.state, State::Ready { .. } | State::Behind);
            if is_in_line && concerns(slot) {
                records += piece.len();
                act(lane, piece, slot);
            }
        });
        self.end_turn(now);
        records
    }
}
