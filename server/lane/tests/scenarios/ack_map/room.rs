//! Maps that are as full as they may be, and brokers that take less.

use ackgate_lane::{CommitOutcome, Effect, Order, Policy, Verdict};

use super::with_room;
use crate::support::{A, B, commit, policy};

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
