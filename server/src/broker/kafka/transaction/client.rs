//! The producer of transactions: made, given its epoch, and given up.

use std::{sync::Arc, thread, time::Instant};

use rdkafka::producer::Producer as _;
use tracing::warn;

use super::{
    super::{
        error as errors,
        producer::{Client, create},
    },
    CALL, Transactor, is_retriable,
};
use crate::broker::Error;

impl Transactor {
    /// A producer that may begin a transaction.
    pub(super) fn ready(&mut self, end: Instant) -> Result<Client, Error> {
        let producer = match &self.producer {
            Some(producer) => Arc::clone(producer),
            None => {
                let made = create(&self.settings.config)
                    .map_err(|error| errors::mapped(&error, "producer of dead letters"))?;
                self.ready = false;
                Arc::clone(self.producer.insert(made))
            }
        };
        if !self.ready {
            let begun = self.insist(end, || producer.init_transactions(CALL));
            if let Err(error) = begun {
                if !is_retriable(&error) {
                    self.discard();
                }
                return Err(errors::mapped(&error, "start of transactions"));
            }
            self.ready = true;
        }
        Ok(producer)
    }

    /// Gives the producer up: another one of its id takes its place.
    pub(super) fn discard(&mut self) {
        self.ready = false;
        let Some(former) = self.producer.take() else {
            return;
        };
        // It may take its time, and may run on a thread that nobody waits for.
        let spawned = thread::Builder::new()
            .name("kafka-drop".to_owned())
            .spawn(move || drop(former));
        if let Err(error) = spawned {
            warn!(%error, "a producer was dropped in place: there is no thread for it");
        }
    }
}
