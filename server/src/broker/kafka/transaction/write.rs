//! Writes the letters of a transaction.

use std::time::Instant;

use rdkafka::{error::RDKafkaErrorCode, producer::Producer as _};

use super::{
    super::{
        commit::Placed,
        destination, error as errors,
        producer::{Client, enqueue, refusal},
    },
    PAUSE, Transactor, Trouble, is,
    letters::Refused,
};

impl Transactor {
    /// Writes the letters and waits for Kafka's word on each.
    pub(super) fn write(
        &mut self,
        producer: &Client,
        of: &[Placed],
        end: Instant,
    ) -> Result<(), Trouble> {
        let mut written = Vec::new();
        let mut refused = Refused::default();
        for (index, (commit, _)) in of.iter().enumerate() {
            for (number, letter) in commit.letters.iter().enumerate() {
                let count = |topic: &str| destination::count(producer, topic);
                let letter = match self.places.place(letter, count) {
                    Ok(letter) => letter,
                    Err(error) => {
                        refused.note(index, number, error, false);
                        continue;
                    }
                };
                let queued = self.until(end, || match enqueue(producer, &letter) {
                    Err(error) if is(&error, RDKafkaErrorCode::QueueFull) => None,
                    result => Some(result),
                });
                match queued {
                    Some(Ok(delivery)) => written.push((index, number, delivery)),
                    Some(Err(error)) => {
                        self.places.doubt(&letter.topic, &error);
                        let error = refusal(&error, &letter.topic);
                        refused.note(index, number, error, false);
                    }
                    None => {
                        let why = "the queue of the dead letters' producer is full";
                        return Err(Trouble::Nothing(errors::transient(why)));
                    }
                }
            }
        }
        if written.is_empty() && refused.is_empty() {
            return Ok(());
        }
        // Each has its answer by then: it is given up before.
        let left = end.saturating_duration_since(Instant::now());
        if producer.flush(left + PAUSE).is_err() {
            let why = "dead letters have no answer from Kafka yet";
            return Err(Trouble::Nothing(errors::transient(why)));
        }
        for (index, number, delivery) in written {
            let topic = of
                .get(index)
                .and_then(|(commit, _)| commit.letters.get(number))
                .map_or("", |letter| letter.topic.as_str());
            match delivery.blocking_recv() {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => {
                    // One that failed takes the others along.
                    let along = is(&error, RDKafkaErrorCode::PurgeQueue)
                        || is(&error, RDKafkaErrorCode::PurgeInflight);
                    self.places.doubt(topic, &error);
                    refused.note(index, number, refusal(&error, topic), along);
                }
                Err(_) => {
                    let why = "the producer was closed before Kafka answered";
                    refused.note(index, number, errors::transient(why), true);
                }
            }
        }
        refused.verdict()
    }
}
