//! What may be written to a cluster through the gateway, and how.
//!
//! Invariant: a property's value may be secret, so no `Debug` here shows one.

use std::fmt;

use super::{
    ad_hoc::{INTERNAL, matches},
    kafka::names,
};

/// Which brokers must have a record before it counts as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Acks {
    /// All in-sync replicas.
    All,
    /// The partition's leader.
    Leader,
    /// None: nothing is confirmed.
    None,
}

impl Acks {
    /// The word for it in the configuration.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Leader => "leader",
            Self::None => "none",
        }
    }
}

/// What may be published to one cluster.
#[derive(Clone)]
pub struct Publish {
    /// The cluster's name.
    pub cluster: String,
    /// Names of topics, and patterns with `*`.
    pub topics: Vec<String>,
    /// Names and patterns of topics that a pattern in `topics` does not allow: those of
    /// dead letters and retries.
    pub reserved: Vec<String>,
    /// What counts as written, unless a publisher asks for something else.
    pub acks: Acks,
    /// As configured; [`Self::is_idempotent`] tells what follows.
    pub idempotence: Option<bool>,
    /// Largest record, in bytes of key, value and headers.
    pub max_record_bytes: u64,
    /// Most records of one stream that may be under way, 1 or more.
    pub max_in_flight_records: u32,
    /// Most bytes under way, over all streams; not less than `max_record_bytes`.
    pub max_in_flight_bytes: u64,
    /// Properties that pass through to librdkafka, checked against the deny list. Values
    /// may be secret.
    pub producer_properties: Vec<(String, String)>,
}

impl Publish {
    /// Whether records may be written to this topic.
    #[must_use]
    pub fn allows(&self, topic: &str) -> bool {
        if topic.starts_with(INTERNAL) {
            return false;
        }
        let named = self.topics.iter().any(|allowed| allowed == topic);
        named || matches(&self.topics, topic) && !matches(&self.reserved, topic)
    }

    /// Whether records with these acks are written idempotently where a publisher does
    /// not say.
    #[must_use]
    pub fn is_idempotent(&self, acks: Acks) -> bool {
        acks == Acks::All && self.idempotence.unwrap_or(true)
    }
}

impl fmt::Debug for Publish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            cluster,
            topics,
            reserved,
            acks,
            idempotence,
            max_record_bytes,
            max_in_flight_records,
            max_in_flight_bytes,
            producer_properties,
        } = self;
        f.debug_struct("Publish")
            .field("cluster", cluster)
            .field("topics", topics)
            .field("reserved", reserved)
            .field("acks", acks)
            .field("idempotence", idempotence)
            .field("max_record_bytes", max_record_bytes)
            .field("max_in_flight_records", max_in_flight_records)
            .field("max_in_flight_bytes", max_in_flight_bytes)
            .field("producer_properties", &names(producer_properties))
            .finish()
    }
}
