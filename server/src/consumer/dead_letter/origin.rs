//! Where a record was first delivered: in its own place, or, if it was put back from a
//! dead-letter topic, where its headers say.

use ackgate_lane::Offset;
use ackgate_proto::v1;

use crate::{
    broker::TopicPartition,
    config::Subscription,
    consumer::intake::redriven,
    headers::{DEDUPE_ID, ORIGIN, ROUND},
};

/// Longest dedupe id that is taken over: a group and a topic at their limits fit.
const LONGEST_ID: usize = 1024;

/// Where and when a record was first there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) offset: i64,
    pub(super) timestamp_ms: i64,
    /// The same for all copies of one record of one group.
    pub(super) dedupe_id: String,
    /// How often it was put back; `None`: never.
    pub(super) round: Option<u32>,
}

impl Origin {
    /// Of a record that was read at `offset` of `source`. Only in the subscription's own
    /// retry topic do headers tell of another place: elsewhere they are anybody's.
    pub(super) fn of(
        record: &v1::Record,
        source: &TopicPartition,
        offset: Offset,
        subscription: &Subscription,
    ) -> Self {
        let TopicPartition { topic, partition } = source;
        let is_retry = subscription.retry_topic() == Some(topic);
        let put_back = if is_retry { told(record) } else { None };
        put_back.unwrap_or_else(|| Self {
            topic: topic.to_string(),
            partition: *partition,
            offset: i64::try_from(offset.get()).unwrap_or(i64::MAX),
            timestamp_ms: record.timestamp_ms,
            dedupe_id: format!("{}/{topic}/{partition}/{offset}", subscription.group),
            round: None,
        })
    }
}

/// What the headers of a record that was put back say; `None` unless they say all of it
/// and it makes sense, because anybody who writes to the topic can write headers.
fn told(record: &v1::Record) -> Option<Origin> {
    let [topic, partition, offset, timestamp] = ORIGIN.map(|name| redriven(record, name));
    let dedupe_id = redriven(record, DEDUPE_ID)?;
    let sound =
        |text: &str| (1..=LONGEST_ID).contains(&text.len()) && !text.chars().any(char::is_control);
    let origin = Origin {
        topic: topic?.to_owned(),
        partition: partition?.parse().ok()?,
        offset: offset?.parse().ok()?,
        timestamp_ms: timestamp?.parse().ok()?,
        dedupe_id: dedupe_id.to_owned(),
        round: redriven(record, ROUND).and_then(|round| round.parse().ok()),
    };
    let valid = sound(dedupe_id)
        && crate::config::is_topic(&origin.topic)
        && origin.partition >= 0
        && origin.offset >= 0;
    valid.then_some(origin)
}
