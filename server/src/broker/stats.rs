//! What a client library tells of logs and of itself.

use std::time::Duration;

use ackgate_lane::{Generation, Position};

/// The end of a lane's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The lane's assignment.
    pub generation: Generation,
    /// The log's end, markers and unfinished transactions included.
    pub end: Position,
    /// The end of what this consumer may read of it; markers below count.
    pub readable: Position,
}

/// How one consumer's client library is doing. What is counted begins at 0 with each
/// consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientStats {
    /// Brokers to which there is a connection.
    pub up: u64,
    /// Brokers that are known and to which there is none, though one was wanted.
    pub down: u64,
    /// Requests that wait to be sent or answered.
    pub in_flight: u64,
    /// Of all brokers the longest average time to an answer, lately.
    pub rtt: Duration,
    /// Records that were fetched and not taken yet.
    pub prefetched_records: u64,
    /// Their bytes.
    pub prefetched_bytes: u64,
    /// Bytes received.
    pub received: u64,
    /// Bytes sent.
    pub sent: u64,
    /// Connections that were made.
    pub connects: u64,
    /// Connections that ended.
    pub disconnects: u64,
    /// Requests that were not answered in time.
    pub timeouts: u64,
    /// Requests and answers that failed.
    pub errors: u64,
}
