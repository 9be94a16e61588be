//! Subscribers that keep the window full.

use ackgate_lane::{Effect, MapStart, Policy, Window};

use super::support::Bench;
use crate::support::{A, B, FAILED, policy};

fn small() -> Policy {
    Policy {
        window: Window {
            records: 10,
            span: 10,
        },
        max_attempts: 100,
        ..policy()
    }
}

fn cut_off(bench: &mut Bench) -> Vec<Effect> {
    let mut effects = bench.effects();
    effects.retain(|effect| matches!(effect, Effect::CutOff { .. }));
    effects
}

#[test]
fn by_default_the_lane_waits_for_the_slow() {
    let mut bench = Bench::new(small(), &[A, B]);
    bench.fetched(0, 9);
    bench.take(A);
    bench.ack(A, 0, 9).until(3_600_000);
    assert_eq!((cut_off(&mut bench), bench.lane.room()), (vec![], 0));
}

#[test]
fn fc_70_who_keeps_the_window_full_without_a_verdict_is_cut_off_alone() {
    // FC-70
    let mut bench = Bench::sharing(small(), Some(60_000), &[A, B]);
    bench.fetched(0, 8).until(50_000);
    bench.take(A);
    bench.ack(A, 0, 8).until(100_000);
    assert_eq!(cut_off(&mut bench), [], "the window is not full");
    bench.fetched(9, 9);
    bench.take(A);
    bench.ack(A, 9, 9).until(159_999);
    assert_eq!(cut_off(&mut bench), []);
    bench.until(160_000);
    let expected = Effect::CutOff { subscriber: B };
    assert_eq!(cut_off(&mut bench), [expected]);
    assert_eq!(bench.take(B), [], "nothing more is for it");
    bench.lost(B);
    assert_eq!(bench.floor(), 0, "its debts stay");
    bench.joined(B);
    assert_eq!((bench.take(A), bench.take(B)), (vec![], vec![(0, 9, 1)]));
    bench.ack(B, 0, 9);
    assert_eq!(bench.floor(), 10);
}

#[test]
fn a_verdict_of_any_kind_begins_the_time_anew() {
    let mut bench = Bench::sharing(small(), Some(60_000), &[A, B]);
    bench.fetched(0, 9);
    bench.all_take(&[A, B]);
    bench.ack(A, 0, 9).until(20_000);
    bench.applied(B, 9, 9, FAILED).until(79_999);
    assert_eq!(cut_off(&mut bench), []);
    bench.take(B);
    bench.until(80_000);
    assert_eq!(cut_off(&mut bench).len(), 1);
}

#[test]
fn a_subscriber_whose_records_all_wait_for_their_time_is_not_slow() {
    let mut bench = Bench::sharing(small(), Some(1_000), &[A]);
    bench.fetched(0, 9);
    bench.take(A);
    bench.applied(A, 0, 9, crate::support::failed_for(30_000));
    bench.until(29_000);
    assert_eq!(cut_off(&mut bench), []);
}

#[test]
fn a_window_that_is_full_for_want_of_bytes_counts_too() {
    let mut bench = Bench::sharing(small(), Some(1_000), &[A]);
    bench.fetched(0, 0);
    bench.take(A);
    bench.lane.handle_full(bench.now, true);
    bench.until(1_000);
    assert_eq!(cut_off(&mut bench).len(), 1);
}

/// A full map keeps records from everybody as a full window does, though there is room
/// to fetch more.
#[test]
fn who_keeps_the_map_full_without_a_verdict_is_cut_off_too() {
    let map = MapStart {
        most_bytes: 100,
        ..MapStart::default()
    };
    let mut bench = Bench::with_map(policy(), Some(1_000), &[A, B], map);
    bench.fetched(0, 499).all_take(&[A, B]);
    bench.ack(A, 0, 499);
    for offset in (1..500).step_by(2) {
        bench.ack(B, offset, offset);
    }
    assert!(bench.lane.snapshot().map.is_full);
    bench.until(2_000);
    assert_eq!(cut_off(&mut bench), [], "nothing is kept from anybody");
    bench.fetched(500, 509);
    assert!(bench.lane.room() > 0);
    bench.until(2_999);
    assert_eq!(cut_off(&mut bench), []);
    bench.until(3_000);
    assert_eq!(cut_off(&mut bench), [Effect::CutOff { subscriber: B }]);
}

/// What waits for room in the ack map is fanned out once the slow one has answered.
#[test]
fn a_member_is_owed_what_a_full_map_keeps_from_it() {
    let map = MapStart {
        most_bytes: 100,
        ..MapStart::default()
    };
    let mut bench = Bench::with_map(policy(), None, &[A, B], map);
    bench.fetched(0, 499).all_take(&[A, B]);
    bench.ack(A, 0, 499);
    for offset in (1..500).step_by(2) {
        bench.ack(B, offset, offset);
    }
    assert!(bench.lane.snapshot().map.is_full);
    bench.fetched(500, 509);
    assert_eq!(bench.take(A), []);
    assert!(bench.lane.owes(A), "it gets ten more");
    for offset in (0..500).step_by(2) {
        bench.ack(B, offset, offset);
    }
    assert_eq!(bench.take(A), [(500, 509, 1)]);
    bench.ack(A, 500, 509);
    assert!(!bench.lane.owes(A));
}
