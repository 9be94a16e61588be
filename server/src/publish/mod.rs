//! Records on their way from publishers to Kafka: which are taken, how many at once,
//! and what became of each, in the order they were sent.
//!
//! **Boundary**: knows neither gRPC nor rdkafka. **Invariants**: each record that is
//! taken is answered exactly once; what is under way is bounded in records for each
//! stream and in bytes for each cluster, and what is beyond that is not read.
//!
//! ```text
//! stream ─► Feed ─► Ledger.take ─► broker::Write.enqueue
//!                      │                    │ on the client library's thread
//! stream ◄─ runs ◄─────┴──── answer ◄───────┘
//! ```

mod desk;
mod feed;
mod ledger;
mod place;
mod published;
#[cfg(test)]
mod tests;

pub use desk::{Desk, Make, NoPlace, Patience};
pub use feed::{Draft, Feed};
#[cfg(test)]
pub(crate) use ledger::Entry;
pub use ledger::{Answered, Count, Ledger, Run};
pub use place::{Place, Terms};
pub use published::{Counted, Published};

/// What a record counts beside its key, value and headers: for what is kept of it here
/// and in the client library.
pub const RECORD_BYTES: u64 = 256;

/// The same for each of its headers.
pub const HEADER_BYTES: u64 = 16;
