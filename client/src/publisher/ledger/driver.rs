//! What the driver does with the records: hands them to the stream of the moment, and
//! takes its results and its end.

use std::sync::Arc;

use ackgate_proto::v1;
use prost::Message as _;
use tokio::time::Instant;

use super::{Amount, Closing, Ledger, state::not_written};
use crate::{
    Error,
    publisher::{NotWritten, NotWrittenKind, receipt},
};

/// Most records in a message, as the protocol has it.
const MAX_RECORDS: usize = 10_000;

/// Bytes after which a message is full; one record may be larger by itself.
const MAX_BYTES: usize = 1 << 20;

/// Records after which nothing waits for more.
const ENOUGH: usize = 1_000;

/// What the driver can do.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::publisher) enum Ready {
    /// Send a message of records.
    Records,
    /// Send some at this time, unless there is more to send before.
    At(Instant),
    /// Say goodbye: all records are with the stream, and no more come.
    Goodbye,
    /// Nothing.
    Nothing,
}

impl Ledger {
    /// Waits until there may be something else to do.
    pub(in crate::publisher) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// A stream is open, with these limits of the gateway.
    pub(in crate::publisher) fn opened(&self, opened: &v1::PublishOpened) {
        let least = |own: u64, told: u64| if told == 0 { own } else { own.min(told) };
        let mut state = self.lock();
        state.results = 0;
        state.limit = Amount {
            records: least(self.own_limit.records, opened.max_in_flight_records.into()),
            bytes: least(self.own_limit.bytes, opened.max_in_flight_bytes),
        };
        state.max_record_bytes = least(u64::MAX, opened.max_record_bytes);
        if state.stats.sessions > 0 {
            state.stats.reconnects += 1;
        }
        state.stats.sessions += 1;
        drop(state);
        self.answered.notify_waiters();
    }

    pub(in crate::publisher) fn ready(&self, now: Instant) -> Ready {
        let state = self.lock();
        let Some(first) = state.waiting.front() else {
            return match state.closing {
                Some(_) => Ready::Goodbye,
                None => Ready::Nothing,
            };
        };
        let bytes = || state.waiting.iter().map(|it| it.bytes).sum::<u64>();
        let waits_no_longer = first.number < state.urgent || first.due <= now;
        if waits_no_longer || state.waiting.len() >= ENOUGH || bytes() >= MAX_BYTES as u64 {
            Ready::Records
        } else {
            Ready::At(first.due)
        }
    }

    /// Takes the records of one message: from now on they are with the stream.
    pub(in crate::publisher) fn take(&self) -> Vec<v1::OutgoingRecord> {
        let mut state = self.lock();
        let (mut records, mut bytes) = (Vec::new(), 0);
        while let Some(entry) = state.waiting.front() {
            bytes += entry.record.encoded_len() + 8;
            let full = bytes > MAX_BYTES || records.len() >= MAX_RECORDS;
            if full && !records.is_empty() {
                break;
            }
            records.push(entry.record.clone());
            let entry = state.waiting.pop_front();
            state.sent.extend(entry);
        }
        records
    }

    /// The gateway answered. With `again`, what it could not take is kept for the next
    /// stream.
    ///
    /// # Errors
    /// The results are not those of the oldest records without one.
    pub(in crate::publisher) fn results(
        &self,
        answer: v1::PublishResults,
        again: bool,
    ) -> Result<(), Error> {
        let mut state = self.lock();
        if answer.first != state.results {
            return Err(Error::Protocol("results are not in order"));
        }
        for result in answer.results {
            let Some(entry) = state.sent.pop_front() else {
                return Err(Error::Protocol("a result without a record"));
            };
            state.results += 1;
            let outcome = receipt::outcome(result);
            let unavailable = matches!(
                &outcome,
                Err(NotWritten {
                    kind: NotWrittenKind::Unavailable,
                    ..
                })
            );
            if again && unavailable {
                state.again.push_back(entry);
            } else {
                state.answer(entry, outcome);
            }
        }
        drop(state);
        self.answered.notify_waiters();
        Ok(())
    }

    /// The stream is over. What it did not answer is sent again, or answered as unknown.
    pub(in crate::publisher) fn broke(&self, send_again: bool, why: &str) {
        let mut state = self.lock();
        let mut sent = std::mem::take(&mut state.sent);
        if send_again {
            state.stats.resent += sent.len() as u64;
            state.again.append(&mut sent);
        }
        for entry in sent {
            state.unknown(entry, why);
        }
        while let Some(entry) = state.again.pop_back() {
            state.waiting.push_front(entry);
        }
        state.urgent = state
            .urgent
            .max(state.waiting.front().map_or(0, |it| it.number + 1));
        drop(state);
        self.answered.notify_waiters();
    }

    /// Until when to close, if it is to be closed.
    pub(in crate::publisher) fn closing(&self) -> Option<Closing> {
        self.lock().closing
    }

    /// Whether every record is answered.
    pub(in crate::publisher) fn is_empty(&self) -> bool {
        self.lock().held.records == 0
    }

    /// Whether the stream owes an answer.
    pub(in crate::publisher) fn is_owed(&self) -> bool {
        !self.lock().sent.is_empty()
    }

    /// Nothing more happens: answers what has no answer.
    pub(in crate::publisher) fn end(&self, error: Option<Error>) {
        let mut state = self.lock();
        if state.over.is_some() {
            return;
        }
        let why = match &error {
            Some(error) => error.to_string(),
            None => "the publisher was closed".to_owned(),
        };
        state.over = Some(error.map(Arc::new));
        for entry in std::mem::take(&mut state.sent) {
            state.unknown(entry, &why);
        }
        let unsent = [
            std::mem::take(&mut state.again),
            std::mem::take(&mut state.waiting),
        ];
        for entry in unsent.into_iter().flatten() {
            let outcome = not_written(&entry.record, NotWrittenKind::NotSent, &why);
            state.answer(entry, Err(outcome));
        }
        drop(state);
        self.answered.notify_waiters();
    }
}
