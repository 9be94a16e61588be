//! What the lane asks for is done, and checked against the rules.

use ackgate_lane::{Cause, CommitOutcome, Effect};

use super::Harness;

impl Harness {
    /// What is due now happens, and effects are carried out.
    pub(super) fn settle_down(&mut self) {
        self.lane.handle_timeout(self.time());
        self.model.pass(self.now);
        while let Some(effect) = self.lane.poll_effect() {
            self.carry_out(effect);
        }
        if let Err(violation) = self.lane.check() {
            panic!("{violation}");
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Settled { range } => {
                for offset in range.first().get()..range.end().get() {
                    assert!(self.settled.insert(offset), "L5: {offset} settles twice");
                    self.saw.settled += 1;
                    assert!(
                        !self.letters.contains(&offset),
                        "L3: {offset} settles before its dead letter is answered"
                    );
                }
            }
            Effect::DeadLetter { offset, cause, .. } => {
                let offset = offset.get();
                assert!(!self.letters.contains(&offset), "asked for twice: {offset}");
                match cause {
                    Cause::Rejected => self.saw.rejected += 1,
                    _ => self.saw.exhausted += 1,
                }
                self.letters.push(offset);
            }
            Effect::Commit { position, serial } => {
                assert!(position.get() >= self.committed, "L1");
                let floor = self.lane.floor().expect("a floor");
                assert!(position <= floor, "L2: {position} above {floor}");
                self.committed = position.get();
                self.lane
                    .handle_commit(self.time(), serial, CommitOutcome::Done);
            }
            Effect::Withdrawn { .. } => self.saw.withdrawn += 1,
            Effect::Returned { .. } => {}
            Effect::Parked { .. } => self.saw.parked += 1,
            Effect::Discarded { .. } => self.saw.discarded += 1,
            Effect::Tripped { .. } => self.saw.tripped += 1,
            Effect::Seek { .. }
            | Effect::Skipped { .. }
            | Effect::MapRefused { .. }
            | Effect::Lost { .. }
            | Effect::Dropped { .. }
            | Effect::CutOff { .. }
            | Effect::Drained => panic!("{effect:?} has no place here"),
        }
    }
}
