//! Points in time as people write them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch.
pub(super) fn now_ms() -> i64 {
    millis(SystemTime::now())
}

/// A time such as `2026-01-01T00:00:00Z`, or how long ago, such as `2h`.
///
/// # Errors
/// It is neither.
pub(super) fn moment(text: &str) -> Result<i64, String> {
    if let Ok(ago) = humantime::parse_duration(text) {
        return Ok(now_ms().saturating_sub(span(ago)));
    }
    point(text).map_err(|_| {
        "expected a time such as 2026-01-01T00:00:00Z, or how long ago, such as 2h".to_owned()
    })
}

/// A time such as `2026-01-01T00:00:00Z`; without a zone it is UTC.
///
/// # Errors
/// It is none.
pub(super) fn point(text: &str) -> Result<i64, String> {
    humantime::parse_rfc3339_weak(text)
        .map(millis)
        .map_err(|_| "expected a time such as 2026-01-01T00:00:00Z".to_owned())
}

/// As `2026-01-01T00:00:00.000Z`; empty if there is no such time.
pub(super) fn written(ms: i64) -> String {
    let since = u64::try_from(ms).map(Duration::from_millis);
    let time = since.ok().and_then(|since| UNIX_EPOCH.checked_add(since));
    let in_range = ms > 0 && ms < 253_402_300_800_000;
    time.filter(|_| in_range)
        .map(|time| humantime::format_rfc3339_millis(time).to_string())
        .unwrap_or_default()
}

/// As `2026-01-01 00:00:00`, in UTC, for tables; empty if there is no such time.
pub(super) fn short(ms: i64) -> String {
    let written = written(ms);
    let seconds = written.split('.').next().unwrap_or_default();
    seconds.replace('T', " ")
}

/// A duration in milliseconds.
pub(super) fn span(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn millis(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
