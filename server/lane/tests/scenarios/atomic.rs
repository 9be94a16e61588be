//! Exactly once: dead letters that travel with commits.

use ackgate_lane::{
    Cause,
    CommitOutcome::{Done, Failed, MetadataTooLarge},
    Confirmed, DeadLetterOutcome, Effect, MAX_MAP_BYTES, MapStart, Policy, Return,
    Verdict::Rejected,
};

use crate::support::{
    A, Bench, FAILED, at, commit, in_lane_order, policy, range, returned, settled,
};

fn exactly_once() -> Policy {
    Policy {
        exactly_once: true,
        ..policy()
    }
}

fn with_maps(policy: Policy, most_bytes: usize) -> Bench {
    let map = MapStart {
        most_bytes,
        ..MapStart::default()
    };
    Bench::with_map(policy, Some(0), true, map)
}

/// A lane of ten records that `A` has, of which it rejects `rejected`.
fn rejecting(policy: Policy, most_bytes: usize, rejected: (u64, u64)) -> Bench {
    let mut bench = with_maps(policy, most_bytes);
    bench
        .fetched(0, 9)
        .deliver(A, 0, 9)
        .applied(A, rejected.0, rejected.1, Rejected);
    bench
}

#[test]
fn l3_a_dead_letter_goes_at_once_with_the_commit_that_settles_its_record() {
    let mut bench = rejecting(exactly_once(), 0, (0, 1));
    assert_eq!(
        bench.effects(),
        [returned(A, 0, 1, Return::Verdict), commit(2)],
        "no tick is waited for, and nothing is written apart"
    );
    assert_eq!(bench.riding(), [0, 1]);
    assert_eq!(bench.letter(0), Some((Cause::Rejected, 1, 1)));
    assert_eq!(bench.floor(), 0, "nothing is settled yet");
    bench.committed(2, Done);
    assert_eq!(bench.effects(), [settled(0, 1)]);
    assert_eq!((bench.floor(), bench.riding().len()), (2, 0));
    assert_eq!(bench.commits_until(60_000), [], "Kafka knows all of it");
}

#[test]
fn l3_a_commit_that_fails_settles_none_of_its_letters() {
    let mut bench = rejecting(exactly_once(), 0, (0, 3));
    bench.quiet().committed(4, Failed);
    assert_eq!((bench.effects(), bench.floor()), (vec![], 0));
    assert_eq!(bench.until(999).effects(), [], "the tick is waited for");
    assert_eq!(bench.until(1000).effects(), [commit(2)]);
    assert_eq!(bench.riding(), [0, 1], "fewer: it may have been too much");
    bench.committed(2, Failed).until(2000).quiet();
    assert_eq!(bench.riding(), [0]);
    bench.committed(1, Done);
    assert_eq!(
        bench.effects(),
        [settled(0, 0), commit(3)],
        "and more again"
    );
    assert_eq!(bench.riding(), [1, 2]);
}

#[test]
fn after_a_failure_what_else_there_is_to_say_does_not_wait_for_the_letters() {
    let mut bench = rejecting(exactly_once(), MAX_MAP_BYTES, (5, 5));
    bench.quiet().committed(0, Failed).ack(A, 0, 2).quiet();
    assert_eq!(bench.until(1000).effects(), [commit(3)]);
    assert_eq!(bench.riding(), []);
    let map = bench.map().expect("a map");
    assert_eq!(map.settled, [], "the letter is not in it");
    bench.committed(3, Done);
    assert_eq!(bench.until(1999).effects(), []);
    assert_eq!(bench.until(2000).effects(), [commit(3)]);
    assert_eq!(bench.riding(), [5]);
    assert_eq!(bench.map().expect("a map").settled, [range(5, 5)]);
}

#[test]
fn with_a_map_letters_above_the_floor_go_at_once_and_without_wait_for_it() {
    let mut bench = rejecting(exactly_once(), MAX_MAP_BYTES, (5, 6));
    assert_eq!(bench.effects().last(), Some(&commit(0)));
    assert_eq!(bench.riding(), [5, 6]);
    let map = bench.map().expect("a map");
    assert_eq!(map.settled, [range(5, 6)]);
    assert_eq!(
        map.counters
            .iter()
            .map(|tried| tried.range)
            .collect::<Vec<_>>(),
        [range(0, 4), range(7, 9)]
    );

    let mut bench = rejecting(exactly_once(), 0, (5, 6));
    assert_eq!(
        bench.until(5000).effects(),
        [returned(A, 5, 6, Return::Verdict)]
    );
    assert_eq!(
        bench.ack(A, 0, 4).until(6000).effects().last(),
        Some(&commit(7))
    );
    assert_eq!(bench.riding(), [5, 6]);
}

