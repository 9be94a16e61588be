//! What a lane asks the outside to do.

use crate::{Offset, OffsetRange, Position, Subscriber};

/// Why a record is dead-lettered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// A subscriber rejected it.
    Rejected,
    /// Its attempts are used up.
    AttemptsExhausted,
    /// Its deliveries are used up.
    DeliveriesExhausted,
    /// It is larger than a subscriber accepts.
    Oversize,
}

/// Why a delivery is no longer out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Return {
    /// A verdict answered it.
    Verdict,
    /// Its deadline passed.
    Expired,
    /// Its subscriber has gone.
    Lost,
    /// Lane order: a failure below it voided it.
    Rewound,
    /// The drain ended.
    Drained,
}

/// One thing to do, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Commit `position`, then say how it went with `handle_commit`. The lane
    /// never asks for a second one before the first is answered, except on drain.
    Commit {
        /// The floor.
        position: Position,
    },
    /// Seek to `to`, forget all bodies at and above it, then say how it went with
    /// `handle_seek`. Nothing fetched before the seek may be passed in after it.
    Seek {
        /// The floor.
        to: Position,
    },
    /// Write the record's dead letter, then say how it went with `handle_dead_letter`.
    DeadLetter {
        /// The record.
        offset: Offset,
        /// Why.
        cause: Cause,
        /// Attempts used: failed verdicts and expiries, plus one if it was rejected.
        attempts: u32,
        /// Hand-overs so far.
        deliveries: u32,
    },
    /// `range` is no longer out to `subscriber`: its credit is free again.
    Returned {
        /// Whose delivery it was.
        subscriber: Subscriber,
        /// What was out.
        range: OffsetRange,
        /// Why it came back.
        why: Return,
    },
    /// The records of `range` are settled; their bodies are no longer needed.
    Settled {
        /// Settled offsets; offsets in between that the log does not have are included.
        range: OffsetRange,
    },
    /// Records of `range` that were unsettled are no longer in the log: released
    /// and to be reported. `Settled` follows for them.
    Lost {
        /// The vanished offsets.
        range: OffsetRange,
    },
    /// The record was dropped by policy instead of being dead-lettered.
    Dropped {
        /// The record.
        offset: Offset,
        /// Why it was given up.
        cause: Cause,
    },
    /// The drain is over: nothing is out, no dead letter is awaited and the last
    /// `Commit`, if one was due, has been asked for. No effect follows.
    Drained,
}
