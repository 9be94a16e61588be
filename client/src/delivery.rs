//! [`Delivery`]: one record in hand, to be answered once.

use std::{fmt, sync::Arc, time::Duration};

use ackgate_proto::v1;
use bytes::Bytes;

use crate::{
    Durable, Record,
    resume::LaneName,
    settler::{Answer, Run, Settler},
};

/// The code of the failed verdict that a dropped delivery gives.
pub(crate) const DROPPED: &str = "dropped";

/// What all records of a batch have in common.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) settler: Arc<Settler>,
    pub(crate) lane: u64,
    pub(crate) name: LaneName,
    /// The gateway's spans, in offset order.
    pub(crate) traces: Vec<v1::RecordTrace>,
}

/// One hand-over of a record, waiting for its verdict.
///
/// Answer it with [`ack`](Self::ack), [`reject`](Self::reject),
/// [`fail`](Self::fail) or [`release`](Self::release): they are cheap, never wait,
/// and may be called from any thread. **Dropping a delivery without a verdict is a
/// failed verdict** with code `dropped`, never an ack.
///
/// A delivery outlives a broken stream if the gateway keeps it
/// ([`Builder::resumable`](crate::Builder::resumable)): go on working, and the verdict
/// counts. If it did not keep it, the record is handed out again, and the verdict on
/// this delivery is answered with a [`Problem`](crate::Problem) of kind
/// [`Lost`](crate::ProblemKind::Lost) and counted in
/// [`Stats::stale_answers`](crate::Stats::stale_answers).
#[must_use = "a delivery dropped without a verdict is failed"]
pub struct Delivery {
    pub(crate) origin: Arc<Origin>,
    pub(crate) record: v1::Record,
    pub(crate) attempt: u32,
    pub(crate) number: u32,
    pub(crate) answered: bool,
}

impl Delivery {
    /// Says that the record is done.
    pub fn ack(mut self) {
        self.answered = true;
        self.origin.settler.ack(self.run());
    }

    /// Says that the record is done, and tells when that survives the loss of the gateway:
    /// Kafka has it then, and nothing brings the record again. Needs
    /// [`Confirm::Durable`](crate::Confirm::Durable). The verdict is given at once,
    /// whether the result is awaited or not.
    ///
    /// ```no_run
    /// # async fn example(delivery: ackgate_client::Delivery) {
    /// match delivery.ack_durably().await {
    ///     Ok(()) => println!("done for good"),
    ///     Err(error) => println!("it may come again: {error}"),
    /// }
    /// # }
    /// ```
    pub fn ack_durably(mut self) -> Durable {
        self.answered = true;
        self.origin.settler.ack_durably(self.run())
    }

    /// As [`reject`](Self::reject), and tells when the record is dead-lettered for good.
    pub fn reject_durably(mut self, code: impl Into<String>, reason: impl Into<String>) -> Durable {
        self.answered = true;
        let answer = Answer::Rejected {
            code: code.into(),
            reason: reason.into(),
        };
        self.origin.settler.answer_durably(self.run(), &answer)
    }

    /// Refuses the record for good: it becomes a dead letter now, with `code` (at
    /// most 128 bytes) and `reason` (at most 1 KiB); longer ones are cut.
    pub fn reject(self, code: impl Into<String>, reason: impl Into<String>) {
        self.answer(Answer::Rejected {
            code: code.into(),
            reason: reason.into(),
        });
    }

    /// Says that it did not work this time: the record comes again after the
    /// subscription's backoff. Uses an attempt.
    pub fn fail(self, reason: impl Into<String>) {
        self.answer(Answer::Failed {
            code: String::new(),
            reason: reason.into(),
            retry_after: None,
        });
    }

    /// As [`fail`](Self::fail), with a code, and not again before `retry_after`
    /// (at most 1 h) instead of the backoff.
    pub fn fail_after(
        self,
        code: impl Into<String>,
        reason: impl Into<String>,
        retry_after: Duration,
    ) {
        self.answer(Answer::Failed {
            code: code.into(),
            reason: reason.into(),
            retry_after: Some(retry_after),
        });
    }

