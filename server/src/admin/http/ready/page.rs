//! What was found, as JSON for programs and as text for people.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use super::{Finding, Status};

/// For programs, the whole before its parts. What is not known is `null`.
#[derive(Debug, Serialize)]
pub(super) struct Page<'a> {
    status: &'static str,
    reasons: Vec<Reason<'a>>,
    /// Reasons beyond those.
    more: usize,
}

#[derive(Debug, Serialize)]
struct Reason<'a> {
    kind: &'static str,
    status: &'static str,
    cluster: Option<&'a str>,
    subscription: Option<&'a str>,
    topic: Option<&'a str>,
    partition: Option<i32>,
    offset: Option<u64>,
    since: Option<String>,
    age_seconds: Option<u64>,
    text: &'a str,
}

impl<'a> Page<'a> {
    pub(super) fn new(status: Status, findings: &'a [Finding], more: usize) -> Self {
        Self {
            status: status.word(),
            reasons: findings.iter().map(Reason::of).collect(),
            more,
        }
    }
}

impl<'a> Reason<'a> {
    fn of(finding: &'a Finding) -> Self {
        let lane = finding.lane.as_ref();
        Self {
            kind: finding.kind,
            status: finding.status.word(),
            cluster: finding.cluster.as_deref(),
            subscription: finding.subscription.as_deref(),
            topic: lane.map(|(topic, _)| topic.as_str()),
            partition: lane.map(|(_, partition)| *partition),
            offset: finding.offset,
            since: finding.since_ms.map(written),
            age_seconds: finding.since_ms.map(age),
            text: &finding.text,
        }
    }
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
