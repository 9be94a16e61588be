//! Builds the dead letter of a record: its key, value and headers byte for byte,
//! its timestamp, and provenance headers behind a reserved prefix.

use std::{sync::Arc, time::SystemTime};

use ackgate_lane::{Cause, Counts, Offset};
use ackgate_proto::v1;
use bytes::Bytes;
use prost::Message as _;

use super::{
    bodies::History,
    lanes::{Entry, Note},
};
use crate::{
    broker::{Outgoing, TopicPartition},
    config,
    headers::DEAD_LETTER as PREFIX,
};

/// What is known of a record that is given up.
#[derive(Clone, Debug)]
pub(super) struct GivenUp {
    pub(super) offset: Offset,
    pub(super) cause: Cause,
    pub(super) attempts: u32,
    pub(super) deliveries: u32,
}

/// The names of causes in headers, logs and metrics.
#[must_use]
pub(super) const fn cause_name(cause: Cause) -> &'static str {
    match cause {
        Cause::Rejected => "rejected",
        Cause::AttemptsExhausted => "attempts-exhausted",
        Cause::DeliveriesExhausted => "deliveries-exhausted",
        Cause::Oversize => "oversize",
        Cause::Content => "content",
        Cause::Expired => "expired",
    }
}

/// Builds the dead letter; `None` if the record's body is not at hand. `refuser` is
/// the subscriber that gave it up, where each has its own say.
pub(super) fn build(
    subscription: &config::Subscription,
    topic: &str,
    entry: &Entry,
    given_up: &GivenUp,
    refuser: Option<Arc<str>>,
) -> Option<Outgoing> {
    let record = decode(&entry.bodies.record(given_up.offset)?)?;
    let history = entry.bodies.history(given_up.offset);
    let mut headers: Vec<(String, Option<Bytes>)> = record
        .headers
        .into_iter()
        .map(|header| (header.key, header.value))
        .collect();
    let mut provenance = provenance(
        subscription,
        &entry.partition,
        given_up,
        record.timestamp_ms,
        history,
        entry.note(given_up.offset),
        refuser,
    );
    if let Some(counts) = entry.lane.counts(given_up.offset) {
        let Counts {
            acked, rejected, ..
        } = counts;
        provenance.push(("counts", format!("acked={acked} rejected={rejected}")));
    }
    headers.extend(
        provenance
            .into_iter()
            .map(|(name, value)| (format!("{PREFIX}{name}"), Some(Bytes::from(value)))),
    );
    let has_time = record.timestamp_type != i32::from(v1::TimestampType::Unspecified);
    Some(Outgoing {
        topic: topic.to_owned(),
        partition: None,
        key: record.key,
        value: record.value,
        headers,
        timestamp_ms: has_time.then_some(record.timestamp_ms),
    })
}

/// The same dead letter without key and value, marked so, for a topic that does
/// not take one of its size.
pub(super) fn headers_only(mut letter: Outgoing) -> Outgoing {
    let size = |part: &Option<Bytes>| part.as_ref().map_or(0, Bytes::len);
    let omitted = size(&letter.key) + size(&letter.value);
    letter.key = None;
    letter.value = None;
    letter.headers.push((
        format!("{PREFIX}value-omitted"),
        Some(Bytes::from(format!(
            "too large for the topic: {omitted} bytes"
        ))),
    ));
    letter
}

/// Takes a record out of its encoded field.
fn decode(field: &Bytes) -> Option<v1::Record> {
    // The field is a `Batch` with nothing but this record.
    v1::Batch::decode(field.clone()).ok()?.records.pop()
}

fn provenance(
    subscription: &config::Subscription,
    source: &TopicPartition,
    given_up: &GivenUp,
    timestamp_ms: i64,
    history: Option<History>,
    note: Option<&Note>,
    refuser: Option<Arc<str>>,
) -> Vec<(&'static str, String)> {
    let TopicPartition { topic, partition } = source;
    let offset = given_up.offset;
    let subscriber = note
        .map(|note| note.subscriber.to_string())
        .or_else(|| refuser.map(|name| name.to_string()))
        .or_else(|| history.as_ref().map(|history| history.last_to.to_string()));
    let mut headers = vec![
        ("topic", topic.to_string()),
        ("partition", partition.to_string()),
        ("offset", offset.to_string()),
        ("timestamp", timestamp_ms.to_string()),
        ("group", subscription.group.clone()),
        ("subscription", subscription.name.clone()),
        ("cause", cause_name(given_up.cause).to_owned()),
        (
            "code",
            note.map(|note| note.code.to_string()).unwrap_or_default(),
        ),
        (
            "reason",
            note.map(|note| note.reason.to_string()).unwrap_or_default(),
        ),
        ("attempts", given_up.attempts.to_string()),
        ("deliveries", given_up.deliveries.to_string()),
        ("subscriber", subscriber.unwrap_or_default()),
        (
            "dedupe-id",
            format!("{}/{topic}/{partition}/{offset}", subscription.group),
        ),
    ];
    if let Some(history) = history {
        headers.push(("first-delivery", rfc3339(history.first)));
        headers.push(("last-delivery", rfc3339(history.last)));
    }
    headers
}

fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}
