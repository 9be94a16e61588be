//! [`Event`]: what one event says, however it is written. [`Fields`]: what a span adds to
//! each event within it.

use std::fmt;

use tracing::{Level, field};

/// The value of a field. Numbers stay numbers.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// Text, or whatever has no other form.
    Text(String),
    /// A number below 0, or one that may be.
    Signed(i64),
    /// A number.
    Unsigned(u64),
    /// A number with a fraction.
    Float(f64),
    /// Yes or no.
    Flag(bool),
}

/// The fields of an event or of a span, in the order of the source.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    /// The event's text.
    pub(super) message: String,
    /// By name; no name is there twice.
    pub(super) list: Vec<(&'static str, Value)>,
    /// Where an event of the `log` crate comes from.
    pub(super) target: Option<String>,
}

/// One event.
#[derive(Debug)]
pub(super) struct Event<'a> {
    /// When, as RFC 3339 in UTC with microseconds.
    pub(super) timestamp: String,
    /// How urgent.
    pub(super) level: Level,
    /// The part of the program.
    pub(super) target: &'a str,
    /// What happened.
    pub(super) message: &'a str,
    /// With what, those of the spans around it last.
    pub(super) fields: &'a [(&'static str, Value)],
}

impl Fields {
    /// Adds what a span says, unless it is said already.
    pub(super) fn add(&mut self, outer: &Self) {
        for (name, value) in &outer.list {
            if !self.list.iter().any(|(known, _)| known == name) {
                self.list.push((name, value.clone()));
            }
        }
    }

    fn set(&mut self, field: &field::Field, value: Value) {
        let name = field.name();
        match (name, value) {
            ("message", Value::Text(text)) => self.message = text,
            ("log.target", Value::Text(text)) => self.target = Some(text),
            // Where it stands in the source of a library.
            ("log.module_path" | "log.file" | "log.line", _) => {}
            (_, value) => {
                let name = name.strip_prefix("r#").unwrap_or(name);
                self.list.retain(|(known, _)| *known != name);
                self.list.push((name, value));
            }
        }
    }
}

impl field::Visit for Fields {
    fn record_f64(&mut self, field: &field::Field, value: f64) {
        self.set(field, Value::Float(value));
    }

    fn record_i64(&mut self, field: &field::Field, value: i64) {
        self.set(field, Value::Signed(value));
    }

    fn record_u64(&mut self, field: &field::Field, value: u64) {
        self.set(field, Value::Unsigned(value));
    }

    fn record_bool(&mut self, field: &field::Field, value: bool) {
        self.set(field, Value::Flag(value));
    }

    fn record_str(&mut self, field: &field::Field, value: &str) {
        self.set(field, Value::Text(value.to_owned()));
    }

    fn record_debug(&mut self, field: &field::Field, value: &dyn fmt::Debug) {
        self.set(field, Value::Text(format!("{value:?}")));
    }
}
