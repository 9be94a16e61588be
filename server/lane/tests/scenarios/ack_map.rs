//! The ack map: what travels with the position, and what a lane makes of it.

use ackgate_lane::{
    AckMap, CommitOutcome, Confirmed, Counters, DeadLetterOutcome, Doubt, Effect, Epoch,
    MAX_MAP_BYTES, MapStart, Order, Policy, Position, Return, SeekOutcome, Verdict,
};

use crate::support::{
    A, B, Bench, FAILED, commit, failed_for, in_lane_order, policy, range, returned, settled,
};

fn writing(policy: Policy) -> Bench {
    with_room(policy, MAX_MAP_BYTES)
}

fn with_room(policy: Policy, most_bytes: usize) -> Bench {
    let map = MapStart {
        most_bytes,
        ..MapStart::default()
    };
    Bench::with_map(policy, Some(0), true, map)
}

fn restored(policy: Policy, position: u64, map: AckMap) -> Bench {
    let map = MapStart {
        most_bytes: MAX_MAP_BYTES,
        restored: Some(map),
        ..MapStart::default()
    };
    Bench::with_map(policy, Some(position), true, map)
}

fn map(floor: u64, settled: &[(u64, u64)]) -> AckMap {
    AckMap {
        settled: settled.iter().map(|run| range(run.0, run.1)).collect(),
        ..AckMap::empty(Position::new(floor), Epoch(3), 0)
    }
}

fn tried(first: u64, last: u64, attempts: u32, deliveries: u32) -> Counters {
    Counters {
        range: range(first, last),
        attempts,
        deliveries,
        lost: 0,
        voided: 0,
    }
}

#[test]
fn what_is_settled_above_the_floor_is_committed_at_the_next_tick_at_the_same_position() {
    let mut bench = writing(policy());
    bench
        .fetched(0, 9)
        .deliver(A, 0, 9)
        .ack(A, 2, 3)
        .ack(A, 5, 5);
    assert_eq!(bench.commits_until(999), []);
    assert_eq!(bench.commits_until(1000), [0]);
    let map = bench.map().expect("a map");
    assert_eq!(map.settled, [range(2, 3), range(5, 5)]);
    assert_eq!(
        map.counters,
        [tried(0, 1, 0, 1), tried(4, 4, 0, 1), tried(6, 9, 0, 1)]
    );
    assert_eq!(bench.commits_until(60_000 - 31_000), [], "never unchanged");
}

#[test]
fn a_failure_is_committed_although_nothing_has_settled_and_a_hand_over_alone_is_not() {
    let mut bench = writing(policy());
    bench.fetched(0, 9).deliver(A, 0, 9);
    assert_eq!(bench.commits_until(5000), []);
    bench.applied(A, 4, 4, failed_for(9000));
    assert_eq!(bench.commits_until(6000), [0]);
    let map = bench.map().expect("a map");
    assert!(map.counters.contains(&tried(4, 4, 1, 1)), "{map:?}");
}

/// FC-78: commits are coalesced, maps included.
#[test]
fn at_most_one_commit_an_interval_whatever_settles() {
    let mut bench = writing(policy());
    let mut commits = 0;
    for step in 0..500_u64 {
        let first = step * 20;
        bench
            .fetched(first, first + 19)
            .deliver(A, first, first + 19);
        bench
            .ack(A, first + 10, first + 19)
            .ack(A, first, first + 9);
        commits += bench.commits_until(step * 10).len();
    }
    commits += bench.commits_until(6000).len();
    assert!(commits <= 6, "{commits} commits in 5 s");
    assert_eq!(bench.lane.snapshot().committed, Some(Position::new(10_000)));
}

/// FC-10: the series never goes back, and a late lower answer changes nothing.
#[test]
fn l1_the_committed_series_never_decreases_while_a_dead_letter_is_awaited() {
    let mut bench = writing(policy());
    bench.fetched(5, 7).deliver(A, 5, 7);
    bench.applied(A, 5, 5, Verdict::Rejected).ack(A, 6, 7);
    assert_eq!(bench.commits_until(2000), [5], "for its map alone");
    bench.dead_letter(5, DeadLetterOutcome::Stored);
    assert_eq!(bench.commits_until(4000), [8]);
    bench.committed(5, CommitOutcome::Done);
    assert_eq!(bench.lane.snapshot().committed, Some(Position::new(8)));
}

