//! A lane with one-line inputs, in whole milliseconds, and effects as a list.

use std::time::Duration;

use ackgate_lane::{
    AckMap, Answer, Backoff, Cause, CommitOutcome, Confirmed, DeadLetterOutcome, Effect, Epoch,
    Generation, Lane, MapStart, Offset, OffsetRange, OnExpired, OnReject, Order, Policy, Position,
    Ready, Return, SeekOutcome, Start, Subscriber, Target, Time, Verdict, VerdictResult, Window,
    invariants,
};

pub(crate) const A: Subscriber = Subscriber(1);
pub(crate) const B: Subscriber = Subscriber(2);
pub(crate) const C: Subscriber = Subscriber(3);

/// Time for a verdict, in milliseconds.
pub(crate) const DEADLINE: u64 = 30_000;
pub(crate) const FAILED: Verdict = Verdict::Failed { retry_after: None };

/// Failed, to be delivered again after `ms`.
pub(crate) fn failed_for(ms: u64) -> Verdict {
    Verdict::Failed {
        retry_after: Some(Duration::from_millis(ms)),
    }
}

/// Offsets `first` to `last`, both included.
pub(crate) fn range(first: u64, last: u64) -> OffsetRange {
    OffsetRange::inclusive(Offset::new(first), Offset::new(last)).expect("not empty")
}

pub(crate) fn at(ms: u64) -> Time {
    Time(Duration::from_millis(ms))
}

pub(crate) fn policy() -> Policy {
    let backoff = Backoff {
        initial: Duration::from_secs(1),
        factor: 2.0,
        max: Duration::from_secs(60),
    };
    Policy {
        order: Order::None,
        ack_deadline: Duration::from_millis(DEADLINE),
        max_attempts: 5,
        max_deliveries: 20,
        backoff,
        on_reject: OnReject::DeadLetter,
        dead_letter_backoff: backoff,
        window: Window {
            records: 2000,
            span: 10_000,
        },
        commit_interval: Duration::from_secs(1),
        commit_settlements: 10_000,
    }
}

pub(crate) fn in_lane_order() -> Policy {
    Policy {
        order: Order::Lane { skip_acked: false },
        ..policy()
    }
}

/// A lane under test: every input is followed by a check of the invariants.
pub(crate) struct Bench {
    pub(crate) lane: Lane,
    pub(crate) now: Time,
    /// Effects taken and not looked at.
    pending: Vec<Effect>,
    /// Commits asked for, by their numbers.
    asked: Vec<(u64, u64)>,
}

impl Bench {
    /// A lane that Kafka has committed up to offset 0.
    pub(crate) fn new(policy: Policy) -> Self {
        Self::starting(policy, Some(0), true)
    }

    pub(crate) fn starting(policy: Policy, position: Option<u64>, committed: bool) -> Self {
        Self::with_map(policy, position, committed, MapStart::default())
    }

    pub(crate) fn with_map(
        policy: Policy,
        position: Option<u64>,
        committed: bool,
        map: MapStart,
    ) -> Self {
        let start = Start {
            generation: Generation(1),
            epoch: Epoch(0),
            position: position.map(Position::new),
            committed,
            seed: 7,
            map,
        };
        Self {
            lane: Lane::new(policy, start),
            now: at(0),
            pending: Vec::new(),
            asked: Vec::new(),
        }
    }

    fn checked(&self) {
        if let Err(violation) = invariants::check(&self.lane) {
            panic!("{violation}\n{:?}", self.lane.snapshot());
        }
    }

    pub(crate) fn fetched(&mut self, first: u64, last: u64) -> &mut Self {
        self.lane.handle_fetched(self.now, range(first, last));
        self.checked();
        self
    }

    /// Records from `first` on with these keys.
    pub(crate) fn keyed(&mut self, first: u64, keys: &[Option<u64>]) -> &mut Self {
        let last = first + keys.len() as u64 - 1;
        self.lane
            .handle_fetched_keyed(self.now, range(first, last), keys);
        self.checked();
        self
    }

    pub(crate) fn end(&mut self, position: u64) -> &mut Self {
        self.lane.handle_end(self.now, Position::new(position));
        self.checked();
        self
    }

    /// Hands out `first` to `last` and reports them as sent; all must be ready for `to`.
    pub(crate) fn hand(&mut self, to: Subscriber, first: u64, last: u64) -> &mut Self {
        let before = self.lane.snapshot().in_flight;
        let deadline = Duration::from_millis(DEADLINE);
        self.lane
            .handle_dispatched(self.now, to, range(first, last), deadline);
        self.checked();
        let after = self.lane.snapshot().in_flight;
        assert_eq!(after - before, last - first + 1, "not all were ready");
        self.sent(to, first, last)
    }

    pub(crate) fn paused(&mut self, subscriber: Subscriber) -> &mut Self {
        self.lane.handle_subscriber_paused(self.now, subscriber);
        self.checked();
        self
    }

    pub(crate) fn gone(&mut self, oldest: u64) -> &mut Self {
        self.lane.handle_gone(self.now, Position::new(oldest));
        self.checked();
        self
    }

