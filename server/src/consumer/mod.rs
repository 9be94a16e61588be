//! One shared consumer and its lanes: a task per subscription that carries fetched
//! records and verdicts to the lanes and carries out what they ask for.
//!
//! Boundary: no rdkafka and no gRPC types; rules about commit, seek, redelivery and
//! dead letters are the lane's.

mod absence;
mod arrival;
mod atomic;
mod bodies;
mod budget;
mod cohort;
mod counts;
mod dead_letter;
mod dispatch;
mod drained;
mod draw;
mod driver;
mod durable;
mod effects;
mod events;
mod fence;
mod handle;
mod identity;
mod inputs;
mod intake;
mod lanes;
mod leases;
mod leaving;
mod letters;
mod measured;
mod members;
mod membership;
mod metadata;
mod meter;
pub(crate) mod mutation;
mod news;
mod numbers;
mod opening;
mod progress;
mod reason;
mod shape;
mod shown;
mod standstill;
mod subscribers;
mod tell;
#[cfg(test)]
mod tests;
mod told;
mod traces;
mod watched;

pub use budget::Budget;
pub use counts::Counts;
pub use draw::{Draw, Drawn};
pub use driver::{Parts, spawn};
pub use handle::{
    Confirm, Credit, Departure, DrainReason, End, Handle, Input, LaneLabel, LaneNotice,
    LaneVerdict, NoticeKind, Outbound, OutboundBatch, Redelivered, State, Stopped, Ticket,
    VerdictAnswer,
};
pub use intake::Wall;
pub use measured::{HeldBy, Measured, MeasuredLane};
pub use meter::{
    ATTEMPT_BOUNDS, Attempts, By, Client, Closed, CommitResult, Ended, LetterOutcome, Meter,
    Problem, Rebalance, SeekReason, Volume,
};
pub use opening::{Accepted, Attach, Held, Manifest, Opened, Refusal, Resumed, Session};
pub use reason::{Reason, ReasonKind, Weight};
pub use shown::{Shown, ShownLane, ShownSubscriber};
pub use standstill::{Lanes, Reset, Standstill, Why};
pub(crate) use subscribers::{ANSWERS, HEAD_ROOM, OUTBOX};
