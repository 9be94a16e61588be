//! Writes records in transactions of one name, for `ackgate dlq redrive`.
//!
//! A transaction is all there or not at all, whatever kills the process; and the name
//! belongs to one writer at a time: whoever begins anew ends what another one has not
//! finished, and the other one is refused from then on. So what is found in the topic
//! after [`Transact::begin`] is all that was ever written and will not grow by itself.
//!
//! Every call blocks.

use std::{
    fmt,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use rdkafka::{
    ClientContext,
    config::RDKafkaLogLevel,
    error::{KafkaError, RDKafkaErrorCode},
    producer::{BaseRecord, DeliveryResult, Producer as _, ProducerContext, ThreadedProducer},
};

use super::{error, headers, rebalance::log, settings};
use crate::{
    broker::{Error, ErrorKind, Outgoing},
    config::Cluster,
};

/// For one step of a transaction. It is tried again by the client library within.
const STEP: Duration = Duration::from_secs(30);

/// How long a transaction may last before the coordinator ends it: what a killed writer
/// leaves behind hides later records for this long, unless another begins before.
const TRANSACTION_MS: &str = "60000";

/// Between tries.
const PAUSE: Duration = Duration::from_millis(500);

/// Tries of one batch.
const TRIES: u32 = 5;

/// Writes records in transactions.
pub struct Transact {
    producer: ThreadedProducer<Reports>,
    topic: String,
}

/// How a batch was written.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// Records of the batch that the topic does not take, by their places in it; all
    /// others are there.
    pub refused: Vec<(usize, Error)>,
}

impl Transact {
    /// A writer to `topic`. Waits for nothing.
    ///
    /// # Errors
    /// The client library refuses the settings.
    pub fn new(
        cluster: &Cluster,
        properties: &[(String, String)],
        topic: &str,
        name: &str,
    ) -> Result<Self, Error> {
        let mut config = settings::producer(cluster, properties);
        config
            .set("transactional.id", name)
            .set("transaction.timeout.ms", TRANSACTION_MS)
            .set("delivery.timeout.ms", TRANSACTION_MS);
        let producer = config
            .create_with_context(Reports::default())
            .map_err(|error| error::mapped(&error, "settings of the producer"))?;
        Ok(Self {
            producer,
            topic: topic.to_owned(),
        })
    }

    /// Takes the name over: what another writer has not finished is undone.
    ///
    /// # Errors
    /// The cluster does not answer in time, or does not allow it.
    pub fn begin(&self) -> Result<(), Error> {
        self.producer
            .init_transactions(STEP)
            .map_err(|error| self.refusal(&error, "beginning transactions"))
    }

    /// Writes `batch` in order, and waits until Kafka has confirmed that it is there.
    ///
    /// # Errors
    /// Nothing of it is there, or, where the last confirmation did not come, perhaps all
    /// of it. Of kind [`ErrorKind::Fenced`]: another writer has taken the name over.
    pub fn write(&self, batch: &[Outgoing]) -> Result<Written, Error> {
        let written = self.write_together(batch)?;
        if written.refused.is_empty() || batch.len() == 1 {
            return Ok(written);
        }
        // A broker refuses records that came to it together for the size of all.
        let mut refused = Vec::new();
        for (at, record) in batch.iter().enumerate() {
            let alone = self.write_together(std::slice::from_ref(record))?;
            refused.extend(alone.refused.into_iter().map(|(_, error)| (at, error)));
        }
        Ok(Written { refused })
    }

    /// As one transaction; if any record is refused, nothing of the batch is there.
    fn write_together(&self, batch: &[Outgoing]) -> Result<Written, Error> {
        let mut tries = 1;
        loop {
            let error = match self.attempt(batch) {
                Ok(written) => return Ok(written),
                Err(error) => error,
            };
            if tries >= TRIES || error.kind != ErrorKind::Transient {
                return Err(error);
            }
            tries += 1;
            std::thread::park_timeout(PAUSE);
        }
    }

    fn attempt(&self, batch: &[Outgoing]) -> Result<Written, Error> {
        self.producer
            .begin_transaction()
            .map_err(|error| self.refusal(&error, "beginning a transaction"))?;
        let attempt = self.producer.context().next();
        let mut failed = Vec::new();
        for (at, record) in batch.iter().enumerate() {
            if let Err(error) = self.send((attempt, at), record) {
                failed.push((at, error));
                break;
            }
        }
        let sent = batch.len() - failed.len();
        if failed.is_empty() {
            failed = self.producer.context().all(sent, Instant::now() + STEP * 2);
        }
        if failed.is_empty() {
            return self.commit();
        }
        self.abort()?;
        let (refused, other): (Vec<_>, Vec<_>) = failed
            .into_iter()
            .partition(|(_, error)| error.rdkafka_error_code().is_some_and(is_too_large));
        match other.first() {
            // What came after a refused record fails with it.
            Some((_, error)) if refused.is_empty() => Err(self.refusal(error, "writing")),
            Some(_) | None => Ok(Written {
                refused: refused
                    .into_iter()
                    .map(|(at, error)| (at, error::mapped(&error, &self.topic)))
                    .collect(),
            }),
        }
    }

