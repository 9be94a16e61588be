//! Subscribes to Kafka records through an ackgate gateway.

mod batch;
mod delivery;
mod error;
mod options;
mod reconnect;
mod record;
mod session;
mod settler;
mod stats;
mod subscriber;
mod writer;

pub use batch::Batch;
pub use delivery::Delivery;
pub use error::Error;
pub use options::{Builder, Confirm};
pub use record::{Record, TimestampType};
pub use stats::{Problem, ProblemKind, Stats};
pub use subscriber::Subscriber;
pub use tonic::Code;
