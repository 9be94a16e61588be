//! Rejected and exhausted records.

use ackgate_lane::{
    Cause,
    CommitOutcome::Done,
    DeadLetterOutcome::{Failed, Stored},
    Effect, Hold, Offset, OnReject, Policy, Return,
    Verdict::Rejected,
};

use crate::support::{
    A, Bench, DEADLINE, FAILED, at, commit, failed_for, in_lane_order, policy, returned, settled,
};

fn letter(offset: u64, cause: Cause, attempts: u32, deliveries: u32) -> Effect {
    Effect::DeadLetter {
        offset: Offset::new(offset),
        cause,
        attempts,
        deliveries,
    }
}

#[test]
fn l3_a_rejected_record_settles_only_when_its_dead_letter_is_stored() {
    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 0)
        .deliver(A, 0, 0)
        .applied(A, 0, 0, Rejected);
    assert_eq!(
        bench.effects(),
        [
            returned(A, 0, 0, Return::Verdict),
            letter(0, Cause::Rejected, 1, 1)
        ]
    );
    assert_eq!(bench.commits_until(60_000), []);
    assert_eq!(bench.floor(), 0);
    bench.dead_letter(0, Stored);
    assert_eq!(bench.effects(), [settled(0, 0)]);
    assert_eq!(bench.commits_until(120_000), [1]);
}

#[test]
fn l3_attempts_then_backoff_then_the_dead_letter_confirmed_before_the_commit() {
    let mut bench = Bench::new(Policy {
        max_attempts: 3,
        ..policy()
    });
    bench.fetched(0, 1).deliver(A, 0, 1).ack(A, 1, 1);
    for attempt in 1..=3 {
        if attempt > 1 {
            bench.until(attempt * 10_000).deliver(A, 0, 0);
        }
        bench.applied(A, 0, 0, FAILED);
    }
    assert_eq!(
        bench.effects().last(),
        Some(&letter(0, Cause::AttemptsExhausted, 3, 3))
    );
    assert_eq!(bench.commits_until(90_000), []);
    bench.dead_letter(0, Stored);
    assert_eq!(bench.commits_until(92_000), [2]);
}

#[test]
fn the_last_failed_attempt_is_dead_lettered_at_once_and_not_after_its_delay() {
    let mut bench = Bench::new(Policy {
        max_attempts: 1,
        ..policy()
    });
    bench
        .fetched(0, 0)
        .deliver(A, 0, 0)
        .applied(A, 0, 0, failed_for(60_000));
    assert_eq!(
        bench.effects().last(),
        Some(&letter(0, Cause::AttemptsExhausted, 1, 1))
    );
}

#[test]
fn l3_a_dead_letter_that_fails_is_tried_again_for_ever_and_holds_the_floor() {
    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 5)
        .deliver(A, 0, 5)
        .applied(A, 0, 0, Rejected)
        .ack(A, 1, 5)
        .quiet();
    for _ in 0..50 {
        assert_eq!(
            bench.lane.snapshot().hold,
            Some(Hold::DeadLetter {
                offset: Offset::new(0),
                retry: None
            })
        );
        bench.dead_letter(0, Failed);
        let retry = bench.lane.poll_timeout().expect("a next try");
        assert!(retry.since(bench.now).as_secs() <= 60);
        assert_eq!(
            bench.lane.snapshot().hold,
            Some(Hold::DeadLetter {
                offset: Offset::new(0),
                retry: Some(retry)
            })
        );
        assert_eq!(bench.effects(), []);
        bench.now = retry;
        bench.lane.handle_timeout(retry);
        assert_eq!(bench.effects(), [letter(0, Cause::Rejected, 1, 1)]);
    }
    assert_eq!(bench.floor(), 0);
    bench.dead_letter(0, Stored);
    assert_eq!((bench.floor(), bench.effects()), (6, vec![settled(0, 0)]));
}

#[test]
fn without_order_other_records_flow_on_while_a_dead_letter_is_written() {
    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 5)
        .deliver(A, 0, 2)
        .applied(A, 0, 0, Rejected);
    bench.deliver(A, 3, 5).ack(A, 1, 5);
    assert_eq!(bench.floor(), 0);
    assert!(bench.lane.room() > 0);
}

/// L1: the dead letter of 5 is slow, 6 and 7 are acked meanwhile.
#[test]
fn l1_a_slow_dead_letter_neither_lets_the_commit_pass_nor_moves_it_back() {
    let mut bench = Bench::starting(policy(), Some(5), true);
    bench
        .fetched(5, 7)
        .deliver(A, 5, 7)
        .applied(A, 5, 5, Rejected)
        .ack(A, 6, 7);
    assert_eq!(bench.commits_until(2000), []);
    bench.dead_letter(5, Stored);
    assert_eq!(bench.commits_until(4000), [8]);
}

