//! All of rdkafka: the consumer of a subscription, the producer of dead letters
//! and the questions that `ackgate check` asks.
//!
//! Boundary: rdkafka's types and its blocking calls stay in here. Each consumer
//! has one thread of its own, on which everything but synchronous commits runs;
//! those run on a second one, because they cannot be given a deadline.
//!
//! Invariant: nothing here decides what is committed or where to read; it does
//! what it is told for the lanes it holds, and tells what happened.

mod alone;
pub mod bulk;
pub(crate) mod client_log;
mod commit;
mod connect;
mod consumer;
mod core;
mod destination;
pub mod direct;
pub mod embedded;
mod encode;
mod error;
mod facts;
mod fetch;
mod guard;
mod headers;
mod health;
mod inbox;
mod lane;
mod outbox;
mod past;
mod prefetch;
mod probe;
mod producer;
mod rebalance;
mod relocate;
pub mod scan;
mod settings;
mod start;
mod stats;
pub mod topics;
pub mod transact;
mod transaction;
mod wake;
pub mod witness;

#[cfg(test)]
mod tests;

pub use connect::{KafkaConnect, KafkaConsumer};
pub use facts::{Keeping, PartitionFacts, Probe, TopicFacts};
pub use prefetch::PREFETCH_KIB_PER_LANE;
pub use producer::KafkaProducer;
pub use settings::{
    CHUNK_BYTES, CHUNK_RECORDS, DELIVERY_TIMEOUT, DENIED_CONSUMER, DENIED_PRODUCER,
};
