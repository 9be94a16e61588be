//! Names of the headers that the gateway and its commands add to records, and read.
//!
//! Boundary: names and their meaning; who writes them stands at each.

/// Begins every header of a dead letter that says where the record came from and why
/// it was given up.
pub const DEAD_LETTER: &str = "ackgate.dead-letter.";

/// Begins every header of a record that was put back from a dead-letter topic.
pub const REDRIVE: &str = "ackgate.redrive.";

/// Behind [`REDRIVE`]: the topic, partition, offset and timestamp (milliseconds) that the
/// record had when it was first delivered, however often it came round.
pub const ORIGIN: [&str; 4] = ["topic", "partition", "offset", "timestamp"];

/// Behind either prefix: the same for all copies of one record of one group,
/// `group/topic/partition/offset` of its origin.
pub const DEDUPE_ID: &str = "dedupe-id";

/// Behind [`REDRIVE`]: the record is not handed out before this time, in milliseconds
/// since the Unix epoch.
pub const NOT_BEFORE: &str = "not-before";

/// Behind [`REDRIVE`]: the dead letter that was put back, `topic/partition/offset`.
pub const LETTER: &str = "dead-letter";

/// Behind either prefix: how often the record was put back, 1 or more. A dead letter of a
/// record that never was has none.
pub const ROUND: &str = "round";

/// Names of other software under which a dead letter may tell its origin once more.
const ALIASES: [&str; 28] = [
    "__connect.errors.topic",
    "__connect.errors.partition",
    "__connect.errors.offset",
    "__connect.errors.connector.name",
    "__connect.errors.task.id",
    "__connect.errors.stage",
    "__connect.errors.class.name",
    "__connect.errors.exception.class.name",
    "__connect.errors.exception.message",
    "__streams.errors.exception",
    "__streams.errors.message",
    "__streams.errors.topic",
    "__streams.errors.partition",
    "__streams.errors.offset",
    "kafka_dlt-original-topic",
    "kafka_dlt-original-partition",
    "kafka_dlt-original-offset",
    "kafka_dlt-original-timestamp",
    "kafka_dlt-original-timestamp-type",
    "kafka_dlt-original-consumer-group",
    "kafka_dlt-exception-fqcn",
    "kafka_dlt-exception-message",
    "__dlq.errors.topic",
    "__dlq.errors.partition",
    "__dlq.errors.offset",
    "__dlq.errors.group",
    "__dlq.errors.delivery.count",
    "__dlq.errors.message",
];

/// The headers of the record itself, without those that a dead letter or a redrive added:
/// under the two prefixes everything, and under the names of other software what stands
/// behind the first header of a dead letter. Equal names in front of that are the
/// record's own and stay.
pub fn own<T>(headers: Vec<T>, key: impl Fn(&T) -> &str) -> impl Iterator<Item = T> {
    let mut is_letter = false;
    headers.into_iter().filter(move |header| {
        let key = key(header);
        is_letter |= key.starts_with(DEAD_LETTER);
        !(key.starts_with(DEAD_LETTER)
            || key.starts_with(REDRIVE)
            || (is_letter && ALIASES.contains(&key)))
    })
}

/// The value of the last header of this name behind this prefix: those before it are the
/// record's own. `parts` are a header's key and value.
pub fn last<'a, T>(
    headers: &'a [T],
    parts: impl Fn(&'a T) -> (&'a str, Option<&'a [u8]>),
    prefix: &str,
    name: &str,
) -> Option<&'a [u8]> {
    let mut headers = headers.iter().rev().map(parts);
    let (_, value) = headers.find(|(key, _)| key.strip_prefix(prefix) == Some(name))?;
    value
}

/// The same behind [`REDRIVE`], where it is text.
pub fn redriven<'a, T>(
    headers: &'a [T],
    parts: impl Fn(&'a T) -> (&'a str, Option<&'a [u8]>),
    name: &str,
) -> Option<&'a str> {
    str::from_utf8(last(headers, parts, REDRIVE, name)?).ok()
}
