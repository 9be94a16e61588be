//! Which bug is switched on, and what is counted meanwhile; of one thread each.
//!
//! Boundary: tests only. Without [`begin`] nothing is on and nothing is counted.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
};

use tokio::time::{Duration, Instant};

use super::Mutation;

/// Turns of all drivers within a second: five times what the busiest of 2,000 seeds needs.
const TURNS: u64 = 2000;

/// Turns within one second of virtual time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turns {
    since: Instant,
    count: u64,
    /// The most there were within a second.
    pub(crate) most: u64,
}

impl Turns {
    /// Whether a driver was ended because it spins.
    pub(crate) const fn is_too_many(&self) -> bool {
        self.most > TURNS
    }
}

thread_local! {
    static ON: Cell<Option<Mutation>> = const { Cell::new(None) };
    static TURNED: Cell<Option<Turns>> = const { Cell::new(None) };
    /// Assignments by the numbers that subscribers know them by.
    static NUMBERS: RefCell<BTreeMap<u64, u64>> = const { RefCell::new(BTreeMap::new()) };
}

fn no_turns() -> Turns {
    Turns {
        since: Instant::now(),
        count: 0,
        most: 0,
    }
}

/// Switches a bug on for whatever runs on this thread, and begins to count.
pub(crate) fn begin(mutation: Option<Mutation>) {
    ON.set(mutation);
    TURNED.set(Some(no_turns()));
    NUMBERS.with_borrow_mut(BTreeMap::clear);
}

/// Switches it off; the turns that drivers made.
pub(crate) fn end() -> Turns {
    ON.set(None);
    NUMBERS.with_borrow_mut(BTreeMap::clear);
    TURNED.take().unwrap_or_else(no_turns)
}

pub(super) fn is_on(mutation: Mutation) -> bool {
    ON.get() == Some(mutation)
}

/// Ends a driver that spins, so that time goes on.
#[allow(clippy::panic, reason = "whoever spins never ends otherwise")]
pub(super) fn turn() {
    let Some(mut turns) = TURNED.get() else {
        return;
    };
    let now = Instant::now();
    if now - turns.since >= Duration::from_secs(1) {
        (turns.since, turns.count) = (now, 0);
    }
    turns.count += 1;
    turns.most = turns.most.max(turns.count);
    let is_spinning = turns.count > TURNS;
    if is_spinning {
        turns.count = 0;
    }
    TURNED.set(Some(turns));
    assert!(!is_spinning, "a driver spins");
}

pub(super) fn number(number: u64, generation: u64) {
    NUMBERS.with_borrow_mut(|numbers| numbers.insert(number, generation));
}

/// The assignment that a lane on the wire is, if there was one; else the number.
pub(crate) fn wire_lane(number: u64) -> u64 {
    NUMBERS.with_borrow(|numbers| numbers.get(&number).copied().unwrap_or(number))
}
