//! Lane order: a failure voids what is above it and the lane seeks back.

use ackgate_lane::{
    Cause,
    DeadLetterOutcome::Stored,
    Effect, Hold, Offset, Policy, Return,
    SeekOutcome::{Done, Failed},
    Verdict::{Acked, Rejected, Released},
    VerdictResult::{Applied, Duplicate, Stale},
};

use crate::support::{
    A, B, Bench, DEADLINE, FAILED, at, failed_for, in_lane_order, range, returned, seek, settled,
};

#[test]
fn a_failure_voids_what_is_above_it_holds_the_lane_and_seeks_back_after_the_backoff() {
    let mut bench = Bench::new(in_lane_order());
    bench
        .fetched(0, 9)
        .deliver(A, 0, 4)
        .dispatch(A, 5, 6)
        .ack(A, 0, 1);
    assert_eq!(
        bench.effects(),
        [returned(A, 0, 1, Return::Verdict), settled(0, 1)]
    );
    bench.applied(A, 2, 2, failed_for(5000));
    assert_eq!(
        bench.effects(),
        [
            returned(A, 2, 2, Return::Verdict),
            returned(A, 3, 6, Return::Rewound)
        ]
    );
    assert_eq!((bench.ready(), bench.lane.room()), (None, 0));
    let hold = Hold::Backoff {
        offset: Offset::new(2),
        until: at(5000),
    };
    assert_eq!(bench.lane.snapshot().hold, Some(hold));
    assert_eq!(bench.commits_until(4999), [2]);
    assert_eq!(bench.until(5000).effects(), [seek(2)]);
    assert_eq!(bench.lane.snapshot().hold, Some(Hold::Seeking));
    bench.sought(Done).fetched(2, 9);
    let ready = bench.ready().expect("ready");
    assert_eq!(
        (ready.range, ready.attempt, ready.delivery),
        (range(2, 2), 2, 2)
    );
    bench.deliver(A, 2, 9).ack(A, 2, 9);
    assert_eq!(bench.floor(), 10);
}

/// L4: acks for the voided tail and for the re-read arrive together; the floor still lifts.
#[test]
fn l4_verdicts_from_before_a_seek_neither_clear_the_floor_nor_freeze_it() {
    let mut bench = Bench::new(in_lane_order());
    bench.fetched(0, 9).deliver(A, 0, 9).until(DEADLINE - 1);
    bench.applied(A, 0, 0, FAILED);
    assert_eq!(bench.verdict(A, (1, 9), None, Acked), [(1, 9, Stale)]);
    bench.until(DEADLINE + 5000).sought(Done);
    assert_eq!(bench.verdict(A, (0, 9), None, Acked), [(0, 9, Stale)]);
    bench.fetched(0, 9).deliver(A, 0, 9);
    assert_eq!(bench.verdict(A, (1, 9), Some(1), Acked), [(1, 9, Stale)]);
    assert_eq!(bench.floor(), 0);
    assert_eq!(bench.verdict(A, (0, 9), Some(2), Acked), [(0, 9, Applied)]);
    assert_eq!((bench.floor(), bench.lane.snapshot().hold), (10, None));
}

#[test]
fn l7_a_held_record_that_has_vanished_is_released_and_reported() {
    let mut bench = Bench::new(in_lane_order());
    bench
        .fetched(0, 9)
        .deliver(A, 0, 9)
        .ack(A, 0, 1)
        .applied(A, 2, 2, FAILED);
    bench.until(5000).sought(Done).quiet().fetched(5, 9);
    assert_eq!(
        bench.effects(),
        [Effect::Lost { range: range(2, 4) }, settled(2, 4)]
    );
    assert_eq!((bench.floor(), bench.ready_range()), (5, Some((5, 9))));
}

#[test]
fn after_a_seek_the_next_delivery_is_the_floor() {
    let mut bench = Bench::new(in_lane_order());
    bench
        .fetched(3, 59)
        .deliver(A, 3, 49)
        .applied(A, 3, 3, failed_for(10))
        .until(10);
    bench.fetched(60, 69).sought(Done);
    assert_eq!(
        (
            bench.ready(),
            bench.lane.snapshot().next.map(|next| next.get())
        ),
        (None, Some(3))
    );
    bench.fetched(3, 20);
    assert_eq!(bench.ready_range(), Some((3, 3)));
    bench.deliver(A, 3, 3);
    assert_eq!(bench.ready_range(), Some((4, 20)));
}

