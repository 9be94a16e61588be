//! A line of JSON as a record: what `ackgate sub --json` prints, and what people write.

use std::{fmt, time::UNIX_EPOCH};

use base64::{Engine as _, prelude::BASE64_STANDARD as BASE64};
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use super::draft::Draft;

/// What an object can have. Anything else is a mistake: a record must not lose its key
/// to a slip of the pen.
#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "an object such as {\"key\":\"k\",\"value\":\"v\"}"
)]
struct Object<'a> {
    topic: Option<String>,
    partition: Option<i32>,
    #[serde(borrow, default, deserialize_with = "present")]
    key: Option<&'a RawValue>,
    key_base64: Option<String>,
    #[serde(borrow, default, deserialize_with = "present")]
    value: Option<&'a RawValue>,
    value_base64: Option<String>,
    #[serde(borrow, default)]
    headers: Option<Headers<'a>>,
    #[serde(borrow)]
    timestamp: Option<&'a RawValue>,
    timestamp_ms: Option<i64>,
    timestamp_type: Option<String>,
    // What else `sub` and `dlq` say of a record, which belongs to the place where it was.
    #[serde(rename = "dead_letter")]
    _dead_letter: Option<IgnoredAny>,
    #[serde(rename = "offset")]
    _offset: Option<IgnoredAny>,
    #[serde(rename = "epoch")]
    _epoch: Option<IgnoredAny>,
    #[serde(rename = "attempt")]
    _attempt: Option<IgnoredAny>,
    #[serde(rename = "delivery")]
    _delivery: Option<IgnoredAny>,
}

/// `[{"name": "h", "value": "v"}, …]`, or `{"h": "v", …}`; both keep order and repeats.
struct Headers<'a>(Vec<Header<'a>>);

#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a header such as {\"name\":\"h\",\"value\":\"v\"}"
)]
struct Header<'a> {
    name: String,
    #[serde(borrow, default, deserialize_with = "present")]
    value: Option<&'a RawValue>,
    value_base64: Option<String>,
}

/// A field that is there, be it null.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

/// Reads a line.
///
/// # Errors
/// In words: what is wrong with it, and where.
pub(super) fn read(line: &[u8]) -> Result<Draft, String> {
    if !line.trim_ascii_start().starts_with(b"{") {
        return Err("is not a JSON object, such as {\"key\":\"k\",\"value\":\"v\"}".to_owned());
    }
    let object: Object<'_> = serde_json::from_slice(line).map_err(|error| explained(&error))?;
    let key = match bytes("key", object.key, object.key_base64)? {
        Given::Nothing => None,
        Given::Bytes(key) => Some(key),
    };
    let value = match bytes("value", object.value, object.value_base64)? {
        Given::Nothing => return Err("has no \"value\"; null writes a tombstone".to_owned()),
        Given::Bytes(value) => value,
    };
    let mut headers = Vec::new();
    for Header {
        name,
        value,
        value_base64,
    } in object.headers.map_or_else(Vec::new, |headers| headers.0)
    {
        match bytes("value", value, value_base64) {
            Ok(Given::Bytes(value)) => headers.push((name, value)),
            Ok(Given::Nothing) => return Err(format!("header {name:?} has no \"value\"")),
            Err(why) => return Err(format!("header {name:?}: {why}")),
        }
    }
    let timestamp_ms = match (object.timestamp, object.timestamp_ms) {
        (Some(_), Some(_)) => {
            return Err("has both \"timestamp\" and \"timestamp_ms\"".to_owned());
        }
        (Some(time), None) => Some(milliseconds(time)?),
        // What `sub` prints of a record without a time.
        (None, _) if object.timestamp_type.as_deref() == Some("none") => None,
        (None, time) => time,
    };
    Ok(Draft {
        topic: object.topic,
        partition: object.partition,
        key,
        value,
        headers,
        timestamp_ms,
    })
}

enum Given {
    Nothing,
    Bytes(Option<Vec<u8>>),
}

/// The bytes of a field that may be in Base64.
fn bytes(field: &str, plain: Option<&RawValue>, base64: Option<String>) -> Result<Given, String> {
    match (plain, base64) {
        (Some(_), Some(_)) => Err(format!("has both {field:?} and \"{field}_base64\"")),
        (Some(plain), None) => Ok(Given::Bytes(text(field, plain)?)),
        (None, Some(base64)) => match BASE64.decode(base64) {
            Ok(bytes) => Ok(Given::Bytes(Some(bytes))),
            Err(error) => Err(format!("\"{field}_base64\" is not Base64: {error}")),
        },
        (None, None) => Ok(Given::Nothing),
    }
}

/// A string is its text, null is null, and any other JSON is what the input has.
fn text(field: &str, raw: &RawValue) -> Result<Option<Vec<u8>>, String> {
    let json = raw.get();
    if json == "null" {
        Ok(None)
    } else if json.starts_with('"') {
        match serde_json::from_str::<String>(json) {
            Ok(text) => Ok(Some(text.into_bytes())),
            Err(error) => Err(format!(
                "{field:?} is no text: {error}; use \"{field}_base64\""
            )),
        }
    } else {
        Ok(Some(json.as_bytes().to_vec()))
    }
}

/// Milliseconds, or a time as `2026-01-31T12:00:00.5Z`.
fn milliseconds(raw: &RawValue) -> Result<i64, String> {
    let wrong = || {
        let raw = raw.get();
        format!("\"timestamp\" is {raw}, not milliseconds or a time as \"2026-01-31T12:00:00Z\"")
    };
    if let Ok(time) = serde_json::from_str::<i64>(raw.get()) {
        return Ok(time);
    }
    let written: String = serde_json::from_str(raw.get()).map_err(|_| wrong())?;
    let time = humantime::parse_rfc3339(&written).map_err(|_| wrong())?;
    let since = time.duration_since(UNIX_EPOCH).map_err(|_| wrong())?;
    i64::try_from(since.as_millis()).map_err(|_| wrong())
}

/// What the parser says; the line is told by who reads many.
fn explained(error: &serde_json::Error) -> String {
    let said = error.to_string();
    let what = said
        .rsplit_once(" at line ")
        .map_or(&*said, |(what, _)| what);
    format!(
        "is not a record as JSON: {what} (column {})",
        error.column()
    )
}

impl<'de: 'a, 'a> Deserialize<'de> for Headers<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Headers<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "headers as a list of {\"name\":…,\"value\":…} or as {\"name\":\"value\"}",
                )
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut headers = Vec::new();
                while let Some(header) = list.next_element()? {
                    headers.push(header);
                }
                Ok(Headers(headers))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut headers = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
                    headers.push(Header {
                        name,
                        value: Some(value),
                        value_base64: None,
                    });
                }
                Ok(Headers(headers))
            }
        }

        from.deserialize_any(Entries)
    }
}

#[cfg(test)]
mod tests;
