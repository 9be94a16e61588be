//! The configuration as written: values with the place they come from.
//!
//! Boundary: the only file that knows the TOML parser. Invariant: a node may hold a
//! secret, so nothing here implements `Debug`.

use std::collections::BTreeMap;

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::problem::Problem;

/// A table by key.
pub(super) type Table = BTreeMap<String, Node>;

/// A value and its place.
#[derive(Clone)]
pub(super) struct Node {
    pub(super) value: Value,
    pub(super) origin: Origin,
    /// Never shown: it came by a reference to the environment or to a file.
    pub(super) secret: bool,
}

/// A value as written.
#[derive(Clone)]
pub(super) enum Value {
    Text(String),
    Integer(i128),
    Float(f64),
    Flag(bool),
    Datetime(String),
    List(Vec<Node>),
    Table(Table),
    /// Reported already; nothing is said about it again.
    Unreadable,
}

/// Where a value was written.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Origin {
    File { line: Option<usize> },
    Environment { variable: String },
    Default,
}

impl Node {
    pub(super) fn new(value: Value, origin: Origin) -> Self {
        Self {
            value,
            origin,
            secret: false,
        }
    }

    /// Whether the value had no way to be anything but text, so that `"8"` is a number.
    pub(super) fn untyped(&self) -> bool {
        self.secret || matches!(self.origin, Origin::Environment { .. })
    }

    /// The value if it is text.
    pub(super) fn text(&self) -> Option<&str> {
        if let Value::Text(text) = &self.value {
            Some(text)
        } else {
            None
        }
    }

    /// The value if it is text for want of types.
    pub(super) fn untyped_text(&self) -> Option<&str> {
        self.text().filter(|_| self.untyped()).map(str::trim)
    }

    /// The value if it is a table.
    pub(super) fn table(&self) -> Option<&Table> {
        if let Value::Table(table) = &self.value {
            Some(table)
        } else {
            None
        }
    }

    /// Its kind in words.
    pub(super) fn kind(&self) -> &'static str {
        match self.value {
            Value::Text(_) => "a string",
            Value::Integer(_) => "an integer",
            Value::Float(_) => "a float",
            Value::Flag(_) => "a boolean",
            Value::Datetime(_) => "a date",
            Value::List(_) => "an array",
            Value::Table(_) => "a table",
            Value::Unreadable => "unreadable",
        }
    }
}

/// Reads a whole file. Mistakes in its syntax are all reported, and are then all
/// that can be said about it.
pub(super) fn parse(text: &str, file: &str) -> Result<Table, Vec<Problem>> {
    let lines = Lines::of(text);
    let (table, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        return Ok(convert_table(table.get_ref(), &|at| Origin::File {
            line: Some(lines.at(at)),
        }));
    }
    let problem = |error: &toml::de::Error| Problem {
        file: file.to_owned(),
        variable: None,
        line: error.span().map(|span| lines.at(span.start)),
        key: String::new(),
        found: None,
        // Only the parser's own words: its display would quote the line, with what
        // may be a password on it.
        expected: format!("this is not TOML: {}", error.message()),
    };
    Err(errors.iter().map(problem).collect())
}

/// Reads one value that was written outside the file.
pub(super) fn parse_value(text: &str, origin: &Origin) -> Option<Node> {
    let value = DeValue::parse(text).ok()?;
    Some(convert(&value, &|_| origin.clone()))
}

fn convert_table(table: &DeTable<'_>, origin: &dyn Fn(usize) -> Origin) -> Table {
    table
        .iter()
        .map(|(key, value)| {
            let mut node = convert(value, origin);
            // The key's line is what an editor should show, also for tables that are
            // written in several places.
            node.origin = origin(key.span().start);
            (key.get_ref().to_string(), node)
        })
        .collect()
}

fn convert(value: &Spanned<DeValue<'_>>, origin: &dyn Fn(usize) -> Origin) -> Node {
    let converted = match value.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(integer) => i128::from_str_radix(integer.as_str(), integer.radix())
            .map_or_else(|_| Value::Text(integer.as_str().to_owned()), Value::Integer),
        DeValue::Float(float) => float
            .as_str()
            .parse()
            .map_or_else(|_| Value::Text(float.as_str().to_owned()), Value::Float),
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Datetime(datetime) => Value::Datetime(datetime.to_string()),
        DeValue::Array(items) => {
            Value::List(items.iter().map(|item| convert(item, origin)).collect())
        }
        DeValue::Table(table) => Value::Table(convert_table(table, origin)),
    };
    Node::new(converted, origin(value.span().start))
}

/// Where lines begin in a text.
struct Lines {
    breaks: Vec<usize>,
}

impl Lines {
    fn of(text: &str) -> Self {
        Self {
            breaks: text.match_indices('\n').map(|(at, _)| at).collect(),
        }
    }

    /// The line of a byte, from 1.
    fn at(&self, byte: usize) -> usize {
        self.breaks
            .partition_point(|at| *at < byte)
            .saturating_add(1)
    }
}
