//! Every name that a span of the gateway has: its own, its attributes, their closed values.
//!
//! Boundary: names only. Where OpenTelemetry has one for messaging it is that crate's; the
//! gateway's own begin with `ackgate.`. No attribute holds a key, a value or a header of a
//! record.

pub use opentelemetry_semantic_conventions::attribute::{
    ERROR_TYPE, MESSAGING_BATCH_MESSAGE_COUNT as BATCH_MESSAGE_COUNT,
    MESSAGING_CONSUMER_GROUP_NAME as GROUP, MESSAGING_DESTINATION_NAME as TOPIC,
    MESSAGING_DESTINATION_PARTITION_ID as PARTITION,
    MESSAGING_KAFKA_MESSAGE_TOMBSTONE as TOMBSTONE, MESSAGING_KAFKA_OFFSET as OFFSET,
    MESSAGING_MESSAGE_BODY_SIZE as BODY_SIZE, MESSAGING_OPERATION_NAME as OPERATION_NAME,
    MESSAGING_OPERATION_TYPE as OPERATION_TYPE, MESSAGING_SYSTEM as SYSTEM,
    SERVICE_INSTANCE_ID as SERVICE_INSTANCE, SERVICE_VERSION,
};

/// The value of [`SYSTEM`].
pub const KAFKA: &str = "kafka";

/// The subscription's name.
pub const SUBSCRIPTION: &str = "ackgate.subscription";

/// The cluster's name in the configuration.
pub const CLUSTER: &str = "ackgate.cluster";

/// Who has the delivery: the subscriber's own name, cleaned.
pub const SUBSCRIBER: &str = "ackgate.subscriber";

/// Number of the attempt, 1 or more.
pub const ATTEMPT: &str = "ackgate.attempt";

/// Number of the delivery, 1 or more.
pub const DELIVERY: &str = "ackgate.delivery";

/// How a delivery ended: a verdict, or what else ends it.
pub const VERDICT: &str = "ackgate.verdict";

/// The subscriber's code beside its verdict, cleaned.
pub const CODE: &str = "ackgate.verdict.code";

/// Why a record was given up.
pub const CAUSE: &str = "ackgate.dead_letter.cause";

/// The topic, partition and offset that a dead letter is a copy of.
pub const SOURCE_TOPIC: &str = "ackgate.source.topic";
/// As [`SOURCE_TOPIC`].
pub const SOURCE_PARTITION: &str = "ackgate.source.partition";
/// As [`SOURCE_TOPIC`].
pub const SOURCE_OFFSET: &str = "ackgate.source.offset";

/// First offset of a batch.
pub const FIRST_OFFSET: &str = "ackgate.batch.first_offset";

/// Last offset of a batch.
pub const LAST_OFFSET: &str = "ackgate.batch.last_offset";

/// The next offset to read: what was committed, or where a seek leads.
pub const POSITION: &str = "ackgate.position";

/// What a rebalance did: `assigned`, `revoked` or `lost`.
pub const REBALANCE: &str = "ackgate.rebalance";

/// How many lanes a rebalance moved.
pub const LANES: &str = "ackgate.lanes";

/// Number of a lane's history, from which a reset goes on.
pub const EPOCH: &str = "ackgate.epoch";

/// What the gateway does, as a span's name begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Records are fetched from Kafka.
    Poll,
    /// A record is with a subscriber, from its hand-over to its verdict.
    Process,
    /// A dead letter is written.
    Send,
    /// A position is committed.
    Commit,
    /// A lane goes back.
    Seek,
    /// Lanes come or go.
    Rebalance,
    /// A lane begins anew, because its log is another one.
    Reset,
}

impl Operation {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Poll => "poll",
            Self::Process => "process",
            Self::Send => "send",
            Self::Commit => "commit",
            Self::Seek => "seek",
            Self::Rebalance => "rebalance",
            Self::Reset => "reset",
        }
    }

    /// Its type, as OpenTelemetry has it; `None` where it has none.
    #[must_use]
    pub const fn kind(self) -> Option<&'static str> {
        match self {
            Self::Poll => Some("receive"),
            Self::Process => Some("process"),
            Self::Send => Some("send"),
            Self::Commit => Some("settle"),
            Self::Seek | Self::Rebalance | Self::Reset => None,
        }
    }
}
