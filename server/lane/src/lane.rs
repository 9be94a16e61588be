//! [`Lane`]: inputs in, effects out.
//!
//! **Boundary**: the door of the crate. Inputs are decided in the file of their
//! subject (`fetch`, `delivery`, `judge`, `settle`, `rewind`); here is what they
//! share: the state, the time, and the turn that ends each of them.

use crate::{
    Effect, Epoch, Generation, Offset, OffsetRange, Policy, Position, Return, Time,
    commit::Commits,
    effect::Queue,
    jitter::Jitter,
    keys::Keys,
    memory::{Ended, Refusals},
    rewind::Rewind,
    slot::State,
    window::Window,
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

/// The state of one (topic, partition) while assigned.
#[derive(Debug)]
pub struct Lane {
    /// Fixed for the lane's life.
    pub(crate) policy: Policy,
    /// Which assignment and history this is; for its owner's eyes.
    start: Start,
    /// Active, draining or done.
    pub(crate) phase: Phase,
    /// Everything received and not below the floor.
    pub(crate) window: Window,
    /// The next offset to fetch.
    pub(crate) next: Option<Position>,
    /// The first record received: nothing below it was ever handed out.
    pub(crate) origin: Option<Position>,
    /// Key order: the keys of unsettled records.
    pub(crate) keys: Keys,
    /// Lane order: the way back to the floor.
    pub(crate) rewind: Rewind,
    /// Lane order: the lowest failure of the current input, and when its wait ends.
    pub(crate) failure: Option<(Offset, Time)>,
    /// The committed position.
    pub(crate) commits: Commits,
    /// Deliveries that ended without settling their record.
    pub(crate) ended: Ended,
    /// Records below the floor that were not acked.
    pub(crate) refusals: Refusals,
    /// Spreads retries.
    pub(crate) jitter: Jitter,
    /// Not yet taken.
    pub(crate) effects: Queue,
}

/// How far the lane's life has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Everything goes.
    Active,
    /// Nothing new goes out; verdicts count.
    Draining { deadline: Time },
    /// Nothing counts and nothing is asked for.
    Done,
}

impl Lane {
    /// Begins a lane.
    #[must_use]
    pub fn new(policy: Policy, start: Start) -> Self {
        Self {
            policy,
            start,
            phase: Phase::Active,
            window: Window::default(),
            next: start.position,
            origin: None,
            keys: policy.order.keys(policy.window.records),
            rewind: Rewind::None,
            failure: None,
            commits: Commits::new(start.position, start.committed),
            ended: Ended::default(),
            refusals: Refusals::default(),
            jitter: Jitter::new(start.seed),
            effects: Queue::default(),
        }
    }

    /// Takes the answer to [`Effect::Commit`].
    pub fn handle_commit(&mut self, now: Time, position: Position, outcome: CommitOutcome) {
        // Beyond the floor nothing was ever asked for.
        if self.floor() >= Some(position) {
            self.commits.answered(position, outcome);
        }
        self.end_turn(now);
    }

    /// Commits the position where reading begins, at once, unless Kafka has it: it was
    /// looked up, as the end of the log or by time, and a later look-up would pass
    /// records that nobody has answered for (L6).
    pub fn commit_start(&mut self, now: Time) {
        self.commits.pin();
        self.end_turn(now);
    }

    /// Commits what has settled by now without waiting for the interval: whoever
    /// settled it has gone and expects it to be done.
    pub fn commit_soon(&mut self, now: Time) {
        self.commits.hurry();
        self.end_turn(now);
    }

    /// The time of [`Self::poll_timeout`] has come, or any other.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.phase == Phase::Done {
            return;
        }
        while let Some((range, slot)) = self.window.due(now) {
            match slot.state {
                State::Out { .. } => self.expire(now, range, slot),
                State::Delayed { late, .. } => self.make_ready(range, slot, late),
                State::DeadLettering { cause, tries, .. } => {
                    self.ask_for_dead_letter(range, slot, cause, tries);
                }
                State::Ready { .. }
                | State::Behind
                | State::Dispatched { .. }
                | State::Unread { .. }
                | State::Acked { .. }
                | State::Refused { .. }
                | State::Held { .. }
                | State::Settled { .. } => break,
            }
        }
        self.end_turn(now);
    }

    /// Ends hand-overs; verdicts count until everything out is answered or
    /// `deadline` comes, then the last commit is asked for and the lane is done.
    /// Of several drains the earliest deadline holds.
    pub fn begin_drain(&mut self, now: Time, deadline: Time) {
        match self.phase {
            Phase::Active => self.phase = Phase::Draining { deadline },
            Phase::Draining { deadline: before } => {
                self.phase = Phase::Draining {
                    deadline: before.min(deadline),
                };
            }
            Phase::Done => return,
        }
        self.end_turn(now);
    }

    /// The next thing to do; call until `None` after every input.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop()
    }

    /// The assignment that this lane is.
    #[must_use]
    pub const fn generation(&self) -> Generation {
        self.start.generation
    }

    /// The history that this lane belongs to.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.start.epoch
    }

    /// What follows from an input, whichever it was.
    pub(crate) fn end_turn(&mut self, now: Time) {
        if self.phase == Phase::Done {
            return;
        }
        self.void_above_failure();
        self.advance_prefix();
        self.advance_keys();
        self.raise_floor();
        self.advance_rewind(now);
        let Some(floor) = self.floor() else {
            self.advance_drain(now);
            return;
        };
        self.ended.forget_below(floor);
        let (interval, settlements) = (self.policy.commit_interval, self.policy.commit_settlements);
        if let Some(position) = self.commits.poll(now, floor, interval, settlements) {
            self.effects.push(Effect::Commit { position });
        }
        self.advance_drain(now);
    }

    /// Ends the drain if nothing is awaited or its time is over.
    fn advance_drain(&mut self, now: Time) {
        let Phase::Draining { deadline } = self.phase else {
            return;
        };
        let counts = self.window.counts();
        if now < deadline && counts.in_flight + counts.dead_lettering > 0 {
            return;
        }
        self.take_back_all();
        if let Some(position) = self.floor().and_then(|floor| self.commits.last(floor)) {
            self.effects.push(Effect::Commit { position });
        }
        self.phase = Phase::Done;
        self.effects.push(Effect::Drained);
    }

    /// The drain has ended: what is still out is no one's any more.
    fn take_back_all(&mut self) {
        let mut rest = OffsetRange::new(Offset::new(0), Position::new(u64::MAX));
        while let Some((piece, slot)) = rest.and_then(|rest| self.window.piece(rest)) {
            rest = rest.and_then(|rest| rest.at_or_above(piece.end()));
            if let Some(subscriber) = slot.state.holder() {
                self.effects.returned(subscriber, piece, Return::Drained);
                self.window.set(piece, slot.with(State::READY));
            }
        }
    }
}
