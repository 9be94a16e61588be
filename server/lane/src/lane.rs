//! [`Lane`]: inputs in, effects out.
//!
//! **Boundary**: the door of the crate. Inputs are decided in the file of their
//! subject (`fetch`, `delivery`, `judge`, `settle`, `rewind`); here is what they
//! share: the state, the time, and the turn that ends each of them.

use crate::{
    Answered, Effect, Epoch, Generation, MapStart, Offset, OffsetRange, Policy, Position, Return,
    Time,
    atomic::{Letters, Plan},
    breaker::Gauge,
    commit::Commits,
    confirm::Confirmations,
    effect::Queue,
    jitter::Jitter,
    keys::Keys,
    maps::{self, Maps},
    memory::{Ended, Refusals},
    rewind::Rewind,
    slot::State,
    window::Window,
};

/// Where a lane begins.
#[derive(Clone, Debug)]
pub struct Start {
    /// This assignment.
    pub generation: Generation,
    /// The lane's history; one that a restored map names is later or the same.
    pub epoch: Epoch,
    /// The committed position, or where reading begins; `None` if that is known
    /// only from the first record.
    pub position: Option<Position>,
    /// Whether `position` is what Kafka has committed, so that committing it
    /// again would change nothing.
    pub committed: bool,
    /// Seed of the jitter: the same inputs and seed give the same effects.
    pub seed: u64,
    /// Ack maps: what was read of one, and what may be written.
    pub map: MapStart,
}

/// How a commit went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    /// Kafka has it.
    Done,
    /// Kafka does not have it; the lane asks again later.
    Failed,
    /// Kafka does not have it, because a broker takes no metadata of this size.
    MetadataTooLarge,
}

/// How a dead letter went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadLetterOutcome {
    /// Kafka confirmed it.
    Stored,
    /// It is not known to be stored; the lane keeps the record and asks again.
    Failed,
    /// It was not tried, since the record's body is not there at the moment, or too much
    /// waits to be written; the lane asks again.
    Postponed,
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
    /// Which assignment this is; for its owner's eyes.
    generation: Generation,
    /// Which history this is.
    pub(crate) epoch: Epoch,
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
    /// What travels with it.
    pub(crate) maps: Maps,
    /// Who waits for it.
    pub(crate) confirmations: Confirmations,
    /// Exactly once: the dead letters that go with it.
    pub(crate) letters: Letters,
    /// Deliveries that ended without settling their record.
    pub(crate) ended: Ended,
    /// Records below the floor that were not acked.
    pub(crate) refusals: Refusals,
    /// Spreads retries.
    pub(crate) jitter: Jitter,
    /// How many records were given up of late.
    pub(crate) gauge: Gauge,
    /// Not yet taken.
    pub(crate) effects: Queue,
    /// Verdicts that were applied, not yet taken.
    pub(crate) answered: Answered,
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
        let MapStart {
            most_bytes,
            topic,
            restored,
            doubt,
        } = start.map;
        let mut lane = Self {
            policy,
            generation: start.generation,
            epoch: start.epoch,
            phase: Phase::Active,
            window: Window::default(),
            next: start.position,
            origin: None,
            keys: policy.order.keys(policy.window.records),
            rewind: Rewind::None,
            failure: None,
            commits: Commits::new(start.position, start.committed),
            maps: Maps::new(most_bytes, topic, doubt),
            confirmations: Confirmations::default(),
            letters: Letters::default(),
            ended: Ended::default(),
            refusals: Refusals::default(),
            jitter: Jitter::new(start.seed),
            gauge: Gauge::new(policy.breaker),
            effects: Queue::default(),
            answered: Answered::default(),
        };
        if let Some(map) = restored {
            let position = start.position.filter(|_| start.committed);
            lane.epoch = lane.epoch.max(lane.restore(position, map));
        }
        lane
    }

    /// Takes the answer to [`Effect::Commit`] number `serial`. The last one of a drain
    /// is answered when the lane is done; then it only ends waits for confirmation.
    /// Of a commit with [letters](Self::commit_letters) only a known outcome is an
    /// answer: `Failed` means that Kafka has none of them.
    pub fn handle_commit(&mut self, now: Time, serial: u64, outcome: CommitOutcome) {
        if self.commits.answered(serial, outcome) {
            if self.phase != Phase::Done {
                self.letters_answered(serial, outcome);
            }
            if outcome == CommitOutcome::MetadataTooLarge && self.phase != Phase::Done {
                let most_bytes = self.maps.shrink();
                self.effects.push(Effect::MapRefused { most_bytes });
                self.commits.hurry();
            }
            self.commit_answered(serial, outcome);
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
                State::DeadLettering {
                    cause,
                    tries,
                    parked,
                    ..
                } => {
                    self.ask_for_dead_letter(range, slot, cause, (tries, parked));
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

    /// The verdicts that were applied since the last call.
    pub fn take_answered(&mut self) -> Answered {
        std::mem::take(&mut self.answered)
    }

    /// The assignment that this lane is.
    #[must_use]
    pub const fn generation(&self) -> Generation {
        self.generation
    }

    /// The history that this lane belongs to.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.epoch
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
        self.advance_confirmations(floor);
        let (interval, settlements) = (self.policy.commit_interval, self.policy.commit_settlements);
        if self.commits.is_due(now, floor, interval, settlements) && !self.ask_commit(floor) {
            self.commits.put_off(now, interval);
        }
        self.advance_drain(now);
    }

    /// Asks for the commit of `floor` and the map; `false` if that has to wait, since
    /// it would cover less than has been confirmed (L12).
    fn ask_commit(&mut self, floor: Position) -> bool {
        let was_alone = self.maps.is_alone();
        let Plan {
            position,
            map,
            covered,
            letters,
        } = self.plan_commit(floor);
        if Some(covered) < self.confirmations.bound() {
            return false;
        }
        let fingerprint = maps::fingerprint_of(map.as_ref());
        match self.commits.ask(position, fingerprint, covered) {
            Some(serial) => {
                self.note_riding(serial, letters);
                self.note_asked(serial, covered);
                self.keep_map(serial, map);
                self.effects.push(Effect::Commit { position, serial });
                true
            }
            // The position alone was nothing new; the smaller map is.
            None if was_alone => {
                self.commits.tried();
                false
            }
            None => {
                self.end_known(floor);
                true
            }
        }
    }

    /// Ends the drain if nothing is awaited or its time is over.
    fn advance_drain(&mut self, now: Time) {
        let Phase::Draining { deadline } = self.phase else {
            return;
        };
        let counts = self.window.counts();
        if now < deadline && (counts.in_flight > 0 || self.drain_awaits_letters()) {
            return;
        }
        self.take_back_all();
        // Beside letters of which nobody knows yet whether Kafka has them nothing true
        // can be said of them.
        if !self.letters.are_riding()
            && let Some(floor) = self.floor().filter(|floor| self.commits.has_last(*floor))
        {
            self.ask_commit(floor);
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
