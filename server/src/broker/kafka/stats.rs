//! What librdkafka's statistics tell: when the group's coordinator answered last,
//! where logs end, and how many partitions topics have.
//!
//! They come once a second through the main queue and cost no request. Boundary: the
//! JSON stays in here.

use std::{collections::HashMap, time::Duration};

use serde::Deserialize;

use crate::broker::ClientStats;

/// Between two statistics.
pub(super) const INTERVAL_MS: &str = "1000";

/// Statistics as far as they are of use.
#[derive(Debug, Default)]
pub(super) struct Stats {
    /// How long ago the coordinator answered last; `None` while there is no connection
    /// to it or nothing came through it yet.
    pub(super) contact: Option<Duration>,
    /// How the library is doing.
    pub(super) client: ClientStats,
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
    /// Where the first unfinished transaction begins, else the log's end.
    #[serde(default = "unknown", rename = "ls_offset")]
    pub(super) stable: i64,
    /// Records that were fetched and not polled.
    #[serde(default, rename = "fetchq_cnt")]
    queued: i64,
    /// Their bytes.
    #[serde(default, rename = "fetchq_size")]
    queued_bytes: i64,
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
    #[serde(default)]
    state: String,
    /// Requests that wait to be sent.
    #[serde(default)]
    outbuf_cnt: i64,
    /// Requests that wait to be answered.
    #[serde(default)]
    waitresp_cnt: i64,
    #[serde(default)]
    rxbytes: i64,
    #[serde(default)]
    txbytes: i64,
    #[serde(default)]
    txerrs: i64,
    #[serde(default)]
    rxerrs: i64,
    #[serde(default)]
    req_timeouts: i64,
    #[serde(default)]
    connects: i64,
    #[serde(default)]
    disconnects: i64,
    #[serde(default)]
    rtt: Window,
}

/// Values of the last second.
#[derive(Debug, Default, Deserialize)]
struct Window {
    /// Microseconds.
    #[serde(default)]
    avg: i64,
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
            client: client(raw.brokers.values(), raw.topics.values()),
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

/// Adds up what brokers and partitions tell. The connection kept for the coordinator
/// leads to a broker that is in the list too, so it counts for its traffic alone.
fn client<'a>(
    brokers: impl Iterator<Item = &'a Broker>,
    topics: impl Iterator<Item = &'a Topic>,
) -> ClientStats {
    let count = |number: i64| u64::try_from(number).unwrap_or_default();
    let mut stats = ClientStats::default();
    // Those of the configuration count only until the cluster has named its own.
    let (mut learned, mut configured) = ((0, 0), (0, 0));
    for broker in brokers {
        let (up, down) = match broker.source.as_str() {
            "learned" => (&mut learned.0, &mut learned.1),
            "configured" => (&mut configured.0, &mut configured.1),
            _ => (&mut 0, &mut 0),
        };
        match broker.state.as_str() {
            "UP" => *up += 1,
            // Nobody has asked for a connection.
            "INIT" => {}
            _ => *down += 1,
        }
        stats.in_flight += count(broker.outbuf_cnt) + count(broker.waitresp_cnt);
        stats.rtt = stats.rtt.max(Duration::from_micros(count(broker.rtt.avg)));
        stats.received += count(broker.rxbytes);
        stats.sent += count(broker.txbytes);
        stats.connects += count(broker.connects);
        stats.disconnects += count(broker.disconnects);
        stats.timeouts += count(broker.req_timeouts);
        stats.errors += count(broker.txerrs) + count(broker.rxerrs);
    }
    (stats.up, stats.down) = if learned == (0, 0) {
        configured
    } else {
        learned
    };
    for log in topics.flat_map(|topic| topic.partitions.values()) {
        stats.prefetched_records += count(log.queued);
        stats.prefetched_bytes += count(log.queued_bytes);
    }
    stats
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &[u8] = br#"{ "name": "x", "brokers": {
        "127.0.0.1:9092/1": { "source": "learned", "state": "UP", "rxidle": 5,
            "waitresp_cnt": 2, "outbuf_cnt": 1, "rxbytes": 100, "txbytes": 40, "connects": 3,
            "disconnects": 2, "req_timeouts": 1, "txerrs": 4, "rxerrs": 5, "rtt": { "avg": 800 } },
        "127.0.0.1:9093/2": { "source": "learned", "state": "TRY_CONNECT", "rtt": { "avg": 900 } },
        "127.0.0.1:9094/3": { "source": "learned", "state": "INIT" },
        "127.0.0.1:9092/bootstrap": { "source": "configured", "state": "UP" },
        "GroupCoordinator": { "source": "logical", "state": "UP", "rxidle": 1500000,
            "rxbytes": 11, "txbytes": 5 } },
        "topics": { "orders": { "topic": "orders", "partitions": {
            "0": { "partition": 0, "eof_offset": 6, "lo_offset": 2, "hi_offset": 7,
                "ls_offset": 5, "fetchq_cnt": 8, "fetchq_size": 900 },
            "3": { "partition": 3, "eof_offset": -1001, "hi_offset": -1001 },
            "-1": { "partition": -1 } } } } }"#;

    #[test]
    fn coordinator_log_ends_and_partitions_are_found() {
        let stats = Stats::parse(JSON).unwrap();
        assert_eq!(stats.contact, Some(Duration::from_millis(1500)));
        let log = stats.log("orders", 0).unwrap();
        assert_eq!((log.end, log.head, log.stable), (6, 7, 5));
        assert!(stats.log("orders", 3).unwrap().end < 0);
        assert!(stats.log("orders", 9).is_none());
        assert!(stats.log("other", 0).is_none());
        let topics = ["orders".to_owned(), "other".to_owned()];
        assert_eq!(stats.partitions(&topics), 2);
    }

    #[test]
    fn brokers_and_queues_are_added_up_and_a_broker_nobody_asked_for_is_not_down() {
        let expected = ClientStats {
            up: 1,
            down: 1,
            in_flight: 3,
            rtt: Duration::from_micros(900),
            prefetched_records: 8,
            prefetched_bytes: 900,
            received: 111,
            sent: 45,
            connects: 3,
            disconnects: 2,
            timeouts: 1,
            errors: 9,
        };
        assert_eq!(Stats::parse(JSON).unwrap().client, expected);
    }

    #[test]
    fn coordinator_without_a_connection_is_no_contact() {
        let json = br#"{"brokers":{"GroupCoordinator":{"source":"logical","rxidle":-1}}}"#;
        assert_eq!(Stats::parse(json).unwrap().contact, None);
        assert!(Stats::parse(b"{").is_none());
        assert_eq!(Stats::parse(b"{}").unwrap().contact, None);
    }
}
