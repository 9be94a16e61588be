//! What becomes of given-up records: their dead letters are written, and the answer
//! settles them or lets the lane try again.

use std::sync::Arc;

use ackgate_lane::{Cause, DeadLetterOutcome, Generation, Offset, OffsetRange, Time};

use super::{
    dead_letter::{self, GivenUp, cause_name},
    driver::Driver,
    handle::{NoticeKind, Outbound},
    inputs::notice,
    mutation::{self, Mutation},
};
use crate::{
    broker::{self, Placed},
    fail,
};

impl Driver {
    pub(super) fn dead_letter(&mut self, now: Time, generation: Generation, given_up: &GivenUp) {
        let subscription = &self.parts.subscription;
        let Some(entry) = self.lanes.touch(generation) else {
            return;
        };
        let refuser = entry.lane.refusal(given_up.offset);
        let refuser = refuser.and_then(|refusal| self.subscribers.name(refusal.subscriber));
        let letter = subscription.dead_letter.as_ref().and_then(|dead_letter| {
            dead_letter::build(subscription, dead_letter, entry, given_up, refuser)
        });
        let (Some(letter), Some(producer)) = (letter, self.parts.producer.as_ref()) else {
            // The body is being fetched again, or there is nowhere to write to:
            // the lane holds and asks again.
            entry
                .lane
                .handle_dead_letter(now, given_up.offset, DeadLetterOutcome::Failed);
            return;
        };
        let producer = Arc::clone(producer);
        let offset = given_up.offset;
        if mutation::is_on(Mutation::SettleBeforeDeadLetter) {
            let stored = DeadLetterOutcome::Stored;
            entry.lane.handle_dead_letter(now, offset, stored);
        }
        self.letters.push(Box::pin(async move {
            let result = dead_letter::write(&*producer, letter).await;
            (generation, offset, result)
        }));
        tracing::debug!(
            topic = %entry.partition.topic,
            partition = entry.partition.partition,
            offset = given_up.offset.get(),
            cause = cause_name(given_up.cause),
            "dead-lettering"
        );
    }

    /// **L3**: only a confirmed write settles the record.
    pub(super) fn letter_answered(
        &mut self,
        generation: Generation,
        offset: Offset,
        result: &Result<Placed, broker::Error>,
    ) {
        let now = self.now();
        let Some(entry) = self.lanes.touch(generation) else {
            return;
        };
        match result {
            Ok(_placed) => {
                fail::point("dead-letter.confirmed");
                if let Some(count) = self.letter_failures.over() {
                    tracing::info!(count, "dead letters are written again");
                }
                let settled = entry
                    .lane
                    .handle_dead_letter(now, offset, DeadLetterOutcome::Stored);
                if let Some(cause) = settled {
                    self.tally.given_up(cause);
                }
                fail::point("dead-letter.settled");
                // One that cannot be read stays held, whatever else succeeds.
                if !entry.failed && std::mem::take(&mut entry.held) {
                    let news = notice(entry.label(), NoticeKind::Recovered, None, "");
                    self.subscribers.announce(&Outbound::Lane(news));
                }
            }
            Err(error) => {
                entry
                    .lane
                    .handle_dead_letter(now, offset, DeadLetterOutcome::Failed);
                if let Some(count) = self.letter_failures.again(now) {
                    tracing::warn!(
                        topic = %entry.partition.topic,
                        partition = entry.partition.partition,
                        offset = offset.get(),
                        count,
                        %error,
                        "dead letter not written: the lane holds and tries again"
                    );
                }
                if !std::mem::replace(&mut entry.held, true) {
                    let detail = format!("dead letter not written: {error}");
                    let at = Some(OffsetRange::one(offset));
                    let news = notice(entry.label(), NoticeKind::Held, at, &detail);
                    self.subscribers.announce(&Outbound::Lane(news));
                }
            }
        }
    }

    pub(super) fn dropped(&mut self, generation: Generation, offset: Offset, cause: Cause) {
        self.tally.given_up(cause);
        let Some(entry) = self.lanes.get(generation) else {
            return;
        };
        tracing::warn!(
            topic = %entry.partition.topic,
            partition = entry.partition.partition,
            offset = offset.get(),
            cause = cause_name(cause),
            "record dropped, as on_reject = drop says"
        );
    }
}
