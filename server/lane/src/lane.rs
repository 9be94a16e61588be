//! [`Lane`]: inputs in, effects out.

use std::time::Duration;

use crate::{
    Answer, Effect, Epoch, Generation, Offset, OffsetRange, Policy, Position, Subscriber, Target,
    Time, Verdict,
};

/// Where a lane begins.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// This assignment.
    pub generation: Generation,
    /// The lane's history.
    pub epoch: Epoch,
    /// The committed position, or where reading begins; `None` if that is known
    /// only from the first record.
    pub position: Option<Position>,
    /// Whether `position` is what Kafka has committed, so that committing it
    /// again would change nothing.
    pub committed: bool,
    /// Seed of the jitter: the same inputs and seed give the same effects.
    pub seed: u64,
}

/// How a commit went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    /// Kafka has it.
    Done,
    /// Kafka does not have it; the lane asks again later.
    Failed,
}

/// How a dead letter went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadLetterOutcome {
    /// Kafka confirmed it.
    Stored,
    /// It is not known to be stored; the lane holds the record and asks again.
    Failed,
}

/// How a seek went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekOutcome {
    /// The next record fetched is the first visible one at or after the target.
    Done,
    /// Nothing moved; the lane asks again.
    Failed,
}

/// A run of records that may be handed out now, uniform in its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The run; any non-empty part of it from its first offset on may be taken.
    pub range: OffsetRange,
    /// The attempt this hand-over would be, 1 or more.
    pub attempt: u32,
    /// The delivery this hand-over would be, 1 or more.
    pub delivery: u32,
    /// Hand it out with nothing else in the batch: it may have killed subscribers.
    pub alone: bool,
    /// Lane order: only this subscriber may take it, while it has records of the lane out.
    pub owner: Option<Subscriber>,
}

/// What a lane waits for that is not a verdict; each has a way forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Lane order: the backoff of the record at the floor ends at `until`.
    Backoff {
        /// The failed record.
        offset: Offset,
        /// When the seek back comes.
        until: Time,
    },
    /// A seek has been asked for and not been answered.
    Seeking,
    /// The dead letter at the floor is not confirmed yet, or is tried again at `retry`.
    DeadLetter {
        /// The record.
        offset: Offset,
        /// The next try, if the last one failed.
        retry: Option<Time>,
    },
    /// `on_reject = hold`: an operator must act.
    Operator {
        /// The record.
        offset: Offset,
    },
    /// The drain goes on until `deadline` at most.
    Draining {
        /// The end of it.
        deadline: Time,
    },
}

/// A lane as operators see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The floor: lowest unsettled offset, else the next offset to fetch.
    pub floor: Option<Position>,
    /// What Kafka has confirmed.
    pub committed: Option<Position>,
    /// The next offset to fetch.
    pub next: Option<Position>,
    /// Records received and not settled.
    pub unsettled: u64,
    /// Records out.
    pub in_flight: u64,
    /// Records waiting for their not-before time.
    pub delayed: u64,
    /// What it waits for, if not for verdicts.
    pub hold: Option<Hold>,
}

/// The state of one (topic, partition) while assigned.
#[derive(Debug)]
pub struct Lane {
    policy: Policy,
    start: Start,
}

#[allow(unused_variables, clippy::todo, reason = "skeleton")]
impl Lane {
    /// Begins a lane.
    #[must_use]
    pub fn new(policy: Policy, start: Start) -> Self {
        Self { policy, start }
    }

    /// Takes records that were fetched: every offset of `range` exists in the log.
    /// Calls come in offset order; offsets between two calls do not exist (any
    /// more). After a seek the calls begin again at the seek's target.
    pub fn handle_fetched(&mut self, now: Time, range: OffsetRange) {
        todo!()
    }

    /// `range`, the beginning of what `ready` returned, goes to `subscriber`, whose
    /// deadline for it is `ack_deadline` from the hand-over to the transport.
    pub fn handle_dispatched(
        &mut self,
        now: Time,
        subscriber: Subscriber,
        range: OffsetRange,
        ack_deadline: Duration,
    ) {
        todo!()
    }

    /// What was dispatched has been handed to the transport: deadlines start.
    pub fn handle_sent(&mut self, now: Time, subscriber: Subscriber, range: OffsetRange) {
        todo!()
    }

    /// Takes a verdict and appends what became of each part of it to `answers`.
    pub fn handle_verdict(
        &mut self,
        now: Time,
        subscriber: Subscriber,
        target: Target,
        verdict: Verdict,
        answers: &mut Vec<Answer>,
    ) {
        todo!()
    }

    /// Moves deadlines to `by` from now, at most 1 h after the hand-over.
    pub fn handle_extend(
        &mut self,
        now: Time,
        subscriber: Subscriber,
        target: Target,
        by: Duration,
        answers: &mut Vec<Answer>,
    ) {
        todo!()
    }

    /// Takes back everything that is out to `subscriber`, whose stream has died:
    /// no attempt is used, the delivery counts.
    pub fn handle_subscriber_lost(&mut self, now: Time, subscriber: Subscriber) {
        todo!()
    }

    /// Takes back everything that is out to `subscriber`, who has said goodbye: as
    /// if it had released it.
    pub fn handle_subscriber_closed(&mut self, now: Time, subscriber: Subscriber) {
        todo!()
    }

    /// The record, ready to go out, is larger than its subscriber accepts: it goes
    /// the way of rejected records with cause oversize.
    pub fn handle_oversize(&mut self, now: Time, offset: Offset) {
        todo!()
    }

    /// Takes the answer to `Effect::DeadLetter`.
    pub fn handle_dead_letter(&mut self, now: Time, offset: Offset, outcome: DeadLetterOutcome) {
        todo!()
    }

    /// Takes the answer to `Effect::Commit`.
    pub fn handle_commit(&mut self, now: Time, position: Position, outcome: CommitOutcome) {
        todo!()
    }

    /// Takes the answer to `Effect::Seek`.
    pub fn handle_seek(&mut self, now: Time, outcome: SeekOutcome) {
        todo!()
    }

    /// The time of [`Self::poll_timeout`] has come, or any other.
    pub fn handle_timeout(&mut self, now: Time) {
        todo!()
    }

    /// Ends hand-overs; verdicts count until everything out is answered or
    /// `deadline` comes, then the last commit is asked for and the lane is done.
    pub fn begin_drain(&mut self, now: Time, deadline: Time) {
        todo!()
    }

    /// The next thing to do; call until `None` after every input.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        todo!()
    }

    /// When to call [`Self::handle_timeout`] next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        todo!()
    }

    /// The next run to hand out, if there is one and the lane may.
    #[must_use]
    pub fn ready(&self) -> Option<Ready> {
        todo!()
    }

    /// How many more records may be fetched now, within the window.
    #[must_use]
    pub fn room(&self) -> u32 {
        todo!()
    }

    /// Whether a drain has begun.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        todo!()
    }

    /// The floor.
    #[must_use]
    pub fn floor(&self) -> Option<Position> {
        todo!()
    }

    /// The lane as operators see it.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        todo!()
    }
}
