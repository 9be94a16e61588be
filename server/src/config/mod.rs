//! The gateway's settings as valid values. Where they come from (a TOML file and
//! the environment) is known only to this folder; the rest of the gateway gets
//! the types below.

use std::{net::SocketAddr, time::Duration};

use ackgate_lane::Policy;

/// Everything that a gateway is built from.
#[derive(Clone, Debug)]
pub struct Config {
    /// The gRPC listener.
    pub listen: Listen,
    /// Kafka connections, by name.
    pub clusters: Vec<Cluster>,
    /// What subscribers can attach to, by name.
    pub subscriptions: Vec<Subscription>,
    /// How a graceful stop goes.
    pub shutdown: Shutdown,
    /// Log settings.
    pub log: Log,
    /// Memory for records that are fetched and not settled, in bytes, over all lanes.
    pub memory_bytes: u64,
}

/// The gRPC listener.
#[derive(Clone, Debug)]
pub struct Listen {
    /// Where to listen. Anything but loopback needs `insecure`, until TLS is configured.
    pub address: SocketAddr,
    /// Allows a plain-text listener beyond loopback.
    pub insecure: bool,
    /// Streams on one connection.
    pub max_streams: u32,
    /// HTTP/2 pings on quiet connections.
    pub keepalive_interval: Duration,
    /// Time for their answer, then the connection is closed.
    pub keepalive_timeout: Duration,
    /// Application pings on quiet streams.
    pub ping_interval: Duration,
}

/// One Kafka connection.
#[derive(Clone)]
pub struct Cluster {
    /// Its name in the configuration.
    pub name: String,
    /// `host:port` of the first brokers to ask.
    pub bootstrap: Vec<String>,
    /// Client properties that pass through to librdkafka, checked against the deny
    /// list; user and password of the address are in here. Values may be secret.
    pub properties: Vec<(String, String)>,
}

/// Where a group without a committed offset begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartAt {
    /// At the oldest record.
    Earliest,
    /// At the end.
    Latest,
    /// At the first record at or after this time, in milliseconds since the Unix
    /// epoch; at the end if there is none, as Kafka answers.
    Timestamp(i64),
    /// Nowhere: the lane is held until an operator commits an offset.
    Fail,
}

/// How records are spread over subscribers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Each record goes to one of them.
    Competing,
}

/// A named reading of topics with one consumer group.
#[derive(Clone, Debug)]
pub struct Subscription {
    /// Its name.
    pub name: String,
    /// Name of its cluster.
    pub cluster: String,
    /// Sorted, without repeats, valid Kafka names.
    pub topics: Vec<String>,
    /// The consumer group.
    pub group: String,
    /// Where a group without a committed offset begins.
    pub start: StartAt,
    /// How records are spread.
    pub delivery: Delivery,
    /// Retries, order, limits and commits: what each lane gets.
    pub policy: Policy,
    /// Bytes retained per lane, at which its queue is left unpolled.
    pub window_bytes: u64,
    /// How long the consumer stays in the group after the last subscriber.
    pub linger: Duration,
    /// How long a revoke waits for verdicts on what is out.
    pub revoke_drain: Duration,
    /// Where rejected and exhausted records go.
    pub dead_letter: Option<DeadLetter>,
    /// Group id settings and the like that pass through to this consumer only.
    pub consumer_properties: Vec<(String, String)>,
}

/// Where rejected and exhausted records go.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    /// The topic, on the subscription's cluster.
    pub topic: String,
    /// Properties that pass through to the producer.
    pub producer_properties: Vec<(String, String)>,
}

/// How a graceful stop goes.
#[derive(Clone, Debug)]
pub struct Shutdown {
    /// Time for subscribers to answer what is out.
    pub drain: Duration,
    /// Time for the last commits, the group's goodbye and the producers' flush.
    pub close: Duration,
}

/// Log settings.
#[derive(Clone, Debug)]
pub struct Log {
    /// A `tracing` filter, as `info` or `ackgate=debug,warn`.
    pub filter: String,
    /// One JSON object per line instead of text.
    pub json: bool,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.properties.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Cluster")
            .field("name", &self.name)
            .field("bootstrap", &self.bootstrap)
            .field("properties", &names)
            .finish()
    }
}
