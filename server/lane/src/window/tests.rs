//! Arithmetic of runs.

use std::time::Duration;

use super::Window;
use crate::{
    Offset, OffsetRange, Position, Subscriber, Time,
    slot::{Outcome, Slot, State},
};

const READY: Slot = Slot::fresh(State::READY);
const SETTLED: Slot = Slot::settled(Outcome::Acked);

fn range(first: u64, end: u64) -> OffsetRange {
    OffsetRange::new(Offset::new(first), Position::new(end)).expect("not empty")
}

fn out(subscriber: u64, deadline: u64) -> Slot {
    Slot::fresh(State::Out {
        subscriber: Subscriber(subscriber),
        sent: Time::default(),
        deadline: Time(Duration::from_secs(deadline)),
    })
}

fn runs(window: &Window) -> Vec<(u64, u64)> {
    assert_eq!(window.fault(), None);
    window
        .runs
        .iter()
        .map(|(&first, run)| (first, run.end))
        .collect()
}

#[test]
fn equal_neighbours_are_one_run() {
    let mut window = Window::default();
    window.set(range(0, 10), READY);
    window.set(range(20, 30), READY);
    assert_eq!(runs(&window), [(0, 10), (20, 30)]);
    window.set(range(10, 20), READY);
    assert_eq!(runs(&window), [(0, 30)]);
}

#[test]
fn a_change_in_the_middle_splits_and_changing_back_merges() {
    let mut window = Window::default();
    window.set(range(0, 10), READY);
    window.set(range(4, 6), SETTLED);
    assert_eq!(runs(&window), [(0, 4), (4, 6), (6, 10)]);
    assert_eq!(window.counts().unsettled, 8);
    window.set(range(4, 6), READY);
    assert_eq!(runs(&window), [(0, 10)]);
    assert_eq!(window.counts().unsettled, 10);
}

#[test]
fn removing_cuts_every_run_it_touches() {
    let mut window = Window::default();
    window.set(range(0, 5), READY);
    window.set(range(5, 8), SETTLED);
    window.set(range(9, 12), out(1, 1));
    window.remove(range(3, 10));
    assert_eq!(runs(&window), [(0, 3), (10, 12)]);
    assert_eq!(window.counts().in_flight, 2);
}

#[test]
fn a_piece_is_clipped_and_passes_over_gaps() {
    let mut window = Window::default();
    window.set(range(10, 20), READY);
    assert_eq!(window.piece(range(0, 10)), None);
    assert_eq!(window.piece(range(0, 15)), Some((range(10, 15), READY)));
    assert_eq!(window.piece(range(15, 40)), Some((range(15, 20), READY)));
    assert_eq!(window.piece(range(20, 40)), None);
}

#[test]
fn the_lowest_ready_run_and_the_soonest_deadline_are_found() {
    let mut window = Window::default();
    window.set(range(0, 5), out(1, 9));
    window.set(range(5, 8), out(2, 3));
    window.set(range(8, 9), READY);
    assert_eq!(window.ready(), Some((range(8, 9), READY)));
    assert_eq!(window.soonest(), Some(Time(Duration::from_secs(3))));
    assert_eq!(window.due(Time(Duration::from_secs(2))), None);
    assert_eq!(
        window.due(Time(Duration::from_secs(3))),
        Some((range(5, 8), out(2, 3)))
    );
    window.set(range(5, 8), READY);
    assert_eq!(window.ready(), Some((range(5, 9), READY)));
    assert_eq!(window.soonest(), Some(Time(Duration::from_secs(9))));
    assert!(window.holds(Subscriber(1)));
    assert!(!window.holds(Subscriber(2)));
}