#[test]
fn acks_above_an_unsettled_record_are_provisional_and_a_failure_below_voids_them() {
    let mut bench = Bench::new(in_lane_order());
    bench.fetched(0, 4).deliver(A, 0, 4).ack(A, 2, 3);
    assert_eq!(bench.effects(), [returned(A, 2, 3, Return::Verdict)]);
    assert_eq!(bench.result(A, 2, Acked), Duplicate);
    bench
        .applied(A, 0, 0, failed_for(0))
        .until(1)
        .sought(Done)
        .fetched(0, 4);
    assert_eq!(bench.effects().last(), Some(&seek(0)));
    bench.deliver(A, 0, 4).ack(A, 1, 4).quiet().ack(A, 0, 0);
    assert_eq!(
        bench.effects(),
        [returned(A, 0, 0, Return::Verdict), settled(0, 4)]
    );
}

#[test]
fn l9_only_the_owner_may_take_records_while_it_has_some() {
    let mut bench = Bench::new(in_lane_order());
    bench.fetched(0, 9);
    assert_eq!(bench.ready().and_then(|ready| ready.owner), None);
    bench.deliver(B, 0, 4);
    assert_eq!(bench.ready().and_then(|ready| ready.owner), Some(B));
    bench.ack(B, 0, 4);
    assert_eq!(bench.ready().and_then(|ready| ready.owner), None);
}

#[test]
fn a_lost_owner_gives_the_lane_back_without_a_backoff() {
    let mut bench = Bench::new(in_lane_order());
    bench
        .fetched(0, 9)
        .deliver(A, 0, 4)
        .ack(A, 0, 1)
        .quiet()
        .lost(A);
    assert_eq!(bench.effects(), [returned(A, 2, 4, Return::Lost), seek(2)]);
    bench.sought(Done).fetched(2, 9);
    let ready = bench.ready().expect("ready");
    assert_eq!((ready.owner, ready.attempt, ready.delivery), (None, 1, 2));
}

#[test]
fn a_release_seeks_back_without_a_backoff() {
    let mut bench = Bench::new(in_lane_order());
    bench
        .fetched(0, 9)
        .deliver(A, 0, 4)
        .quiet()
        .applied(A, 0, 0, Released);
    assert_eq!(
        bench.effects(),
        [
            returned(A, 0, 0, Return::Verdict),
            returned(A, 1, 4, Return::Rewound),
            seek(0)
        ]
    );
}

#[test]
fn l10_the_seek_waits_for_what_is_still_out_below_the_failure() {
    let mut bench = Bench::new(in_lane_order());
    bench
        .fetched(0, 9)
        .deliver(A, 0, 4)
        .applied(A, 3, 3, failed_for(1000))
        .until(5000);
    assert!(!bench.effects().contains(&seek(0)));
    assert_eq!(bench.lane.snapshot().in_flight, 3);
    bench.ack(A, 0, 2);
    assert_eq!(bench.effects().last(), Some(&seek(3)));
}

#[test]
fn l10_of_two_failures_the_longer_wait_decides() {
    let mut bench = Bench::new(in_lane_order());
    bench
        .fetched(0, 9)
        .deliver(A, 0, 4)
        .applied(A, 3, 3, failed_for(9000));
    bench.applied(A, 1, 1, Released).ack(A, 0, 0).until(8999);
    assert!(!bench.effects().contains(&seek(1)));
    assert_eq!(bench.until(9000).effects().last(), Some(&seek(1)));
}

#[test]
fn a_seek_that_fails_is_asked_for_again() {
    let mut bench = Bench::new(in_lane_order());
    bench
        .fetched(0, 9)
        .deliver(A, 0, 4)
        .lost(A)
        .quiet()
        .sought(Failed);
    assert_eq!((bench.effects(), bench.lane.room()), (vec![], 0));
    assert_eq!(bench.lane.poll_timeout(), Some(at(1000)));
    assert_eq!(bench.until(1000).effects(), [seek(0)]);
    bench.sought(Done).fetched(0, 9);
    assert_eq!(bench.ready_range(), Some((0, 4)));
}

