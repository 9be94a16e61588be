//! The numbered rules, and a check of a lane against those that its state can break.
//!
//! **Boundary**: rules that need more than one lane or the passing of time are named
//! here and checked where they are kept; tests cite them by id.

use std::fmt;

use crate::{Lane, Order, lane::Phase, rewind::Rewind, slot::State};

/// One rule that holds whatever arrives in whatever order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What code, tests and documents call it.
    pub id: &'static str,
    /// What it says.
    pub text: &'static str,
}

/// A rule that a lane breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// What breaks it.
    pub what: &'static str,
}

macro_rules! rules {
    ($($id:ident $text:literal)*) => {
        $(
            #[doc = $text]
            pub const $id: Rule = Rule { id: stringify!($id), text: $text };
        )*

        /// All rules in order.
        pub const ALL: &[Rule] = &[$($id),*];
    };
}

rules! {
    L1 "The committed position never goes back within one epoch."
    L2 "The committed position never passes an unsettled record, whatever batches, seeks or late \
        verdicts arrive in between."
    L3 "A rejected or exhausted record settles only after Kafka confirmed its dead letter. If that \
        write fails, the lane holds."
    L4 "A verdict from an older generation, epoch or superseded delivery changes nothing, and the \
        subscriber is told so."
    L5 "A record settles once; the first terminal verdict wins, an equal repeat is confirmed as a \
        duplicate, a different one is a conflict."
    L6 "Leaving without a verdict (crash, cancel, disconnect, half-close, timeout) is never an ack."
    L7 "Only offsets that were received are waited for. Gaps need no verdict; a held record that \
        has vanished is released and reported."
    L8 "In flight never exceeds the credit a subscriber granted nor the lane's limits; delayed \
        retries do not use credit."
    L9 "With order = key no later record of a key is out while an earlier one is unsettled; with \
        order = lane the same for the lane, where batches go out whole and a failure voids what is \
        out above it."
    L10 "A record is never delivered again before its verdict, expiry or loss, nor before its \
        not-before time."
    L11 "After a reset no verdict of the old epoch is applied, and the first delivery is the first \
        visible record at or after the target."
    L12 "A confirmation marked durable survives killing everything."
    L13 "With no eligible subscriber nothing is fetched and nothing spins."
    L14 "One slow, stuck or hostile subscriber never makes a healthy one receive again what it has \
        acked, and never grows memory past the configured budget."
}

/// Checks what the state alone can show; costs a walk over the window.
///
/// # Errors
///
/// The first rule that is broken, and how.
pub fn check(lane: &Lane) -> Result<(), Violation> {
    let broken = |rule, what| Err(Violation { rule, what });
    if let Some(what) = lane.window.fault() {
        return broken(L2, what);
    }
    let floor = lane.floor();
    let told = lane.floor_beyond(lane.letters.riding());
    // What went with the last commit settles nowhere any more.
    let known = if lane.phase == Phase::Done {
        told
    } else {
        floor
    };
    if lane.commits.confirmed() > known || lane.commits.asked() > told {
        return broken(L2, "a position above the floor is committed or asked for");
    }
    if let Some((front, slot)) = lane.window.front()
        && matches!(slot.state, State::Settled { .. })
        && Some(front.first().position()) < lane.next
    {
        return broken(L7, "the floor waits for a settled record");
    }
    let counts = lane.window.counts();
    if lane.phase == Phase::Done && counts.in_flight > 0 {
        return broken(L8, "a record is out after the drain has ended");
    }
    if lane.phase == Phase::Done {
        return Ok(());
    }
    if let Some(what) = lane.key_fault() {
        return broken(L9, what);
    }
    match lane.policy.order {
        Order::None | Order::Key { .. } if lane.rewind != Rewind::None || lane.reads_again() => {
            broken(L14, "one record's failure makes others be read again")
        }
        Order::Lane { .. } if counts.delayed > 0 => {
            broken(L9, "a failed record waits while the lane goes on")
        }
        Order::Lane { .. } if lane.rewind != Rewind::None && lane.window.has_ready() => {
            broken(L9, "a record may go out before the failed one")
        }
        Order::None | Order::Key { .. } | Order::Lane { .. } => Ok(()),
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.rule.id, self.what, self.rule.text)
    }
}

impl std::error::Error for Violation {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_l1_to_l14_in_order() {
        let ids: Vec<_> = ALL.iter().map(|rule| rule.id.to_owned()).collect();
        assert_eq!(ids, (1..=14).map(|n| format!("L{n}")).collect::<Vec<_>>());
    }
}
