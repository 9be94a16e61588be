//! One lane: every decision about one topic-partition while this gateway owns it.
//!
//! Inputs go in through `handle_*` methods, what the outside must do comes out of
//! [`Lane::poll_effect`], and time is an argument. The lane knows no clock, no
//! network, no runtime and no record's bytes: it works on offsets alone.

mod effect;
mod ids;
mod lane;
mod policy;
mod verdict;

pub use effect::{Cause, Effect, Return};
pub use ids::{Epoch, Generation, Offset, OffsetRange, Position, Subscriber, Time};
pub use lane::{
    CommitOutcome, DeadLetterOutcome, Hold, Lane, Ready, SeekOutcome, Snapshot, Start,
};
pub use policy::{Backoff, Order, OnReject, Policy, Window};
pub use verdict::{Answer, Target, Verdict, VerdictResult};
