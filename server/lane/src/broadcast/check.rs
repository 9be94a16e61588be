//! A check of a broadcast lane against the rules that its state can break.

use super::{Broadcast, TRUNK, share::Share};
use crate::{
    Offset, OffsetRange, Position,
    invariants::{self, L2, L6, Violation},
    lane::Phase,
    slot::State,
};

impl Broadcast {
    /// Checks what the state alone can show; costs a walk over every share's window.
    ///
    /// # Errors
    ///
    /// The first rule that is broken, and how.
    pub fn check(&self) -> Result<(), Violation> {
        invariants::check(&self.trunk)?;
        for share in self.shares.values() {
            invariants::check(&share.lane)?;
        }
        if self.trunk.phase == Phase::Done {
            return Ok(());
        }
        let all_have_ended = self.shares.values().all(Share::is_done);
        let mut rest = OffsetRange::new(Offset::new(0), Position::new(u64::MAX));
        while let Some((piece, slot)) = rest.and_then(|rest| self.trunk.window.piece(rest)) {
            rest = rest.and_then(|rest| rest.at_or_above(piece.end()));
            let fanned_out = slot.state.holder() == Some(TRUNK);
            // The drain has ended for everybody and awaits dead letters alone: what was
            // still owed has been given back, to whoever gets the lane next.
            let given_back = all_have_ended && matches!(slot.state, State::Ready { .. });
            for offset in (piece.first().get()..piece.end().get()).map(Offset::new) {
                let owing = self.shares.values().filter(|share| share.owes(offset));
                let owing = owing.count();
                let counted = self.tally.counts(offset).map(|counts| counts.owing);
                if fanned_out && counted.map(|owing| owing as usize) != Some(owing) {
                    return broken(L2, "the tally does not say who owes a verdict");
                }
                if fanned_out && owing == 0 {
                    return broken(L6, "a record is fanned out and nobody owes a verdict");
                }
                if !fanned_out && !given_back && owing > 0 {
                    return broken(L2, "a record is decided that somebody owes a verdict on");
                }
            }
        }
        let floor = self.trunk.floor().map(Position::offset);
        let below = |share: &Share| share.debt().is_some_and(|d| Some(d.range.first()) < floor);
        if self.shares.values().any(below) {
            return broken(L2, "the floor has passed what a member owes");
        }
        Ok(())
    }
}

fn broken(rule: invariants::Rule, what: &'static str) -> Result<(), Violation> {
    Err(Violation { rule, what })
}
