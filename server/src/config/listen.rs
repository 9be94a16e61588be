//! Settings of the gateway itself: its listener, its stop, its logs and its health.

use std::{net::SocketAddr, time::Duration};

use crate::access::{Tls, Tokens};

/// The gRPC listener.
#[derive(Clone, Debug)]
pub struct Listen {
    /// Where to listen. Anything but loopback needs `tls`, `tokens` or `insecure`.
    pub address: SocketAddr,
    /// Allows a listener beyond loopback that has neither.
    pub insecure: bool,
    /// With which certificate; `None`: plain text.
    pub tls: Option<Tls>,
    /// Who may call; `None`: everybody.
    pub tokens: Option<Tokens>,
    /// Streams on one connection.
    pub max_streams: u32,
    /// Connections at one time.
    pub max_connections: usize,
    /// How old a connection may become, more or less.
    pub max_connection_age: Option<Duration>,
    /// Whether gRPC-Web is served.
    pub grpc_web: bool,
    /// From where pages may call; `*` is anywhere.
    pub web_origins: Vec<String>,
    /// HTTP/2 pings on quiet connections.
    pub keepalive_interval: Duration,
    /// Time for their answer, then the connection is closed.
    pub keepalive_timeout: Duration,
    /// Application pings on quiet streams.
    pub ping_interval: Duration,
    /// Serves the protocol's descriptors to tools that ask for them.
    pub reflection: bool,
    /// Sessions of subscribers that pull, at a time.
    pub max_pull_sessions: u32,
    /// How long one lives on once nothing is out to it and no call is made.
    pub pull_idle: Duration,
}

impl Listen {
    /// What is allowed, and what an operator should know about who can reach the gateway.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let address = self.address;
        let beyond = !address.ip().is_loopback();
        let authenticated = self.tokens.is_some()
            || self
                .tls
                .as_ref()
                .is_some_and(Tls::wants_client_certificates);
        let mut warnings = Vec::new();
        if beyond && !authenticated {
            let how = match self.tls {
                None => "in plain text and without tokens",
                Some(_) => "without tokens or certificates of clients",
            };
            warnings.push(format!(
                "listen.address = {address} is open {how}: anybody who reaches it can read and \
                 settle the records of every subscription"
            ));
        }
        if beyond && self.tls.is_none() && self.tokens.is_some() {
            warnings.push(format!(
                "listen.address = {address} has tokens and no TLS: tokens and records travel in \
                 the clear, and whoever listens on the way can use them"
            ));
        }
        if self.insecure && self.tls.is_some() && self.tokens.is_some() {
            warnings.push(
                "listen.insecure = true does nothing beside listen.tls and listen.tokens_file"
                    .to_owned(),
            );
        }
        warnings.extend(self.tls.as_ref().and_then(Tls::warning));
        warnings
    }
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

/// What is told of lanes that make no progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// How long a record may be out without a verdict, and how long a lane may hand nothing
    /// out that could.
    pub stalled_after: Duration,
}
