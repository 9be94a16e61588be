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

use rdkafka::{
    error::{KafkaError, RDKafkaErrorCode},
    producer::Producer as _,
};

use super::{
    error,
    producer::{Client, Delivery, create, enqueue},
    settings,
};
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

/// Between looks whether the client library has room for another record.
const ROOM: Duration = Duration::from_millis(50);

/// Tries of one batch.
const TRIES: u32 = 5;

/// Writes records in transactions.
pub struct Transact {
    producer: Client,
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
        let producer =
            create(&config).map_err(|error| error::mapped(&error, "settings of the producer"))?;
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
        let failed = self.send(batch);
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

    /// Sends records and waits for Kafka's word on each; gives those that are not
    /// written, by their places. The first one that is not even taken is the last.
    fn send(&self, batch: &[Outgoing]) -> Vec<(usize, KafkaError)> {
        let mut deliveries = Vec::with_capacity(batch.len());
        for (at, record) in batch.iter().enumerate() {
            match self.enqueue(record) {
                Ok(delivery) => deliveries.push(delivery),
                Err(error) => return vec![(at, error)],
            }
        }
        let unanswered = || KafkaError::MessageProduction(RDKafkaErrorCode::MessageTimedOut);
        if self.producer.flush(STEP * 2).is_err() {
            return vec![(batch.len(), unanswered())];
        }
        let answers = deliveries.into_iter().enumerate();
        answers
            .filter_map(|(at, delivery)| {
                let answer = delivery.blocking_recv();
                let answer = answer.unwrap_or_else(|_| Err(unanswered()));
                answer.err().map(|error| (at, error))
            })
            .collect()
    }

    fn enqueue(&self, record: &Outgoing) -> Result<Delivery, KafkaError> {
        let until = Instant::now() + STEP;
        loop {
            match enqueue(&self.producer, record) {
                Err(error)
                    if error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull)
                        && Instant::now() < until =>
                {
                    std::thread::park_timeout(ROOM);
                }
                result => return result,
            }
        }
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
