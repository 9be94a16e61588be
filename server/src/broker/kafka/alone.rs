//! Records of batches that Kafka has refused, sent again one by one: it refuses a batch
//! as a whole, and may not say for whose sake. So each record gets an answer of its own,
//! and one that cannot be written condemns none beside it, which may be another
//! publisher's.
//!
//! Invariant: only what Kafka has refused for certain is sent again, so nothing is
//! written twice. Everything here runs on the thread that serves delivery reports.

use bytes::Bytes;
use parking_lot::Mutex;
use rdkafka::{
    ClientConfig, Message as _,
    error::{KafkaError, RDKafkaErrorCode},
    message::{BorrowedMessage, Headers as _},
};
use tracing::warn;

use super::producer::{Client, Waiting, create, send};
use crate::{
    broker::{Outgoing, Receipt},
    telemetry::troubles::{self, Trouble},
};

/// A producer that writes batches of one record, made when it is first needed.
pub(super) struct Alone {
    config: ClientConfig,
    client: Mutex<Option<Client>>,
}

impl Alone {
    /// Beside a producer with these settings.
    pub(super) fn new(config: &ClientConfig) -> Self {
        let mut config = config.clone();
        config.set("batch.num.messages", "1");
        Self {
            config,
            client: Mutex::new(None),
        }
    }

    /// The client, if it was needed.
    pub(super) fn client(&self) -> Option<Client> {
        self.client.lock().clone()
    }

    /// Sends a record again if it may have been refused for another one's sake.
    ///
    /// # Errors
    /// It was refused for its own, or cannot be sent now: nothing has happened.
    pub(super) fn again(
        &self,
        error: &KafkaError,
        message: &BorrowedMessage<'_>,
        timestamp_ms: Option<i64>,
        receipt: Receipt,
    ) -> Result<(), Receipt> {
        if !error.rdkafka_error_code().is_some_and(is_of_batch) {
            return Err(receipt);
        }
        let Some(client) = self.made() else {
            return Err(receipt);
        };
        let waiting = Waiting::Receipt(receipt, timestamp_ms);
        match send(&client, &outgoing(message, timestamp_ms), waiting) {
            Ok(()) | Err((_, Waiting::Future(_))) => Ok(()),
            Err((error, Waiting::Receipt(receipt, _))) => {
                if error.rdkafka_error_code() == Some(RDKafkaErrorCode::Fatal) {
                    *self.client.lock() = None;
                }
                Err(receipt)
            }
        }
    }

    fn made(&self) -> Option<Client> {
        let mut client = self.client.lock();
        if client.is_none() {
            match create(&self.config) {
                Ok(made) => *client = Some(made),
                Err(error) => {
                    if let Some(count) = troubles::again(Trouble::Producer) {
                        warn!(
                            %error, count,
                            "records of a refused batch are not tried one by one"
                        );
                    }
                }
            }
        }
        client.clone()
    }
}

/// Whether Kafka refuses a whole batch so for one of its records, or for its size.
fn is_of_batch(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as C;
    matches!(
        code,
        C::InvalidTimestamp
            | C::InvalidRecord
            | C::InvalidDifferentRecord
            | C::MessageSizeTooLarge
            | C::MessageBatchTooLarge
    )
}

/// The record as it was sent, for the partition that was found for it.
fn outgoing(message: &BorrowedMessage<'_>, timestamp_ms: Option<i64>) -> Outgoing {
    let headers = message.headers().map(|headers| {
        let owned = |value: &[u8]| Bytes::copy_from_slice(value);
        headers
            .iter()
            .map(|header| (header.key.to_owned(), header.value.map(owned)))
            .collect()
    });
    Outgoing {
        topic: message.topic().to_owned(),
        partition: Some(message.partition()).filter(|partition| *partition >= 0),
        key: message.key().map(Bytes::copy_from_slice),
        value: message.payload().map(Bytes::copy_from_slice),
        headers: headers.unwrap_or_default(),
        timestamp_ms,
    }
}