/// What a map has no room for is not told to be settled, so its letter must not go.
#[test]
fn l3_letters_that_the_map_has_no_room_for_stay() {
    let mut bench = with_maps(exactly_once(), 100);
    bench.fetched(0, 1999).deliver(A, 0, 1999);
    for offset in (1..1400).step_by(2) {
        bench.ack(A, offset, offset);
    }
    bench.applied(A, 1501, 1501, Rejected);
    bench.applied(A, 2, 2, Rejected);
    bench.applied(A, 4, 4, Rejected);
    assert!(bench.effects().contains(&commit(0)));
    assert_eq!(bench.riding(), []);
    let told = bench.map().expect("a map").settled;
    assert!(told.iter().all(|run| run.last().get() < 1400), "{told:?}");
    bench.committed(0, Done).quiet();
    assert_eq!(bench.riding(), [2, 4], "those that it has room for");
    bench.committed(0, Done);
    assert_eq!(bench.commits_until(5000), [], "L13: nothing spins");
    for even in (0..1500).step_by(2).filter(|even| ![2, 4].contains(even)) {
        bench.ack(A, even, even);
    }
    bench.ack(A, 1401, 1401).until(6000).quiet();
    assert_eq!(bench.riding(), [1501]);
}

/// A commit that covered less would bring the record a second time, and its letter.
#[test]
fn l3_no_later_commit_covers_less_than_letters_that_are_stored() {
    let mut bench = rejecting(exactly_once(), 400, (5, 5));
    bench.committed(0, Done).ack(A, 0, 0).until(1000);
    bench.committed(1, MetadataTooLarge).quiet();
    assert_eq!(bench.commits_until(1500), [], "not the position alone");
    assert_eq!(bench.commits_until(2000), [1]);
    assert_eq!(bench.map().expect("a map").settled, [range(5, 5)]);
}

#[test]
fn metadata_that_is_too_large_stores_no_letter_and_the_position_takes_it_along() {
    let mut bench = rejecting(exactly_once(), 400, (0, 0));
    bench.quiet().committed(1, MetadataTooLarge);
    assert_eq!(
        bench.effects(),
        [Effect::MapRefused { most_bytes: 200 }, commit(1)]
    );
    assert_eq!((bench.map(), bench.riding()), (None, vec![0]));
    bench.committed(1, Done);
    assert_eq!(bench.floor(), 1);
}

#[test]
fn letters_given_up_meanwhile_go_with_the_next_commit() {
    let mut bench = rejecting(exactly_once(), 0, (0, 0));
    bench.quiet().applied(A, 1, 1, Rejected).until(5000);
    assert_eq!(
        bench.effects(),
        [returned(A, 1, 1, Return::Verdict)],
        "one commit at a time"
    );
    bench.committed(1, Done);
    assert_eq!(bench.effects(), [settled(0, 0), commit(2)]);
    assert_eq!(bench.riding(), [1]);
}

#[test]
fn in_lane_order_nothing_new_goes_out_before_the_letter_is_stored() {
    let policy = Policy {
        exactly_once: true,
        ..in_lane_order()
    };
    let mut bench = Bench::new(policy);
    bench
        .fetched(0, 9)
        .deliver(A, 0, 4)
        .ack(A, 1, 1)
        .applied(A, 2, 2, Rejected);
    assert_eq!(bench.riding(), [], "a failure below may still void it");
    bench.applied(A, 0, 0, Rejected);
    assert_eq!(bench.effects().last(), Some(&commit(1)));
    assert_eq!((bench.riding(), bench.ready()), (vec![0], None));
    bench.committed(1, Done);
    assert_eq!(bench.effects(), [settled(0, 1), commit(3)]);
    assert_eq!((bench.riding(), bench.ready()), (vec![2], None));
    bench.committed(3, Done).ack(A, 3, 4);
    assert_eq!(bench.ready_range(), Some((5, 9)));
}

#[test]
fn a_drain_waits_until_it_is_known_whether_kafka_has_the_letters() {
    let mut bench = rejecting(exactly_once(), 0, (0, 0));
    bench.ack(A, 1, 9).quiet().drain(5000);
    assert_eq!(bench.until(4999).effects(), []);
    bench.committed(1, Done);
    assert_eq!(
        bench.effects(),
        [settled(0, 0), commit(10), Effect::Drained]
    );
}

/// A last commit would say that the record is settled, or take that back.
#[test]
fn l3_a_drain_that_ends_before_says_nothing_more() {
    for most_bytes in [0, MAX_MAP_BYTES] {
        let mut bench = rejecting(exactly_once(), most_bytes, (0, 0));
        bench.ack(A, 1, 9).quiet().drain(5000).until(5000);
        assert_eq!(bench.effects(), [Effect::Drained]);
        bench.committed(1, Done);
        assert_eq!(bench.effects(), []);
    }
}