    /// The lowest offset that `subscriber` may take.
    pub(crate) fn ready_offset(&self, subscriber: Subscriber) -> Option<u64> {
        let ready = self.lane.ready_for(subscriber)?;
        Some(ready.range.first().get())
    }

    /// Fetches `first` to `last`, of which nobody wants any; how many settled.
    pub(crate) fn filtered(&mut self, first: u64, last: u64) -> u64 {
        let range = range(first, last);
        self.lane.handle_fetched(self.now, range);
        let settled = self.lane.handle_filtered(self.now, range);
        self.checked();
        settled
    }

    /// Fetches `first` to `last`, whose content is refused; how many are given up.
    pub(crate) fn unfit(&mut self, first: u64, last: u64) -> u64 {
        let range = range(first, last);
        self.lane.handle_fetched(self.now, range);
        let given_up = self.lane.handle_unfit(self.now, range, Cause::Content);
        self.checked();
        given_up
    }

    /// `first` to `last`, fetched, have become too old; how many are taken out.
    pub(crate) fn expired(&mut self, first: u64, last: u64, then: OnExpired) -> u64 {
        let taken = self.lane.handle_expired(self.now, range(first, last), then);
        self.checked();
        taken
    }

    pub(crate) fn fenced(&mut self) -> &mut Self {
        self.lane.handle_fenced(self.now);
        self.checked();
        self
    }

    /// Hands out `first` to `last`, which must be ready, and reports them as sent.
    pub(crate) fn deliver(&mut self, to: Subscriber, first: u64, last: u64) -> &mut Self {
        self.dispatch(to, first, last);
        self.lane.handle_sent(self.now, to, range(first, last));
        self.checked();
        self
    }

    pub(crate) fn dispatch(&mut self, to: Subscriber, first: u64, last: u64) -> &mut Self {
        let mut next = first;
        while next <= last {
            let ready = self.lane.ready().expect("something is ready");
            assert_eq!(ready.range.first(), Offset::new(next), "{ready:?}");
            let end = ready.range.last().get().min(last);
            let deadline = Duration::from_millis(DEADLINE);
            self.lane
                .handle_dispatched(self.now, to, range(next, end), deadline);
            self.checked();
            next = end + 1;
            // The next run may begin after a gap.
            if let Some(ready) = self.lane.ready() {
                next = next.max(ready.range.first().get());
            }
        }
        self
    }

    pub(crate) fn sent(&mut self, to: Subscriber, first: u64, last: u64) -> &mut Self {
        self.lane.handle_sent(self.now, to, range(first, last));
        self.checked();
        self
    }

    /// A verdict and its answers as (first, last, result).
    pub(crate) fn verdict(
        &mut self,
        from: Subscriber,
        (first, last): (u64, u64),
        delivery: Option<u32>,
        verdict: Verdict,
    ) -> Vec<(u64, u64, VerdictResult)> {
        let mut answers = Vec::new();
        let target = Target {
            range: range(first, last),
            delivery,
        };
        self.lane
            .handle_verdict(self.now, from, target, verdict, &mut answers);
        self.checked();
        plain(&answers)
    }

    /// A verdict that is applied to all of `first` to `last`.
    pub(crate) fn applied(
        &mut self,
        from: Subscriber,
        first: u64,
        last: u64,
        verdict: Verdict,
    ) -> &mut Self {
        let answers = self.verdict(from, (first, last), None, verdict);
        assert!(
            answers
                .iter()
                .all(|answer| answer.2 == VerdictResult::Applied),
            "{answers:?}"
        );
        self
    }

    pub(crate) fn ack(&mut self, from: Subscriber, first: u64, last: u64) -> &mut Self {
        self.applied(from, first, last, Verdict::Acked)
    }

    /// The one result of a verdict without a delivery number on one offset.
    pub(crate) fn result(
        &mut self,
        from: Subscriber,
        offset: u64,
        verdict: Verdict,
    ) -> VerdictResult {
        let answers = self.verdict(from, (offset, offset), None, verdict);
        assert_eq!(answers.len(), 1, "{answers:?}");
        answers[0].2
    }

    pub(crate) fn extend(
        &mut self,
        from: Subscriber,
        (first, last): (u64, u64),
        ms: u64,
    ) -> Vec<(u64, u64, VerdictResult)> {
        let mut answers = Vec::new();
        let target = Target {
            range: range(first, last),
            delivery: None,
        };
        self.lane.handle_extend(
            self.now,
            from,
            target,
            Duration::from_millis(ms),
            &mut answers,
        );
        self.checked();
        plain(&answers)
    }

    pub(crate) fn lost(&mut self, subscriber: Subscriber) -> &mut Self {
        self.lane.handle_subscriber_lost(self.now, subscriber);
        self.checked();
        self
    }

    pub(crate) fn closed(&mut self, subscriber: Subscriber) -> &mut Self {
        self.lane.handle_subscriber_closed(self.now, subscriber);
        self.checked();
        self
    }

