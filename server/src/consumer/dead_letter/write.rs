//! Writes a dead letter: into the partition that it belongs to, in the largest form
//! that its topic takes.

use super::{
    Letter,
    form::{self, Form},
};
use crate::{
    broker::{self, Error, ErrorKind, Outgoing, Placed, Producer},
    config::LetterPartition,
    fail,
    telemetry::troubles::{self, Trouble},
};

/// Writes it and waits for Kafka's word.
///
/// # Errors
/// It was not written in any form, or that is not known.
pub(in crate::consumer) async fn write(
    producer: &dyn Producer,
    letter: Letter,
) -> Result<Placed, Error> {
    let partition = match letter.partition {
        LetterPartition::Key => None,
        LetterPartition::Same => producer
            .partitions(&letter.record.topic)
            .await?
            .map(|count| broker::modulo(letter.source, count)),
    };
    let mut form = Form::Whole;
    let mut limit = None;
    loop {
        let outgoing = Outgoing {
            partition,
            ..letter.in_form(form, limit)
        };
        let most = form::at_most(&outgoing);
        fail::point("dead-letter.before-write");
        let written = producer.produce(outgoing);
        fail::point("dead-letter.enqueued");
        let error = match written.await {
            Err(error) if error.kind == ErrorKind::TooLarge => error,
            placed => {
                if placed.is_ok() && !form.has_the_record() {
                    tell(&letter, limit);
                }
                return placed;
            }
        };
        if limit.is_none() {
            limit = producer.largest(&letter.record.topic).await;
        }
        if limit.is_some_and(|limit| most <= limit) {
            // It stood in a batch with others that was too large as a whole.
            return Err(Error {
                kind: ErrorKind::Transient,
                ..error
            });
        }
        form = form.smaller(&letter).ok_or(error)?;
    }
}

fn tell(letter: &Letter, limit: Option<u64>) {
    let Some(count) = troubles::again(Trouble::Shortened) else {
        return;
    };
    tracing::warn!(
        dead_letter_topic = letter.record.topic,
        partition = letter.source,
        bytes = form::size(&letter.record),
        limit_bytes = limit,
        count,
        "a record is too large for its dead-letter topic: the copy is without its value"
    );
}
