//! Exactly once: given-up records whose dead letters travel with the commit that says
//! they are settled.
//!
//! **Boundary**: says which letters go with a commit; when one is asked for is the
//! business of `commit`, what a map holds that of `maps`.
//! **Invariant**: a commit's position and map say that a given-up record is settled if
//! and only if its letter goes with that commit or went with an earlier one that Kafka
//! has (L3). So while it is not known whether Kafka has a commit with letters, no other
//! is asked for.

use crate::{
    Cause, CommitOutcome, DeadLetterOutcome, Encoded, Lane, Offset, OffsetRange, Position, Time,
    slot::{Slot, State},
};

/// The most letters that go with one commit. A transaction of so many small records
/// takes well under a second; more wait for the next.
const MOST: usize = 256;

/// A given-up record whose dead letter goes with a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Letter {
    /// The record.
    pub offset: Offset,
    /// Why it was given up.
    pub cause: Cause,
    /// Attempts used: failed verdicts and expiries, plus one if it was rejected.
    pub attempts: u32,
    /// Hand-overs so far.
    pub deliveries: u32,
}

/// Letters on their way.
#[derive(Debug)]
pub(crate) struct Letters {
    /// Those of the request that has not been answered, in offset order.
    riding: Option<(u64, Vec<Letter>)>,
    /// How many may go with the next commit: fewer after a failure, which may have been
    /// one of size.
    most: usize,
    /// The last commit with letters failed: the next one goes without them, so that what
    /// else there is to say does not wait for them.
    apart: bool,
    /// That one is being planned: letters that could have gone with it are news still.
    left: bool,
    /// No commit with letters has succeeded since one failed.
    failing: bool,
}

impl Default for Letters {
    fn default() -> Self {
        Self {
            riding: None,
            most: MOST,
            apart: false,
            left: false,
            failing: false,
        }
    }
}

impl Letters {
    /// Whether it is not known yet if Kafka has some.
    pub(crate) const fn are_riding(&self) -> bool {
        self.riding.is_some()
    }

    /// Whether commits with letters fail: no other has succeeded since one did.
    pub(crate) const fn are_failing(&self) -> bool {
        self.failing
    }

    /// Those of the request that has not been answered.
    pub(crate) fn riding(&self) -> &[Letter] {
        self.riding.as_ref().map_or(&[], |(_, letters)| letters)
    }
}

/// What a commit is to say.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) position: Position,
    pub(crate) map: Option<Encoded>,
    /// Below this everything settled is known to Kafka then.
    pub(crate) covered: Position,
    /// What is settled by it, in offset order.
    pub(crate) letters: Vec<Letter>,
}

impl Lane {
    /// The dead letters that go with commit `serial`: all of them and the commit are
    /// stored, or none. Empty if there are none, or the commit has been answered.
    #[must_use]
    pub fn commit_letters(&self, serial: u64) -> &[Letter] {
        match &self.letters.riding {
            Some((of, letters)) if *of == serial => letters,
            Some(_) | None => &[],
        }
    }

    /// `range` waits for the next commit.
    pub(crate) const fn await_commit(&mut self) {
        self.commits.tried();
        if !self.letters.failing {
            self.commits.hurry();
        }
    }

    /// What the next commit says at `floor`.
    pub(crate) fn plan_commit(&mut self, floor: Position) -> Plan {
        let alone = self.maps.take_alone();
        let apart = std::mem::take(&mut self.letters.apart);
        if !self.policy.exactly_once || apart {
            let plan = self.plan_with(floor, alone, 0);
            // Else nothing has been said by it that Kafka does not know.
            let would_say = self.commits.would_say(plan.position, plan.map.as_ref());
            if !self.policy.exactly_once || would_say {
                self.letters.left = apart;
                return plan;
            }
        }
        let bound = self.confirmations.bound();
        let mut plan = self.plan_with(floor, alone, self.letters.most);
        if Some(plan.covered) < bound {
            // Only the number of letters may keep the floor from getting there.
            plan = self.plan_with(floor, alone, usize::MAX);
        }
        // Where none can go before the floor has risen, the lane must not wait for them.
        self.letters.failing &= !plan.letters.is_empty() && Some(plan.covered) >= bound;
        plan
    }

    /// The plan with up to `most` letters.
    fn plan_with(&self, floor: Position, alone: bool, most: usize) -> Plan {
        let mut letters = self.waiting_letters(most);
        loop {
            let position = self.floor_beyond(&letters).unwrap_or(floor);
            let (map, covered) = self.map_for(position, alone, &letters);
            let before = letters.len();
            // What the map has no room for cannot be told to be settled.
            letters.retain(|letter| letter.offset.position() < covered);
            if letters.len() == before {
                return Plan {
                    position,
                    map,
                    covered,
                    letters,
                };
            }
        }
    }

    /// Commit `serial` has been asked for with these.
    pub(crate) fn note_riding(&mut self, serial: u64, letters: Vec<Letter>) {
        if std::mem::take(&mut self.letters.left) {
            self.commits.tried();
        }
        if !letters.is_empty() {
            self.letters.riding = Some((serial, letters));
        }
    }

