//! What follows from an input: shares' decisions are counted, counts become verdicts
//! on the trunk, and what the trunk has ready is fanned out, until nothing moves.
//!
//! **Invariant**: a record is settled only when every member of its snapshot has
//! decided or gone and at least one has decided (L6); given up only once (L3).

use std::time::Duration;

use super::{
    Broadcast, Refusal, TRUNK,
    share::Share,
    tally::{Decision, Tally},
};
use crate::{
    Answer, DeadLetterOutcome, Effect, Offset, OffsetRange, Return, Subscriber, Target, Time,
    Verdict, atomic,
    lane::Phase,
    slot::{Slot, State},
};

impl Broadcast {
    /// Carries everything out that needs nobody outside.
    pub(super) fn pump(&mut self, now: Time) {
        loop {
            let mut moved = self.carry_shares(now);
            moved |= self.decide(now);
            moved |= self.fan_out(now);
            self.end_drain(now);
            moved |= self.carry_trunk();
            if !moved {
                break;
            }
        }
        self.watch_window(now);
    }

    fn carry_shares(&mut self, now: Time) -> bool {
        let mut moved = false;
        for (&subscriber, share) in &mut self.shares {
            while let Some(effect) = share.lane.poll_effect() {
                moved = true;
                match effect {
                    Effect::Settled { range } => count(&mut self.tally, share, range),
                    Effect::DeadLetter {
                        offset,
                        cause,
                        attempts,
                        deliveries,
                    } => {
                        let refusal = Refusal {
                            subscriber,
                            cause,
                            attempts,
                            deliveries,
                        };
                        share.refused.insert(offset.get(), refusal);
                        share
                            .lane
                            .handle_dead_letter(now, offset, DeadLetterOutcome::Stored);
                    }
                    Effect::Seek { .. } => share.read_again(now),
                    Effect::Returned { .. } => self.effects.push_back(effect),
                    // Commits and the end of the drain are the trunk's; a share is
                    // never told that something has vanished or was read twice.
                    Effect::Commit { .. }
                    | Effect::MapRefused { .. }
                    | Effect::Skipped { .. }
                    | Effect::Lost { .. }
                    | Effect::Dropped { .. }
                    | Effect::Parked { .. }
                    | Effect::Discarded { .. }
                    | Effect::Tripped { .. }
                    | Effect::CutOff { .. }
                    | Effect::Withdrawn { .. }
                    | Effect::Drained => {}
                }
            }
        }
        moved
    }

    /// What everybody has decided becomes the trunk's verdict.
    fn decide(&mut self, now: Time) -> bool {
        let decided = self.tally.take_decided();
        let moved = !decided.is_empty();
        for (range, counts) in decided {
            let verdict = if counts.rejected > 0 {
                Verdict::Rejected
            } else if counts.acked > 0 {
                Verdict::Acked
            } else {
                // Nobody listened, which is no answer.
                self.tally.forget(range);
                Verdict::Released
            };
            let target = Target {
                range,
                delivery: None,
            };
            let mut told: Vec<Answer> = Vec::new();
            self.trunk
                .handle_verdict(now, TRUNK, target, verdict, &mut told);
        }
        moved
    }

    /// Fans out what the trunk has ready to the members that are there: they are the
    /// snapshot. The one place where it is decided which records are for which share.
    fn fan_out(&mut self, now: Time) -> bool {
        let mut moved = false;
        while self.shares.values().any(Share::is_here)
            && let Some(ready) = self.trunk.ready()
        {
            moved = true;
            let range = ready.range;
            self.trunk
                .handle_dispatched(now, TRUNK, range, Duration::MAX);
            let mut members = 0;
            let keys = self.keys_of(range);
            for share in self.shares.values_mut().filter(|share| share.is_here()) {
                share.entrust(now, range, &keys);
                members += 1;
            }
            self.tally.open(range, members);
        }
        moved
    }

    /// A draining trunk waits for verdicts only while a subscriber has something.
    fn end_drain(&mut self, now: Time) {
        if matches!(self.trunk.phase, Phase::Draining { .. })
            && self.shares.values().all(Share::is_done)
        {
            self.trunk.handle_subscriber_closed(now, TRUNK);
        }
    }

