//! Options of the intake become an [`Intake`].

use std::time::Duration;

use ackgate_lane::OnExpired;

use super::{
    Check, Content, Intake, MaxAge, OnFailure,
    options::{self, Spec},
    reader::Reader,
    tree::Node,
    value::{self, Wrong},
};
use crate::filter::Filter;

/// Reads the intake of one subscription.
pub(super) fn intake(reader: &mut Reader<'_>, name: &str) -> Option<Intake> {
    let min_age = reader.read(&options::MIN_AGE, name, value::duration);
    let max_age = max_age(reader, name, min_age);
    let content = content(reader, name);
    let filter = match reader.given(&options::FILTER, name) {
        None => Some(None),
        Some(_) => reader.read(&options::FILTER, name, filter).map(Some),
    };
    Some(Intake {
        min_age: min_age?,
        max_age: max_age?,
        filter: filter?,
        content: content?,
    })
}

/// Where expired records go: dead letters, if there are any at all. `None` if it is
/// unknown, because the options that decide it are wrong.
pub(super) fn on_expired(reader: &mut Reader<'_>, name: &str) -> Option<OnExpired> {
    let word = match reader.given(&options::ON_EXPIRED, name) {
        Some(_) => reader.read(&options::ON_EXPIRED, name, value::choice)?,
        None => match reader.read(&options::ON_REJECT, name, value::choice)? {
            "dead_letter" => "dead_letter",
            _ => "drop",
        },
    };
    Some(if word == "dead_letter" {
        OnExpired::DeadLetter
    } else {
        OnExpired::Drop
    })
}

#[expect(clippy::option_option, reason = "no maximum, and a wrong one")]
fn max_age(
    reader: &mut Reader<'_>,
    name: &str,
    min_age: Option<Duration>,
) -> Option<Option<MaxAge>> {
    if reader.given(&options::MAX_AGE, name).is_none() {
        if reader.given(&options::ON_EXPIRED, name).is_some() {
            let why = "has a meaning with max_age only: without it no record is too old";
            reader.refuse(&options::ON_EXPIRED, name, why);
            return None;
        }
        return Some(None);
    }
    let age = reader.read(&options::MAX_AGE, name, value::duration);
    let then = on_expired(reader, name);
    let age = age?;
    if let Some(min_age) = min_age
        && age <= min_age
    {
        let why = format!(
            "must be above min_age, which is {}: every record would be too old when it may go out",
            options::span(min_age)
        );
        reader.refuse(&options::MAX_AGE, name, why);
        return None;
    }
    Some(Some(MaxAge { age, then: then? }))
}

#[expect(clippy::option_option, reason = "no check, and a wrong one")]
fn content(reader: &mut Reader<'_>, name: &str) -> Option<Option<Content>> {
    let check = reader.read(&options::CONTENT_CHECK, name, value::choice);
    let on_failure = reader.read(&options::CONTENT_ON_FAILURE, name, value::choice);
    let on_failure = match on_failure? {
        "skip" => OnFailure::Skip,
        "deliver" => OnFailure::Deliver,
        _ => OnFailure::Reject,
    };
    let check = match check? {
        "utf8" => Check::Utf8,
        "json" => Check::Json,
        "msgpack" => Check::Msgpack,
        _ if on_failure == OnFailure::Reject => return Some(None),
        _ => {
            let why = "has a meaning with content.check only: set it to \"utf8\", \"json\" or \
                       \"msgpack\"";
            reader.refuse(&options::CONTENT_ON_FAILURE, name, why);
            return None;
        }
    };
    Some(Some(Content { check, on_failure }))
}

fn filter(node: &Node, spec: &Spec) -> Result<Filter, Wrong> {
    let source = value::text(node, spec)?;
    Filter::compile(source).map_err(|invalid| {
        if node.secret {
            // What is wrong quotes the text.
            let (line, column) = (invalid.line, invalid.column);
            return format!("is no filter, at line {line}, column {column}");
        }
        format!("is no filter: {invalid}")
    })
}
