//! What a lane asks the outside to do.

use std::collections::VecDeque;

use crate::{Offset, OffsetRange, Position, Subscriber, Trip};

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
    /// Its value is not what it should be.
    Content,
    /// It was too old before it was ever handed out.
    Expired,
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
    /// Commit `position` with the map that [`Lane::commit_map`](crate::Lane::commit_map)
    /// gives for `serial`, then say how it went with `handle_commit`. The lane never
    /// asks for a second one before the first is answered, except on drain.
    Commit {
        /// The floor.
        position: Position,
        /// Number of the request.
        serial: u64,
    },
    /// A broker takes no metadata as large as that of the last commit: the position is
    /// committed without it, and later maps have less room. To be reported.
    MapRefused {
        /// The most bytes of a map from now on; 0: none is written any more.
        most_bytes: usize,
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
    /// The records of `range`, just passed in, had settled before: their bodies are
    /// not needed. Comes only where records are read a second time.
    Skipped {
        /// Offsets passed in again.
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
    /// The record's dead letter could not be written so many times, and it was set
    /// aside, as the policy says: to be reported. The lane goes on without it.
    Parked {
        /// The record.
        offset: Offset,
        /// Why it was given up.
        cause: Cause,
        /// Failed writes.
        tries: u32,
    },
    /// The record's dead letter could not be written so many times, and it was given up
    /// without one, as the policy says: to be reported. `Settled` follows.
    Discarded {
        /// The record.
        offset: Offset,
        /// Why it was given up.
        cause: Cause,
        /// Failed writes.
        tries: u32,
    },
    /// The breaker has opened: nothing is handed out, and no further dead letter asked
    /// for, until [`Lane::reset_breaker`](crate::Lane::reset_breaker). To be reported.
    Tripped {
        /// What opened it.
        trip: Trip,
    },
    /// Broadcast: `subscriber` has kept the lane's window full for too long without a
    /// verdict. End its session, then say that it is lost.
    CutOff {
        /// Who.
        subscriber: Subscriber,
    },
    /// Broadcast: `subscriber` was lost and has not come back in time. The others
    /// decide on what it owes; to be reported.
    Withdrawn {
        /// Who.
        subscriber: Subscriber,
        /// From the first record that it owed to the last.
        range: OffsetRange,
        /// How many it owed.
        records: u64,
    },
    /// The drain is over: nothing is out, no dead letter is awaited and the last
    /// `Commit`, if one was due, has been asked for. No effect follows.
    Drained,
}

/// Effects not yet taken, in order; neighbouring ones of a kind become one.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    effects: VecDeque<Effect>,
    /// Grows while neighbours settle, and joins the queue before anything but returns.
    settled: Option<OffsetRange>,
}

impl Queue {
    /// Adds an effect of a kind that stands alone.
    pub(crate) fn push(&mut self, effect: Effect) {
        self.flush();
        self.effects.push_back(effect);
    }

    /// Adds [`Effect::Returned`].
    pub(crate) fn returned(&mut self, subscriber: Subscriber, range: OffsetRange, why: Return) {
        if let Some(Effect::Returned {
            subscriber: before,
            range: last,
            why: because,
        }) = self.effects.back_mut()
            && (*before, *because) == (subscriber, why)
            && let Some(joined) = join(*last, range)
        {
            *last = joined;
            return;
        }
        self.effects.push_back(Effect::Returned {
            subscriber,
            range,
            why,
        });
    }

    /// Adds [`Effect::Settled`].
    pub(crate) fn settled(&mut self, range: OffsetRange) {
        if let Some(joined) = self.settled.and_then(|last| join(last, range)) {
            self.settled = Some(joined);
            return;
        }
        self.flush();
        self.settled = Some(range);
    }

    /// Adds [`Effect::Lost`].
    pub(crate) fn lost(&mut self, range: OffsetRange) {
        self.flush();
        if let Some(Effect::Lost { range: last }) = self.effects.back_mut()
            && let Some(joined) = join(*last, range)
        {
            *last = joined;
            return;
        }
        self.effects.push_back(Effect::Lost { range });
    }

    /// Adds [`Effect::Skipped`].
    pub(crate) fn skipped(&mut self, range: OffsetRange) {
        self.flush();
        if let Some(Effect::Skipped { range: last }) = self.effects.back_mut()
            && let Some(joined) = join(*last, range)
        {
            *last = joined;
            return;
        }
        self.effects.push_back(Effect::Skipped { range });
    }

    /// Takes the oldest.
    pub(crate) fn pop(&mut self) -> Option<Effect> {
        if self.effects.is_empty() {
            self.flush();
        }
        self.effects.pop_front()
    }

    fn flush(&mut self) {
        if let Some(range) = self.settled.take() {
            self.effects.push_back(Effect::Settled { range });
        }
    }
}

/// One run of two where the second follows the first without a gap.
fn join(first: OffsetRange, second: OffsetRange) -> Option<OffsetRange> {
    if first.end() == second.first().position() {
        OffsetRange::new(first.first(), second.end())
    } else {
        None
    }
}
