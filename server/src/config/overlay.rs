//! Environment variables over the file: `ACKGATE__SUBSCRIPTIONS__ORDERS__GROUP` is
//! `subscriptions.orders.group`.

use std::slice::from_ref;

use super::{
    options::{self, Kind, Spec},
    properties::squashed,
    reader::dotted,
    tree::{self, Node, Origin, Table, Value},
};

/// Begins the name of every variable that overrides the file; any case.
const PREFIX: &str = "ACKGATE__";

/// librdkafka properties whose names hold an underscore; in the names of variables
/// it stands for a dot otherwise.
const UNDERSCORED: [&str; 1] = ["log_level"];

/// The path that a variable names, if it is one of ours.
pub(super) fn segments(variable: &str) -> Option<Vec<&str>> {
    let head = variable.get(..PREFIX.len())?;
    head.eq_ignore_ascii_case(PREFIX).then_some(())?;
    Some(variable.get(PREFIX.len()..)?.split("__").collect())
}

/// Puts a value where a variable's segments lead. `path` tells how far it came.
pub(super) fn put(
    table: &mut Table,
    path: &mut Vec<String>,
    segments: &[&str],
    text: &str,
    origin: &Origin,
) -> Result<(), String> {
    let in_properties = options::properties_above(path).is_some();
    let Some((segment, rest)) = segments.split_first() else {
        return Err("is a table, and no single option".to_owned());
    };
    let (key, rest) = if in_properties {
        (property(table, &segments.join(".")), [].as_slice())
    } else {
        (named(table, path, segment)?, rest)
    };
    path.push(key.clone());
    if !rest.is_empty() {
        let whole = options::at(path).filter(|spec| !matches!(spec.kind, Kind::Properties));
        if whole.is_some() {
            return Err("is one option and has no parts".to_owned());
        }
        let node = table
            .entry(key)
            .or_insert_with(|| Node::new(Value::Table(Table::new()), origin.clone()));
        return match &mut node.value {
            Value::Table(inner) => put(inner, path, rest, text, origin),
            Value::Text(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::Flag(_)
            | Value::Datetime(_)
            | Value::List(_)
            | Value::Unreadable => Err(format!("must be a table, and is {}", node.kind())),
        };
    }
    if table
        .get(&key)
        .is_some_and(|node| matches!(node.origin, Origin::Environment { .. }))
    {
        return Err("is set by two environment variables".to_owned());
    }
    table.insert(key, written(options::at(path), text, origin));
    Ok(())
}

/// The key that a segment means at a path: variables know neither case nor dashes.
fn named(table: &Table, path: &[String], segment: &str) -> Result<String, String> {
    let plain = |name: &str| name.to_ascii_lowercase().replace(['-', '.'], "_");
    let wanted = plain(segment);
    let known = options::children(path);
    if let Some(key) = known.iter().find(|key| plain(key) == wanted) {
        return Ok((*key).to_owned());
    }
    let mut alike = table.keys().filter(|key| plain(key) == wanted);
    match (alike.next(), alike.next()) {
        (Some(key), None) => Ok(key.clone()),
        (None, _) => Ok(segment.to_ascii_lowercase()),
        (Some(first), Some(second)) => Err(format!(
            "could mean {} or {}",
            dotted(from_ref(first)),
            dotted(from_ref(second))
        )),
    }
}

fn property(table: &Table, segment: &str) -> String {
    let wanted = squashed(segment);
    let known = table.keys().map(String::as_str).chain(UNDERSCORED);
    known
        .into_iter()
        .find(|name| squashed(name) == wanted)
        .map_or_else(
            || segment.to_ascii_lowercase().replace('_', "."),
            str::to_owned,
        )
}

/// A variable's text as the value of an option: lists and times have a form of their own.
fn written(spec: Option<&Spec>, text: &str, origin: &Origin) -> Node {
    let trimmed = text.trim_start();
    let toml = spec.is_some_and(|spec| match spec.kind {
        Kind::Texts(_) => trimmed.starts_with('['),
        Kind::Start => trimmed.starts_with('{'),
        Kind::Socket
        | Kind::Flag
        | Kind::Integer { .. }
        | Kind::Float { .. }
        | Kind::Duration { .. }
        | Kind::Size { .. }
        | Kind::Choice { .. }
        | Kind::Text(_)
        | Kind::Dsn
        | Kind::Properties => false,
    });
    toml.then(|| tree::parse_value(text, origin))
        .flatten()
        .unwrap_or_else(|| Node::new(Value::Text(text.to_owned()), origin.clone()))
}
