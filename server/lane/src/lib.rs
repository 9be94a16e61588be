//! One lane: every decision about one topic-partition while this gateway owns it.
//!
//! Inputs go in through `handle_*` methods, what the outside must do comes out of
//! [`Lane::poll_effect`], and time is an argument. The lane knows no clock, no
//! network, no runtime and no record's bytes: it works on offsets alone.

mod commit;
mod deadline;
mod delivery;
mod effect;
mod fetch;
mod ids;
pub mod invariants;
mod jitter;
mod judge;
mod lane;
mod memory;
mod policy;
mod rewind;
mod settle;
mod slot;
mod verdict;
mod view;
mod window;

pub use effect::{Cause, Effect, Return};
pub use ids::{Epoch, Generation, Offset, OffsetRange, Position, Subscriber, Time};
pub use lane::{CommitOutcome, DeadLetterOutcome, Lane, SeekOutcome, Start};
pub use policy::{Backoff, OnReject, Order, Policy, Window};
pub use verdict::{Answer, Target, Verdict, VerdictResult};
pub use view::{Hold, Ready, Snapshot};
