//! What was found, as JSON for programs and as text for people.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::{Finding, Status};

/// For programs. What is not known is `null`.
pub(super) fn json(status: Status, findings: &[Finding], more: usize) -> Value {
    let reasons: Vec<Value> = findings.iter().map(reason).collect();
    json!({ "status": status.word(), "reasons": reasons, "more": more })
}

fn reason(finding: &Finding) -> Value {
    let lane = finding.lane.as_ref();
    json!({
        "kind": finding.kind,
        "status": finding.status.word(),
        "cluster": finding.cluster,
        "subscription": finding.subscription,
        "topic": lane.map(|(topic, _)| topic),
        "partition": lane.map(|(_, partition)| partition),
        "offset": finding.offset,
        "since": finding.since_ms.map(written),
        "age_seconds": finding.since_ms.map(age),
        "text": finding.text,
    })
}

/// For people: a line for the whole, and one for each reason.
pub(super) fn text(status: Status, findings: &[Finding], more: usize) -> String {
    let mut text = format!("{}\n", status.word());
    for finding in findings {
        let sign = match finding.status {
            Status::Ready => "[+]",
            Status::Degraded => "[!]",
            Status::NotReady => "[-]",
        };
        text.push_str(sign);
        if let Some(cluster) = &finding.cluster {
            text.push_str(&format!(" cluster {cluster}"));
        }
        if let Some(subscription) = &finding.subscription {
            text.push_str(&format!(" {subscription}"));
        }
        if let Some((topic, partition)) = &finding.lane {
            text.push_str(&format!(" {topic}/{partition}"));
        }
        text.push_str(&format!(": {}: {}", finding.kind, plain(&finding.text)));
        if let Some(since_ms) = finding.since_ms {
            let age = Duration::from_secs(age(since_ms));
            let (age, at) = (humantime::format_duration(age), written(since_ms));
            text.push_str(&format!(" (for {age}, since {at})"));
        }
        text.push('\n');
    }
    if more > 0 {
        text.push_str(&format!("and {more} more\n"));
    }
    text
}

/// What brokers have put into words must not steer a terminal.
fn plain(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(plain).collect()
}

fn at(ms: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(ms).unwrap_or_default())
}

fn written(ms: i64) -> String {
    humantime::format_rfc3339_millis(at(ms)).to_string()
}

/// Whole seconds.
fn age(since_ms: i64) -> u64 {
    let age = SystemTime::now().duration_since(at(since_ms));
    age.unwrap_or_default().as_secs()
}