    /// Gives the record back untouched: again at once, elsewhere if possible. Uses
    /// no attempt.
    pub fn release(self) {
        self.answer(Answer::Released);
    }

    /// Gives no verdict at all, as if the program had been lost with it: the record
    /// comes again after its deadline, or at once when the session ends or is closed.
    pub fn leave(mut self) {
        self.answered = true;
        self.origin.settler.leave(self.run());
    }

    /// Says that work goes on: the deadline for the verdict becomes now plus `by`,
    /// above 0 and at most 600 s (more is cut), 1 h in total.
    pub fn extend(&self, by: Duration) {
        if !by.is_zero() {
            self.origin.settler.extend(self.run(), by);
        }
    }

    /// Returns whether a verdict would still count, as far as this side knows: not if the
    /// gateway did not keep it over a reconnect, or went back in its lane. Before long work
    /// it is worth a look.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.origin.settler.is_held(self.run())
    }

    /// Returns the record's topic.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.origin.name.topic
    }

    /// Returns the record's partition.
    #[must_use]
    pub fn partition(&self) -> i32 {
        self.origin.name.partition
    }

    /// Returns the number of the lane's history: a reset of the subscription
    /// starts a new one.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.origin.name.epoch
    }

    /// Returns which attempt this is: 1 plus the failed verdicts and expiries so far.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Returns which delivery this is: 1 plus the earlier hand-overs.
    #[must_use]
    pub const fn delivery_number(&self) -> u32 {
        self.number
    }

    /// Returns the record.
    #[must_use]
    pub const fn record(&self) -> Record<'_> {
        Record(&self.record)
    }

    /// Returns the record's position in its partition.
    #[must_use]
    pub const fn offset(&self) -> i64 {
        self.record.offset
    }

    /// Returns the timestamp in milliseconds since the Unix epoch; 0 if there is none.
    #[must_use]
    pub const fn timestamp_ms(&self) -> i64 {
        self.record.timestamp_ms
    }

    /// Returns the key; `None` is Kafka's null.
    #[must_use]
    pub fn key(&self) -> Option<&[u8]> {
        self.record().key()
    }

    /// Returns the value; `None` is Kafka's null.
    #[must_use]
    pub fn value(&self) -> Option<&[u8]> {
        self.record().value()
    }

    /// Returns the value without copying it; keeps its whole message in memory.
    #[must_use]
    pub fn value_bytes(&self) -> Option<Bytes> {
        self.record().value_bytes()
    }

    /// Returns all headers in the record's order; a value of `None` is Kafka's null.
    pub fn headers(&self) -> impl ExactSizeIterator<Item = (&str, Option<&[u8]>)> {
        self.record().headers()
    }

    /// Returns the value of the last header named `name`.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.record().header(name)
    }

    fn answer(mut self, answer: Answer) {
        self.answered = true;
        self.origin.settler.answer(self.run(), &answer);
    }

    pub(crate) fn run(&self) -> Run {
        let offset = self.record.offset;
        Run {
            lane: self.origin.lane,
            delivery: self.number,
            first: offset,
            last: offset,
        }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if !self.answered {
            self.origin.settler.answer(self.run(), &dropped());
        }
    }
}

impl fmt::Debug for Delivery {
    /// Without key, value and headers: they do not belong in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery")
            .field("topic", &self.origin.name.topic)
            .field("partition", &self.origin.name.partition)
            .field("offset", &self.record.offset)
            .field("attempt", &self.attempt)
            .field("delivery_number", &self.number)
            .finish_non_exhaustive()
    }
}

pub(crate) fn dropped() -> Answer {
    Answer::Failed {
        code: DROPPED.to_owned(),
        reason: "dropped without a verdict".to_owned(),
        retry_after: None,
    }
}
