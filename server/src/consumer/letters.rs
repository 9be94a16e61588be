//! What becomes of given-up records: their dead letters are written, and the answer
//! settles them or lets the lane try again.

use std::{sync::Arc, time::Duration};

use ackgate_lane::{Cause, DeadLetterOutcome, Generation, Offset, Time};

use super::{
    dead_letter::{self, GivenUp, cause_name},
    driver::Driver,
    meter::LetterOutcome,
    mutation::{self, Mutation},
    tell::tell,
    traces,
};
use crate::{
    broker::{self, ErrorKind, Placed},
    fail,
};

/// A producer without room is left alone for this long: thousands may wait for it.
const FULL: Duration = Duration::from_secs(1);

impl Driver {
    pub(super) fn dead_letter(&mut self, now: Time, generation: Generation, given_up: &GivenUp) {
        let subscription = &self.parts.subscription;
        let Some(entry) = self.lanes.touch(generation) else {
            return;
        };
        let refuser = entry.lane.refusal(given_up.offset);
        let refuser = refuser.and_then(|refusal| self.subscribers.name(refusal.subscriber));
        let letter = subscription.dead_letter.as_ref().and_then(|dead_letter| {
            let topic = Some(dead_letter.topic.as_str());
            let own = traces::letter(entry, &self.parts.tracer, given_up, topic);
            let mut letter =
                dead_letter::build(subscription, dead_letter, entry, given_up, refuser)?;
            letter.keep_one_trace(own.as_ref());
            Some(letter)
        });
        let (Some(letter), Some(producer)) = (letter, self.parts.producer.as_ref()) else {
            // The body is being fetched again, or there is nowhere to write to:
            // the lane holds and asks again.
            let postponed = LetterOutcome::Postponed;
            self.meter.letters.note(given_up.cause, postponed);
            entry
                .lane
                .handle_dead_letter(now, given_up.offset, DeadLetterOutcome::Postponed);
            return;
        };
        let producer = Arc::clone(producer);
        let (offset, cause) = (given_up.offset, given_up.cause);
        if mutation::is_on(Mutation::SettleBeforeDeadLetter) {
            let stored = DeadLetterOutcome::Stored;
            entry.lane.handle_dead_letter(now, offset, stored);
        }
        self.letters.push(Box::pin(async move {
            let result = dead_letter::write(&*producer, letter).await;
            if let Err(error) = &result
                && error.kind == ErrorKind::Full
            {
                tokio::time::sleep(FULL).await;
            }
            (generation, (offset, cause), result)
        }));
        tell!(debug, self, entry;
            offset = given_up.offset.get(),
            cause = cause_name(given_up.cause),
            "dead-lettering"
        );
    }

    /// **L3**: only a confirmed write settles the record.
    pub(super) fn letter_answered(
        &mut self,
        generation: Generation,
        (offset, cause): (Offset, Cause),
        result: &Result<Placed, broker::Error>,
    ) {
        let now = self.now();
        self.trace_letter(generation, offset, result.as_ref().map(Some));
        self.meter.letters.note(cause, LetterOutcome::of(result));
        let Some(entry) = self.lanes.touch(generation) else {
            return;
        };
        match result {
            Ok(_placed) => {
                fail::point("dead-letter.confirmed");
                if let Some(count) = self.letter_failures.over() {
                    tracing::info!(
                        subscription = self.parts.subscription.name,
                        count,
                        "dead letters are written again"
                    );
                }
                let settled = entry
                    .lane
                    .handle_dead_letter(now, offset, DeadLetterOutcome::Stored);
                if let Some(cause) = settled {
                    self.tally.given_up(cause);
                }
                fail::point("dead-letter.settled");
            }
            Err(error) => {
                entry.letter_error = Some(error.to_string());
                // What waits for room has not failed, and is neither parked nor discarded.
                let outcome = if error.kind == ErrorKind::Full {
                    DeadLetterOutcome::Postponed
                } else {
                    DeadLetterOutcome::Failed
                };
                entry.lane.handle_dead_letter(now, offset, outcome);
                if let Some(count) = self.letter_failures.again(now) {
                    tell!(warn, self, entry;
                        offset = offset.get(),
                        count,
                        %error,
                        "dead letter not written and tried again"
                    );
                }
            }
        }
    }

    pub(super) fn dropped(&mut self, generation: Generation, offset: Offset, cause: Cause) {
        self.tally.given_up(cause);
        self.meter.letters.note(cause, LetterOutcome::Dropped);
        let now = self.now();
        let Some(entry) = self.lanes.get(generation) else {
            return;
        };
        let (offset, cause) = (offset.get(), cause_name(cause));
        tell!(debug, self, entry;
            offset, cause,
            "record dropped"
        );
        if let Some(count) = self.tally.dropped.again(now) {
            tell!(warn, self, entry;
                offset, cause, count,
                "records are dropped, as on_reject = drop says"
            );
        }
    }

    pub(super) fn parked(
        &mut self,
        generation: Generation,
        offset: Offset,
        cause: Cause,
        tries: u32,
    ) {
        self.tally.counts.parked += 1;
        self.meter.letters.note(cause, LetterOutcome::Parked);
        let now = self.now();
        let Some(entry) = self.lanes.get(generation) else {
            return;
        };
        let (offset, cause) = (offset.get(), cause_name(cause));
        let error = entry.letter_error.as_deref().unwrap_or_default();
        tell!(debug, self, entry;
            offset, cause, tries, error,
            "a record is set aside"
        );
        if let Some(count) = self.tally.parked.again(now) {
            tell!(warn, self, entry;
                offset, cause, tries, error, count,
                "record set aside, as on_failure = park says: its dead letter is tried again later"
            );
        }
    }

    pub(super) fn discarded(
        &mut self,
        generation: Generation,
        offset: Offset,
        cause: Cause,
        tries: u32,
    ) {
        self.tally.counts.discarded += 1;
        self.meter.letters.note(cause, LetterOutcome::Discarded);
        self.tally.given_up(cause);
        let Some(entry) = self.lanes.get(generation) else {
            return;
        };
        tell!(error, self, entry;
            offset = offset.get(),
            cause = cause_name(cause),
            tries,
            error = entry.letter_error.as_deref().unwrap_or_default(),
            total = self.tally.counts.discarded,
            "record settled without a dead letter, as on_failure = discard says"
        );
    }
}
