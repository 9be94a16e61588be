//! Names of the headers that the gateway and its commands add to records, and read.
//!
//! Boundary: names and their meaning; who writes them stands at each.

/// Begins every header of a dead letter that says where the record came from and why
/// it was given up.
pub const DEAD_LETTER: &str = "ackgate.dead-letter.";

/// Begins every header of a record that was put back from a dead-letter topic.
pub const REDRIVE: &str = "ackgate.redrive.";

/// Behind [`REDRIVE`]: the topic, partition, offset and timestamp (milliseconds) that the
/// record had when it was first delivered, however often it came round.
pub const ORIGIN: [&str; 4] = ["topic", "partition", "offset", "timestamp"];

/// Behind either prefix: the same for all copies of one record of one group,
/// `group/topic/partition/offset` of its origin.
pub const DEDUPE_ID: &str = "dedupe-id";

/// Behind [`REDRIVE`]: the record is not handed out before this time, in milliseconds
/// since the Unix epoch.
pub const NOT_BEFORE: &str = "not-before";

/// Behind [`REDRIVE`]: the dead letter that was put back, `topic/partition/offset`.
pub const LETTER: &str = "dead-letter";

/// Behind [`REDRIVE`]: how often the record was put back, 1 or more.
pub const ROUND: &str = "round";