#[test]
fn the_seek_waits_for_a_pending_dead_letter() {
    let mut bench = Bench::new(in_lane_order());
    bench
        .fetched(0, 9)
        .deliver(A, 0, 4)
        .applied(A, 0, 0, Rejected);
    bench
        .applied(A, 2, 2, failed_for(100))
        .ack(A, 1, 1)
        .until(1000)
        .quiet();
    bench.dead_letter(0, Stored);
    assert_eq!(bench.effects(), [settled(0, 1), seek(2)]);
}

#[test]
fn deliveries_voided_by_a_neighbour_do_not_exhaust_a_record() {
    let mut bench = Bench::new(Policy {
        max_deliveries: 3,
        max_attempts: 9,
        ..in_lane_order()
    });
    bench.fetched(0, 1);
    for round in 0..2 {
        bench
            .deliver(A, 0, 1)
            .applied(A, 0, 0, Released)
            .sought(Done)
            .fetched(0, 1);
        assert_eq!(bench.ready().map(|ready| ready.delivery), Some(round + 2));
    }
    bench.deliver(A, 0, 1).quiet().applied(A, 0, 0, Released);
    assert!(bench.effects().contains(&Effect::DeadLetter {
        offset: Offset::new(0),
        cause: Cause::DeliveriesExhausted,
        attempts: 0,
        deliveries: 3
    }));
    bench.dead_letter(0, Stored).ack(A, 1, 1);
    assert_eq!(bench.floor(), 2);
}

#[test]
fn attempts_survive_the_seek_and_the_exhausted_record_does_not_void_its_successors() {
    let mut bench = Bench::new(Policy {
        max_attempts: 2,
        ..in_lane_order()
    });
    bench
        .fetched(0, 3)
        .deliver(A, 0, 3)
        .applied(A, 0, 0, failed_for(10))
        .until(10);
    bench
        .sought(Done)
        .fetched(0, 3)
        .deliver(A, 0, 3)
        .quiet()
        .applied(A, 0, 0, FAILED);
    let letter = Effect::DeadLetter {
        offset: Offset::new(0),
        cause: Cause::AttemptsExhausted,
        attempts: 2,
        deliveries: 2,
    };
    assert_eq!(
        bench.effects(),
        [returned(A, 0, 0, Return::Verdict), letter]
    );
    bench.ack(A, 1, 3).dead_letter(0, Stored);
    assert_eq!(bench.floor(), 4);
}

#[test]
fn records_fetched_while_the_lane_waits_for_its_seek_are_read_again() {
    let mut bench = Bench::new(in_lane_order());
    bench
        .fetched(0, 3)
        .deliver(A, 0, 3)
        .applied(A, 0, 0, failed_for(100))
        .fetched(4, 9);
    assert_eq!((bench.ready(), bench.lane.snapshot().unsettled), (None, 10));
    bench.until(100).fetched(10, 12).sought(Done).fetched(0, 12);
    assert_eq!(bench.lane.snapshot().unsettled, 13);
    bench.deliver(A, 0, 12).ack(A, 0, 12);
    assert_eq!(bench.floor(), 13);
}

/// Used-up attempts stay used up, so 1 is given up again as soon as it is read again.
#[test]
fn a_record_given_up_above_a_failure_does_not_hold_back_the_failed_one() {
    let mut bench = Bench::new(Policy {
        max_attempts: 1,
        ..in_lane_order()
    });
    bench
        .fetched(0, 2)
        .deliver(A, 0, 2)
        .applied(A, 1, 1, FAILED);
    bench
        .applied(A, 0, 0, Released)
        .sought(Done)
        .quiet()
        .fetched(0, 2);
    assert_eq!(bench.ready_range(), Some((0, 0)));
    bench.deliver(A, 0, 0);
    assert_eq!(bench.ready(), None);
    bench.ack(A, 0, 0);
    assert!(matches!(
        bench.effects().last(),
        Some(Effect::DeadLetter { .. })
    ));
    bench.dead_letter(1, Stored);
    assert_eq!((bench.floor(), bench.ready_range()), (2, Some((2, 2))));
}
