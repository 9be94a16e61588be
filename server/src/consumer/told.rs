//! What a log tells of itself, kept until its lane may hear it.
//!
//! Invariant: a lane hears of the log's end, and of its new beginning, after all records
//! that were fetched before; those may wait at the gate.

use ackgate_lane::{Position, Time};

use super::lanes::Entry;

/// What a log told of itself that the lane has not heard yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// It begins here now.
    pub(super) oldest: Option<Position>,
    /// It ends here.
    pub(super) end: Option<Position>,
}

impl Entry {
    /// Tells the lane what its log told, once it has heard of all records from before
    /// that; `next` is about to be passed on, `None`: nothing is.
    pub(super) fn hear_of_log(&mut self, now: Time, next: Option<Position>) {
        let waits = self.gate.bytes() > 0;
        let due = |at: &Position| match next {
            Some(next) => next >= *at,
            None => !waits,
        };
        if let Some(oldest) = self.told.oldest.take_if(|at| due(at)) {
            self.lane.handle_gone(now, oldest);
        }
        if let Some(end) = self.told.end.take_if(|at| due(at)) {
            self.lane.handle_end(now, end);
        }
    }
}
