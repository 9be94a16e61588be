//! Exactly once: the dead letters that go with a commit, and what its answer says of
//! them.
//!
//! **Boundary**: which letters go with which commit is the lane's to say; that they and
//! the commit are stored together, or not at all, is the broker's.

use std::collections::BTreeMap;

use ackgate_lane::{CommitOutcome, DeadLetterOutcome, Generation, OffsetRange, Time};

use super::{
    dead_letter::{self, GivenUp},
    driver::Driver,
    meter::LetterOutcome,
    mutation::{self, Mutation},
    tell::tell,
    traces,
};
use crate::broker::{self, ErrorKind, Outgoing};

impl Driver {
    /// The dead letters that go with commit `serial`. `None` if one cannot be made now:
    /// its body is being fetched again, so the lane has been told that the commit failed
    /// and sets that letter aside.
    pub(super) fn letters_of(
        &mut self,
        now: Time,
        generation: Generation,
        serial: u64,
    ) -> Option<Vec<Outgoing>> {
        let subscription = &self.parts.subscription;
        let entry = self.lanes.get_mut(generation)?;
        let wanted = entry.lane.commit_letters(serial);
        let mut letters = Vec::with_capacity(wanted.len());
        let mut missing = Vec::new();
        for letter in wanted {
            let given_up = GivenUp {
                offset: letter.offset,
                cause: letter.cause,
                attempts: letter.attempts,
                deliveries: letter.deliveries,
            };
            let refuser = entry.lane.refusal(letter.offset);
            let refuser = refuser.and_then(|refusal| self.subscribers.name(refusal.subscriber));
            let built = subscription.dead_letter.as_ref().and_then(|to| {
                let topic = Some(to.topic.as_str());
                let own = traces::letter(entry, &self.parts.tracer, &given_up, topic);
                let mut built = dead_letter::build(subscription, to, entry, &given_up, refuser)?;
                built.keep_one_trace(own.as_ref());
                Some(built)
            });
            let refusals = entry.refusals.get(&letter.offset.get());
            match built {
                Some(built) => letters.push(dead_letter::after_refusals(
                    &built,
                    refusals.copied().unwrap_or_default(),
                )),
                None => missing.push((letter.offset, letter.cause)),
            }
        }
        if mutation::is_on(Mutation::ForgetLetters) {
            letters.clear();
        }
        if missing.is_empty() {
            return Some(letters);
        }
        for (offset, cause) in missing {
            self.meter.letters.note(cause, LetterOutcome::Postponed);
            entry
                .lane
                .handle_dead_letter(now, offset, DeadLetterOutcome::Postponed);
        }
        entry.lane.handle_commit(now, serial, CommitOutcome::Failed);
        None
    }

    /// Commit `serial` has been answered: counts and tells what became of its letters.
    /// Before the lane takes the answer, which forgets them.
    pub(super) fn letters_committed(
        &mut self,
        now: Time,
        generation: Generation,
        serial: u64,
        result: &Result<(), broker::Error>,
    ) {
        let Some(entry) = self.lanes.get_mut(generation) else {
            return;
        };
        let letters = entry.lane.commit_letters(serial);
        let Some(first) = letters.first() else { return };
        for letter in &letters {
            let outcome = LetterOutcome::of(result);
            self.meter.letters.note(letter.cause, outcome);
            self.trace_letter(generation, letter.offset, result.as_ref().map(|()| None));
        }
        let Some(entry) = self.lanes.get_mut(generation) else {
            return;
        };
        let error = match result {
            Ok(()) => {
                for letter in &letters {
                    self.tally.given_up(letter.cause);
                }
                if let Some(count) = self.letter_failures.over() {
                    tracing::info!(
                        subscription = self.parts.subscription.name,
                        count,
                        "dead letters are written again"
                    );
                }
                // They went together: whatever fails next has a reason of its own.
                entry.letter_error = None;
                return;
            }
            Err(error) => error,
        };
        match error.kind {
            ErrorKind::LetterTooLarge(index) => {
                // The next time it goes in a smaller form.
                let Some(letter) = letters.get(index) else {
                    return;
                };
                let refusals = entry.refusals.entry(letter.offset.get()).or_default();
                *refusals = refusals.saturating_add(1);
                tell!(warn, self, entry;
                    offset = letter.offset.get(),
                    refusals,
                    %error,
                    "a record is too large for its dead-letter topic: less of it is copied"
                );
                return;
            }
            // The next commit goes without the map that was too large.
            ErrorKind::TooLarge => return,
            ErrorKind::Transient | ErrorKind::Full | ErrorKind::Fenced | ErrorKind::Operator => {}
        }
        if let Some(count) = self.letter_failures.again(now) {
            tell!(warn, self, entry;
                offset = first.offset.get(),
                dead_letters = letters.len(),
                count,
                %error,
                "dead letters and their commit not written, and tried again"
            );
        }
        entry.letter_error = Some(error.to_string());
    }
}

/// Forgets what is settled.
pub(super) fn forget(refusals: &mut BTreeMap<u64, u32>, range: OffsetRange) {
    if !refusals.is_empty() {
        let (first, end) = (range.first().get(), range.end().get());
        refusals.retain(|offset, _| !(first..end).contains(offset));
    }
}