    fn carry_trunk(&mut self) -> bool {
        let mut moved = false;
        while let Some(effect) = self.trunk.poll_effect() {
            moved = true;
            match effect {
                // The imaginary subscriber has no credit.
                Effect::Returned { .. } => {}
                Effect::DeadLetter { offset, .. } => {
                    let refusal = self.tally.refusal(offset);
                    self.effects
                        .push_back(refusal.map_or(effect, |refusal| Effect::DeadLetter {
                            offset,
                            cause: refusal.cause,
                            attempts: refusal.attempts,
                            deliveries: refusal.deliveries,
                        }));
                }
                Effect::Dropped { offset, .. } => {
                    let refusal = self.tally.refusal(offset);
                    self.effects.push_back(refusal.map_or(effect, |refusal| {
                        let cause = refusal.cause;
                        Effect::Dropped { offset, cause }
                    }));
                }
                Effect::Parked {
                    offset,
                    cause,
                    tries,
                } => {
                    let refusal = self.tally.refusal(offset);
                    self.effects.push_back(Effect::Parked {
                        offset,
                        cause: refusal.map_or(cause, |refusal| refusal.cause),
                        tries,
                    });
                }
                Effect::Discarded {
                    offset,
                    cause,
                    tries,
                } => {
                    let refusal = self.tally.refusal(offset);
                    self.effects.push_back(Effect::Discarded {
                        offset,
                        cause: refusal.map_or(cause, |refusal| refusal.cause),
                        tries,
                    });
                }
                Effect::Settled { range } => {
                    self.tally.forget(range);
                    self.forget_keys(range);
                    self.effects.push_back(effect);
                }
                // Restored: nobody gets it, and no `Settled` follows.
                Effect::Skipped { range } => {
                    self.forget_keys(range);
                    self.effects.push_back(effect);
                }
                Effect::Commit { .. }
                | Effect::MapRefused { .. }
                | Effect::Seek { .. }
                | Effect::Lost { .. }
                | Effect::Tripped { .. }
                | Effect::CutOff { .. }
                | Effect::Withdrawn { .. }
                | Effect::Drained => self.effects.push_back(effect),
            }
        }
        moved
    }

    /// Counts out a member that has gone for good: its verdicts stay, also those that
    /// its order made provisional, since nothing can void them any more.
    pub(super) fn count_out(&mut self, subscriber: Subscriber) {
        let Some(mut share) = self.shares.remove(&subscriber) else {
            return;
        };
        let mut undecided: Vec<(OffsetRange, Slot)> = Vec::new();
        share.each_undecided(|range, slot| undecided.push((range, slot)));
        for (range, slot) in undecided {
            match slot.state {
                State::Acked { .. } => self.tally.decide(range, Decision::Acked),
                State::Refused { cause, .. }
                | State::DeadLettering { cause, .. }
                | State::Held { cause } => {
                    let refusal = Refusal {
                        subscriber,
                        cause,
                        attempts: atomic::attempts(slot, cause),
                        deliveries: slot.deliveries,
                    };
                    for offset in range.first().get()..range.end().get() {
                        self.tally.note(Offset::new(offset), refusal);
                    }
                    self.tally.decide(range, Decision::Rejected);
                }
                State::Ready { .. }
                | State::Behind
                | State::Dispatched { .. }
                | State::Out { .. }
                | State::Delayed { .. }
                | State::Unread { .. } => {
                    if slot.state.holder().is_some() {
                        self.effects.push_back(Effect::Returned {
                            subscriber,
                            range,
                            why: Return::Verdict,
                        });
                    }
                    self.tally.decide(range, Decision::Withdrawn);
                }
                State::Settled { .. } => {}
            }
        }
    }
}

/// Counts what a share has settled: all of it is acked but what it refused.
fn count(tally: &mut Tally, share: &mut Share, range: OffsetRange) {
    let mut rest = Some(range);
    while let Some(part) = rest {
        let refused = share
            .refused
            .range(part.first().get()..part.end().get())
            .next()
            .map(|(&offset, &refusal)| (Offset::new(offset), refusal));
        let end = refused.map_or_else(|| part.end(), |(offset, _)| offset.position());
        if let Some(acked) = part.below(end) {
            tally.decide(acked, Decision::Acked);
        }
        rest = refused.and_then(|(offset, refusal)| {
            share.refused.remove(&offset.get());
            tally.note(offset, refusal);
            tally.decide(OffsetRange::one(offset), Decision::Rejected);
            OffsetRange::new(offset.next().offset(), part.end())
        });
    }
}
