//! Makes the record that is put back of a dead letter: the original, byte for byte, and
//! behind its own headers those that say where it came from.

use std::hash::{DefaultHasher, Hasher as _};

use bytes::Bytes;

use crate::{
    broker::Outgoing,
    cli::dlq::letter::{Letter, Told, parts},
    headers::{self, DEDUPE_ID, LETTER, NOT_BEFORE, ORIGIN, REDRIVE, ROUND},
};

/// Where records are put back.
#[derive(Clone, Debug)]
pub(super) struct Target<'a> {
    /// Where the dead letters are.
    pub(super) dead_letter_topic: &'a str,
    pub(super) retry_topic: &'a str,
    /// Of the retry topic, 1 or more.
    pub(super) partitions: i32,
}

/// The record, which is not handed out before `not_before` (milliseconds since the Unix
/// epoch; `None`: at once).
pub(super) fn record(
    to: &Target<'_>,
    letter: &Letter,
    told: &Told,
    not_before: Option<i64>,
) -> Outgoing {
    let Letter {
        partition, record, ..
    } = letter;
    let own = letter.own_headers();
    let mut headers: Vec<(String, Option<Bytes>)> = own
        .map(|header| (header.key.clone(), header.value.clone()))
        .collect();
    let origin = [
        told.topic.clone(),
        told.partition.to_string(),
        told.offset.to_string(),
        told.timestamp_ms.to_string(),
    ];
    let mut added: Vec<(&str, String)> = ORIGIN.into_iter().zip(origin).collect();
    added.push((DEDUPE_ID, told.dedupe_id.clone()));
    if let Some(time) = not_before {
        added.push((NOT_BEFORE, time.to_string()));
    }
    let topic = to.dead_letter_topic;
    added.push((LETTER, format!("{topic}/{partition}/{}", record.offset)));
    added.push((ROUND, told.round.saturating_add(1).to_string()));
    headers.extend(
        added
            .into_iter()
            .map(|(name, value)| (format!("{REDRIVE}{name}"), Some(Bytes::from(value)))),
    );
    Outgoing {
        topic: to.retry_topic.to_owned(),
        // A lane's records stay in one partition, and so in order.
        partition: Some(told.partition % to.partitions.max(1)),
        key: record.key.clone(),
        value: record.value.clone(),
        headers,
        timestamp_ms: Some(told.timestamp_ms).filter(|time| *time > 0),
    }
}

/// The dead letter that a record of a retry topic was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Made {
    pub(super) partition: i32,
    pub(super) offset: u64,
    /// Which record it was of.
    pub(super) of: u64,
}

/// A number for a record by its dedupe id: two records hardly ever have the same.
pub(super) fn number(dedupe_id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(dedupe_id.as_bytes());
    hasher.finish()
}

/// Reads back what [`record`] says of the dead letter; `None` if the record was not made
/// from one of `dead_letter_topic`.
pub(super) fn made_from(
    added: &[ackgate_proto::v1::Header],
    dead_letter_topic: &str,
) -> Option<Made> {
    let last = |name| headers::redriven(added, parts, name);
    let text = last(LETTER)?;
    let place = text.strip_prefix(dead_letter_topic)?.strip_prefix('/')?;
    let (partition, offset) = place.split_once('/')?;
    Some(Made {
        partition: partition.parse().ok()?,
        offset: offset.parse().ok()?,
        of: number(last(DEDUPE_ID).unwrap_or_default()),
    })
}