#[test]
fn the_last_commit_of_a_drain_takes_waiting_letters_along() {
    let mut bench = rejecting(exactly_once(), 0, (0, 0));
    bench.quiet().committed(1, Failed).drain(500);
    assert_eq!(bench.effects(), []);
    bench.applied(A, 1, 1, Rejected).until(500);
    assert_eq!(
        bench.effects(),
        [
            returned(A, 1, 1, Return::Verdict),
            returned(A, 2, 9, Return::Drained),
            commit(1),
            Effect::Drained
        ]
    );
    assert_eq!(bench.riding(), [0]);
}

#[test]
fn l12_a_durable_rejection_is_confirmed_by_the_commit_of_its_letter() {
    let mut bench = rejecting(exactly_once(), MAX_MAP_BYTES, (5, 6));
    bench.confirm(1, &[(5, 6)]).quiet();
    bench.committed(0, Failed).until(1000);
    assert_eq!(bench.riding(), [], "the counters first");
    bench.committed(0, Done).until(2000).quiet();
    assert_eq!((bench.confirmed(), bench.riding()), (vec![], vec![5]));
    bench.committed(0, Done);
    assert_eq!((bench.confirmed(), bench.riding()), (vec![], vec![6]));
    bench.committed(0, Done);
    assert_eq!(bench.confirmed(), [(1, Confirmed::Durable)]);

    let mut bench = rejecting(exactly_once(), MAX_MAP_BYTES, (5, 6));
    bench.committed(0, Done).confirm(1, &[(5, 6)]);
    assert_eq!(bench.confirmed(), [(1, Confirmed::Durable)]);
}

/// Its record is being fetched again, or cannot be read.
#[test]
fn a_letter_that_cannot_be_made_now_keeps_no_other_from_going() {
    let mut bench = rejecting(exactly_once(), MAX_MAP_BYTES, (0, 1));
    bench
        .quiet()
        .dead_letter(0, DeadLetterOutcome::Failed)
        .committed(2, Failed);
    assert!(bench.lane.poll_timeout() <= Some(at(1000)));
    let mut told = Vec::new();
    for tick in 1..20 {
        bench.until(tick * 1000).quiet();
        let letters = bench.riding();
        told.extend(letters.iter().copied());
        if bench.floor() == 0 && letters.contains(&0) && told.len() < 3 {
            bench.dead_letter(0, DeadLetterOutcome::Failed);
            for position in 0..3 {
                bench.committed(position, Failed);
            }
        } else {
            for position in 0..3 {
                bench.committed(position, Done);
            }
        }
    }
    assert_eq!(bench.floor(), 2, "{told:?}");
}

#[test]
fn only_a_commit_stores_a_letter() {
    let mut bench = rejecting(exactly_once(), 0, (0, 0));
    bench.quiet().dead_letter(0, DeadLetterOutcome::Stored);
    assert_eq!((bench.effects(), bench.floor()), (vec![], 0));
}

/// Its commit failed, and since then so much has settled below it that the map has no
/// room for it any more: it waits for the floor, so the lane must not wait for it.
#[test]
fn a_letter_that_the_map_no_longer_has_room_for_does_not_stop_the_lane() {
    let mut bench = with_maps(exactly_once(), 100);
    bench
        .fetched(0, 1999)
        .deliver(A, 0, 1999)
        .applied(A, 1501, 1501, Rejected);
    assert_eq!(bench.riding(), [1501]);
    bench.committed(0, Failed);
    for offset in (1..1400).step_by(2) {
        bench.ack(A, offset, offset);
    }
    bench.applied(A, 0, 0, FAILED);
    for tick in 1..10 {
        bench.until(tick * 1000).quiet().committed(0, Done);
    }
    assert_eq!(bench.riding(), [], "there is no room for it");
    assert_eq!(bench.lane.stop(), None);
    assert_eq!(bench.ready_range(), Some((0, 0)));
}

/// The same where it has room, but a commit would cover less than has been promised.
#[test]
fn a_letter_that_no_commit_may_take_along_does_not_stop_the_lane() {
    let mut bench = with_maps(exactly_once(), 100);
    bench
        .fetched(0, 1999)
        .deliver(A, 0, 1999)
        .applied(A, 1501, 1501, Rejected)
        .committed(0, Done)
        .applied(A, 2, 2, Rejected);
    assert_eq!(bench.riding(), [2]);
    bench.committed(0, Failed);
    for offset in (5..1400).step_by(2) {
        bench.ack(A, offset, offset);
    }
    bench.applied(A, 0, 0, FAILED);
    for tick in 1..10 {
        bench.until(tick * 1000).quiet().committed(0, Done);
    }
    assert_eq!(bench.riding(), [], "less would be covered");
    assert_eq!(bench.lane.stop(), None);
    assert_eq!(bench.ready_range(), Some((0, 0)));
}
