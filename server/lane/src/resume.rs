//! A subscriber has come back after its stream broke and names what it still works on.
//!
//! **Invariant**: what it does not name is lost, at once (L6); what it names stays its
//! own only where it had it all along, so a false or old list takes nothing from
//! anybody (L4, L10).

use std::cmp::Reverse;

use crate::{
    Lane, Offset, OffsetRange, Return, Subscriber, Target, Time, judge::Claim, lane::Phase,
    slot::Slot,
};

/// What became of a part of what a subscriber named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResumeAnswer {
    /// The part.
    pub range: OffsetRange,
    /// What became of it.
    pub result: ResumeResult,
}

/// The ways in which a delivery can have outlived its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResumeResult {
    /// It is still the subscriber's: a verdict on it counts.
    Kept,
    /// The record is decided: nothing is left to do.
    Settled,
    /// It is not the subscriber's, or no longer: a verdict would change nothing.
    Lost,
}

impl Lane {
    /// `subscriber` is back and works on `named` and on nothing else: everything else
    /// that is out to it is lost. Appends what became of each named run to `answers`,
    /// in offset order. Offsets that the log does not have get no answer as long as
    /// their run touches a received one; of runs that overlap, each offset is answered
    /// once, for its highest delivery number where they begin together.
    pub fn handle_resumed(
        &mut self,
        now: Time,
        subscriber: Subscriber,
        named: &[Target],
        answers: &mut Vec<ResumeAnswer>,
    ) {
        let named = without_overlaps(named);
        if self.phase != Phase::Done && self.window.holds(subscriber) {
            self.each_run_from(Offset::new(0), |lane, piece, slot| {
                if slot.state.holder() == Some(subscriber) {
                    for unnamed in gaps(piece, slot, &named) {
                        lane.lose_delivery(now, unnamed, slot, subscriber, Return::Lost);
                    }
                }
            });
            // In lane order a loss voids what is above it: void before it is answered.
            self.end_turn(now);
            for target in &named {
                // It has arrived, whatever became of the notice that it was sent.
                self.handle_sent(now, subscriber, target.range);
            }
        }
        for target in named {
            self.answer_resumed(subscriber, target, answers);
        }
    }

    fn answer_resumed(
        &self,
        subscriber: Subscriber,
        target: Target,
        answers: &mut Vec<ResumeAnswer>,
    ) {
        let begin = answers.len();
        let mut push = |range: OffsetRange, result| {
            if answers.len() > begin
                && let Some(last) = answers.last_mut()
                && last.result == result
                && let Some(joined) = OffsetRange::new(last.range.first(), range.end())
            {
                last.range = joined;
            } else {
                answers.push(ResumeAnswer { range, result });
            }
        };
        let floor = self.floor().filter(|_| self.phase != Phase::Done);
        let mut is_answered = false;
        if let Some(floor) = floor {
            if let Some(below) = target.range.below(floor) {
                push(below, ResumeResult::Settled);
                is_answered = true;
            }
            let mut rest = target.range.at_or_above(floor);
            while let Some((piece, slot)) = rest.and_then(|rest| self.window.piece(rest)) {
                let result = match self.claim(slot, subscriber, target.delivery) {
                    Claim::Holds | Claim::Late => ResumeResult::Kept,
                    Claim::Decided(_) => ResumeResult::Settled,
                    Claim::None => ResumeResult::Lost,
                };
                push(piece, result);
                is_answered = true;
                rest = rest.and_then(|rest| rest.at_or_above(piece.end()));
            }
        }
        if !is_answered {
            push(target.range, ResumeResult::Lost);
        }
    }
}

/// The runs in offset order, each offset in one of them.
fn without_overlaps(named: &[Target]) -> Vec<Target> {
    let mut sorted = named.to_vec();
    sorted.sort_unstable_by_key(|target| (target.range.first(), Reverse(target.delivery)));
    let mut end = None;
    sorted
        .into_iter()
        .filter_map(|target| {
            let range = match end {
                Some(end) => target.range.at_or_above(end)?,
                None => target.range,
            };
            end = Some(range.end());
            Some(Target { range, ..target })
        })
        .collect()
}

/// The parts of `piece` that no run of `named` covers, by number too.
fn gaps(piece: OffsetRange, slot: Slot, named: &[Target]) -> Vec<OffsetRange> {
    let from = named.partition_point(|target| target.range.end() <= piece.first().position());
    let covering = named
        .iter()
        .skip(from)
        .take_while(|target| target.range.first() <= piece.last())
        .filter(|target| {
            target
                .delivery
                .is_none_or(|number| number == slot.deliveries)
        });
    let mut gaps = Vec::new();
    let mut rest = Some(piece);
    for target in covering {
        let Some(left) = rest else { break };
        gaps.extend(left.below(target.range.first().position()));
        rest = left.at_or_above(target.range.end());
    }
    gaps.extend(rest);
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Position, slot::State};

    fn range(first: u64, end: u64) -> OffsetRange {
        OffsetRange::new(Offset::new(first), Position::new(end)).expect("not empty")
    }

    fn named(first: u64, end: u64, delivery: Option<u32>) -> Target {
        Target {
            range: range(first, end),
            delivery,
        }
    }

    #[test]
    fn overlapping_runs_name_each_offset_once() {
        let runs = [
            named(0, u64::MAX, None),
            named(5, 9, Some(2)),
            named(0, 3, Some(1)),
        ];
        assert_eq!(
            without_overlaps(&runs),
            [named(0, 3, Some(1)), named(3, u64::MAX, None)]
        );
    }

    #[test]
    fn what_is_named_under_another_number_is_not_named() {
        let slot = Slot {
            deliveries: 2,
            ..Slot::fresh(State::Ready {
                late: None,
                owner: None,
            })
        };
        let runs = [
            named(2, 4, Some(2)),
            named(4, 5, Some(1)),
            named(6, 7, None),
        ];
        assert_eq!(
            gaps(range(0, 9), slot, &runs),
            [range(0, 2), range(4, 6), range(7, 9)]
        );
        assert_eq!(gaps(range(2, 4), slot, &runs), []);
    }
}
