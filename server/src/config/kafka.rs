//! Settings of a Kafka connection.
//!
//! Invariant: a property's value may be secret, so no `Debug` here shows one.

use std::fmt;

/// One Kafka connection.
#[derive(Clone)]
pub struct Cluster {
    /// Its name in the configuration.
    pub name: String,
    /// `host:port` of the first brokers to ask; IPv6 addresses in brackets.
    pub bootstrap: Vec<String>,
    /// Client properties that pass through to librdkafka, checked against the deny
    /// list; user and password of the address are in here. Values may be secret.
    pub properties: Vec<(String, String)>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            bootstrap,
            properties,
        } = self;
        f.debug_struct("Cluster")
            .field("name", name)
            .field("bootstrap", bootstrap)
            .field("properties", &names(properties))
            .finish()
    }
}

/// What of a property table may be shown: its names.
pub(super) fn names(properties: &[(String, String)]) -> Vec<&str> {
    properties.iter().map(|(name, _)| name.as_str()).collect()
}
