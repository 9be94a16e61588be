//! What is known of each record between `send` and its receipt.
//!
//! Invariants: every record accepted is in exactly one of the three queues until it is
//! answered, and is answered and counted exactly once; each queue is in the order of
//! sending; all three together are within the limits, but for one record that exceeds
//! them by itself.
//!
//! Boundary: knows nothing of streams. The driver alone moves records, senders add them.

use std::{
    collections::VecDeque,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ackgate_proto::v1;
use prost::Message as _;
use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};

use super::{
    NotWritten, NotWrittenKind, Outgoing, PublishStats, Receipt,
    receipt::{self, Outcome},
};
use crate::Error;

/// Most records in a message, as the protocol has it.
const MAX_RECORDS: usize = 10_000;

/// Bytes after which a message is full; one record may be larger by itself.
const MAX_BYTES: usize = 1 << 20;

/// Records after which nothing waits for more.
const ENOUGH: usize = 1_000;

/// Records and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) records: u64,
    pub(super) bytes: u64,
}

/// The records of a publisher, and what has become of them.
#[derive(Debug)]
pub(super) struct Ledger {
    state: Mutex<State>,
    linger: Duration,
    /// What the program allows itself.
    own_limit: Amount,
    /// Tells the driver, who is the only one to wait.
    changed: Notify,
    /// Tells those who wait for room, for answers, or for the end.
    answered: Notify,
}

#[derive(Debug)]
struct State {
    /// Not handed to the stream.
    waiting: VecDeque<Entry>,
    /// Handed to the stream of the moment and not answered.
    sent: VecDeque<Entry>,
    /// Turned away by a gateway that stops: for the next stream.
    again: VecDeque<Entry>,
    held: Amount,
    limit: Amount,
    /// Largest record that the gateway takes.
    max_record_bytes: u64,
    /// Number of the next record.
    next: u64,
    /// Records below this number do not wait for others.
    urgent: u64,
    /// Results of the stream of the moment that came.
    results: u64,
    /// No record is taken any more, and what there is has until then.
    closing: Option<Closing>,
    /// It is over, if this is set; with what ended it before its close.
    over: Option<Option<Arc<Error>>>,
    stats: PublishStats,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Closing {
    pub(super) until: Instant,
    pub(super) timeout: Duration,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    record: v1::OutgoingRecord,
    bytes: u64,
    /// Until when it may wait for others.
    due: Instant,
    answer: oneshot::Sender<Outcome>,
}

/// What the driver can do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ready {
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
    pub(super) fn new(own_limit: Amount, linger: Duration) -> Self {
        Self {
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                sent: VecDeque::new(),
                again: VecDeque::new(),
                held: Amount::default(),
                limit: own_limit,
                max_record_bytes: u64::MAX,
                next: 0,
                urgent: 0,
                results: 0,
                closing: None,
                over: None,
                stats: PublishStats::default(),
            }),
            linger,
            own_limit,
            changed: Notify::new(),
            answered: Notify::new(),
        }
    }

    /// Takes a record as soon as there is room. To be called for one record at a time:
    /// who waits is not overtaken.
    pub(super) async fn accept(&self, record: Outgoing) -> Receipt {
        let bytes = record.size();
        let mut record = Some(record.0);
        self.until(|state| {
            let taken = state.accept(&mut record, bytes, self.linger);
            self.changed.notify_one();
            taken
        })
        .await
    }

    /// Waits until every record accepted so far is answered; none of them waits for others
    /// to be sent with.
    pub(super) async fn flush(&self) {
        let all = {
            let mut state = self.lock();
            state.urgent = state.next;
            state.next
        };
        self.changed.notify_one();
        self.until(|state| {
            state
                .oldest()
                .is_none_or(|oldest| oldest >= all)
                .then_some(())
        })
        .await;
    }

    /// Takes no more records; those that there are have until `until`. The first call
    /// counts, unless a later one is more impatient.
    pub(super) fn close(&self, timeout: Duration) {
        let mut state = self.lock();
        let now = Instant::now();
        let until = now.checked_add(timeout).unwrap_or_else(|| now + DAY);
        if state.closing.is_none_or(|closing| until < closing.until) {
            state.closing = Some(Closing { until, timeout });
        }
        state.urgent = state.next;
        drop(state);
        self.changed.notify_one();
        // Who waits for room is turned away.
        self.answered.notify_waiters();
    }

    /// Waits until nothing more happens.
    pub(super) async fn over(&self) {
        self.until(|state| state.over.is_some().then_some(())).await;
    }

    /// What ended it, if it ended before it was closed.
    pub(super) fn error(&self) -> Option<Arc<Error>> {
        self.lock().over.clone().flatten()
    }

    pub(super) fn stats(&self) -> PublishStats {
        self.lock().stats
    }

    async fn until<T>(&self, mut holds: impl FnMut(&mut State) -> Option<T>) -> T {
        loop {
            let mut answered = pin!(self.answered.notified());
            // Before the look, so that nothing is missed in between.
            answered.as_mut().enable();
            if let Some(found) = holds(&mut self.lock()) {
                return found;
            }
            answered.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the driver does.
impl Ledger {
    /// Waits until there may be something else to do.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// A stream is open, with these limits of the gateway.
    pub(super) fn opened(&self, opened: &v1::PublishOpened) {
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

    pub(super) fn ready(&self, now: Instant) -> Ready {
        let state = self.lock();
        let Some(first) = state.waiting.front() else {
            return match state.closing {
                Some(_) => Ready::Goodbye,
                None => Ready::Nothing,
            };
        };
        let full = state.waiting.len() >= ENOUGH
            || state.waiting.iter().map(|it| it.bytes).sum::<u64>() >= MAX_BYTES as u64;
        if full || first.number < state.urgent || first.due <= now {
            Ready::Records
        } else {
            Ready::At(first.due)
        }
    }

    /// Takes the records of one message: from now on they are with the stream.
    pub(super) fn take(&self) -> Vec<v1::OutgoingRecord> {
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
    pub(super) fn results(&self, answer: v1::PublishResults, again: bool) -> Result<(), Error> {
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
    pub(super) fn broke(&self, send_again: bool, why: &str) {
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
    pub(super) fn closing(&self) -> Option<Closing> {
        self.lock().closing
    }

    /// Whether every record is answered.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().held.records == 0
    }

    /// Whether the stream owes an answer.
    pub(super) fn is_owed(&self) -> bool {
        !self.lock().sent.is_empty()
    }

    /// Nothing more happens: answers what has no answer.
    pub(super) fn end(&self, error: Option<Error>) {
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

impl State {
    fn accept(
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
    fn oldest(&self) -> Option<u64> {
        [&self.again, &self.sent, &self.waiting]
            .into_iter()
            .filter_map(|queue| queue.front())
            .map(|entry| entry.number)
            .min()
    }

    fn unknown(&mut self, entry: Entry, why: &str) {
        let why = format!("no answer came: {why}");
        let outcome = not_written(&entry.record, NotWrittenKind::Unknown, &why);
        self.answer(entry, Err(outcome));
    }

    fn answer(&mut self, entry: Entry, outcome: Outcome) {
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

/// A time beyond every deadline that can be reckoned.
const DAY: Duration = Duration::from_hours(24);

fn not_written(record: &v1::OutgoingRecord, kind: NotWrittenKind, why: &str) -> NotWritten {
    NotWritten {
        topic: record.topic.clone(),
        partition: record.partition,
        kind,
        detail: why.to_owned(),
    }
}