#[test]
fn restored_records_that_are_settled_are_skipped_and_the_others_go_on_counting() {
    let mut of = map(10, &[(12, 13), (15, 15)]);
    of.counters = vec![tried(10, 11, 4, 6), tried(14, 14, 0, 1)];
    let mut bench = restored(policy(), 10, of);
    assert_eq!((bench.floor(), bench.lane.epoch()), (10, Epoch(3)));
    bench.fetched(10, 17);
    let skipped = |first, last| Effect::Skipped {
        range: range(first, last),
    };
    assert_eq!(bench.effects(), [skipped(12, 13), skipped(15, 15)]);
    let ready = bench.ready().expect("something is ready");
    assert_eq!(
        (ready.range, ready.attempt, ready.delivery),
        (range(10, 11), 5, 7)
    );
    // FC-34: one more failure uses up the five attempts.
    bench
        .deliver(A, 10, 11)
        .ack(A, 11, 11)
        .applied(A, 10, 10, FAILED);
    assert!(bench.effects().iter().any(|effect| matches!(
        effect,
        Effect::DeadLetter {
            attempts: 5,
            deliveries: 7,
            ..
        }
    )));
    bench.dead_letter(10, DeadLetterOutcome::Stored);
    assert_eq!(bench.floor(), 14);
    bench.deliver(A, 14, 17).ack(A, 14, 14).ack(A, 16, 17);
    assert_eq!(bench.floor(), 18);
}

#[test]
fn attempts_used_up_before_the_restart_lead_to_the_dead_letter_at_once() {
    let mut of = map(10, &[]);
    of.counters = vec![tried(10, 10, 5, 5)];
    let mut bench = restored(policy(), 10, of);
    bench.fetched(10, 11);
    assert!(matches!(bench.effects()[..], [Effect::DeadLetter { .. }]));
    assert_eq!(bench.ready_range(), Some((11, 11)));
}

/// L7: what a map speaks of may have left the log meanwhile.
#[test]
fn restored_records_that_are_gone_are_reported_if_they_were_unsettled_and_hold_nothing() {
    let mut of = map(10, &[(12, 13), (16, 18)]);
    of.counters = vec![tried(11, 11, 1, 1), tried(14, 15, 1, 1)];
    let mut bench = restored(policy(), 10, of);
    bench.fetched(15, 15);
    let lost = |first, last| Effect::Lost {
        range: range(first, last),
    };
    assert_eq!(
        bench.effects(),
        [lost(11, 11), lost(14, 14), settled(11, 11), settled(14, 14)]
    );
    bench.fetched(20, 20).deliver(A, 15, 20);
    bench.ack(A, 15, 15).ack(A, 20, 20);
    assert_eq!(bench.floor(), 21);
    assert_eq!(bench.commits_until(1000), [21]);
}

#[test]
fn a_map_of_another_position_is_not_used_and_begins_another_epoch() {
    let mut bench = restored(policy(), 11, map(10, &[(12, 13)]));
    let doubt = bench.lane.snapshot().map.doubt;
    assert_eq!(
        doubt,
        Some(Doubt::Floor {
            found: Position::new(10)
        })
    );
    assert_eq!(bench.lane.epoch(), Epoch(4), "it never goes down");
    bench.fetched(11, 14);
    assert_eq!(bench.ready_range(), Some((11, 14)));
}

/// Retention took what was unsettled below; without a commit the group would show lag
/// until something new came.
#[test]
fn l7_the_floor_passes_restored_records_above_what_is_gone_and_is_committed() {
    let mut bench = restored(policy(), 5, map(5, &[(6, 7), (36, 38)]));
    bench.fetched(36, 38);
    assert_eq!(bench.floor(), 39);
    assert_eq!(bench.commits_until(2000), [39]);
}

#[test]
fn what_was_restored_is_in_the_next_map_and_is_not_committed_again_by_itself() {
    let mut bench = restored(policy(), 10, map(10, &[(12, 13)]));
    bench.fetched(10, 19);
    assert_eq!(bench.quiet().commits_until(5000), []);
    bench.deliver(A, 10, 19).ack(A, 15, 15);
    assert_eq!(bench.commits_until(6000), [10]);
    assert_eq!(
        bench.map().expect("a map").settled,
        [range(12, 13), range(15, 15)]
    );
}

