//! Waits for what a commit covers.

use ackgate_lane::{CommitOutcome, Confirmed, Effect, MapStart, Return};

use super::{map, with_room, writing};
use crate::support::{
    A, Bench, DEADLINE, at, commit, failed_for, in_lane_order, policy, range, returned,
};

/// L12: the position alone would take the place of a map that was confirmed.
#[test]
fn l12_a_commit_that_covers_less_than_was_confirmed_waits() {
    let mut bench = with_room(policy(), 400);
    bench
        .fetched(0, 99)
        .deliver(A, 0, 99)
        .ack(A, 50, 59)
        .confirm(7, &[(50, 59)]);
    assert_eq!(
        bench.effects().last(),
        Some(&commit(0)),
        "without waiting for the tick"
    );
    assert_eq!(bench.confirmed(), []);
    bench.committed(0, CommitOutcome::Done);
    assert_eq!(bench.confirmed(), [(7, Confirmed::Durable)]);
    bench.ack(A, 0, 0).until(1000);
    bench.committed(1, CommitOutcome::MetadataTooLarge).quiet();
    assert_eq!(bench.commits_until(1500), [], "not the position alone");
    assert_eq!(bench.commits_until(2000), [1]);
    assert_eq!(bench.map().expect("a map").settled, [range(50, 59)]);
}

/// L12: what Kafka has covered everything when it was committed, and a map that says
/// more is refused.
#[test]
fn l12_nothing_is_confirmed_by_an_older_commit_when_maps_end() {
    let mut bench = with_room(policy(), 100);
    bench.fetched(0, 0).deliver(A, 0, 0).ack(A, 0, 0);
    assert_eq!(bench.commits_until(1000), [1]);
    bench
        .fetched(1, 9)
        .deliver(A, 1, 9)
        .ack(A, 5, 5)
        .confirm(7, &[(5, 5)]);
    bench.committed(1, CommitOutcome::MetadataTooLarge);
    assert!(
        bench
            .effects()
            .contains(&Effect::MapRefused { most_bytes: 0 })
    );
    bench.until(5000);
    assert_eq!(bench.confirmed(), [], "only the floor can tell it now");
    bench.ack(A, 1, 4);
    assert_eq!(bench.commits_until(6000), [6]);
    assert_eq!(bench.confirmed(), [(7, Confirmed::Durable)]);
}

/// L12: the map that Kafka has reaches beyond what settled after it.
#[test]
fn l12_a_map_from_before_maps_ended_confirms_nothing_later() {
    let mut bench = with_room(policy(), 100);
    bench
        .fetched(0, 9)
        .deliver(A, 0, 9)
        .ack(A, 0, 0)
        .ack(A, 9, 9);
    assert_eq!(bench.commits_until(1000), [1]);
    bench.ack(A, 5, 5).confirm(7, &[(5, 5)]);
    bench
        .committed(1, CommitOutcome::MetadataTooLarge)
        .until(9000)
        .quiet();
    assert_eq!(bench.confirmed(), [], "only the floor can tell it now");
    bench.ack(A, 1, 4);
    assert_eq!(bench.commits_until(10_000), [6]);
    assert_eq!(bench.confirmed(), [(7, Confirmed::Durable)]);
}

/// What the position tells needs no map: a lane without maps waits for nothing else.
#[test]
fn a_repeat_of_what_was_committed_is_confirmed_when_maps_have_ended() {
    let mut bench = with_room(policy(), 100);
    bench.fetched(0, 9).deliver(A, 0, 9).ack(A, 0, 0);
    assert_eq!(bench.commits_until(1000), [1]);
    bench.ack(A, 5, 5).until(2000);
    bench.committed(1, CommitOutcome::MetadataTooLarge).quiet();
    bench.confirm(7, &[(0, 0)]).confirm(8, &[(5, 5)]);
    assert_eq!(bench.commits_until(9000), []);
    assert_eq!(bench.confirmed(), [(7, Confirmed::Durable)]);
    let awaited = bench.lane.poll_timeout();
    assert_eq!(
        awaited,
        Some(at(DEADLINE)),
        "a verdict, and no tick for nothing"
    );
}