    fn send(&self, sent: Sent, record: &Outgoing) -> Result<(), KafkaError> {
        let mut message: BaseRecord<'_, [u8], [u8], Box<Sent>> =
            BaseRecord::with_opaque_to(&record.topic, Box::new(sent));
        message.partition = record.partition;
        message.key = record.key.as_deref();
        message.payload = record.value.as_deref();
        message.timestamp = record.timestamp_ms;
        message.headers = headers::owned(&record.headers);
        let until = Instant::now() + STEP;
        let mut outcome = self.producer.send(message);
        while let Err((error, again)) = outcome {
            let full = error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull);
            if !full || Instant::now() >= until {
                return Err(error);
            }
            self.producer.context().wait(PAUSE);
            outcome = self.producer.send(again);
        }
        Ok(())
    }

    fn commit(&self) -> Result<Written, Error> {
        let until = Instant::now() + STEP * 2;
        loop {
            match self.producer.commit_transaction(STEP) {
                Ok(()) => return Ok(Written::default()),
                Err(KafkaError::Transaction(error)) if error.txn_requires_abort() => {
                    let error = KafkaError::Transaction(error);
                    self.abort()?;
                    return Err(self.refusal(&error, "committing"));
                }
                // Calling again goes on with the same commit.
                Err(KafkaError::Transaction(error))
                    if error.is_retriable() && Instant::now() < until => {}
                Err(error) => {
                    let mut refusal = self.refusal(&error, "committing");
                    if refusal.kind == ErrorKind::Transient {
                        // Whether it is there is not known: another try could repeat it.
                        refusal.kind = ErrorKind::Operator;
                    }
                    return Err(refusal);
                }
            }
        }
    }

    fn abort(&self) -> Result<(), Error> {
        self.producer
            .abort_transaction(STEP)
            .map_err(|error| self.refusal(&error, "undoing a transaction"))
    }

    fn refusal(&self, error: &KafkaError, what: &str) -> Error {
        let what = format!("{what} in {}", self.topic);
        let fenced = |code| {
            matches!(
                code,
                RDKafkaErrorCode::Fenced
                    | RDKafkaErrorCode::ProducerFenced
                    | RDKafkaErrorCode::InvalidProducerEpoch
            )
        };
        let client = self.producer.client();
        let code = if let KafkaError::Transaction(inner) = error {
            Some(inner.code())
        } else {
            error.rdkafka_error_code()
        };
        let fatal = client.fatal_error().map(|(code, _)| code);
        if code.or(fatal).is_some_and(fenced) || fatal.is_some_and(fenced) {
            return Error {
                kind: ErrorKind::Fenced,
                detail: format!("{what}: another one has taken over"),
            };
        }
        match code {
            Some(code) => {
                let mut mapped = error::coded(code, &what);
                if let KafkaError::Transaction(inner) = error {
                    mapped.detail = format!("{what}: {}", inner.string());
                    if inner.is_fatal() {
                        mapped.kind = ErrorKind::Operator;
                    }
                }
                mapped
            }
            None => error::mapped(error, &what),
        }
    }
}

fn is_too_large(code: RDKafkaErrorCode) -> bool {
    error::kind(code) == ErrorKind::TooLarge
}

impl fmt::Debug for Transact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transact")
            .field("topic", &self.topic)
            .finish_non_exhaustive()
    }
}

/// Number of the attempt, and the record's place in its batch.
type Sent = (u64, usize);

/// What the delivery reports of one attempt said; those of an earlier one may be late.
#[derive(Debug, Default)]
struct Answers {
    attempt: u64,
    count: usize,
    failed: Vec<(usize, KafkaError)>,
}

#[derive(Default)]
struct Reports {
    answers: Mutex<Answers>,
    news: Condvar,
}

impl Reports {
    /// Forgets what was said of the attempt before; gives the number of the next one.
    fn next(&self) -> u64 {
        let mut answers = self.answers.lock();
        *answers = Answers {
            attempt: answers.attempt + 1,
            ..Answers::default()
        };
        answers.attempt
    }

    /// Waits for `count` reports; gives those that are not good, or that there are too few.
    fn all(&self, count: usize, until: Instant) -> Vec<(usize, KafkaError)> {
        let mut answers = self.answers.lock();
        while answers.count < count {
            if self.news.wait_until(&mut answers, until).timed_out() {
                let error = KafkaError::MessageProduction(RDKafkaErrorCode::MessageTimedOut);
                return vec![(count, error)];
            }
        }
        std::mem::take(&mut answers.failed)
    }

    /// Waits for any report.
    fn wait(&self, limit: Duration) {
        let mut answers = self.answers.lock();
        self.news.wait_for(&mut answers, limit);
    }
}

impl ClientContext for Reports {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        log(level, facility, line);
    }

    fn error(&self, _: KafkaError, _: &str) {}
}

impl ProducerContext for Reports {
    type DeliveryOpaque = Box<Sent>;

    fn delivery(&self, result: &DeliveryResult<'_>, sent: Box<Sent>) {
        let (attempt, at) = *sent;
        let mut answers = self.answers.lock();
        if answers.attempt != attempt {
            return;
        }
        answers.count += 1;
        if let Err((error, _)) = result {
            answers.failed.push((at, error.clone()));
        }
        drop(answers);
        self.news.notify_all();
    }
}