    pub(crate) fn dead_letter(&mut self, offset: u64, outcome: DeadLetterOutcome) -> &mut Self {
        self.lane
            .handle_dead_letter(self.now, Offset::new(offset), outcome);
        self.checked();
        self
    }

    /// Answers the last request for `position`, if there was one.
    pub(crate) fn committed(&mut self, position: u64, outcome: CommitOutcome) -> &mut Self {
        self.note_asked();
        let asked = self.asked.iter().rev().find(|asked| asked.1 == position);
        let serial = asked.map_or(u64::MAX, |asked| asked.0);
        self.lane.handle_commit(self.now, serial, outcome);
        self.checked();
        self
    }

    pub(crate) fn sought(&mut self, outcome: SeekOutcome) -> &mut Self {
        self.lane.handle_seek(self.now, outcome);
        self.checked();
        self
    }

    pub(crate) fn drain(&mut self, deadline: u64) -> &mut Self {
        self.lane.begin_drain(self.now, at(deadline));
        self.checked();
        self
    }

    /// Moves on to `ms` with the timeouts that the lane asks for on the way.
    pub(crate) fn until(&mut self, ms: u64) -> &mut Self {
        while let Some(time) = self.lane.poll_timeout().filter(|time| *time <= at(ms)) {
            self.now = self.now.max(time);
            self.lane.handle_timeout(self.now);
            self.checked();
            assert!(self.lane.poll_timeout() > Some(time) || self.lane.poll_timeout().is_none());
        }
        self.now = at(ms);
        self
    }

    /// The effects so far; commits without their numbers.
    pub(crate) fn effects(&mut self) -> Vec<Effect> {
        self.note_asked();
        std::mem::take(&mut self.pending)
    }

    fn note_asked(&mut self) {
        while let Some(effect) = self.lane.poll_effect() {
            if let Effect::Commit { position, serial } = effect {
                self.asked.push((serial, position.get()));
                self.pending.push(commit(position.get()));
            } else {
                self.pending.push(effect);
            }
        }
    }

    /// The map of the last commit asked for, as it would be read.
    pub(crate) fn map(&mut self) -> Option<AckMap> {
        self.note_asked();
        let (serial, _) = *self.asked.last()?;
        let bytes = self.lane.commit_map(serial)?;
        Some(AckMap::decode(bytes).expect("a sound map"))
    }

    /// Waits of `confirm` that have ended.
    pub(crate) fn confirmed(&mut self) -> Vec<(u64, Confirmed)> {
        std::iter::from_fn(|| self.lane.poll_confirmation())
            .map(|confirmation| (confirmation.token, confirmation.result))
            .collect()
    }

    /// Waits for `ranges` to be durable.
    pub(crate) fn confirm(&mut self, token: u64, ranges: &[(u64, u64)]) -> &mut Self {
        let ranges = ranges.iter().map(|run| range(run.0, run.1)).collect();
        self.lane.confirm(self.now, token, ranges);
        self.checked();
        self
    }

    /// Forgets the effects so far.
    pub(crate) fn quiet(&mut self) -> &mut Self {
        self.effects();
        self
    }

    pub(crate) fn floor(&self) -> u64 {
        self.lane.floor().expect("a floor").get()
    }

    pub(crate) fn ready(&self) -> Option<Ready> {
        self.lane.ready()
    }

    /// What is ready as (first, last).
    pub(crate) fn ready_range(&self) -> Option<(u64, u64)> {
        self.ready()
            .map(|ready| (ready.range.first().get(), ready.range.last().get()))
    }

    /// Confirms commits as they come until `ms`; the positions asked for.
    pub(crate) fn commits_until(&mut self, ms: u64) -> Vec<u64> {
        let mut positions = Vec::new();
        loop {
            for effect in self.effects() {
                if let Effect::Commit { position, .. } = effect {
                    positions.push(position.get());
                    self.committed(position.get(), CommitOutcome::Done);
                }
            }
            match self.lane.poll_timeout().filter(|time| *time <= at(ms)) {
                Some(time) => {
                    self.now = self.now.max(time);
                    self.lane.handle_timeout(self.now);
                    self.checked();
                }
                None => break,
            }
        }
        self.now = at(ms);
        positions
    }
}

fn plain(answers: &[Answer]) -> Vec<(u64, u64, VerdictResult)> {
    answers
        .iter()
        .map(|a| (a.range.first().get(), a.range.last().get(), a.result))
        .collect()
}

pub(crate) fn settled(first: u64, last: u64) -> Effect {
    Effect::Settled {
        range: range(first, last),
    }
}

pub(crate) fn returned(subscriber: Subscriber, first: u64, last: u64, why: Return) -> Effect {
    Effect::Returned {
        subscriber,
        range: range(first, last),
        why,
    }
}

pub(crate) fn commit(position: u64) -> Effect {
    Effect::Commit {
        position: Position::new(position),
        serial: 0,
    }
}

pub(crate) fn seek(position: u64) -> Effect {
    Effect::Seek {
        to: Position::new(position),
    }
}
