//! Writes one record as a line of text or of JSON.

use std::io::{self, Write};

use ackgate_client::{Record, TimestampType};
use base64::{Engine as _, prelude::BASE64_STANDARD as STANDARD};
use serde::{Serialize, Serializer, ser::SerializeMap};

/// How records are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Format {
    /// `topic/partition@offset`, key and value, separated by tabs.
    Text,
    /// An object a line.
    Json,
}

/// Where a record comes from, and which time it is.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct Place<'a> {
    pub(in crate::cli) topic: &'a str,
    pub(in crate::cli) partition: i32,
    pub(in crate::cli) epoch: u64,
    pub(in crate::cli) attempt: u32,
    pub(in crate::cli) delivery: u32,
}

/// Appends `record` to `out`, with a newline.
pub(in crate::cli) fn record(
    format: Format,
    place: &Place<'_>,
    record: Record<'_>,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    let Place {
        topic,
        partition,
        epoch,
        attempt,
        delivery,
    } = *place;
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
                epoch,
                timestamp_ms: record.timestamp_ms(),
                timestamp_type: match record.timestamp_type() {
                    TimestampType::None => "none",
                    TimestampType::CreateTime => "create_time",
                    TimestampType::LogAppendTime => "log_append_time",
                },
                attempt,
                delivery,
                content: Content {
                    key: record.key(),
                    value: record.value(),
                    headers: record.headers().collect(),
                },
            };
            serde_json::to_writer(&mut *out, &line)?;
        }
    }
    out.push(b'\n');
    Ok(())
}

/// A record as an object, which `ackgate pub --ndjson` reads.
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
    #[serde(flatten)]
    content: Content<'a>,
}

/// What a record holds, as entries of an object: `key`, `value` and `headers`; where bytes
/// are not UTF-8 `key_base64` and `value_base64` instead.
#[derive(Debug)]
pub(in crate::cli) struct Content<'a> {
    pub(in crate::cli) key: Option<&'a [u8]>,
    pub(in crate::cli) value: Option<&'a [u8]>,
    pub(in crate::cli) headers: Vec<(&'a str, Option<&'a [u8]>)>,
}

impl Serialize for Content<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let headers = self.headers.iter();
        let headers: Vec<_> = headers
            .map(|&(name, value)| Header { name, value })
            .collect();
        let mut map = serializer.serialize_map(Some(3))?;
        bytes(&mut map, ["key", "key_base64"], self.key)?;
        bytes(&mut map, ["value", "value_base64"], self.value)?;
        map.serialize_entry("headers", &headers)?;
        map.end()
    }
}

/// One header: its name, and its value as that of a record.
struct Header<'a> {
    name: &'a str,
    value: Option<&'a [u8]>,
}

impl Serialize for Header<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("name", self.name)?;
        bytes(&mut map, ["value", "value_base64"], self.value)?;
        map.end()
    }
}

/// Null, or a text under the first name if the bytes are UTF-8, or their Base64 under the
/// second.
fn bytes<M: SerializeMap>(
    map: &mut M,
    [text, base64]: [&'static str; 2],
    bytes: Option<&[u8]>,
) -> Result<(), M::Error> {
    match bytes.map(str::from_utf8) {
        None => map.serialize_entry(text, &()),
        Some(Ok(utf8)) => map.serialize_entry(text, utf8),
        Some(Err(_)) => map.serialize_entry(base64, &STANDARD.encode(bytes.unwrap_or_default())),
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

    fn said(value: Option<&[u8]>) -> (String, String) {
        let mut out = Vec::new();
        text(value, &mut out).unwrap();
        let header = Header { name: "h", value };
        (
            String::from_utf8(out).unwrap(),
            serde_json::to_string(&header).unwrap(),
        )
    }

    #[test]
    fn null_empty_text_and_binary_are_told_apart() {
        let json = |entry: &str| format!("{{\"name\":\"h\",{entry}}}");
        assert_eq!(said(None), ("<null>".into(), json("\"value\":null")));
        assert_eq!(said(Some(b"")), (String::new(), json("\"value\":\"\"")));
        assert_eq!(
            said(Some("né".as_bytes())),
            ("né".into(), json("\"value\":\"né\""))
        );
        assert_eq!(
            said(Some(b"\xff\x00")),
            ("hex:ff00".into(), json("\"value_base64\":\"/wA=\""))
        );
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(said(Some(b"a\x1b[2J\nb")).0, "a\\u{1b}[2J\\nb");
    }
}
