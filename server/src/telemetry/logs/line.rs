//! An event as a line: for people, or as JSON. Neither has a control character but the line
//! break at its end (and colours, on a terminal).

use std::{borrow::Cow, fmt::Write as _};

use serde::{Serializer as _, ser::SerializeMap as _};
use tracing::Level;

use super::{
    clean::{clean, is_hostile, masked, push_escaped, shortened},
    event::{Event, Value},
};

const DIM: &str = "\u{1b}[2m";
const PLAIN: &str = "\u{1b}[0m";

/// `TIME LEVEL TARGET: MESSAGE NAME=VALUE …`. A value stands in quotes where it would not
/// be seen where it ends.
pub(super) fn text(event: &Event<'_>, colours: bool) -> String {
    let (dim, plain) = if colours { (DIM, PLAIN) } else { ("", "") };
    let colour = if colours { colour(event.level) } else { "" };
    let mut line = format!(
        "{dim}{}{plain} {colour}{:>5}{plain} {dim}{}:{plain} {}",
        event.timestamp,
        event.level,
        clean(event.target),
        clean(event.message),
    );
    for (name, value) in event.fields {
        // A string takes everything.
        let _fits = write!(line, " {dim}{name}={plain}");
        push(&mut line, value);
    }
    line.push('\n');
    line
}

fn colour(level: Level) -> &'static str {
    match level {
        Level::ERROR => "\u{1b}[31m",
        Level::WARN => "\u{1b}[33m",
        Level::INFO => "\u{1b}[32m",
        Level::DEBUG => "\u{1b}[34m",
        Level::TRACE => "\u{1b}[35m",
    }
}

fn push(line: &mut String, value: &Value) {
    let number = match value {
        Value::Text(text) => return push_text(line, text),
        Value::Signed(number) => number.to_string(),
        Value::Unsigned(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Flag(flag) => flag.to_string(),
    };
    line.push_str(&number);
}

/// No value can look like the next field: in quotes, quotes and backslashes are escaped.
fn push_text(line: &mut String, text: &str) {
    let quoted =
        |c: char| c.is_whitespace() || is_hostile(c) || matches!(c, '"' | '\\' | '=' | '\'');
    if !text.is_empty() && !text.contains(quoted) {
        line.push_str(&clean(text));
        return;
    }
    line.push('"');
    for c in masked(shortened(text)).chars() {
        if matches!(c, '"' | '\\') {
            line.push('\\');
        }
        push_escaped(line, c);
    }
    line.push('"');
}

/// One JSON object: `timestamp`, `level`, `target`, `message`, and the fields beside them.
pub(super) fn json(event: &Event<'_>) -> String {
    let mut line = Vec::with_capacity(256);
    let mut serializer = serde_json::Serializer::new(&mut line);
    let written = (|| {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("timestamp", &event.timestamp)?;
        map.serialize_entry("level", event.level.as_str())?;
        map.serialize_entry("target", &clean(event.target))?;
        map.serialize_entry("message", &clean(event.message))?;
        for (name, value) in event.fields {
            map.serialize_entry(name, &Written(value))?;
        }
        map.end()
    })();
    // Nothing here can fail: keys are text, and memory takes everything.
    debug_assert!(written.is_ok(), "{written:?}");
    line.push(b'\n');
    match String::from_utf8_lossy(&line) {
        Cow::Borrowed(text) => text.to_owned(),
        Cow::Owned(text) => text,
    }
}

struct Written<'a>(&'a Value);

impl serde::Serialize for Written<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Text(text) => clean(text).serialize(serializer),
            Value::Signed(number) => number.serialize(serializer),
            Value::Unsigned(number) => number.serialize(serializer),
            Value::Float(number) => number.serialize(serializer),
            Value::Flag(flag) => flag.serialize(serializer),
        }
    }
}