#[test]
fn a_dead_lettered_record_counts_as_settled_even_as_the_last_of_its_lane() {
    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 0)
        .deliver(A, 0, 0)
        .applied(A, 0, 0, Rejected)
        .dead_letter(0, Stored);
    assert_eq!(bench.until(1000).effects().last(), Some(&commit(1)));
    bench
        .committed(1, Done)
        .until(90_000)
        .dead_letter(0, Stored)
        .dead_letter(0, Failed);
    assert_eq!((bench.effects(), bench.lane.poll_timeout()), (vec![], None));
}

#[test]
fn a_dropped_record_settles_at_once_and_says_so() {
    let mut bench = Bench::new(Policy {
        on_reject: OnReject::Drop,
        ..policy()
    });
    bench
        .fetched(0, 0)
        .deliver(A, 0, 0)
        .applied(A, 0, 0, Rejected);
    assert_eq!(
        bench.effects(),
        [
            returned(A, 0, 0, Return::Verdict),
            Effect::Dropped {
                offset: Offset::new(0),
                cause: Cause::Rejected
            },
            settled(0, 0)
        ]
    );
}

#[test]
fn a_held_record_waits_for_an_operator() {
    let mut bench = Bench::new(Policy {
        on_reject: OnReject::Hold,
        ..policy()
    });
    bench
        .fetched(0, 1)
        .deliver(A, 0, 1)
        .applied(A, 0, 0, Rejected)
        .ack(A, 1, 1)
        .until(90_000);
    assert_eq!(
        bench.lane.snapshot().hold,
        Some(Hold::Operator {
            offset: Offset::new(0)
        })
    );
    assert_eq!((bench.floor(), bench.lane.poll_timeout()), (0, None));
}

#[test]
fn an_oversize_record_takes_the_way_of_rejected_ones_without_a_delivery() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 2);
    bench.lane.handle_oversize(bench.now, Offset::new(0));
    bench.lane.handle_oversize(bench.now, Offset::new(9));
    assert_eq!(bench.effects(), [letter(0, Cause::Oversize, 0, 0)]);
    assert_eq!(bench.ready_range(), Some((1, 2)));
    bench.dead_letter(0, Stored);
    assert_eq!(bench.floor(), 1);
    bench.deliver(A, 1, 1);
    bench.lane.handle_oversize(bench.now, Offset::new(1));
    assert_eq!(bench.lane.snapshot().in_flight, 1, "it is out already");
}

#[test]
fn a_late_reject_after_the_deadline_counts_the_expiry_too() {
    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 0)
        .deliver(A, 0, 0)
        .until(DEADLINE)
        .quiet()
        .applied(A, 0, 0, Rejected);
    assert_eq!(bench.effects(), [letter(0, Cause::Rejected, 2, 1)]);
}

#[test]
fn in_lane_order_nothing_new_goes_out_until_the_dead_letter_is_stored() {
    let mut bench = Bench::new(in_lane_order());
    bench
        .fetched(0, 9)
        .deliver(A, 0, 4)
        .applied(A, 0, 0, Rejected)
        .ack(A, 1, 2);
    assert_eq!(
        bench.effects(),
        [
            returned(A, 0, 0, Return::Verdict),
            letter(0, Cause::Rejected, 1, 1),
            returned(A, 1, 2, Return::Verdict)
        ]
    );
    assert_eq!((bench.ready(), bench.lane.snapshot().in_flight), (None, 2));
    bench.dead_letter(0, Failed).until(5000).quiet();
    assert_eq!(bench.ready(), None);
    bench.dead_letter(0, Stored);
    assert_eq!((bench.effects(), bench.floor()), (vec![settled(0, 2)], 3));
    assert_eq!(bench.ready_range(), Some((5, 9)));
}

/// A reject above an unsettled record would be dead-lettered on each pass.
#[test]
fn in_lane_order_a_reject_is_dead_lettered_once_everything_below_is_decided() {
    let mut bench = Bench::new(in_lane_order());
    bench
        .fetched(0, 3)
        .deliver(A, 0, 3)
        .applied(A, 2, 3, Rejected)
        .ack(A, 0, 0)
        .quiet();
    assert_eq!(bench.until(900).effects(), []);
    bench.applied(A, 1, 1, Rejected);
    assert_eq!(
        bench.effects()[1..],
        [1, 2, 3].map(|offset| letter(offset, Cause::Rejected, 1, 1))
    );
    bench
        .dead_letter(2, Stored)
        .dead_letter(1, Stored)
        .dead_letter(3, Failed);
    assert_eq!(bench.floor(), 3);
    assert!(bench.lane.poll_timeout() < Some(at(2000)));
}
