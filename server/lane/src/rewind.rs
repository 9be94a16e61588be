//! Lane order: a failure voids what is out above it and leads back to the floor.
//!
//! **Invariant**: from a failure to its seek nothing is handed out; the seek goes to
//! the floor, when nothing is out and no dead letter is pending, so that nothing is
//! delivered again that someone still works on (L10), and no verdict from before it
//! touches the floor afterwards (L4).

use std::time::Duration;

use crate::{
    Cause, Effect, Lane, Offset, Position, Return, SeekOutcome, Time,
    lane::Phase,
    slot::{Slot, State},
};

/// The way back to the floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rewind {
    /// There is none to go.
    None,
    /// The seek comes at `until` or later. `asked`: one has been tried, so bodies
    /// are gone and late verdicts no longer count.
    Waiting { until: Time, asked: bool },
    /// The seek has been asked for.
    Seeking { to: Position },
}

/// A seek that failed is asked for again after this long: a broker that moves a
/// partition takes about a second, and the lane stands still meanwhile.
const SEEK_RETRY: Duration = Duration::from_secs(1);

impl Lane {
    /// Takes the answer to [`Effect::Seek`].
    pub fn handle_seek(&mut self, now: Time, outcome: SeekOutcome) {
        if let Rewind::Seeking { to } = self.rewind {
            self.rewind = match outcome {
                SeekOutcome::Done => {
                    self.next = Some(to);
                    Rewind::None
                }
                SeekOutcome::Failed => Rewind::Waiting {
                    until: now.after(SEEK_RETRY),
                    asked: true,
                },
            };
        }
        self.end_turn(now);
    }

    /// Lane order: the record at `offset` failed in this turn and waits until `until`.
    ///
    /// Of several failures the lowest decides what is void and the longest wait
    /// decides when the lane goes on: nothing goes out before its time (L10).
    pub(crate) fn note_failure(&mut self, offset: Offset, until: Time) {
        let (lowest, latest) = self.failure.unwrap_or((offset, until));
        self.failure = Some((lowest.min(offset), latest.max(until)));
    }

    /// Voids everything above the failure of this turn, if there was one.
    pub(crate) fn void_above_failure(&mut self) {
        let Some((lowest, until)) = self.failure.take() else {
            return;
        };
        // Only in a share of a broadcast something ready lies below what is out. It is
        // read again too: else what is given up above it would keep the seek waiting,
        // and the seek would keep it waiting.
        let ready = self.window.ready().map(|(run, _)| run.first());
        let lowest = ready.map_or(lowest, |ready| lowest.min(ready));
        self.each_run_from(lowest, Self::void);
        self.rewind = match self.rewind {
            Rewind::None => Rewind::Waiting {
                until,
                asked: false,
            },
            Rewind::Waiting {
                until: before,
                asked,
            } => Rewind::Waiting {
                until: before.max(until),
                asked,
            },
            Rewind::Seeking { to } => Rewind::Seeking { to },
        };
    }

    /// Asks for the seek if it is time and nothing is in its way.
    pub(crate) fn advance_rewind(&mut self, now: Time) {
        let Rewind::Waiting { until, asked } = self.rewind else {
            return;
        };
        if self.window.counts().unread == 0 && !asked {
            // Late verdicts have answered everything that was to be read again.
            self.rewind = Rewind::None;
            return;
        }
        if now < until || !self.may_seek() {
            return;
        }
        let Some(to) = self.floor() else { return };
        self.each_run_from(to.offset(), |lane, piece, slot| {
            if matches!(slot.state, State::Unread { late: Some(_) }) {
                lane.window
                    .set(piece, slot.with(State::Unread { late: None }));
            }
        });
        self.rewind = Rewind::Seeking { to };
        self.effects.push(Effect::Seek { to });
    }

    /// When the seek is due, if only time is in its way.
    pub(crate) fn rewind_due(&self) -> Option<Time> {
        match self.rewind {
            Rewind::Waiting { until, .. } if self.may_seek() => Some(until),
            Rewind::Waiting { .. } | Rewind::Seeking { .. } | Rewind::None => None,
        }
    }

