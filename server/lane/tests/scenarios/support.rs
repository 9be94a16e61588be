//! A lane with one-line inputs, in whole milliseconds, and effects as a list.

mod inputs;
mod seen;

use std::time::Duration;

use ackgate_lane::{
    Backoff, Breaker, Effect, Epoch, Generation, Lane, MapStart, Offset, OffsetRange, OnReject,
    OnUnwritten, Order, Policy, Position, Return, Start, Subscriber, Time, Verdict, Window,
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
        on_unwritten: OnUnwritten::Block,
        breaker: Breaker::default(),
        window: Window {
            records: 2000,
            span: 10_000,
        },
        commit_interval: Duration::from_secs(1),
        commit_settlements: 10_000,
        exactly_once: false,
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