#[test]
fn in_lane_order_provisional_acks_are_not_in_the_map() {
    let mut bench = writing(in_lane_order());
    bench
        .fetched(0, 9)
        .deliver(A, 0, 9)
        .ack(A, 0, 0)
        .ack(A, 4, 9);
    assert_eq!(bench.commits_until(1000), [1]);
    assert_eq!(bench.map().expect("a map").settled, []);
    bench
        .applied(A, 1, 1, failed_for(100))
        .until(1100)
        .sought(SeekOutcome::Done);
    bench.quiet().fetched(1, 9);
    assert_eq!(
        bench.ready_range(),
        Some((1, 1)),
        "the failed one has other numbers"
    );
}

#[test]
fn near_its_bound_only_older_records_go_out() {
    let mut bench = with_room(policy(), 100);
    bench.fetched(0, 1999).deliver(A, 0, 999);
    let mut offset = 1;
    while !bench.lane.snapshot().map.is_full {
        assert_eq!(bench.ready_range(), Some((1000, 1999)));
        bench.ack(A, offset, offset);
        offset += 2;
    }
    assert!(offset > 20, "{offset}");
    assert_eq!(bench.ready_range(), None, "nothing new");
    bench.applied(A, 500, 500, Verdict::Released);
    assert_eq!(
        bench.ready_range(),
        Some((500, 500)),
        "but what was out before"
    );
    bench.deliver(B, 500, 500);
    let map = bench.commits_until(1000);
    assert_eq!(map, [0]);
    let written = bench.map().expect("a map").settled.len() as u64;
    assert_eq!(written, offset / 2, "everything settled is in the map");
    // The way on: the old ones settle.
    for even in (0..offset).step_by(2) {
        bench.ack(A, even, even);
    }
    assert_eq!(bench.ready_range(), Some((1000, 1999)));
}

#[test]
fn a_refused_size_commits_the_position_alone_and_halves_the_room() {
    let mut bench = with_room(policy(), 1000);
    bench.fetched(0, 99).deliver(A, 0, 99).ack(A, 0, 0);
    (2..99).step_by(2).for_each(|offset| {
        bench.ack(A, offset, offset);
    });
    bench.quiet();
    assert_eq!(bench.until(1000).effects(), [commit(1)]);
    bench.committed(1, CommitOutcome::MetadataTooLarge);
    let refused = Effect::MapRefused { most_bytes: 500 };
    assert_eq!(bench.effects(), [refused, commit(1)], "at once");
    assert_eq!(bench.map(), None);
    bench.committed(1, CommitOutcome::Done);
    bench.ack(A, 1, 1);
    assert_eq!(bench.commits_until(2000), [3]);
    assert!(bench.map().is_some(), "the smaller one is tried");
    assert_eq!(bench.lane.snapshot().map.most_bytes, 500);
}

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

/// What settles by policy fills the map without having been handed out: the oldest
/// unsettled record, not handed out either, is the way on.
#[test]
fn a_map_that_filtered_records_fill_does_not_stop_the_lane() {
    let mut bench = with_room(policy(), 100);
    for offset in (0..1000).step_by(2) {
        bench.fetched(offset, offset);
        bench.filtered(offset + 1, offset + 1);
    }
    assert!(bench.lane.snapshot().map.is_full);
    while let Some((first, last)) = bench.ready_range() {
        bench.deliver(A, first, last).ack(A, first, last);
    }
    assert_eq!(bench.floor(), 1000);
}

#[test]
fn a_full_map_does_not_stop_a_key_whose_record_was_not_handed_out() {
    let by_key = Policy {
        order: Order::Key { share: 250 },
        ..policy()
    };
    let mut bench = with_room(by_key, 100);
    for offset in (0..1000).step_by(2) {
        bench.keyed(offset, &[Some(offset % 6)]);
        bench.filtered(offset + 1, offset + 1);
    }
    assert!(bench.lane.snapshot().map.is_full);
    while let Some(ready) = bench.lane.ready_for(A) {
        let (first, last) = (ready.range.first().get(), ready.range.last().get());
        bench.hand(A, first, last).ack(A, first, last);
    }
    assert_eq!(bench.floor(), 1000);
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