    /// Lane order: whether `offset` may not go out now, because the lane is on its
    /// way back or a record below is given up and not settled.
    pub(crate) fn is_held_back(&self, offset: Offset) -> bool {
        self.policy.order.is_lane()
            && (self.rewind != Rewind::None
                || self
                    .window
                    .lowest_given_up()
                    .is_some_and(|lowest| lowest < offset))
    }

    /// Whether a verdict may still count for records that are to be read again.
    pub(crate) const fn late_counts(&self) -> bool {
        match self.rewind {
            Rewind::None | Rewind::Waiting { asked: false, .. } => true,
            Rewind::Waiting { asked: true, .. } | Rewind::Seeking { .. } => false,
        }
    }

    /// Whether records are to be read again that were received in this assignment;
    /// those of an earlier one lie ahead.
    pub(crate) fn reads_again(&self) -> bool {
        let counts = self.window.counts();
        let mut unread = self
            .window
            .runs()
            .filter(|(_, slot)| matches!(slot.state, State::Unread { .. }));
        counts.unread > 0 && unread.any(|(run, _)| Some(run.first().position()) < self.next)
    }

    fn may_seek(&self) -> bool {
        let counts = self.window.counts();
        // A refusal above what is to be read again waits for that, and not the seek for
        // it: its holder's late verdict has decided it, and its body comes again.
        let pending = counts.given_up - counts.refused;
        self.phase == Phase::Active && counts.in_flight == 0 && pending == 0
    }

    /// What happens to `piece`, at or above a failure.
    fn void(&mut self, piece: crate::OffsetRange, slot: Slot) {
        let unread = slot.with(State::Unread { late: None });
        let void = Slot {
            voided: slot.voided.saturating_add(1),
            ..unread
        };
        match slot.state {
            State::Ready { .. } => self.window.set(piece, unread),
            State::Dispatched { subscriber, .. } | State::Out { subscriber, .. } => {
                self.effects.returned(subscriber, piece, Return::Rewound);
                self.ended.note(piece, subscriber, slot.deliveries, false);
                self.window.set(piece, void);
            }
            State::Acked { subscriber } => {
                self.confirmations.void(piece);
                self.ended.note(piece, subscriber, slot.deliveries, false);
                self.window.set(piece, void);
            }
            State::Refused { cause, subscriber } => {
                if let Some(subscriber) = subscriber {
                    self.ended.note(piece, subscriber, slot.deliveries, false);
                }
                self.confirmations.void(piece);
                // Only a verdict is void; used-up attempts stay used up.
                let again = if cause == Cause::Rejected {
                    void
                } else {
                    unread
                };
                self.window.set(piece, again);
            }
            State::Behind
            | State::Unread { .. }
            | State::Delayed { .. }
            | State::DeadLettering { .. }
            | State::Held { .. }
            | State::Settled { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Backoff, Epoch, Generation, OnReject, Order, Policy, Start, Window};

    #[test]
    fn l10_of_the_failures_of_one_turn_the_lowest_and_the_longest_wait_count() {
        let backoff = Backoff {
            initial: Duration::ZERO,
            factor: 1.0,
            max: Duration::ZERO,
        };
        let policy = Policy {
            order: Order::Lane { skip_acked: false },
            ack_deadline: Duration::ZERO,
            max_attempts: 1,
            max_deliveries: 1,
            backoff,
            on_reject: OnReject::DeadLetter,
            dead_letter_backoff: backoff,
            on_unwritten: crate::OnUnwritten::Block,
            breaker: crate::Breaker::default(),
            window: Window {
                records: 1,
                span: 1,
            },
            commit_interval: Duration::ZERO,
            commit_settlements: 1,
            exactly_once: false,
        };
        let start = Start {
            generation: Generation(1),
            epoch: Epoch(0),
            position: None,
            committed: false,
            seed: 0,
            map: crate::MapStart::default(),
        };
        let seconds = |n| Time(Duration::from_secs(n));
        let mut lane = Lane::new(policy, start);
        lane.note_failure(Offset::new(5), seconds(2));
        lane.note_failure(Offset::new(3), seconds(1));
        lane.note_failure(Offset::new(4), seconds(1));
        assert_eq!(lane.failure, Some((Offset::new(3), seconds(2))));
    }
}
