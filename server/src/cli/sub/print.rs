//! Writes one record as a line of text or of JSON.

use std::io::{self, Write};

use ackgate_client::{Batch, Record, TimestampType};
use serde::{Serialize, Serializer, ser::SerializeMap as _};

/// How records are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// `topic/partition@offset`, key and value, separated by tabs.
    Text,
    /// An object a line.
    Json,
}

/// Appends `record` of `batch` to `out`, with a newline.
pub(super) fn record(
    format: Format,
    batch: &Batch,
    record: Record<'_>,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    let (attempt, delivery) = batch.numbers(record.offset());
    let (topic, partition) = (batch.topic(), batch.partition());
    match format {
        Format::Text => {
            write!(out, "{topic}/{partition}@{}\t", record.offset())?;
            text(record.key(), out)?;
            out.push(b'\t');
            text(record.value(), out)?;
            if attempt > 1 || delivery > 1 {
                write!(out, "\tattempt {attempt}, delivery {delivery}")?;
            }
        }
        Format::Json => {
            let line = Line {
                topic,
                partition,
                offset: record.offset(),
                epoch: batch.epoch(),
                timestamp_ms: record.timestamp_ms(),
                timestamp_type: match record.timestamp_type() {
                    TimestampType::None => "none",
                    TimestampType::CreateTime => "create_time",
                    TimestampType::LogAppendTime => "log_append_time",
                },
                attempt,
                delivery,
                key: record.key().map(Bytes),
                value: record.value().map(Bytes),
                headers: record
                    .headers()
                    .map(|(key, value)| (key, value.map(Bytes)))
                    .collect(),
            };
            serde_json::to_writer(&mut *out, &line)?;
        }
    }
    out.push(b'\n');
    Ok(())
}

#[derive(Serialize)]
struct Line<'a> {
    topic: &'a str,
    partition: i32,
    offset: i64,
    epoch: u64,
    timestamp_ms: i64,
    timestamp_type: &'static str,
    attempt: u32,
    delivery: u32,
    key: Option<Bytes<'a>>,
    value: Option<Bytes<'a>>,
    headers: Vec<(&'a str, Option<Bytes<'a>>)>,
}

/// A string if the bytes are UTF-8, else `{"hex": "…"}`.
#[derive(Debug)]
pub(in crate::cli) struct Bytes<'a>(pub(in crate::cli) &'a [u8]);

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match str::from_utf8(self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("hex", &hex(self.0))?;
                map.end()
            }
        }
    }
}

/// Text as it is, but for control characters, which could take over a terminal.
///
/// # Errors
/// `out` cannot be written to.
pub(in crate::cli) fn text(bytes: Option<&[u8]>, out: &mut Vec<u8>) -> io::Result<()> {
    let Some(bytes) = bytes else {
        return out.write_all(b"<null>");
    };
    match str::from_utf8(bytes) {
        Ok(text) if !text.contains(char::is_control) => out.write_all(bytes),
        Ok(text) => {
            for character in text.chars() {
                if character.is_control() {
                    write!(out, "{}", character.escape_default())?;
                } else {
                    write!(out, "{character}")?;
                }
            }
            Ok(())
        }
        Err(_) => write!(out, "hex:{}", hex(bytes)),
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;

    let mut text = String::with_capacity(bytes.len().saturating_mul(2));
    for byte in bytes {
        // Writing to a String cannot fail.
        write!(text, "{byte:02x}").unwrap_or_default();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(bytes: Option<&[u8]>) -> (String, String) {
        let mut out = Vec::new();
        text(bytes, &mut out).unwrap();
        (
            String::from_utf8(out).unwrap(),
            serde_json::to_string(&bytes.map(Bytes)).unwrap(),
        )
    }

    #[test]
    fn null_empty_text_and_binary_are_told_apart() {
        assert_eq!(said(None), ("<null>".into(), "null".into()));
        assert_eq!(said(Some(b"")), (String::new(), "\"\"".into()));
        assert_eq!(said(Some("né".as_bytes())), ("né".into(), "\"né\"".into()));
        assert_eq!(
            said(Some(b"\xff\x00")),
            ("hex:ff00".into(), "{\"hex\":\"ff00\"}".into())
        );
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(said(Some(b"a\x1b[2J\nb")).0, "a\\u{1b}[2J\\nb");
    }
}
