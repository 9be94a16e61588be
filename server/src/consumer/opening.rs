//! How a session begins: what it asks for, what it goes on with, and the answer.

use std::{sync::Arc, time::Duration};

use ackgate_lane::{OffsetRange, ResumeResult, Subscriber};
use tokio::sync::{mpsc, oneshot};

use super::handle::{Credit, End, Outbound};
use crate::{config::Batch, filter::Filter};

/// Number of one stream, unique within the gateway's run. A subscriber has one at a
/// time, and may have several one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session(pub u64);

/// A session that wants to take part.
#[derive(Debug)]
pub struct Attach {
    /// The session.
    pub session: Session,
    /// The subscriber's name: who it is, over all its sessions.
    pub name: Arc<str>,
    /// What is out is to outlive the stream for a while.
    pub resumable: bool,
    /// It may end another session of the same name.
    pub takeover: bool,
    /// It pulls: the log has less of sessions that come and go with each run of a job.
    pub pulls: bool,
    /// What an earlier session left it with.
    pub resume: Option<Manifest>,
    /// What may be out.
    pub credit: Credit,
    /// Largest batch message the subscriber accepts, in bytes.
    pub max_message_bytes: u64,
    /// Time for each verdict, from the hand-over to the transport.
    pub ack_deadline: Duration,
    /// Broadcast: what it wants of all that is fanned out; `None`: everything.
    pub filter: Option<Filter>,
    /// What its batches wait for.
    pub batch: Batch,
    /// It ends once nothing is left for it.
    pub until_drained: bool,
    /// Where its messages go. Full means that the subscriber does not read.
    pub outbox: mpsc::Sender<Outbound>,
    /// Ends the session at once, past what waits in the outbox.
    pub cut: oneshot::Sender<End>,
}

/// Where a session hears whether it takes part: at once.
pub type Opened = oneshot::Sender<Result<Accepted, Refusal>>;

/// What a subscriber says it still works on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The token of its last session.
    pub token: String,
    /// The runs, in any order.
    pub held: Vec<Held>,
}

/// A run of deliveries that a subscriber says it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its topic.
    pub topic: String,
    /// Its partition.
    pub partition: i32,
    /// The epoch it was delivered in.
    pub epoch: u64,
    /// Its offsets; `None` if they are no run.
    pub range: Option<OffsetRange>,
    /// Its offsets as they were given.
    pub offsets: (i64, i64),
    /// The delivery's number; `None`: whichever is out.
    pub delivery: Option<u32>,
}

/// What became of a part of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resumed {
    /// Its topic.
    pub topic: Arc<str>,
    /// Its partition.
    pub partition: i32,
    /// First offset.
    pub first: i64,
    /// Last offset, included.
    pub last: i64,
    /// What became of it.
    pub result: ResumeResult,
    /// The lane's number now, where it was kept.
    pub lane: u64,
}

/// A session takes part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The subscriber, over all its sessions.
    pub subscriber: Subscriber,
    /// What it shows to go on where this session breaks; `None` if it cannot.
    pub token: Option<String>,
    /// What became of its manifest.
    pub resumed: Vec<Resumed>,
}

/// Why a session may not take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A subscriber of this name is attached.
    InUse,
    /// The gateway stops.
    ShuttingDown,
}
