//! One shared consumer and its lanes: a task per subscription that carries fetched
//! records and verdicts to the lanes and carries out what they ask for.
//!
//! Boundary: no rdkafka and no gRPC types; rules about commit, seek, redelivery and
//! dead letters are the lane's.

mod bodies;
mod budget;
mod cohort;
mod dead_letter;
mod dispatch;
mod driver;
mod effects;
mod episode;
mod events;
mod handle;
mod identities;
mod inputs;
mod lanes;
mod members;
mod membership;
mod shown;
mod subscribers;
#[cfg(test)]
mod tests;

pub use budget::Budget;
#[cfg(test)]
pub(crate) use dead_letter::PREFIX as DEAD_LETTER_PREFIX;
pub use driver::{Parts, spawn};
pub use handle::{
    Attach, Credit, Departure, End, Handle, Input, LaneLabel, LaneNotice, LaneVerdict, NoticeKind,
    Outbound, OutboundBatch, Redelivered, State, Stopped, Ticket, VerdictAnswer,
};
pub use shown::{Shown, ShownLane, ShownSubscriber};
pub(crate) use subscribers::{ANSWERS, OUTBOX};
