//! [`Share`]: what one subscriber has to do with the lane's records.
//!
//! **Boundary**: a lane of its own, whose records are held by the trunk, so that
//! reading again needs no broker. It knows nothing of the other shares.

use std::{collections::BTreeMap, time::Duration};

use super::Refusal;
use crate::{
    Breaker, Epoch, Generation, Lane, MapStart, Offset, OffsetRange, OnReject, OnUnwritten, Policy,
    Position, SeekOutcome, Start, Time,
    lane::Phase,
    slot::{Slot, State},
};

/// One subscriber's lane.
#[derive(Debug)]
pub(super) struct Share {
    pub(super) lane: Lane,
    pub(super) presence: Presence,
    /// The last verdict that counted, or when it came.
    pub(super) heard: Time,
    /// Given up by the share's lane and not counted yet.
    pub(super) refused: BTreeMap<u64, Refusal>,
}

/// Whether a member is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// It takes records.
    Here,
    /// It has been asked to be cut off: nothing new is for it.
    CutOff,
    /// Lost; what it owes is kept until then.
    Absent { until: Time },
}

/// What a member owes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Debt {
    /// From the first record to the last; between them it may owe nothing.
    pub range: OffsetRange,
    /// How many records.
    pub records: u64,
}

impl Share {
    pub(super) fn new(policy: Policy, of: (Generation, Epoch), seed: u64, now: Time) -> Self {
        let policy = Policy {
            // Answered at once: the dead letter itself is the trunk's.
            on_reject: OnReject::DeadLetter,
            on_unwritten: OnUnwritten::Block,
            breaker: Breaker::default(),
            // Commits are the trunk's; a share never comes to ask.
            commit_interval: Duration::MAX,
            commit_settlements: u64::MAX,
            exactly_once: false,
            ..policy
        };
        let (generation, epoch) = of;
        let start = Start {
            generation,
            epoch,
            position: None,
            committed: false,
            seed,
            // Maps are the trunk's.
            map: MapStart::default(),
        };
        Self {
            lane: Lane::new(policy, start),
            presence: Presence::Here,
            heard: now,
            refused: BTreeMap::new(),
        }
    }

    /// The trunk hands the share the records of `range`, for the first time or anew,
    /// in whatever order.
    pub(super) fn entrust(&mut self, now: Time, range: OffsetRange, keys: &[Option<u64>]) {
        self.lane.entrust(now, range, keys);
    }

    /// The way back is done at once: every record that the share has not decided is
    /// held by the trunk.
    pub(super) fn read_again(&mut self, now: Time) {
        let next = self.lane.next;
        self.lane.handle_seek(now, SeekOutcome::Done);
        let mut unread = Vec::new();
        self.each_undecided(|range, slot| {
            if matches!(slot.state, State::Unread { .. }) {
                unread.push(range);
            }
        });
        for range in unread {
            // Only lane order reads again, and it has no keys.
            self.lane.entrust(now, range, &[]);
        }
        self.lane.next = self.lane.next.max(next);
    }

    /// Calls `each` with every run that is not settled in the share.
    pub(super) fn each_undecided(&mut self, mut each: impl FnMut(OffsetRange, Slot)) {
        self.lane.each_run_from(Offset::new(0), |_, range, slot| {
            if !matches!(slot.state, State::Settled { .. }) {
                each(range, slot);
            }
        });
    }

    /// What it owes, if anything.
    pub(super) fn debt(&self) -> Option<Debt> {
        let records = self.lane.window.counts().unsettled;
        let all = OffsetRange::new(Offset::new(0), Position::new(u64::MAX))?;
        let (mut first, mut end, mut rest) = (None, None, Some(all));
        while let Some((piece, slot)) = rest.and_then(|rest| self.lane.window.piece(rest)) {
            rest = rest.and_then(|rest| rest.at_or_above(piece.end()));
            if !matches!(slot.state, State::Settled { .. }) {
                first = first.or_else(|| Some(piece.first()));
                end = Some(piece.end());
            }
        }
        let range = OffsetRange::new(first?, end?)?;
        Some(Debt { range, records })
    }

    /// Whether it has not decided on the record at `offset`.
    pub(super) fn owes(&self, offset: Offset) -> bool {
        self.lane
            .window
            .run_at(offset)
            .is_some_and(|(_, slot)| !matches!(slot.state, State::Settled { .. }))
    }

    pub(super) fn is_here(&self) -> bool {
        self.presence == Presence::Here
    }

    /// Whether a verdict is up to the subscriber: records are with it, or would be
    /// if it took them. While all of them wait for their time it is not.
    pub(super) fn could_answer(&self) -> bool {
        self.lane.window.counts().in_flight > 0 || self.lane.window.ready().is_some()
    }

    /// When its lane does something by itself, commits aside.
    pub(super) fn due(&self) -> Option<Time> {
        let drain = match self.lane.phase {
            Phase::Active => None,
            Phase::Draining { deadline } => Some(deadline),
            Phase::Done => return None,
        };
        [self.lane.window.soonest(), self.lane.rewind_due(), drain]
            .into_iter()
            .flatten()
            .min()
    }

    pub(super) fn is_done(&self) -> bool {
        self.lane.phase == Phase::Done
    }
}
