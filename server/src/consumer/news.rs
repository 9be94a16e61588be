//! What a session hears beside records: what became of its verdicts and of lanes, and why it
//! ends.

use std::sync::Arc;

use ackgate_lane::{OffsetRange, VerdictResult};

/// Names a lane to subscribers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneLabel {
    /// The number that verdicts name.
    pub lane: u64,
    /// Its topic.
    pub topic: Arc<str>,
    /// Its partition.
    pub partition: i32,
    /// Its epoch.
    pub epoch: u64,
}

impl LaneLabel {
    /// Names all lanes at once.
    #[must_use]
    pub fn everything() -> Self {
        Self {
            lane: 0,
            topic: Arc::from(""),
            partition: -1,
            epoch: 0,
        }
    }
}

/// What happened to a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeKind {
    /// It is this gateway's.
    Assigned,
    /// It is about to move.
    Revoking,
    /// It has gone.
    Revoked,
    /// It waits.
    Held,
    /// What was out is void.
    Rewound,
    /// It goes on.
    Recovered,
    /// Records have vanished.
    LostRange,
    /// It belongs to this subscriber now.
    Leased,
    /// It belongs to another subscriber, or to nobody yet.
    Standby,
    /// Its log is another one: all that was known of it is void.
    Reset,
    /// What is out is void: the group may have given the lanes away.
    Fenced,
}

/// News of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneNotice {
    /// Which.
    pub lane: LaneLabel,
    /// What.
    pub kind: NoticeKind,
    /// Offsets concerned.
    pub range: Option<OffsetRange>,
    /// In words.
    pub detail: String,
}

/// What became of a part of a verdict that changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerdictAnswer {
    /// The lane as the subscriber named it.
    pub lane: u64,
    /// First offset as the subscriber named it, or of the part.
    pub first: i64,
    /// Last offset, included.
    pub last: i64,
    /// What became of it; `Err` with a reason code if it was malformed.
    pub result: Result<VerdictResult, &'static str>,
}

/// Why a session is told that it ends soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainReason {
    /// The gateway stops.
    GatewayStops,
    /// Its connection is too old.
    ConnectionAge,
}

/// Why the gateway ends a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It said goodbye.
    Closed,
    /// It wanted what there was, and there is nothing left.
    Drained,
    /// The gateway stops.
    ShuttingDown,
    /// It does not read what it is sent.
    NotReading,
    /// As much as may wait to become durable does, and has for long.
    NotDurable,
    /// One message of it asked for more answers than any may.
    TooManyAnswers,
    /// A later session of the same subscriber took its place.
    Superseded,
    /// It kept a lane's window full for too long without a verdict.
    Slow,
    /// Its connection is too old.
    ConnectionAged,
}