    /// Commit `serial` has been answered: what went with it settles, or waits on.
    pub(crate) fn letters_answered(&mut self, serial: u64, outcome: CommitOutcome) {
        let riding = &mut self.letters.riding;
        let Some((_, letters)) = riding.take_if(|(of, _)| *of == serial) else {
            return;
        };
        match outcome {
            CommitOutcome::Done => {
                self.letters.most = self.letters.most.saturating_mul(2).min(MOST);
                self.letters.failing = false;
                for letter in &letters {
                    let record = OffsetRange::one(letter.offset);
                    // A later commit that covered less would bring the record and its
                    // letter a second time.
                    self.confirmations.promise(record.end());
                    self.settle_told(record);
                }
                if self.window.counts().dead_lettering > 0 {
                    self.await_commit();
                }
            }
            CommitOutcome::Failed => {
                self.letters.most = (letters.len() / 2).max(1);
                self.letters.apart = true;
                self.letters.failing = true;
            }
            CommitOutcome::MetadataTooLarge => {}
        }
    }

    /// The dead letter at `offset` cannot be made now. It waits by itself, so that what
    /// else is to be committed need not.
    pub(crate) fn set_letter_aside(&mut self, now: Time, offset: Offset) {
        if let Some((_, slot)) = self.window.run_at(offset)
            && let State::DeadLettering {
                cause,
                tries,
                retry: None,
                parked,
            } = slot.state
        {
            let delay = self.jitter.delay(&self.policy.dead_letter_backoff, 1);
            let state = State::DeadLettering {
                cause,
                tries,
                retry: Some(now.after(delay)),
                parked,
            };
            self.window.set(OffsetRange::one(offset), slot.with(state));
        }
    }

    /// As [`Self::handle_dead_letter`], where only a commit can store one.
    pub(crate) fn handle_letter_apart(
        &mut self,
        now: Time,
        offset: Offset,
        outcome: DeadLetterOutcome,
    ) {
        if outcome != DeadLetterOutcome::Stored {
            self.set_letter_aside(now, offset);
        }
        self.end_turn(now);
    }

    /// Whether a drain has to wait: what rides must be known, and what waits should go
    /// with a commit of its own as long as one cannot take it all.
    pub(crate) fn drain_awaits_letters(&self) -> bool {
        if self.policy.exactly_once {
            let waiting = self.window.counts().dead_lettering;
            self.letters.are_riding()
                || usize::try_from(waiting).is_ok_and(|waiting| waiting > self.letters.most)
        } else {
            self.window.counts().dead_lettering > 0
        }
    }

    /// The floor as it is once `letters` are settled.
    pub(crate) fn floor_beyond(&self, letters: &[Letter]) -> Option<Position> {
        let mut left = letters.iter().peekable();
        for (run, slot) in self.window.runs() {
            if matches!(slot.state, State::Settled { .. }) {
                continue;
            }
            let mut at = run.first();
            while run.contains(at) && left.next_if(|letter| letter.offset == at).is_some() {
                at = at.next().offset();
            }
            if run.contains(at) {
                return self.next.map(|next| next.min(at.position()));
            }
        }
        self.next
    }

    /// The lowest records that wait for a commit, up to `most`.
    fn waiting_letters(&self, most: usize) -> Vec<Letter> {
        let mut letters = Vec::new();
        if !self.policy.exactly_once || self.letters.are_riding() {
            return letters;
        }
        for (run, slot) in self.window.given_up_runs() {
            let State::DeadLettering {
                cause, retry: None, ..
            } = slot.state
            else {
                continue;
            };
            for offset in (run.first().get()..run.end().get()).map(Offset::new) {
                if letters.len() >= most {
                    return letters;
                }
                letters.push(Letter {
                    offset,
                    cause,
                    attempts: attempts(slot, cause),
                    deliveries: slot.deliveries,
                });
            }
        }
        letters
    }
}

/// Attempts as a dead letter tells them.
pub(crate) const fn attempts(slot: Slot, cause: Cause) -> u32 {
    match cause {
        Cause::Rejected => slot.attempts.saturating_add(1),
        Cause::AttemptsExhausted
        | Cause::DeliveriesExhausted
        | Cause::Oversize
        | Cause::Content
        | Cause::Expired => slot.attempts,
    }
}

/// The parts of `range`, and whether each consists of `letters`, which are in order.
pub(crate) fn parts(
    range: OffsetRange,
    letters: &[Letter],
) -> impl Iterator<Item = (OffsetRange, bool)> {
    let from = letters.partition_point(|letter| letter.offset < range.first());
    let mut left = letters.get(from..).unwrap_or_default().iter().peekable();
    let mut rest = Some(range);
    std::iter::from_fn(move || {
        let whole = rest?;
        let mut end = whole.first().position();
        let is_letter = left
            .peek()
            .is_some_and(|letter| letter.offset == whole.first());
        if is_letter {
            while whole.contains(end.offset())
                && left
                    .next_if(|letter| letter.offset.position() == end)
                    .is_some()
            {
                end = end.offset().next();
            }
        } else {
            end = left
                .peek()
                .map_or_else(|| whole.end(), |letter| letter.offset.position())
                .min(whole.end());
        }
        rest = whole.at_or_above(end);
        Some((whole.below(end)?, is_letter))
    })
}
