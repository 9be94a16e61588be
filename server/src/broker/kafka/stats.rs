//! What librdkafka's statistics tell: when the group's coordinator answered last,
//! where logs end, and how many partitions topics have.
//!
//! They come once a second through the main queue and cost no request. Boundary: the
//! JSON stays in here.

use std::{collections::HashMap, time::Duration};

use serde::Deserialize;

/// Between two statistics.
pub(super) const INTERVAL_MS: &str = "1000";

/// Statistics as far as they are of use.
#[derive(Debug, Default)]
pub(super) struct Stats {
    /// How long ago the coordinator answered last; `None` while there is no connection
    /// to it or nothing came through it yet.
    pub(super) contact: Option<Duration>,
    topics: HashMap<String, Topic>,
}

/// What is known of one log; negative numbers mean that it is not known.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Log {
    /// Where the fetcher last found that there was nothing more to read.
    #[serde(default = "unknown", rename = "eof_offset")]
    pub(super) end: i64,
    /// The log's end, markers and unfinished transactions included.
    #[serde(default = "unknown", rename = "hi_offset")]
    pub(super) head: i64,
}

#[derive(Deserialize)]
struct Raw {
    #[serde(default)]
    brokers: HashMap<String, Broker>,
    #[serde(default)]
    topics: HashMap<String, Topic>,
}

#[derive(Deserialize)]
struct Broker {
    #[serde(default)]
    source: String,
    /// Microseconds since anything was received; negative without a connection.
    #[serde(default = "unknown")]
    rxidle: i64,
}

#[derive(Debug, Default, Deserialize)]
struct Topic {
    /// By number as text; -1 stands for "unassigned".
    #[serde(default)]
    partitions: HashMap<String, Log>,
}

const fn unknown() -> i64 {
    -1
}

impl Stats {
    /// Reads librdkafka's JSON; `None` if it is not what was expected.
    pub(super) fn parse(json: &[u8]) -> Option<Self> {
        let raw: Raw = serde_json::from_slice(json).ok()?;
        // A consumer has one logical broker: the connection kept for the coordinator,
        // over which heartbeats, commits and nothing of records go.
        let contact = raw
            .brokers
            .values()
            .filter(|broker| broker.source == "logical")
            .filter_map(|broker| u64::try_from(broker.rxidle).ok())
            .min()
            .map(Duration::from_micros);
        Some(Self {
            contact,
            topics: raw.topics,
        })
    }

    /// What is known of a partition's log.
    pub(super) fn log(&self, topic: &str, partition: i32) -> Option<Log> {
        let partitions = &self.topics.get(topic)?.partitions;
        partitions.get(&partition.to_string()).copied()
    }

    /// How many partitions the topics have together; 0 while none is known.
    pub(super) fn partitions(&self, topics: &[String]) -> u32 {
        let known = topics.iter().filter_map(|topic| self.topics.get(topic));
        let count = known
            .flat_map(|topic| topic.partitions.keys())
            .filter(|number| !number.starts_with('-'))
            .count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &[u8] = br#"{ "name": "x", "brokers": {
        "127.0.0.1:9092/1": { "source": "learned", "state": "UP", "rxidle": 5 },
        "GroupCoordinator": { "source": "logical", "state": "UP", "rxidle": 1500000 } },
        "topics": { "orders": { "topic": "orders", "partitions": {
            "0": { "partition": 0, "eof_offset": 6, "lo_offset": 2, "hi_offset": 7 },
            "3": { "partition": 3, "eof_offset": -1001, "hi_offset": -1001 },
            "-1": { "partition": -1 } } } } }"#;

    #[test]
    fn coordinator_log_ends_and_partitions_are_found() {
        let stats = Stats::parse(JSON).unwrap();
        assert_eq!(stats.contact, Some(Duration::from_millis(1500)));
        let log = stats.log("orders", 0).unwrap();
        assert_eq!((log.end, log.head), (6, 7));
        assert!(stats.log("orders", 3).unwrap().end < 0);
        assert!(stats.log("orders", 9).is_none());
        assert!(stats.log("other", 0).is_none());
        let topics = ["orders".to_owned(), "other".to_owned()];
        assert_eq!(stats.partitions(&topics), 2);
    }

    #[test]
    fn coordinator_without_a_connection_is_no_contact() {
        let json = br#"{"brokers":{"GroupCoordinator":{"source":"logical","rxidle":-1}}}"#;
        assert_eq!(Stats::parse(json).unwrap().contact, None);
        assert!(Stats::parse(b"{").is_none());
        assert_eq!(Stats::parse(b"{}").unwrap().contact, None);
    }
}
