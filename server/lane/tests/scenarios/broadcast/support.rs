//! A broadcast lane with one-line inputs, in whole milliseconds.

use std::time::Duration;

use ackgate_lane::{
    Answer, Broadcast, CommitOutcome, DeadLetterOutcome, Debt, Effect, Epoch, Generation, MapStart,
    Offset, Policy, Position, Sharing, Start, Subscriber, Target, Time, Verdict, VerdictResult,
};

use crate::support::{DEADLINE, at, range};

/// How long lost subscribers are waited for, in milliseconds.
pub(crate) const GRACE: u64 = 300_000;

/// A broadcast lane under test: every input is followed by a check of the rules.
pub(crate) struct Bench {
    pub(crate) lane: Broadcast,
    pub(crate) now: Time,
}

impl Bench {
    /// A lane that Kafka has committed up to offset 0.
    pub(crate) fn new(policy: Policy, members: &[Subscriber]) -> Self {
        Self::sharing(policy, None, members)
    }

    /// As [`Self::new`], where the slow are cut off after that many milliseconds.
    pub(crate) fn sharing(policy: Policy, slow: Option<u64>, members: &[Subscriber]) -> Self {
        Self::with_map(policy, slow, members, MapStart::default())
    }

    pub(crate) fn with_map(
        policy: Policy,
        slow: Option<u64>,
        members: &[Subscriber],
        map: MapStart,
    ) -> Self {
        let sharing = Sharing {
            cut_off_after: slow.map(Duration::from_millis),
            absent_grace: Duration::from_millis(GRACE),
        };
        let start = Start {
            generation: Generation(1),
            epoch: Epoch(0),
            position: Some(Position::new(0)),
            committed: true,
            seed: 7,
            map,
        };
        let mut bench = Self {
            lane: Broadcast::new(policy, sharing, start),
            now: at(0),
        };
        for member in members {
            bench.joined(*member);
        }
        bench
    }

    pub(crate) fn checked(&mut self) -> &mut Self {
        if let Err(violation) = self.lane.check() {
            panic!("{violation}\n{:?}", self.lane.snapshot());
        }
        self
    }

    pub(crate) fn joined(&mut self, subscriber: Subscriber) -> &mut Self {
        self.lane.handle_subscriber_joined(self.now, subscriber);
        self.checked()
    }

    pub(crate) fn fetched(&mut self, first: u64, last: u64) -> &mut Self {
        self.lane.handle_fetched(self.now, range(first, last));
        self.checked()
    }

    /// Hands out everything that is ready for `to`: (first, last, delivery).
    pub(crate) fn take(&mut self, to: Subscriber) -> Vec<(u64, u64, u32)> {
        let mut taken = Vec::new();
        while let Some(ready) = self.lane.ready_for(to) {
            let deadline = Duration::from_millis(DEADLINE);
            let run = ready.range;
            self.lane.handle_dispatched(self.now, to, run, deadline);
            self.lane.handle_sent(self.now, to, run);
            self.checked();
            taken.push((run.first().get(), run.last().get(), ready.delivery));
        }
        taken
    }

    /// Hands out everything that is ready for each of these.
    pub(crate) fn all_take(&mut self, members: &[Subscriber]) {
        for member in members {
            self.take(*member);
        }
    }

    /// The results of a verdict.
    pub(crate) fn verdict(
        &mut self,
        from: Subscriber,
        first: u64,
        last: u64,
        verdict: Verdict,
    ) -> Vec<VerdictResult> {
        let mut answers: Vec<Answer> = Vec::new();
        let target = Target {
            range: range(first, last),
            delivery: None,
        };
        self.lane
            .handle_verdict(self.now, from, target, verdict, &mut answers);
        self.checked();
        answers.iter().map(|answer| answer.result).collect()
    }

    /// A verdict that is applied to all of `first` to `last`.
    pub(crate) fn applied(
        &mut self,
        from: Subscriber,
        first: u64,
        last: u64,
        verdict: Verdict,
    ) -> &mut Self {
        assert_eq!(
            self.verdict(from, first, last, verdict),
            [VerdictResult::Applied]
        );
        self
    }

    pub(crate) fn ack(&mut self, from: Subscriber, first: u64, last: u64) -> &mut Self {
        self.applied(from, first, last, Verdict::Acked)
    }

    pub(crate) fn lost(&mut self, subscriber: Subscriber) -> Option<Debt> {
        let debt = self.lane.handle_subscriber_lost(self.now, subscriber);
        self.checked();
        debt
    }

    pub(crate) fn closed(&mut self, subscriber: Subscriber) -> &mut Self {
        self.lane.handle_subscriber_closed(self.now, subscriber);
        self.checked()
    }

    pub(crate) fn dead_letter(&mut self, offset: u64, outcome: DeadLetterOutcome) -> &mut Self {
        self.lane
            .handle_dead_letter(self.now, Offset::new(offset), outcome);
        self.checked()
    }

    pub(crate) fn drain(&mut self, deadline: u64) -> &mut Self {
        self.lane.begin_drain(self.now, at(deadline));
        self.checked()
    }

    /// Moves on to `ms` with the timeouts that the lane asks for on the way.
    pub(crate) fn until(&mut self, ms: u64) -> &mut Self {
        while let Some(time) = self.lane.poll_timeout().filter(|time| *time <= at(ms)) {
            self.now = self.now.max(time);
            self.lane.handle_timeout(self.now);
            self.checked();
            assert!(
                self.lane.poll_timeout().is_none_or(|next| next > time),
                "it spins"
            );
        }
        self.now = at(ms);
        self
    }

    /// Effects, commits confirmed on the way and left out.
    pub(crate) fn effects(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        while let Some(effect) = self.lane.poll_effect() {
            if let Effect::Commit { serial, .. } = effect {
                self.lane
                    .handle_commit(self.now, serial, CommitOutcome::Done);
                self.checked();
            } else {
                effects.push(effect);
            }
        }
        effects
    }

    /// Effects that are about records, not about credit.
    pub(crate) fn outcomes(&mut self) -> Vec<Effect> {
        let mut effects = self.effects();
        effects.retain(|effect| !matches!(effect, Effect::Returned { .. }));
        effects
    }

    pub(crate) fn floor(&self) -> u64 {
        self.lane.floor().expect("a floor").get()
    }

    /// What `subscriber` owes as (first, last, records).
    pub(crate) fn debt(&self, subscriber: Subscriber) -> Option<(u64, u64, u64)> {
        self.lane.debt(subscriber).map(|debt| {
            let range = debt.range;
            (range.first().get(), range.last().get(), debt.records)
        })
    }
}

pub(crate) fn letter(offset: u64, cause: ackgate_lane::Cause, numbers: (u32, u32)) -> Effect {
    Effect::DeadLetter {
        offset: Offset::new(offset),
        cause,
        attempts: numbers.0,
        deliveries: numbers.1,
    }
}
