//! Where reading starts becomes a [`StartAt`].

use super::{
    StartAt,
    options::Spec,
    tree::{Node, Value},
    value::{self, Wrong},
};

pub(super) fn start(node: &Node, spec: &Spec) -> Result<StartAt, Wrong> {
    let expected = || format!("must be {}", spec.expected());
    if let Some(table) = node.table() {
        let mut entries = table.iter();
        let (Some((key, time)), None) = (entries.next(), entries.next()) else {
            return Err(expected());
        };
        if key != "timestamp" {
            return Err(expected());
        }
        return timestamp(time).map(StartAt::Timestamp).ok_or_else(|| {
            "has a timestamp that is not like \"2026-01-01T00:00:00Z\", in UTC".to_owned()
        });
    }
    match value::text(node, spec)? {
        "earliest" => Ok(StartAt::Earliest),
        "latest" => Ok(StartAt::Latest),
        "fail" => Ok(StartAt::Fail),
        _ => Err(expected()),
    }
}

/// Milliseconds since the Unix epoch.
fn timestamp(node: &Node) -> Option<i64> {
    let text = if let Value::Datetime(text) = &node.value {
        text
    } else {
        node.text()?
    };
    let time = humantime::parse_rfc3339(text.trim()).ok()?;
    let since = time
        .duration_since(std::time::SystemTime::UNIX_EPOCH)
        .ok()?;
    i64::try_from(since.as_millis()).ok()
}