#[test]
fn the_last_commit_of_a_drain_carries_the_map_and_ends_waits_after_it() {
    let mut bench = writing(policy());
    bench.fetched(0, 9).deliver(A, 0, 9).ack(A, 4, 6).quiet();
    bench.drain(0);
    assert_eq!(
        bench.effects(),
        [
            returned(A, 0, 3, Return::Drained),
            returned(A, 7, 9, Return::Drained),
            commit(0),
            Effect::Drained
        ]
    );
    assert_eq!(bench.map().expect("a map").settled, [range(4, 6)]);

    let mut bench = writing(policy());
    bench
        .fetched(0, 9)
        .deliver(A, 0, 9)
        .ack(A, 4, 6)
        .confirm(1, &[(4, 6)]);
    bench.drain(0).committed(0, CommitOutcome::Done);
    assert_eq!(bench.confirmed(), [(1, Confirmed::Durable)]);
}

#[test]
fn a_wait_ends_once_all_of_it_is_settled_and_void_parts_are_told() {
    let mut bench = writing(in_lane_order());
    bench.fetched(0, 9).deliver(A, 0, 9);
    bench
        .ack(A, 0, 1)
        .ack(A, 5, 9)
        .confirm(1, &[(0, 1), (5, 9)]);
    assert_eq!(bench.commits_until(1000), [2]);
    assert_eq!(bench.confirmed(), [], "5 to 9 are provisional");
    bench.applied(A, 2, 2, failed_for(100));
    assert_eq!(
        bench.confirmed(),
        [(1, Confirmed::Void { range: range(5, 9) })]
    );
    bench.commits_until(1001);
    assert_eq!(
        bench.confirmed(),
        [(1, Confirmed::Durable)],
        "what is left is durable"
    );
}

/// L12: what was left out of a map for want of room is not confirmed with it.
#[test]
fn l12_what_did_not_fit_into_the_map_waits_for_the_floor() {
    let mut bench = with_room(policy(), 100);
    bench.fetched(0, 1999).deliver(A, 0, 1999);
    (1..1999).step_by(3).for_each(|offset| {
        bench.ack(A, offset, offset);
    });
    bench.confirm(1, &[(1, 1)]).confirm(2, &[(1996, 1996)]);
    assert_eq!(bench.effects().last(), Some(&commit(0)));
    bench.committed(0, CommitOutcome::Done);
    assert_eq!(bench.confirmed(), [(1, Confirmed::Durable)]);
    for first in (0..1999).step_by(3) {
        let last = (first + 2).min(1999);
        bench.ack(A, first, first);
        if last > first + 1 {
            bench.ack(A, last, last);
        }
    }
    bench.commits_until(1000);
    bench.commits_until(2000);
    assert_eq!(bench.confirmed(), [(2, Confirmed::Durable)]);
}

/// L12: the verdict that ends a drain is covered by the drain's last commit.
#[test]
fn l12_the_last_verdict_of_a_drain_is_confirmed_by_its_last_commit() {
    let mut bench = writing(policy());
    bench.fetched(0, 1).deliver(A, 0, 1).drain(5000);
    bench.ack(A, 0, 1).confirm(1, &[(0, 1)]);
    assert_eq!(bench.effects().last(), Some(&Effect::Drained));
    assert_eq!(bench.confirmed(), []);
    bench.committed(2, CommitOutcome::Done);
    assert_eq!(bench.confirmed(), [(1, Confirmed::Durable)]);

    let mut bench = writing(policy());
    bench.fetched(0, 1).deliver(A, 0, 1).drain(5000);
    bench.ack(A, 0, 1).confirm(1, &[(0, 1)]);
    bench.committed(2, CommitOutcome::Failed);
    assert_eq!(bench.confirmed(), [], "Kafka does not have it");
}

/// L12: a map of an earlier assignment says nothing about what settles in this one.
#[test]
fn l12_with_maps_turned_off_only_the_position_confirms() {
    let off = MapStart {
        restored: Some(map(10, &[(15, 15)])),
        ..MapStart::default()
    };
    let mut bench = Bench::with_map(policy(), Some(10), true, off);
    bench.fetched(10, 19).hand(A, 10, 14).ack(A, 12, 12);
    bench.confirm(1, &[(12, 12)]);
    assert_eq!(bench.commits_until(1000), []);
    assert_eq!(bench.confirmed(), [], "no commit covers it");
    bench
        .hand(A, 16, 19)
        .ack(A, 10, 11)
        .ack(A, 13, 14)
        .ack(A, 16, 19);
    assert_eq!(bench.commits_until(2000), [20]);
    assert_eq!(bench.confirmed(), [(1, Confirmed::Durable)]);
}
