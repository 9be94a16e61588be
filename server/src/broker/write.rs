//! Writing records for somebody who wants each one's answer: what publishing asks of a
//! broker. One answer a record and no task, channel or future for it.

use std::{fmt, sync::Arc, time::Duration};

use super::{Flushed, Outgoing, Placed};

/// Why a record was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// It is not a record that Kafka could have.
    Invalid,
    /// The gateway's configuration does not allow its topic.
    NotAllowed,
    /// The topic or the partition does not exist.
    NotFound,
    /// Kafka denies it to the gateway.
    Denied,
    /// Larger than the broker or the topic takes.
    TooLarge,
    /// No answer in time: it may have been written, or may still be.
    TimedOut,
    /// Kafka cannot take it now: it was not written.
    Unavailable,
    /// The broker refuses it for another reason.
    Refused,
}

/// A record that was not written, or of which that is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct Unwritten {
    /// What to do about it.
    pub why: Why,
    /// In words, without secrets.
    pub detail: String,
}

/// Takes the answers to records by the numbers they were enqueued with. Called on
/// whatever thread has an answer, so it must be quick and must not block.
pub trait Answers: Send + Sync + fmt::Debug {
    /// Takes the one answer to record `number`.
    fn answer(&self, number: u64, answer: Result<Placed, Unwritten>);
}

/// A record's claim to one answer. Dropped without one, it answers that nobody knows.
#[derive(Debug)]
pub struct Receipt {
    to: Option<Arc<dyn Answers>>,
    number: u64,
}

impl Receipt {
    /// The claim of record `number`.
    #[must_use]
    pub fn new(to: Arc<dyn Answers>, number: u64) -> Self {
        Self {
            to: Some(to),
            number,
        }
    }

    /// Gives the answer.
    pub fn answer(mut self, answer: Result<Placed, Unwritten>) {
        if let Some(to) = self.to.take() {
            to.answer(self.number, answer);
        }
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        if let Some(to) = self.to.take() {
            let unwritten = Unwritten {
                why: Why::TimedOut,
                detail: "the producer was closed before Kafka answered".to_owned(),
            };
            to.answer(self.number, Err(unwritten));
        }
    }
}

/// Writes records in the order they are enqueued, partition by partition.
pub trait Write: Send + Sync + fmt::Debug {
    /// Hands a record over, copied. Never waits: the receipt comes back if there is no
    /// room now. Otherwise it is answered, at most the delivery timeout later; perhaps
    /// before this returns.
    ///
    /// # Errors
    /// There is no room; nothing has happened.
    fn enqueue(&self, record: &Outgoing, receipt: Receipt) -> Result<(), Receipt>;

    /// Resolves once every record has its answer, at most `timeout` later; then with an
    /// error.
    fn flushed(&self, timeout: Duration) -> Flushed;
}
