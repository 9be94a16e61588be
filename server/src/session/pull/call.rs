//! What calls ask of the task that keeps their session, and what it answers.

use tokio::sync::oneshot;

use crate::consumer::{Draw, LaneNotice, OutboundBatch};

/// What calls want of the keeper.
#[derive(Debug)]
pub(super) enum Call {
    /// Records.
    Pull(Draw, Reply),
    /// What has been drawn, without waiting for more.
    Hurry,
    /// That the session ends.
    Close,
}

pub(super) type Reply = oneshot::Sender<Result<Taken, NotTaken>>;

/// What a call took.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) batches: Vec<OutboundBatch>,
    pub(super) news: Vec<LaneNotice>,
    pub(super) is_draining: bool,
    pub(super) has_ended: bool,
    /// Told when the transport takes the answer; dropped, it never did.
    pub(super) receipt: oneshot::Sender<()>,
}

/// Why a call takes nothing.
#[derive(Debug)]
pub(super) enum NotTaken {
    /// Another one has not ended.
    InProgress,
    /// Whether there is anything could not be seen.
    NotSeen,
    /// Nothing came before it had to end.
    Hurried,
}
