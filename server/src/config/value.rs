//! One value as written becomes one value as used, within the bounds of its option.

use std::{net::SocketAddr, time::Duration};

use super::{
    address,
    options::{Kind, Spec},
    problem::{MASK, quoted},
    tree::{Node, Value},
};

/// What is expected instead, in the words of a [`super::Problem`].
pub(super) type Wrong = String;

fn expected(spec: &Spec) -> Wrong {
    format!("must be {}", spec.expected())
}

/// The value as it may be shown.
pub(super) fn shown(node: &Node, kind: Option<&Kind>) -> String {
    if node.secret {
        return MASK.to_owned();
    }
    match (&node.value, kind) {
        (Value::Text(text), Some(Kind::Dsn | Kind::Texts(_))) => quoted(&address::masked(text)),
        // An address in the wrong place has its password all the same.
        (Value::Text(text), _) if text.contains("://") => quoted(&address::masked(text)),
        (Value::Text(text), _) => quoted(text),
        (Value::Integer(integer), _) => integer.to_string(),
        (Value::Float(float), _) => format!("{float:?}"),
        (Value::Flag(flag), _) => flag.to_string(),
        (Value::Datetime(text), _) => text.clone(),
        (Value::List(items), _) => {
            let items: Vec<String> = items.iter().map(|item| shown(item, kind)).collect();
            format!("[{}]", items.join(", "))
        }
        // What is in there is nobody's option, and may be a misplaced secret.
        (Value::Table(_) | Value::Unreadable, _) => node.kind().to_owned(),
    }
}

/// Text without anything further.
pub(super) fn text<'a>(node: &'a Node, spec: &Spec) -> Result<&'a str, Wrong> {
    node.text()
        .ok_or_else(|| format!("{}, and is {}", expected(spec), node.kind()))
}

pub(super) fn flag(node: &Node, spec: &Spec) -> Result<bool, Wrong> {
    let value = if let Value::Flag(flag) = node.value {
        Some(flag)
    } else {
        node.untyped_text()
            .and_then(|text| text.to_ascii_lowercase().parse().ok())
    };
    value.ok_or_else(|| expected(spec))
}

pub(super) fn integer(node: &Node, spec: &Spec) -> Result<u64, Wrong> {
    let Kind::Integer { min, max, .. } = spec.kind else {
        return Err(expected(spec));
    };
    let value = if let Value::Integer(value) = node.value {
        u64::try_from(value).ok()
    } else {
        node.untyped_text()
            .and_then(|text| text.replace('_', "").parse().ok())
    };
    value
        .filter(|value| (min..=max).contains(value))
        .ok_or_else(|| expected(spec))
}

/// An integer whose bounds lie within `u32`.
pub(super) fn small(node: &Node, spec: &Spec) -> Result<u32, Wrong> {
    integer(node, spec).and_then(|value| u32::try_from(value).map_err(|_| expected(spec)))
}

pub(super) fn float(node: &Node, spec: &Spec) -> Result<f64, Wrong> {
    let Kind::Float { min, max } = spec.kind else {
        return Err(expected(spec));
    };
    let value = if let Value::Float(value) = node.value {
        Some(value)
    } else if let Value::Integer(value) = node.value {
        i32::try_from(value).ok().map(f64::from)
    } else {
        node.untyped_text().and_then(|text| text.parse().ok())
    };
    value
        .filter(|value| (min..=max).contains(value))
        .ok_or_else(|| expected(spec))
}

pub(super) fn duration(node: &Node, spec: &Spec) -> Result<Duration, Wrong> {
    let Kind::Duration { min, max } = spec.kind else {
        return Err(expected(spec));
    };
    node.text()
        // A bare number has no unit, also the "0" that the parser would take.
        .filter(|text| text.chars().any(char::is_alphabetic))
        .and_then(|text| humantime::parse_duration(text.trim()).ok())
        .filter(|value| (min..=max).contains(value))
        .ok_or_else(|| expected(spec))
}

pub(super) fn size(node: &Node, spec: &Spec) -> Result<u64, Wrong> {
    let Kind::Size { min, max } = spec.kind else {
        return Err(expected(spec));
    };
    let value = if let Value::Integer(value) = node.value {
        u64::try_from(value).ok()
    } else {
        node.text().and_then(bytes)
    };
    value
        .filter(|value| (min..=max).contains(value))
        .ok_or_else(|| expected(spec))
}

fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    let unit: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

pub(super) fn choice(node: &Node, spec: &Spec) -> Result<&'static str, Wrong> {
    let Kind::Choice { of, later } = spec.kind else {
        return Err(expected(spec));
    };
    let word = text(node, spec)?;
    if later.contains(&word) {
        return Err(format!(
            "is not available yet in this version; {}",
            expected(spec)
        ));
    }
    of.iter()
        .copied()
        .find(|known| *known == word)
        .ok_or_else(|| expected(spec))
}

pub(super) fn socket(node: &Node, spec: &Spec) -> Result<SocketAddr, Wrong> {
    let text = text(node, spec)?.trim();
    // The only name that is taken: any other could come to mean another interface.
    let text = text
        .strip_prefix("localhost:")
        .map_or_else(|| text.to_owned(), |port| format!("127.0.0.1:{port}"));
    text.parse().map_err(|_| expected(spec))
}

pub(super) fn texts(node: &Node, spec: &Spec) -> Result<Vec<String>, Wrong> {
    let items: Vec<String> = if let Value::List(items) = &node.value {
        items
            .iter()
            .map(|item| text(item, spec).map(str::to_owned))
            .collect::<Result<_, _>>()?
    } else {
        let list = node.untyped_text().ok_or_else(|| expected(spec))?;
        list.split(',').map(|item| item.trim().to_owned()).collect()
    };
    if items.is_empty() {
        return Err(format!("{} with at least one entry", expected(spec)));
    }
    Ok(items)
}
