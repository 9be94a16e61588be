//! What a settler gathers, and what it is gathered of.

use std::{collections::BTreeMap, time::Duration};

use crate::{Order, durable::Watcher};

/// Records of one lane that follow each other and have the same delivery number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Run {
    pub(crate) lane: u64,
    pub(crate) delivery: u32,
    pub(crate) first: i64,
    pub(crate) last: i64,
}

/// A verdict other than acked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Rejected {
        code: String,
        reason: String,
    },
    Failed {
        code: String,
        reason: String,
        retry_after: Option<Duration>,
    },
    Released,
}

/// What the writer takes at once.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// Acks, in the order given, joined where the next one followed.
    pub(crate) acks: Vec<Run>,
    /// Other verdicts, in the order given.
    pub(crate) answers: Vec<(Run, Answer)>,
    /// Latest extension of each run, by lane and first offset.
    pub(crate) extensions: BTreeMap<(u64, i64), (i64, Duration)>,
    /// Who waits for what is in it to be durable.
    pub(crate) watchers: Vec<Watcher>,
    /// A new credit.
    pub(crate) credit: Option<(u32, u64)>,
    /// Nothing follows: say goodbye.
    pub(crate) close: bool,
}

/// What holds for the deliveries of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Given {
    /// Time for a verdict; `None`: the gateway did not say.
    pub(crate) ack_deadline: Option<Duration>,
    /// How its records may overtake each other; `None`: the gateway did not say.
    pub(crate) order: Option<Order>,
}

impl Run {
    /// Number of records.
    pub(crate) const fn len(self) -> u64 {
        self.last.abs_diff(self.first).saturating_add(1)
    }

    /// The run of both, if one follows the other without a gap.
    pub(crate) const fn joined(self, next: Self) -> Option<Self> {
        if self.lane != next.lane || self.delivery != next.delivery {
            None
        } else if follows(self.last, next.first) {
            Some(Self {
                last: next.last,
                ..self
            })
        } else if follows(next.last, self.first) {
            Some(Self {
                first: next.first,
                ..self
            })
        } else {
            None
        }
    }

    /// Takes `next` in if it can be joined; returns whether it was.
    pub(crate) fn join(&mut self, next: Self) -> bool {
        let joined = self.joined(next);
        *self = joined.unwrap_or(*self);
        joined.is_some()
    }
}

const fn follows(last: i64, first: i64) -> bool {
    matches!(last.checked_add(1), Some(next) if next == first)
}
