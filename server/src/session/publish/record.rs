//! A record as the protocol has it becomes one that can be written, or a refusal of
//! that record alone; what became of it becomes a result.

use ackgate_proto::v1;

use crate::{
    broker::{Outgoing, Unwritten, Why},
    config::is_topic,
    publish::{Answered, Count, Draft, Run},
    session::convert::printable,
};

/// Longest name that is repeated of a topic which cannot be one.
const NAME: usize = 249;

/// Checks a record.
pub(super) fn draft(record: v1::OutgoingRecord, max_bytes: u64) -> Draft {
    let refused = refused(&record, max_bytes).map(|(why, detail)| Unwritten {
        why,
        detail: detail.to_owned(),
    });
    let is_named = is_topic(&record.topic);
    let header = |header: v1::Header| (header.key, header.value);
    Draft {
        record: Outgoing {
            topic: if is_named {
                record.topic
            } else {
                printable(&record.topic, NAME)
            },
            partition: record.partition,
            key: record.key,
            value: record.value,
            headers: record.headers.into_iter().map(header).collect(),
            timestamp_ms: record.timestamp_ms,
        },
        refused,
    }
}

fn refused(record: &v1::OutgoingRecord, max_bytes: u64) -> Option<(Why, &'static str)> {
    let invalid = |detail| Some((Why::Invalid, detail));
    if !is_topic(&record.topic) {
        return invalid(
            "the topic is no name that Kafka takes: 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-', \
             other than \".\" and \"..\"",
        );
    }
    if record.partition.is_some_and(|partition| partition < 0) {
        return invalid("the partition is negative");
    }
    if record.timestamp_ms.is_some_and(|timestamp| timestamp < 1) {
        return invalid("the timestamp must be 1 or more; without one it is now");
    }
    if record.headers.iter().any(|header| header.key.is_empty()) {
        return invalid("a header has no name");
    }
    let header = |header: &v1::Header| header.key.len() + len(header.value.as_ref());
    let headers: usize = record.headers.iter().map(header).sum();
    let bytes = len(record.key.as_ref()) + len(record.value.as_ref()) + headers;
    if bytes as u64 > max_bytes {
        let detail = "key, value and headers are larger than the gateway takes";
        return Some((Why::TooLarge, detail));
    }
    None
}

fn len(bytes: Option<&bytes::Bytes>) -> usize {
    bytes.map_or(0, bytes::Bytes::len)
}

/// Results as a message carries them.
pub(super) fn results(run: Run) -> v1::PublishResults {
    v1::PublishResults {
        first: run.first,
        results: run.results.into_iter().map(result).collect(),
    }
}

/// What became of one record.
pub(super) fn result(answered: Answered) -> v1::PublishResult {
    let topic = answered.topic.to_string();
    match answered.outcome {
        Ok(placed) => v1::PublishResult {
            topic,
            // Without acks librdkafka knows neither.
            partition: Some(placed.partition).filter(|partition| *partition >= 0),
            offset: Some(placed.offset).filter(|offset| *offset >= 0),
            error: v1::PublishError::Unspecified.into(),
            detail: String::new(),
        },
        Err(unwritten) => v1::PublishResult {
            topic,
            partition: answered.partition,
            offset: None,
            error: error(unwritten.why).into(),
            detail: unwritten.detail,
        },
    }
}

const fn error(why: Why) -> v1::PublishError {
    match why {
        Why::Invalid => v1::PublishError::Invalid,
        Why::NotAllowed | Why::Denied => v1::PublishError::NotAllowed,
        Why::NotFound => v1::PublishError::NotFound,
        Why::TooLarge => v1::PublishError::TooLarge,
        Why::TimedOut => v1::PublishError::TimedOut,
        Why::Unavailable => v1::PublishError::Unavailable,
        Why::Refused => v1::PublishError::Refused,
    }
}

/// The last word of a stream.
pub(super) const fn closed(count: Count) -> v1::PublishClosed {
    v1::PublishClosed {
        records: count.records,
        written: count.written,
        failed: count.failed,
    }
}
