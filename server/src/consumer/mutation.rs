//! Deliberate bugs, one at a time, that prove that the simulation sees such bugs; and
//! what it cannot see from outside: the numbers of lanes and of a driver's turns.
//!
//! Boundary: compiled into tests only; elsewhere every question is answered with no.

use ackgate_lane::{
    CommitOutcome, MapStart, Offset, OffsetRange, Order, Policy, Position, Target, Time, Verdict,
};

#[cfg(test)]
mod switch;

#[cfg(test)]
pub(crate) use self::switch::{begin, end, wire_lane};

/// A bug that can be switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code, reason = "tests alone switch them on"))]
pub(crate) enum Mutation {
    /// The highest position seen is committed, whatever is settled below.
    CommitHighestSeen,
    /// A dead letter counts as stored before Kafka has confirmed it.
    SettleBeforeDeadLetter,
    /// A commit goes without the dead letters that belong to it.
    ForgetLetters,
    /// A commit with dead letters counts as failed though Kafka has it.
    DoubtLetters,
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
    /// One subscriber gets more bytes than it granted.
    ExceedBytes,
    /// One record more than a call asks for is brought.
    ExceedDraw,
    /// What a call took whose caller went stays out.
    KeepAbandoned,
    /// What a call brought is given to others at once.
    ReleaseHandedOver,
    /// Whatever order was asked for, there is none.
    LoseOrder,
    /// What is fetched takes no notice of the memory that is left.
    IgnoreMemory,
    /// Memory is never given back.
    LeakMemory,
    /// A verdict is durable before it is committed.
    ConfirmEarly,
    /// What was committed of single records is not read.
    IgnoreMap,
    /// What was committed of single records is believed after the group was reset.
    BelieveOldMap,
    /// What lies between two records that were fetched together is waited for.
    WaitForGaps,
    /// Records are fetched although nobody takes any.
    FetchForNobody,
    /// A driver without subscribers never sleeps.
    Spin,
    /// Now and then the position with which a lane began is committed once more.
    CommitTheStart,
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
#[inline]
pub(crate) const fn is_on(_: Mutation) -> bool {
    false
}

/// Whether the bug is switched on.
#[cfg(test)]
pub(crate) fn is_on(mutation: Mutation) -> bool {
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

/// How a commit went, with or without letters.
pub(super) fn outcome(outcome: CommitOutcome, has_letters: bool) -> CommitOutcome {
    if has_letters && is_on(Mutation::DoubtLetters) {
        CommitOutcome::Failed
    } else {
        outcome
    }
}

/// The position that is committed for `floor`, by the lane that began at `start`.
pub(super) fn position(
    floor: Position,
    serial: u64,
    (start, seen): (Option<Position>, Option<Position>),
) -> Position {
    if is_on(Mutation::CommitHighestSeen) {
        seen.map_or(floor, |seen| seen.max(floor))
    } else if is_on(Mutation::CommitTheStart) && serial.is_multiple_of(3) {
        start.unwrap_or(floor)
    } else {
        floor
    }
}

/// The policy by which a lane goes.
pub(super) fn policy(policy: Policy) -> Policy {
    if is_on(Mutation::LoseOrder) {
        Policy {
            order: Order::None,
            ..policy
        }
    } else {
        policy
    }
}

/// The map with which a lane begins at `start`.
pub(super) fn map(mut map: MapStart, start: Option<Position>) -> MapStart {
    if is_on(Mutation::IgnoreMap) {
        map.restored = None;
    }
    if is_on(Mutation::BelieveOldMap)
        && let (Some(old), Some(start)) = (&mut map.restored, start)
        && old.floor != start
    {
        old.floor = start;
        old.settled.retain(|run| run.first().position() > start);
        old.counters.clear();
    }
    map
}

/// What a lane is told of the records of a chunk, whose runs these are.
pub(super) fn runs(runs: Vec<OffsetRange>) -> Vec<OffsetRange> {
    if is_on(Mutation::WaitForGaps)
        && let [first, .., last] = runs.as_slice()
    {
        OffsetRange::new(first.first(), last.end())
            .into_iter()
            .collect()
    } else {
        runs
    }
}

/// When the driver looks again, with subscribers or without.
pub(super) fn wake(wake: Time, is_alone: bool) -> Time {
    if is_on(Mutation::Spin) && is_alone {
        Time::default()
    } else {
        wake
    }
}

/// Notes a turn of a driver.
#[inline]
pub(super) fn turn() {
    #[cfg(test)]
    switch::turn();
}

/// Notes which assignment a lane on the wire is.
#[inline]
pub(super) fn number(number: u64, generation: u64) {
    #[cfg(test)]
    switch::number(number, generation);
    #[cfg(not(test))]
    let _ = (number, generation);
}
