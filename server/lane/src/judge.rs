//! What becomes of a verdict or an extension.
//!
//! **Invariant**: only the subscriber that has the record, or whose deadline for it
//! passed and that has not been superseded, can change it (L4); every part of the
//! run that was received gets an answer.

use std::time::Duration;

use crate::{
    Answer, Cause, Lane, OffsetRange, Return, Subscriber, Target, Time, Verdict, VerdictResult,
    delivery::Wait,
    lane::Phase,
    slot::{Outcome, Slot, State},
};

/// The longest a verdict may postpone its record, and the longest a deadline may be
/// moved from the hand-over.
const LONGEST: Duration = Duration::from_secs(3600);

/// Answers to one input, equal neighbours merged.
struct Answers<'a> {
    list: &'a mut Vec<Answer>,
    /// Where this input's answers begin.
    begin: usize,
}

/// What a subscriber has to do with a record.
pub(crate) enum Claim {
    /// It has the record.
    Holds,
    /// Its deadline passed and nobody else got the record.
    Late,
    /// The record is decided already.
    Decided(Outcome),
    /// Nothing, or no longer.
    None,
}

impl Lane {
    /// Takes a verdict and appends what became of each part of it to `answers`, in
    /// offset order. Offsets that the log does not have get no answer as long as
    /// `target` touches a received one.
    pub fn handle_verdict(
        &mut self,
        now: Time,
        subscriber: Subscriber,
        target: Target,
        verdict: Verdict,
        answers: &mut Vec<Answer>,
    ) {
        let equal = match verdict {
            Verdict::Acked => Some(Outcome::Acked),
            Verdict::Rejected => Some(Outcome::Refused),
            Verdict::Failed { .. } | Verdict::Released => None,
        };
        self.judge(
            subscriber,
            target,
            equal,
            answers,
            |lane, piece, slot, claim| match claim {
                Claim::Holds => {
                    let after = slot.state.time_out(now);
                    lane.answered.note(verdict, piece.len(), Some(after));
                    lane.apply(now, piece, slot, subscriber, verdict);
                    true
                }
                Claim::Late => {
                    lane.answered.note(verdict, piece.len(), None);
                    lane.apply_late(now, piece, slot, subscriber, verdict);
                    true
                }
                Claim::Decided(_) | Claim::None => false,
            },
        );
        self.end_turn(now);
    }

    /// Moves deadlines to `by` from now, at most 1 h after the hand-over. What is not
    /// out is answered as a verdict would be.
    pub fn handle_extend(
        &mut self,
        now: Time,
        subscriber: Subscriber,
        target: Target,
        by: Duration,
        answers: &mut Vec<Answer>,
    ) {
        self.judge(
            subscriber,
            target,
            None,
            answers,
            |lane, piece, slot, claim| {
                if !matches!(claim, Claim::Holds) {
                    return false;
                }
                let state = match slot.state {
                    State::Out {
                        subscriber, sent, ..
                    } => {
                        let deadline = now.after(by).min(sent.after(LONGEST));
                        State::Out {
                            subscriber,
                            sent,
                            deadline,
                        }
                    }
                    // It has arrived already, the notice that it was sent has not.
                    State::Dispatched { subscriber, .. } => State::Dispatched {
                        subscriber,
                        ack_deadline: by.min(LONGEST),
                    },
                    State::Ready { .. }
                    | State::Behind
                    | State::Delayed { .. }
                    | State::Unread { .. }
                    | State::Acked { .. }
                    | State::Refused { .. }
                    | State::DeadLettering { .. }
                    | State::Held { .. }
                    | State::Settled { .. } => return false,
                };
                lane.window.set(piece, slot.with(state));
                true
            },
        );
        self.end_turn(now);
    }

    /// Walks `target`; `act` says whether it did something with a part it may touch.
    /// `equal` is the outcome that the input merely repeats.
    fn judge(
        &mut self,
        subscriber: Subscriber,
        target: Target,
        equal: Option<Outcome>,
        answers: &mut Vec<Answer>,
        mut act: impl FnMut(&mut Self, OffsetRange, Slot, &Claim) -> bool,
    ) {
        let mut answers = Answers {
            begin: answers.len(),
            list: answers,
        };
        if self.phase == Phase::Done {
            answers.push(target.range, VerdictResult::Fenced);
            return;
        }
        let floor = self.floor();
        self.answer_below_floor(target.range, equal, &mut answers);
        let above = floor.and_then(|floor| target.range.at_or_above(floor));
        let Some(above) = above else {
            answers.fill(target.range);
            return;
        };
        self.each_piece(above, |lane, piece, slot| {
            let claim = lane.claim(slot, subscriber, target.delivery);
            if act(lane, piece, slot, &claim) {
                answers.push(piece, VerdictResult::Applied);
            } else if let Claim::Decided(outcome) = claim {
                answers.push(piece, repeat(outcome, equal));
            } else {
                lane.answer_superseded(piece, slot, subscriber, target.delivery, &mut answers);
            }
        });
        answers.fill(target.range);
    }

