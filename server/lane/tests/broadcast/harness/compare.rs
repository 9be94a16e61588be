//! That a lane and the model agree, and that everything settles in the end.

use std::collections::BTreeSet;

use ackgate_lane::{Offset, OffsetRange, Position, Subscriber, Target, Verdict};

use super::{GRACE, Harness};
use crate::{Command, Word, model::Fate};

impl Harness {
    /// The lane and the model say the same.
    pub(crate) fn compare(&self) {
        let model = &self.model;
        assert_eq!(self.settled, model.with_fate(Fate::Settled), "settled");
        assert_eq!(
            self.lane.floor().map(Position::get),
            Some(model.floor()),
            "L2"
        );
        let asked: BTreeSet<u64> = self.letters.iter().copied().collect();
        let wanted = model.with_fate(Fate::DeadLettering);
        assert!(asked.is_subset(&wanted), "{asked:?} {wanted:?}");
        for offset in &wanted {
            assert!(self.lane.refusal(Offset::new(*offset)).is_some());
        }
        for who in 1..4 {
            let ready = self.lane.ready_for(Subscriber(who));
            let first = ready.map(|ready| ready.range.first().get());
            let expected = model.ready(who).first().copied();
            assert_eq!(first, expected, "what is next for {who}: {model:?}");
        }
    }

    /// Everybody goes or acks: everything settles, once.
    pub(crate) fn complete(&mut self) {
        for who in 1..4 {
            self.run(&Command::Lose(who));
        }
        self.run(&Command::Pass(GRACE * 2));
        let last = self.model.next.max(1) + 1;
        self.run(&Command::Join(9));
        // By key one record of each is out at a time: as many rounds as records will do.
        for _ in 0..self.model.records.len() + 20 {
            if self.settled.len() == self.model.records.len() {
                break;
            }
            self.run(&Command::Take(9, last));
            let target = Target {
                range: OffsetRange::new(Offset::new(0), Position::new(last)).expect("not empty"),
                delivery: None,
            };
            let (now, nine) = (self.time(), Subscriber(9));
            self.lane
                .handle_verdict(now, nine, target, Verdict::Acked, &mut Vec::new());
            for offset in 0..last {
                self.model.say(9, offset, Word::Ack);
            }
            self.model.follow();
            self.settle_down();
            self.lane.reset_breaker(self.time());
            self.settle_down();
            while !self.letters.is_empty() {
                self.run(&Command::Letter(true));
            }
            self.run(&Command::Pass(1));
        }
        let all: BTreeSet<u64> = self.model.records.keys().copied().collect();
        assert_eq!(self.settled, all, "everything settles");
        self.run(&Command::Pass(1_000));
        assert_eq!(self.committed, self.model.next, "and is committed");
    }
}
