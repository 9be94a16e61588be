//! Dead letters as lines for people and as JSON for programs.
//!
//! Invariant: what came from a topic reaches a terminal without control characters.

use ackgate_proto::v1;
use serde::Serialize;

use super::{
    letter::{Letter, Told},
    time,
};
use crate::cli::sub::print::{self, Content};

/// A dead letter as JSON. Null, empty and bytes are told apart as `ackgate sub` does it.
#[derive(Debug, Serialize)]
pub(super) struct Line<'a> {
    topic: &'a str,
    partition: i32,
    offset: i64,
    timestamp_ms: i64,
    timestamp_type: &'static str,
    /// Null: the record was not written by a gateway.
    dead_letter: Option<About<'a>>,
    /// Without the headers of the gateway.
    #[serde(flatten)]
    content: Content<'a>,
}

#[derive(Debug, Serialize)]
struct About<'a> {
    topic: &'a str,
    partition: i32,
    offset: i64,
    timestamp_ms: i64,
    group: &'a str,
    subscription: &'a str,
    cause: &'a str,
    code: &'a str,
    reason: &'a str,
    attempts: u32,
    deliveries: u32,
    first_delivery: Option<&'a str>,
    last_delivery: Option<&'a str>,
    subscriber: &'a str,
    counts: Option<&'a str>,
    dedupe_id: &'a str,
    round: u32,
    omitted: &'a [&'static str],
}

impl<'a> Line<'a> {
    pub(super) fn new(topic: &'a str, letter: &'a Letter) -> Self {
        let record = &letter.record;
        let headers: Vec<&v1::Header> = match &letter.told {
            Some(_) => letter.own_headers().collect(),
            None => record.headers.iter().collect(),
        };
        Self {
            topic,
            partition: letter.partition,
            offset: record.offset,
            timestamp_ms: record.timestamp_ms,
            timestamp_type: match record.timestamp_type() {
                v1::TimestampType::Unspecified => "none",
                v1::TimestampType::CreateTime => "create_time",
                v1::TimestampType::LogAppendTime => "log_append_time",
            },
            dead_letter: letter.told.as_ref().map(About::new),
            content: Content {
                key: record.key.as_deref(),
                value: record.value.as_deref(),
                headers: headers
                    .into_iter()
                    .map(|header| (header.key.as_str(), header.value.as_deref()))
                    .collect(),
            },
        }
    }
}

impl<'a> About<'a> {
    fn new(told: &'a Told) -> Self {
        Self {
            topic: &told.topic,
            partition: told.partition,
            offset: told.offset,
            timestamp_ms: told.timestamp_ms,
            group: &told.group,
            subscription: &told.subscription,
            cause: &told.cause,
            code: &told.code,
            reason: &told.reason,
            attempts: told.attempts,
            deliveries: told.deliveries,
            first_delivery: told.first_delivery.as_deref(),
            last_delivery: told.last_delivery.as_deref(),
            subscriber: &told.subscriber,
            counts: told.counts.as_deref(),
            dedupe_id: &told.dedupe_id,
            round: told.round,
            omitted: &told.omitted,
        }
    }
}

/// The heads of [`row`].
pub(super) const HEAD: [&str; 8] = [
    "LETTER",
    "FROM",
    "GIVEN UP, UTC",
    "CAUSE",
    "CODE",
    "REASON",
    "KEY",
    "VALUE",
];

/// A dead letter as a row of a table.
pub(super) fn row(letter: &Letter) -> [String; 8] {
    let record = &letter.record;
    let none = Told::default();
    let told = letter.told.as_ref().unwrap_or(&none);
    let from = match &letter.told {
        Some(told) => format!(
            "{}/{}@{}",
            plain(told.topic.as_bytes()),
            told.partition,
            told.offset
        ),
        None => "not from a gateway".to_owned(),
    };
    let size = match (&record.value, told.omitted.first()) {
        (_, Some(_)) => format!("{} omitted", told.omitted.join(", ")),
        (None, None) => "null".to_owned(),
        (Some(value), None) => format!("{} B", value.len()),
    };
    [
        format!("{}/{}", letter.partition, record.offset),
        from,
        time::short(letter.when()),
        plain(told.cause.as_bytes()),
        short(&plain(told.code.as_bytes()), 24),
        short(&plain(told.reason.as_bytes()), 48),
        short(&shown(record.key.as_deref()), 24),
        size,
    ]
}

/// A dead letter whole, for people.
pub(super) fn whole(topic: &str, letter: &Letter) -> String {
    let record = &letter.record;
    let mut lines = vec![(
        "dead letter",
        format!("{topic}/{}@{}", letter.partition, record.offset),
    )];
    if let Some(told) = &letter.told {
        lines.extend(about(told));
    } else {
        lines.push(("from", "not written by a gateway".to_owned()));
        lines.push(("timestamp", time::written(record.timestamp_ms)));
    }
    let mut text = String::new();
    for (name, value) in lines {
        text.push_str(&format!("{name:<16}{value}\n"));
    }
    text.push_str(&format!(
        "\n{:<16}{}\n",
        "key",
        shown(record.key.as_deref())
    ));
    let headers: Vec<&v1::Header> = match &letter.told {
        Some(_) => letter.own_headers().collect(),
        None => record.headers.iter().collect(),
    };
    for header in headers {
        let name = plain(header.key.as_bytes());
        let value = shown(header.value.as_deref());
        text.push_str(&format!("{:<16}{name}: {value}\n", "header"));
    }
    text.push_str(&format!(
        "{:<16}{}",
        "value",
        shown(record.value.as_deref())
    ));
    text
}

fn about(told: &Told) -> Vec<(&'static str, String)> {
    let text = |text: &str| plain(text.as_bytes());
    let mut lines = vec![
        (
            "from",
            format!("{}/{}@{}", text(&told.topic), told.partition, told.offset),
        ),
        ("timestamp", time::written(told.timestamp_ms)),
        ("group", text(&told.group)),
        ("subscription", text(&told.subscription)),
        ("cause", text(&told.cause)),
        ("code", text(&told.code)),
        ("reason", text(&told.reason)),
        ("attempts", told.attempts.to_string()),
        ("deliveries", told.deliveries.to_string()),
        (
            "first delivery",
            text(told.first_delivery.as_deref().unwrap_or_default()),
        ),
        (
            "last delivery",
            text(told.last_delivery.as_deref().unwrap_or_default()),
        ),
        ("subscriber", text(&told.subscriber)),
        ("dedupe-id", text(&told.dedupe_id)),
    ];
    if let Some(counts) = &told.counts {
        lines.push(("counts", text(counts)));
    }
    if told.round > 0 {
        lines.push(("put back before", told.round.to_string()));
    }
    if !told.omitted.is_empty() {
        let parts = told.omitted.join(", ");
        lines.push(("omitted", format!("{parts}: too large for the topic")));
    }
    lines.retain(|(_, value)| !value.is_empty());
    lines
}

/// Bytes as text without control characters, or as hexadecimal digits.
pub(super) fn plain(bytes: &[u8]) -> String {
    shown(Some(bytes))
}

fn shown(bytes: Option<&[u8]>) -> String {
    let mut out = Vec::new();
    // A vector takes everything.
    print::text(bytes, &mut out).unwrap_or_default();
    String::from_utf8_lossy(&out).into_owned()
}

/// At most `limit` characters, the last of which says that there are more.
pub(super) fn short(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(limit.saturating_sub(1)).collect();
    short.push('…');
    short
}