    /// What `subscriber` has to do with a record that is in the window.
    pub(crate) fn claim(&self, slot: Slot, subscriber: Subscriber, delivery: Option<u32>) -> Claim {
        if let Some(outcome) = slot.state.decided() {
            return Claim::Decided(outcome);
        }
        if delivery.is_some_and(|number| number != slot.deliveries) {
            return Claim::None;
        }
        if slot.state.holder() == Some(subscriber) {
            Claim::Holds
        } else if slot.state.late() == Some(subscriber) && self.late_counts() {
            Claim::Late
        } else {
            Claim::None
        }
    }

    fn apply(
        &mut self,
        now: Time,
        piece: OffsetRange,
        slot: Slot,
        subscriber: Subscriber,
        verdict: Verdict,
    ) {
        self.effects.returned(subscriber, piece, Return::Verdict);
        let (attempts, wait) = match verdict {
            Verdict::Acked => return self.ack(piece, slot, subscriber),
            Verdict::Rejected => {
                return self.give_up(piece, slot, Cause::Rejected, Some(subscriber));
            }
            Verdict::Failed { retry_after: None } => (1, Wait::Backoff),
            Verdict::Failed {
                retry_after: Some(delay),
            } => (1, Wait::For(delay.min(LONGEST))),
            Verdict::Released => (0, Wait::No),
        };
        self.ended.note(piece, subscriber, slot.deliveries, false);
        let slot = Slot {
            attempts: slot.attempts.saturating_add(attempts),
            ..slot
        };
        self.come_back(now, piece, slot, wait, None);
    }

    /// The expiry has used the attempt and set the wait; a verdict that gives the
    /// record back has nothing to add but its own delay.
    fn apply_late(
        &mut self,
        now: Time,
        piece: OffsetRange,
        slot: Slot,
        subscriber: Subscriber,
        verdict: Verdict,
    ) {
        let delay = match verdict {
            Verdict::Acked => return self.ack(piece, slot, subscriber),
            Verdict::Rejected => {
                return self.give_up(piece, slot, Cause::Rejected, Some(subscriber));
            }
            Verdict::Failed { retry_after } => retry_after.map(|delay| delay.min(LONGEST)),
            Verdict::Released => None,
        };
        match (slot.state, delay) {
            (State::Unread { .. }, delay) => {
                self.window
                    .set(piece, slot.with(State::Unread { late: None }));
                if let Some(delay) = delay {
                    self.note_failure(piece.first(), now.after(delay));
                }
            }
            (_, Some(delay)) => {
                let until = now.after(delay);
                self.window
                    .set(piece, slot.with(State::Delayed { until, late: None }));
            }
            (State::Delayed { until, .. }, None) => {
                self.window
                    .set(piece, slot.with(State::Delayed { until, late: None }));
            }
            (_, None) => self.make_ready(piece, slot, None),
        }
    }

    /// Below the floor everything has settled; what is not remembered was acked.
    fn answer_below_floor(
        &self,
        range: OffsetRange,
        equal: Option<Outcome>,
        answers: &mut Answers<'_>,
    ) {
        let (Some(origin), Some(floor)) = (self.origin, self.floor()) else {
            return;
        };
        let mut rest = range
            .at_or_above(origin)
            .and_then(|range| range.below(floor));
        while let Some(range) = rest {
            let (part, outcome) = self.refusals.look_up(range);
            answers.push(part, repeat(outcome, equal));
            rest = range.at_or_above(part.end());
        }
    }

    /// Not settled, and not this subscriber's, or no longer.
    fn answer_superseded(
        &self,
        piece: OffsetRange,
        slot: Slot,
        subscriber: Subscriber,
        delivery: Option<u32>,
        answers: &mut Answers<'_>,
    ) {
        let had_it = slot.state.holder() == Some(subscriber)
            || slot.state.late() == Some(subscriber)
            || (slot.deliveries > 0 && self.ended.has_forgotten());
        let otherwise = if had_it {
            VerdictResult::Stale
        } else {
            VerdictResult::Unknown
        };
        let mut rest = Some(piece);
        while let Some(range) = rest {
            let (mut part, mut result) = self.ended.look_up(range, subscriber, delivery);
            if result.is_none() && delivery.is_some() {
                // It had the record, under other numbers.
                let (any, other) = self.ended.look_up(part, subscriber, None);
                (part, result) = (any, other.map(|_| VerdictResult::Stale));
            }
            answers.push(part, result.unwrap_or(otherwise));
            rest = range.at_or_above(part.end());
        }
    }
}

/// The answer to a verdict on a record that is decided.
fn repeat(outcome: Outcome, equal: Option<Outcome>) -> VerdictResult {
    match outcome {
        Outcome::Gone => VerdictResult::Stale,
        Outcome::Filtered => VerdictResult::Unknown,
        Outcome::Acked | Outcome::Refused if equal == Some(outcome) => VerdictResult::Duplicate,
        Outcome::Acked | Outcome::Refused => VerdictResult::Conflict,
    }
}

impl Answers<'_> {
    fn push(&mut self, range: OffsetRange, result: VerdictResult) {
        let begun = self.list.len() > self.begin;
        if let Some(last) = self.list.last_mut()
            && begun
            && last.result == result
            && let Some(joined) = OffsetRange::new(last.range.first(), range.end())
        {
            last.range = joined;
            return;
        }
        self.list.push(Answer { range, result });
    }

    /// Nothing of `range` was received: that is the answer.
    fn fill(&mut self, range: OffsetRange) {
        if self.list.len() == self.begin {
            self.push(range, VerdictResult::Unknown);
        }
    }
}
