//! Durable confirmations: when what a verdict did survives the loss of this gateway.
//!
//! **Invariant L12**: something is confirmed as durable only after a successful commit
//! whose position or map covers it, and no later commit covers less.

use std::collections::VecDeque;

use crate::{
    CommitOutcome, Lane, Letter, OffsetRange, Position, Time, atomic, lane::Phase, slot::State,
};

/// The end of a wait that [`Lane::confirm`] began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmation {
    /// Which wait.
    pub token: u64,
    /// How it ends, or a part of it.
    pub result: Confirmed,
}

/// What became of something that was to be durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmed {
    /// All of it that was not void is. Last.
    Durable,
    /// A failure below voided this part: it will be delivered again.
    Void {
        /// The part.
        range: OffsetRange,
    },
}

/// Waits that have not ended.
#[derive(Debug, Default)]
pub(crate) struct Confirmations {
    waiting: Vec<Waiting>,
    ended: VecDeque<Confirmation>,
    /// Records below this may have been confirmed: a commit that covers less waits.
    promised: Option<Position>,
    /// Something has changed that may end the wait for a request.
    look: bool,
}

#[derive(Debug)]
struct Waiting {
    token: u64,
    /// What has to be settled and covered.
    ranges: Vec<OffsetRange>,
    /// The request that covers it.
    asked: Option<u64>,
}

impl Waiting {
    fn end(&self) -> Option<Position> {
        self.ranges.iter().map(|range| range.end()).max()
    }
}

impl Confirmations {
    /// What is settled below `end` must stay covered.
    pub(crate) fn promise(&mut self, end: Position) {
        self.promised = self.promised.max(Some(end));
    }

    /// The least that a commit has to cover.
    pub(crate) fn bound(&self) -> Option<Position> {
        let asked = self
            .waiting
            .iter()
            .filter(|waiting| waiting.asked.is_some());
        asked.filter_map(Waiting::end).max().max(self.promised)
    }

    /// Something has settled, or a request has been answered.
    pub(crate) const fn look(&mut self) {
        self.look = !self.waiting.is_empty();
    }

    /// `range` is no longer answered for.
    pub(crate) fn void(&mut self, range: OffsetRange) {
        for waiting in &mut self.waiting {
            let mut left = Vec::with_capacity(waiting.ranges.len());
            for part in waiting.ranges.drain(..) {
                let Some(void) = part.intersection(range) else {
                    left.push(part);
                    continue;
                };
                left.extend(part.below(void.first().position()));
                left.extend(part.at_or_above(void.end()));
                self.ended.push_back(Confirmation {
                    token: waiting.token,
                    result: Confirmed::Void { range: void },
                });
            }
            waiting.ranges = left;
        }
        self.look();
    }

    fn answered(&mut self, serial: u64, outcome: CommitOutcome) {
        if outcome == CommitOutcome::Done {
            self.end(|waiting| waiting.asked == Some(serial));
        }
        for waiting in &mut self.waiting {
            if waiting.asked == Some(serial) {
                waiting.asked = None;
            }
        }
        self.look();
    }

    fn end(&mut self, is_over: impl Fn(&Waiting) -> bool) {
        let (waiting, ended) = (&mut self.waiting, &mut self.ended);
        let mut promised = self.promised;
        waiting.retain(|waiting| {
            let over = is_over(waiting);
            if over {
                promised = promised.max(waiting.end());
                ended.push_back(Confirmation {
                    token: waiting.token,
                    result: Confirmed::Durable,
                });
            }
            !over
        });
        self.promised = promised;
    }
}

impl Lane {
    /// Says with [`Self::poll_confirmation`] once `ranges`, decided by a verdict just
    /// now, are settled and covered by a successful commit, or void. Without ranges:
    /// once a commit that is asked for from now on has succeeded. Asks for that commit
    /// at once. Whoever waits when the lane ends gets no answer: it is fenced.
    ///
    /// The verdict may have been the one that ended a drain: then the drain's last
    /// commit, which has been asked for already, is what it waits for.
    pub fn confirm(&mut self, now: Time, token: u64, ranges: Vec<OffsetRange>) {
        self.confirmations.waiting.push(Waiting {
            token,
            ranges,
            asked: None,
        });
        if self.phase == Phase::Done {
            self.wait_for_last();
            return;
        }
        self.confirmations.look();
        self.end_turn(now);
    }

    /// The next end of a wait; call until `None` after every input, also after the
    /// lane is done: its last commit may still be answered.
    pub fn poll_confirmation(&mut self) -> Option<Confirmation> {
        self.confirmations.ended.pop_front()
    }

    pub(crate) fn commit_answered(&mut self, serial: u64, outcome: CommitOutcome) {
        self.confirmations.answered(serial, outcome);
    }

    /// Request `serial` covers what is settled below `covered`.
    pub(crate) fn note_asked(&mut self, serial: u64, covered: Position) {
        let mut waiting = std::mem::take(&mut self.confirmations.waiting);
        for waiting in &mut waiting {
            let is_below = waiting.end().is_none_or(|end| end <= covered);
            if is_below && self.is_settled(waiting, self.letters.riding()) {
                waiting.asked = Some(serial);
            }
        }
        self.confirmations.waiting = waiting;
    }

    /// Asks for a commit where one can end a wait, or ends the wait if Kafka knows.
    pub(crate) fn advance_confirmations(&mut self, floor: Position) {
        if !self.confirmations.look || self.commits.asked().is_some() {
            return;
        }
        self.confirmations.look = false;
        if self.commits.is_news(floor) {
            let waiting = &self.confirmations.waiting;
            if waiting.iter().any(|waiting| self.is_settled(waiting, &[])) {
                self.commits.hurry();
            }
        } else {
            self.end_known(floor);
        }
    }

    /// The lane is done: no commit is asked for any more, and the last one covers what
    /// it covers.
    fn wait_for_last(&mut self) {
        match (self.commits.last_asked(), self.floor()) {
            (Some((serial, covered)), _) => self.note_asked(serial, covered),
            (None, Some(floor)) if !self.commits.is_news(floor) => self.end_known(floor),
            (None, _) => {}
        }
    }

    /// Ends the waits for what Kafka has been told already.
    pub(crate) fn end_known(&mut self, floor: Position) {
        let known = self.commits.covered().max(Some(floor)).unwrap_or(floor);
        let waiting = std::mem::take(&mut self.confirmations.waiting);
        let over: Vec<u64> = waiting
            .iter()
            .filter(|waiting| self.is_covered(waiting, known))
            .map(|waiting| waiting.token)
            .collect();
        self.confirmations.waiting = waiting;
        self.confirmations
            .end(|waiting| over.contains(&waiting.token));
    }

    fn is_covered(&self, waiting: &Waiting, covered: Position) -> bool {
        waiting.end().is_none_or(|end| end <= covered) && self.is_settled(waiting, &[])
    }

    /// Whether everything is settled, or will be with `letters`.
    fn is_settled(&self, waiting: &Waiting, letters: &[Letter]) -> bool {
        waiting.ranges.iter().all(|range| {
            let mut rest = Some(*range);
            while let Some((piece, slot)) = rest.and_then(|rest| self.window.piece(rest)) {
                let is_settled = matches!(slot.state, State::Settled { .. });
                if !is_settled && atomic::parts(piece, letters).any(|(_, rides)| !rides) {
                    return false;
                }
                rest = rest.and_then(|rest| rest.at_or_above(piece.end()));
            }
            true
        })
    }
}
