//! What sessions say to a subscription's driver and hear from it, and the cheap
//! handle through which they do.
//!
//! Boundary: the channels stay private to this folder; sessions see the messages.

use std::{sync::Arc, time::Duration};

use ackgate_lane::{OffsetRange, Target, Verdict};
use ackgate_proto::v1;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot, watch};

pub use super::news::{DrainReason, End, LaneLabel, LaneNotice, NoticeKind, VerdictAnswer};
use super::{
    counts::Counts,
    draw::{Draw, Drawn},
    measured::Measured,
    meter::Meter,
    opening::{Attach, Opened, Session},
    shown::Shown,
    standstill::{Lanes, Reset},
};
use crate::{broker::ClusterState, config};

/// The most that may be out to a subscriber.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credit {
    /// In records.
    pub records: u64,
    /// In bytes of encoded records.
    pub bytes: u64,
}

impl Credit {
    /// Whether there is any: without it a subscriber is paused.
    #[must_use]
    pub const fn is_some(&self) -> bool {
        self.records > 0 && self.bytes > 0
    }
}

/// Which answers a session wants beside the problems.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Confirm {
    /// None.
    #[default]
    Problems,
    /// One for each message, once it is applied.
    Applied,
    /// One for each message, once what it did survives the loss of this process.
    Durable,
}

/// One verdict on a lane that the subscriber named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneVerdict {
    /// The lane's number as batches carry it.
    pub lane: u64,
    /// What is answered.
    pub target: Target,
    /// The verdict.
    pub verdict: Verdict,
    /// The subscriber's code; empty if none.
    pub code: String,
    /// The subscriber's reason, cleaned; empty if none.
    pub reason: String,
}

/// How a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// It said goodbye.
    Closed,
    /// It is gone.
    Lost,
}

/// A place among the messages of a session whose answer it has not read. It travels
/// with the message and its answer, and is free once the answer is written or none
/// is needed: so answers never overflow an outbox.
#[derive(Clone, Debug)]
pub struct Ticket(#[allow(dead_code, reason = "held for its drop")] Arc<OwnedSemaphorePermit>);

impl Ticket {
    /// A ticket that holds `permit`.
    #[must_use]
    pub fn new(permit: OwnedSemaphorePermit) -> Self {
        Self(Arc::new(permit))
    }
}

/// What a session says.
#[derive(Debug)]
pub enum Input {
    /// It begins. First.
    Attach(Attach, Opened),
    /// Its credit changes.
    Credit(Session, Credit),
    /// It is there.
    Beat(Session),
    /// It takes some records, and nothing before and after.
    Draw(Session, Draw),
    /// It takes no more: what it has got is what it draws.
    EndDraw(Session),
    /// It ends, unless anything is out to it.
    Retire(Session, Departure),
    /// It answers records.
    Settle {
        /// Whose.
        session: Session,
        /// The number that the answer carries.
        sequence: u64,
        /// The valid ones.
        verdicts: Vec<LaneVerdict>,
        /// Answers to the ones that were not valid.
        refused: Vec<VerdictAnswer>,
        /// Which answer is wanted if all were applied.
        confirm: Confirm,
        /// Its place among unread answers.
        ticket: Option<Ticket>,
    },
    /// It wants more time.
    Extend {
        /// Whose.
        session: Session,
        /// The number that the answer carries.
        sequence: u64,
        /// Lane numbers and runs.
        targets: Vec<(u64, OffsetRange)>,
        /// Answers to the ones that were not valid.
        refused: Vec<VerdictAnswer>,
        /// From now.
        by: Duration,
        /// Whether an answer is wanted even if all were applied.
        confirm: bool,
        /// Its place among unread answers.
        ticket: Option<Ticket>,
    },
    /// A batch has been handed to the transport.
    Sent {
        /// Whose.
        session: Session,
        /// The batch's lane.
        lane: u64,
        /// The batch's runs.
        ranges: Vec<OffsetRange>,
    },
    /// Its connection is too old: nothing more goes out to it, and it ends within that
    /// time.
    Drain(Session, Duration),
    /// It ends. Last.
    Detach(Session, Departure),
    /// An operator wants to see the subscription.
    Show(oneshot::Sender<Shown>),
    /// Somebody wants the subscription in numbers.
    Measure(oneshot::Sender<Measured>),
    /// An operator closes breakers.
    ResetBreakers(Lanes, oneshot::Sender<Reset>),
    /// The gateway stops: drain for this long at most, then leave the group.
    Stop(Duration),
}

/// A run that was handed out before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redelivered {
    /// The run.
    pub range: OffsetRange,
    /// 1 or more.
    pub attempt: u32,
    /// 1 or more.
    pub delivery: u32,
}

/// Records for a subscriber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboundBatch {
    /// The lane.
    pub lane: LaneLabel,
    /// Encoded records, in order.
    pub records: Vec<Bytes>,
    /// The runs they are.
    pub ranges: Vec<OffsetRange>,
    /// Numbers of runs above attempt 1 or delivery 1.
    pub redelivered: Vec<Redelivered>,
    /// The gateway's spans of this delivery, of traced records; not more than there is
    /// room for.
    pub traces: Vec<v1::RecordTrace>,
}

