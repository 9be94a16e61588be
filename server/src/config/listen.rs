//! Settings of the gateway itself: its listener, its stop and its logs.

use std::{net::SocketAddr, time::Duration};

/// The gRPC listener.
#[derive(Clone, Debug)]
pub struct Listen {
    /// Where to listen. Anything but loopback needs `insecure`, until TLS is configured.
    pub address: SocketAddr,
    /// Allows a plain-text listener beyond loopback.
    pub insecure: bool,
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
