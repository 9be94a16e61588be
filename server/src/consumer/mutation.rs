//! Deliberate bugs, one at a time, that prove that the simulation sees such bugs.
//!
//! Boundary: compiled into tests only; elsewhere every question is answered with no.

use ackgate_lane::{Offset, OffsetRange, Position, Target, Verdict};

#[cfg(test)]
pub(crate) use self::switch::{set, wire_lane};

/// A bug that can be switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code, reason = "tests alone switch them on"))]
pub(crate) enum Mutation {
    /// The highest position seen is committed, whatever is settled below.
    CommitHighestSeen,
    /// A dead letter counts as stored before Kafka has confirmed it.
    SettleBeforeDeadLetter,
    /// A verdict of somebody who no longer has the record is applied.
    AcceptSuperseded,
    /// A lane outlives its revoke.
    KeepLaneOverRevoke,
    /// A released record uses an attempt.
    CountReleased,
    /// Leaving without a word is an ack.
    AckOnLoss,
    /// One record more than granted is out.
    ExceedCredit,
    /// A failed record comes again at once, whatever delay was asked for.
    IgnoreDelay,
    /// A batch goes to every subscriber.
    HandOutTwice,
    /// A failed record never comes again.
    ForgetFailed,
    /// Verdicts that changed nothing are answered as if they had.
    HideProblems,
}

/// Whether the bug is switched on.
#[cfg(not(test))]
pub(super) const fn is_on(_: Mutation) -> bool {
    false
}

/// Whether the bug is switched on.
#[cfg(test)]
pub(super) fn is_on(mutation: Mutation) -> bool {
    switch::is_on(mutation)
}

/// The verdict that is taken for `verdict`.
pub(super) fn verdict(verdict: Verdict) -> Verdict {
    let at_once = Verdict::Failed {
        retry_after: Some(std::time::Duration::ZERO),
    };
    match verdict {
        Verdict::Released if is_on(Mutation::CountReleased) => at_once,
        Verdict::Failed { .. } if is_on(Mutation::IgnoreDelay) => at_once,
        Verdict::Failed { .. } if is_on(Mutation::ForgetFailed) => Verdict::Acked,
        Verdict::Acked | Verdict::Rejected | Verdict::Failed { .. } | Verdict::Released => verdict,
    }
}

/// Whatever anybody may have.
pub(super) fn everything() -> Target {
    let (first, end) = (Offset::new(0), Position::new(1 << 40));
    let range = OffsetRange::new(first, end).unwrap_or_else(|| OffsetRange::one(first));
    Target {
        range,
        delivery: None,
    }
}

/// The position that is committed for `floor`.
pub(super) fn position(floor: Position, seen: Option<Position>) -> Position {
    if is_on(Mutation::CommitHighestSeen) {
        seen.map_or(floor, |seen| seen.max(floor))
    } else {
        floor
    }
}

/// Notes which assignment a lane on the wire is.
pub(super) fn number(number: u64, generation: u64) {
    #[cfg(test)]
    switch::number(number, generation);
    #[cfg(not(test))]
    let _ = (number, generation);
}

#[cfg(test)]
mod switch {
    use std::{
        cell::{Cell, RefCell},
        collections::BTreeMap,
    };

    use super::Mutation;

    thread_local! {
        static ON: Cell<Option<Mutation>> = const { Cell::new(None) };
        /// Assignments by the numbers that subscribers know them by.
        static NUMBERS: RefCell<BTreeMap<u64, u64>> = const { RefCell::new(BTreeMap::new()) };
    }

    /// Switches a bug on for whatever runs on this thread, and forgets all numbers.
    pub(crate) fn set(mutation: Option<Mutation>) {
        ON.set(mutation);
        NUMBERS.with_borrow_mut(BTreeMap::clear);
    }

    pub(super) fn is_on(mutation: Mutation) -> bool {
        ON.get() == Some(mutation)
    }

    pub(super) fn number(number: u64, generation: u64) {
        NUMBERS.with_borrow_mut(|numbers| numbers.insert(number, generation));
    }

    /// The assignment that a lane on the wire is, if there was one; else the number.
    pub(crate) fn wire_lane(number: u64) -> u64 {
        NUMBERS.with_borrow(|numbers| numbers.get(&number).copied().unwrap_or(number))
    }
}