impl OutboundBatch {
    /// A batch of that lane, without records yet.
    pub(super) fn of(lane: LaneLabel) -> Self {
        Self {
            lane,
            records: Vec::with_capacity(1),
            ranges: Vec::with_capacity(1),
            redelivered: Vec::new(),
            traces: Vec::new(),
        }
    }
}

impl End {
    /// In a few words, for the log.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Drained => "drained",
            Self::ShuttingDown => "shutting down",
            Self::NotReading => "not reading",
            Self::NotDurable => "not durable",
            Self::TooManyAnswers => "too many answers",
            Self::Superseded => "superseded",
            Self::Slow => "slow",
            Self::ConnectionAged => "connection aged",
        }
    }
}

/// What a session hears.
#[derive(Clone, Debug)]
pub enum Outbound {
    /// Records.
    Batch(OutboundBatch),
    /// A draw has ended: its batches came before.
    Drawn(Drawn),
    /// The answer to `Settle` or `Extend`.
    Settled {
        /// The number of what is answered.
        sequence: u64,
        /// Parts that changed nothing.
        answers: Vec<VerdictAnswer>,
        /// Let go once the answer is written.
        ticket: Option<Ticket>,
    },
    /// News of a lane.
    Lane(LaneNotice),
    /// It ends within that time.
    Drain(Duration, DrainReason),
    /// Nothing follows.
    End(End),
}

/// The driver has stopped.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the subscription has stopped")]
pub struct Stopped;

/// A subscription as sessions see it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(super) subscription: Arc<config::Subscription>,
    pub(super) inputs: mpsc::Sender<Input>,
    pub(super) state: watch::Receiver<State>,
    pub(super) counts: watch::Receiver<Counts>,
    /// What was counted when the driver ended.
    pub(super) last: Arc<Mutex<Option<Meter>>>,
}

/// How a subscription is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// No subscriber has come yet, or the last one went long ago: not in the group.
    Away,
    /// In the group, as far as the cluster says.
    Joined(ClusterState),
    /// The driver has ended.
    Stopped,
}

impl Handle {
    /// The subscription's settings.
    #[must_use]
    pub fn subscription(&self) -> &config::Subscription {
        &self.subscription
    }

    /// How the subscription is now.
    #[must_use]
    pub fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// Resolves when the subscription is not as [`Self::state`] last told.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// The driver is gone: nothing changes any more.
    pub async fn changed(&mut self) -> Result<(), Stopped> {
        self.state.changed().await.map_err(|_gone| Stopped)
    }

    /// What became of records so far without a subscriber's doing.
    #[must_use]
    pub fn counts(&self) -> Counts {
        *self.counts.borrow()
    }

    /// Tells the driver something, waiting while it is busy.
    ///
    /// Cancel safe: a cancelled call has said nothing.
    ///
    /// # Errors
    /// The driver has stopped.
    pub async fn send(&self, input: Input) -> Result<(), Stopped> {
        self.inputs.send(input).await.map_err(|_closed| Stopped)
    }

    /// Resolves once the subscription is not in its group.
    pub async fn away(&mut self) {
        let away = |state: &State| matches!(state, State::Away | State::Stopped);
        // An error means that the driver is gone, and with it its membership.
        drop(self.state.wait_for(away).await);
    }

    /// The subscription's lanes, subscribers and memory at one moment.
    ///
    /// # Errors
    /// The driver has stopped.
    pub async fn show(&self) -> Result<Shown, Stopped> {
        let (answer, shown) = oneshot::channel();
        self.send(Input::Show(answer)).await?;
        // The driver answers whatever it takes in its next turn, or is gone.
        shown.await.map_err(|_gone| Stopped)
    }

    /// The subscription in numbers at one moment.
    ///
    /// # Errors
    /// The driver has stopped; then [`Self::last`] tells what it had counted.
    pub async fn measure(&self) -> Result<Measured, Stopped> {
        let (answer, measured) = oneshot::channel();
        self.send(Input::Measure(answer)).await?;
        measured.await.map_err(|_gone| Stopped)
    }

    /// What the driver had counted when it stopped; `None` while it runs.
    #[must_use]
    pub fn last(&self) -> Option<Meter> {
        self.last.lock().clone()
    }

    /// Closes the breakers of these lanes that are open.
    ///
    /// # Errors
    /// The driver has stopped.
    pub async fn reset_breakers(&self, of: Lanes) -> Result<Reset, Stopped> {
        let (answer, reset) = oneshot::channel();
        self.send(Input::ResetBreakers(of, answer)).await?;
        reset.await.map_err(|_gone| Stopped)
    }

    /// Resolves once the driver has stopped and its group has been left.
    pub async fn stopped(&mut self) {
        // An error means that the driver is gone, which is what is waited for.
        drop(self.state.wait_for(|state| *state == State::Stopped).await);
    }
}
