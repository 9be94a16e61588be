//! The records of a publisher that have no answer, in three queues, and how one comes in
//! and is answered.
//!
//! Invariants: every record accepted is in exactly one of the three queues until it is
//! answered, and is answered and counted exactly once; each queue is in the order of
//! sending; all three together are within the limits, but for one record that exceeds
//! them by itself.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use ackgate_proto::v1;
use tokio::{sync::oneshot, time::Instant};

use crate::{
    Error,
    publisher::{NotWritten, NotWrittenKind, PublishStats, Receipt, receipt::Outcome},
};

/// Records and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::publisher) struct Amount {
    pub(in crate::publisher) records: u64,
    pub(in crate::publisher) bytes: u64,
}

/// What has become of the records.
#[derive(Debug)]
pub(super) struct State {
    /// Not handed to the stream.
    pub(super) waiting: VecDeque<Entry>,
    /// Handed to the stream of the moment and not answered.
    pub(super) sent: VecDeque<Entry>,
    /// Turned away by a gateway that stops: for the next stream.
    pub(super) again: VecDeque<Entry>,
    pub(super) held: Amount,
    pub(super) limit: Amount,
    /// Largest record that the gateway takes.
    pub(super) max_record_bytes: u64,
    /// Number of the next record.
    pub(super) next: u64,
    /// Records below this number do not wait for others.
    pub(super) urgent: u64,
    /// Results of the stream of the moment that came.
    pub(super) results: u64,
    /// No record is taken any more, and what there is has until then.
    pub(super) closing: Option<Closing>,
    /// It is over, if this is set; with what ended it before its close.
    pub(super) over: Option<Option<Arc<Error>>>,
    pub(super) stats: PublishStats,
}

#[derive(Clone, Copy, Debug)]
pub(in crate::publisher) struct Closing {
    pub(in crate::publisher) until: Instant,
    pub(in crate::publisher) timeout: Duration,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) number: u64,
    pub(super) record: v1::OutgoingRecord,
    pub(super) bytes: u64,
    /// Until when it may wait for others.
    pub(super) due: Instant,
    pub(super) answer: oneshot::Sender<Outcome>,
}

impl State {
    pub(super) fn new(limit: Amount) -> Self {
        Self {
            waiting: VecDeque::new(),
            sent: VecDeque::new(),
            again: VecDeque::new(),
            held: Amount::default(),
            limit,
            max_record_bytes: u64::MAX,
            next: 0,
            urgent: 0,
            results: 0,
            closing: None,
            over: None,
            stats: PublishStats::default(),
        }
    }

    pub(super) fn accept(
        &mut self,
        record: &mut Option<v1::OutgoingRecord>,
        bytes: u64,
        linger: Duration,
    ) -> Option<Receipt> {
        let refusal = self.refusal(bytes);
        let has_room = self.held.records < self.limit.records
            && self.held.bytes.saturating_add(bytes) <= self.limit.bytes;
        if refusal.is_none() && !has_room && self.held.records > 0 {
            // What there is does not wait for others: they cannot come.
            self.urgent = self.next;
            return None;
        }
        let record = record.take()?;
        let (answer, receipt) = oneshot::channel();
        self.stats.sent += 1;
        self.held.records += 1;
        self.held.bytes += bytes;
        let entry = Entry {
            number: self.next,
            record,
            bytes,
            due: Instant::now() + linger,
            answer,
        };
        self.next += 1;
        match refusal {
            Some((kind, why)) => {
                let outcome = not_written(&entry.record, kind, &why);
                self.answer(entry, Err(outcome));
            }
            None => self.waiting.push_back(entry),
        }
        Some(Receipt(receipt))
    }

    /// Why a record of this size cannot be sent at all.
    fn refusal(&self, bytes: u64) -> Option<(NotWrittenKind, String)> {
        if let Some(over) = &self.over {
            let why = over.as_ref().map_or_else(
                || "the publisher was closed".to_owned(),
                |error| error.to_string(),
            );
            return Some((NotWrittenKind::NotSent, why));
        }
        if self.closing.is_some() {
            let why = "the publisher is being closed".to_owned();
            return Some((NotWrittenKind::NotSent, why));
        }
        // The message would cost all others their stream.
        (bytes > self.max_record_bytes).then(|| {
            let most = self.max_record_bytes;
            let why = format!("it has {bytes} bytes, and the gateway takes {most}");
            (NotWrittenKind::TooLarge, why)
        })
    }

    /// The number of the oldest record without an answer.
    pub(super) fn oldest(&self) -> Option<u64> {
        [&self.again, &self.sent, &self.waiting]
            .into_iter()
            .filter_map(|queue| queue.front())
            .map(|entry| entry.number)
            .min()
    }

    pub(super) fn unknown(&mut self, entry: Entry, why: &str) {
        let why = format!("no answer came: {why}");
        let outcome = not_written(&entry.record, NotWrittenKind::Unknown, &why);
        self.answer(entry, Err(outcome));
    }

    pub(super) fn answer(&mut self, entry: Entry, outcome: Outcome) {
        self.held.records -= 1;
        self.held.bytes -= entry.bytes;
        match &outcome {
            Ok(_) => self.stats.written += 1,
            Err(error) if error.may_be_written() => self.stats.unknown += 1,
            Err(_) => self.stats.failed += 1,
        }
        // Nobody has to wait for it.
        drop(entry.answer.send(outcome));
    }
}

pub(super) fn not_written(
    record: &v1::OutgoingRecord,
    kind: NotWrittenKind,
    why: &str,
) -> NotWritten {
    NotWritten {
        topic: record.topic.clone(),
        partition: record.partition,
        kind,
        detail: why.to_owned(),
    }
}
