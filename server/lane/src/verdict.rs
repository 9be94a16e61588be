//! Verdicts and what becomes of them.

use std::time::Duration;

use crate::OffsetRange;

/// What a subscriber says about a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Done.
    Acked,
    /// Permanently refused.
    Rejected,
    /// Again after a backoff. Uses an attempt.
    Failed {
        /// Not before this long, instead of the backoff.
        retry_after: Option<Duration>,
    },
    /// Not started: again at once. Uses no attempt.
    Released,
}

/// What a verdict or an extension is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The run of offsets.
    pub range: OffsetRange,
    /// The delivery that is answered; `None`: whatever is out.
    pub delivery: Option<u32>,
}

/// What became of a verdict on a run of offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The part of the verdict's run that the answer is about.
    pub range: OffsetRange,
    /// What became of it.
    pub result: VerdictResult,
}

/// The ways a verdict can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerdictResult {
    /// It counts.
    Applied,
    /// The same verdict settled the record before.
    Duplicate,
    /// Another verdict settled the record before.
    Conflict,
    /// A later delivery superseded the one that is answered.
    Stale,
    /// The deadline passed and the record has been handed out again.
    Expired,
    /// Never handed to this subscriber.
    Unknown,
    /// The lane has ended its drain: nothing counts any more.
    Fenced,
}
