//! Exactly once: which dead letters go with which commit.

use ackgate_lane::{Cause, CommitOutcome};

use super::{Did, Is, Map, Outcome, Reference};

#[derive(Debug)]
pub(super) struct Letters {
    riding: Vec<u64>,
    most: usize,
    apart: bool,
    pub(super) failing: bool,
    pub(super) hurry: bool,
}

impl Default for Letters {
    fn default() -> Self {
        Self {
            riding: Vec::new(),
            most: 256,
            apart: false,
            failing: false,
            hurry: false,
        }
    }
}

impl Reference {
    /// A record has begun to wait for a commit.
    pub(super) fn await_commit(&mut self) {
        self.any = true;
        self.changed = true;
        self.letters.hurry |= !self.letters.failing;
    }

    fn waiting(&self) -> Vec<u64> {
        let waiting = self
            .records
            .iter()
            .filter(|(_, record)| matches!(record.is, Is::Letter(_, None)));
        waiting.map(|(&offset, _)| offset).collect()
    }

    fn plan_with(&self, most: usize) -> (u64, Option<Map>, Vec<u64>) {
        let mut letters = self.waiting();
        letters.truncate(most);
        let position = self.floor_beyond(&letters);
        if !self.maps {
            letters.retain(|offset| *offset < position);
        }
        (position, self.maps.then(|| self.map(&letters)), letters)
    }

    /// Whether Kafka has just that.
    pub(super) fn is_known(&self, position: u64, map: Option<&Map>) -> bool {
        position == self.base && (map.is_none() || map == self.base_map.as_ref())
    }

    /// Position, map and letters of the next commit, and whether letters stay behind that
    /// could have gone with it.
    pub(super) fn plan(&mut self) -> (u64, Option<Map>, Vec<u64>, bool) {
        let apart = std::mem::take(&mut self.letters.apart);
        if !self.policy.exactly_once || apart {
            let (position, map, letters) = self.plan_with(0);
            if !self.policy.exactly_once || !self.is_known(position, map.as_ref()) {
                return (position, map, letters, apart);
            }
        }
        let (position, map, letters) = self.plan_with(self.letters.most);
        (position, map, letters, false)
    }

    pub(super) fn ride(&mut self, letters: Vec<u64>) {
        for &offset in &letters {
            let Is::Letter(cause, _) = self.record(offset).is else {
                panic!("{offset} is not given up");
            };
            let record = self.record(offset);
            let attempts = record.attempts + u32::from(cause == Cause::Rejected);
            let deliveries = record.deliveries;
            self.did
                .push(Did::Rides(offset, cause, attempts, deliveries));
        }
        self.letters.riding = letters;
    }

    pub(super) fn letters_answered(&mut self, outcome: CommitOutcome) {
        let letters = std::mem::take(&mut self.letters.riding);
        if letters.is_empty() {
            return;
        }
        if outcome == CommitOutcome::Done {
            self.letters.most = (self.letters.most * 2).min(256);
            self.letters.failing = false;
            for offset in letters {
                self.did.push(Did::Settled(offset));
                self.record(offset).is = Is::Settled(Outcome::Refused);
            }
            if !self.waiting().is_empty() {
                self.await_commit();
            }
        } else {
            self.letters.most = (letters.len() / 2).max(1);
            self.letters.apart = true;
            self.letters.failing = true;
        }
    }

    pub(super) fn are_riding(&self) -> bool {
        !self.letters.riding.is_empty()
    }

    pub(super) fn drain_awaits_letters(&self) -> bool {
        let waiting = self.waiting().len();
        if self.policy.exactly_once {
            self.are_riding() || waiting > self.letters.most
        } else {
            waiting > 0
        }
    }
}
