//! What a driver tells apart when it counts: the values of labels. They are written here
//! and nowhere else, and none is made up by a client or a record.

use ackgate_lane::{Cause, Return, VerdictResult};

use super::by::{Closed, closed};
use crate::{
    broker::{Error, ErrorKind},
    consumer::dead_letter::cause_name,
};

closed! {
    /// What became of a part of a verdict, or of an extension, that changed nothing.
    Problem {
        /// The same verdict settled the record before.
        Duplicate = "duplicate",
        /// Another verdict settled the record before.
        Conflict = "conflict",
        /// A later delivery superseded the one that was answered.
        Stale = "stale",
        /// The deadline passed and the record was handed out again.
        Expired = "expired",
        /// Never handed to this subscriber.
        Unknown = "unknown",
        /// The lane is not this gateway's any more.
        Fenced = "fenced",
        /// It was not valid.
        Malformed = "malformed",
    }
}

closed! {
    /// Why a delivery is no longer out.
    Ended {
        /// A verdict answered it, or its subscriber said goodbye.
        Verdict = "verdict",
        /// Its deadline passed.
        Expired = "expired",
        /// Its subscriber has gone.
        Lost = "lost",
        /// Lane order: a failure below it voided it.
        Rewound = "rewound",
        /// The lane was given away.
        Drained = "drained",
    }
}

closed! {
    /// What became of a dead letter, or of one try to write it.
    LetterOutcome {
        /// Kafka has it.
        Stored = "stored",
        /// It was not written this time.
        Failed = "failed",
        /// It was not tried: its body, or room for it, was not there.
        Postponed = "postponed",
        /// Its record was set aside until later tries.
        Parked = "parked",
        /// Its record was settled without it, since it could not be written.
        Discarded = "discarded",
        /// None was wanted: `on_reject` is drop.
        Dropped = "dropped",
    }
}

closed! {
    /// Why reading goes on somewhere else.
    SeekReason {
        /// Lane order: back to the floor after a failure.
        Failure = "failure",
        /// The log begins later than what was to be read.
        Retention = "retention",
    }
}

closed! {
    /// How a commit of a lane went.
    CommitResult {
        /// Kafka has it.
        Done = "done",
        /// It has to be asked for again.
        Failed = "failed",
        /// Its metadata was too large for a broker.
        TooLarge = "too_large",
    }
}

closed! {
    /// What the group did.
    Rebalance {
        /// It gave lanes, perhaps none.
        Assigned = "assigned",
        /// It took lanes, after their last commits.
        Revoked = "revoked",
        /// It had given lanes to others already.
        Lost = "lost",
    }
}

impl Problem {
    /// What `result` is; `None` if the verdict was applied.
    pub(in crate::consumer) const fn of(result: VerdictResult) -> Option<Self> {
        match result {
            VerdictResult::Applied => None,
            VerdictResult::Duplicate => Some(Self::Duplicate),
            VerdictResult::Conflict => Some(Self::Conflict),
            VerdictResult::Stale => Some(Self::Stale),
            VerdictResult::Expired => Some(Self::Expired),
            VerdictResult::Unknown => Some(Self::Unknown),
            VerdictResult::Fenced => Some(Self::Fenced),
        }
    }
}

impl CommitResult {
    /// How a commit went.
    pub(in crate::consumer) fn of(result: &Result<(), Error>) -> Self {
        match result {
            Ok(()) => Self::Done,
            Err(error) if error.kind == ErrorKind::TooLarge => Self::TooLarge,
            Err(_) => Self::Failed,
        }
    }
}

impl LetterOutcome {
    /// How one try to write a dead letter went.
    pub(in crate::consumer) fn of<T>(result: &Result<T, Error>) -> Self {
        match result {
            Ok(_) => Self::Stored,
            Err(error) if error.kind == ErrorKind::Full => Self::Postponed,
            Err(_) => Self::Failed,
        }
    }
}

impl From<Return> for Ended {
    fn from(why: Return) -> Self {
        match why {
            Return::Verdict => Self::Verdict,
            Return::Expired => Self::Expired,
            Return::Lost => Self::Lost,
            Return::Rewound => Self::Rewound,
            Return::Drained => Self::Drained,
        }
    }
}

impl Closed for Cause {
    const ALL: &'static [Self] = &[
        Self::Rejected,
        Self::AttemptsExhausted,
        Self::DeliveriesExhausted,
        Self::Oversize,
        Self::Content,
        Self::Expired,
    ];

    fn name(self) -> &'static str {
        cause_name(self)
    }

    fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_numbered<S: Closed>() {
        for (at, of) in S::ALL.iter().enumerate() {
            assert_eq!(of.index(), at, "{}", of.name());
        }
    }

    #[test]
    fn members_stand_where_their_numbers_say() {
        is_numbered::<Cause>();
        is_numbered::<Problem>();
        is_numbered::<Ended>();
        is_numbered::<LetterOutcome>();
    }
}
