//! The same provenance under the names of other software, each in its own encoding, for
//! tools that know those.
//!
//! What the other software has and the gateway does not (a stack trace, a cause of the
//! cause) is left out, not invented.

use ackgate_proto::v1::TimestampType;
use bytes::Bytes;

use super::{Header, origin::Origin};
use crate::config::Alias;

/// What the headers are made of.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    pub(super) origin: &'a Origin,
    pub(super) subscription: &'a str,
    pub(super) group: &'a str,
    pub(super) cause: &'static str,
    pub(super) reason: &'a str,
    pub(super) deliveries: u32,
    pub(super) timestamp_type: TimestampType,
}

/// The headers of all sets that are asked for, in order.
pub(super) fn headers(sets: &[Alias], facts: &Facts<'_>) -> Vec<Header> {
    let sets = sets.iter().flat_map(|set| match set {
        Alias::Connect => connect(facts),
        Alias::Streams => streams(facts),
        Alias::Spring => spring(facts),
        Alias::Share => share(facts),
    });
    sets.map(|(name, value)| (name.to_owned(), Some(value)))
        .collect()
}

type Set = Vec<(&'static str, Bytes)>;

fn text(text: impl ToString) -> Bytes {
    Bytes::from(text.to_string())
}

/// In the place of an exception's class.
fn class(facts: &Facts<'_>) -> String {
    format!("ackgate.{}", facts.cause)
}

/// In the place of an exception's message.
fn message(facts: &Facts<'_>) -> Bytes {
    text(if facts.reason.is_empty() {
        facts.cause
    } else {
        facts.reason
    })
}

/// All in text, as `DeadLetterQueueReporter` writes them.
fn connect(facts: &Facts<'_>) -> Set {
    vec![
        ("__connect.errors.topic", text(&facts.origin.topic)),
        ("__connect.errors.partition", text(facts.origin.partition)),
        ("__connect.errors.offset", text(facts.origin.offset)),
        ("__connect.errors.connector.name", text(facts.subscription)),
        ("__connect.errors.task.id", text(0)),
        // The stage at which a sink has the record.
        ("__connect.errors.stage", text("TASK_PUT")),
        ("__connect.errors.class.name", text("ackgate")),
        ("__connect.errors.exception.class.name", text(class(facts))),
        ("__connect.errors.exception.message", message(facts)),
    ]
}

/// All in text; `exception` is an exception as it prints itself.
fn streams(facts: &Facts<'_>) -> Set {
    let exception = if facts.reason.is_empty() {
        class(facts)
    } else {
        format!("{}: {}", class(facts), facts.reason)
    };
    vec![
        ("__streams.errors.exception", text(exception)),
        ("__streams.errors.message", message(facts)),
        ("__streams.errors.topic", text(&facts.origin.topic)),
        ("__streams.errors.partition", text(facts.origin.partition)),
        ("__streams.errors.offset", text(facts.origin.offset)),
    ]
}

/// Numbers as Java's `ByteBuffer` puts them: an int of 4 bytes and longs of 8, the
/// highest byte first.
fn spring(facts: &Facts<'_>) -> Set {
    let origin = facts.origin;
    let number = |bytes: &[u8]| Bytes::copy_from_slice(bytes);
    let timestamp_type = match facts.timestamp_type {
        TimestampType::Unspecified => "NoTimestampType",
        TimestampType::CreateTime => "CreateTime",
        TimestampType::LogAppendTime => "LogAppendTime",
    };
    vec![
        ("kafka_dlt-original-topic", text(&origin.topic)),
        (
            "kafka_dlt-original-partition",
            number(&origin.partition.to_be_bytes()),
        ),
        (
            "kafka_dlt-original-offset",
            number(&origin.offset.to_be_bytes()),
        ),
        (
            "kafka_dlt-original-timestamp",
            number(&origin.timestamp_ms.to_be_bytes()),
        ),
        ("kafka_dlt-original-timestamp-type", text(timestamp_type)),
        ("kafka_dlt-original-consumer-group", text(facts.group)),
        ("kafka_dlt-exception-fqcn", text(class(facts))),
        ("kafka_dlt-exception-message", message(facts)),
    ]
}

/// All in text, as a broker writes them for a share group.
fn share(facts: &Facts<'_>) -> Set {
    vec![
        ("__dlq.errors.topic", text(&facts.origin.topic)),
        ("__dlq.errors.partition", text(facts.origin.partition)),
        ("__dlq.errors.offset", text(facts.origin.offset)),
        ("__dlq.errors.group", text(facts.group)),
        ("__dlq.errors.delivery.count", text(facts.deliveries)),
        ("__dlq.errors.message", message(facts)),
    ]
}
