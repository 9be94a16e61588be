//! Each verdict in each state of its record: what it does and what is answered.

use ackgate_lane::{
    DeadLetterOutcome::{Failed as NotStored, Stored},
    OnReject, Policy, SeekOutcome,
    Verdict::{Acked, Rejected, Released},
    VerdictResult::{Applied, Conflict, Duplicate, Expired, Stale, Unknown},
};

use crate::support::{A, B, Bench, DEADLINE, FAILED, failed_for, in_lane_order, policy};

const ALL: [ackgate_lane::Verdict; 4] = [Acked, Rejected, FAILED, Released];

/// The answer to each verdict on offset 0 by A, in a lane that `prepare` brought there.
fn table(policy: Policy, prepare: impl Fn(&mut Bench)) -> [ackgate_lane::VerdictResult; 4] {
    ALL.map(|verdict| {
        let mut bench = Bench::new(policy);
        prepare(&mut bench);
        let before = bench.lane.snapshot();
        let result = bench.quiet().result(A, 0, verdict);
        if result != Applied {
            assert_eq!(
                bench.lane.snapshot(),
                before,
                "{verdict:?} changed something"
            );
            assert_eq!(bench.effects(), [], "{verdict:?} had an effect");
        }
        result
    })
}

#[test]
fn on_a_record_that_was_never_handed_out_a_verdict_is_unknown() {
    let table = table(policy(), |bench| {
        bench.fetched(0, 3);
    });
    assert_eq!(table, [Unknown; 4]);
}

#[test]
fn on_a_record_that_another_subscriber_has_a_verdict_is_unknown() {
    let table = table(policy(), |bench| {
        bench.fetched(0, 3).deliver(B, 0, 3);
    });
    assert_eq!(table, [Unknown; 4]);
}

#[test]
fn on_a_dispatched_record_a_verdict_counts_before_the_notice_that_it_was_sent() {
    let table = table(policy(), |bench| {
        bench.fetched(0, 3).dispatch(A, 0, 3);
    });
    assert_eq!(table, [Applied; 4]);
    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 3)
        .dispatch(A, 0, 3)
        .ack(A, 0, 3)
        .sent(A, 0, 3);
    assert_eq!((bench.floor(), bench.lane.snapshot().in_flight), (4, 0));
}

#[test]
fn on_a_record_that_is_out_a_verdict_counts() {
    let table = table(policy(), |bench| {
        bench.fetched(0, 3).deliver(A, 0, 3);
    });
    assert_eq!(table, [Applied; 4]);
}

#[test]
fn after_a_failed_verdict_its_delivery_is_over() {
    let table = table(policy(), |bench| {
        bench
            .fetched(0, 3)
            .deliver(A, 0, 3)
            .applied(A, 0, 3, failed_for(9000));
    });
    assert_eq!(table, [Stale; 4]);
}

#[test]
fn after_a_release_its_delivery_is_over() {
    let table = table(policy(), |bench| {
        bench
            .fetched(0, 3)
            .deliver(A, 0, 3)
            .applied(A, 0, 3, Released);
    });
    assert_eq!(table, [Stale; 4]);
}

#[test]
fn a_late_verdict_counts_until_the_record_has_been_handed_out_again() {
    let expired = |bench: &mut Bench| {
        bench.fetched(0, 0).deliver(A, 0, 0).until(DEADLINE);
    };
    assert_eq!(table(policy(), expired), [Applied; 4]);
    let ready_again = |bench: &mut Bench| {
        expired(bench);
        bench.until(DEADLINE + 5000);
        assert_eq!(bench.ready_range(), Some((0, 0)));
    };
    assert_eq!(table(policy(), ready_again), [Applied; 4]);
    let out_again = |bench: &mut Bench| {
        ready_again(bench);
        bench.deliver(B, 0, 0);
    };
    assert_eq!(table(policy(), out_again), [Expired; 4]);
}

#[test]
fn a_late_ack_settles_and_has_no_credit_to_free() {
    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 0)
        .deliver(A, 0, 0)
        .until(DEADLINE)
        .quiet()
        .ack(A, 0, 0);
    assert_eq!(bench.effects(), [crate::support::settled(0, 0)]);
    assert_eq!((bench.floor(), bench.lane.snapshot().delayed), (1, 0));
}

#[test]
fn a_late_failed_verdict_uses_no_second_attempt_and_may_set_its_own_delay() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 0).deliver(A, 0, 0).until(DEADLINE);
    bench
        .applied(A, 0, 0, failed_for(9000))
        .until(DEADLINE + 8999);
    assert_eq!(bench.ready(), None);
    assert_eq!(
        bench
            .until(DEADLINE + 9000)
            .ready()
            .map(|ready| ready.attempt),
        Some(2)
    );
    assert_eq!(bench.result(A, 0, Acked), Expired);
}

#[test]
fn l5_on_an_acked_record_a_repeat_is_a_duplicate_and_anything_else_a_conflict() {
    let above_the_floor = |bench: &mut Bench| {
        bench.fetched(0, 3).deliver(A, 0, 3).ack(A, 0, 0);
    };
    assert_eq!(
        table(policy(), above_the_floor),
        [Duplicate, Conflict, Conflict, Conflict]
    );
    assert_eq!(
        table(in_lane_order(), above_the_floor),
        [Duplicate, Conflict, Conflict, Conflict]
    );
    let mut bench = Bench::new(policy());
    bench.fetched(0, 3).deliver(A, 0, 3).ack(A, 2, 2);
    assert_eq!(
        ALL.map(|verdict| bench.result(A, 2, verdict)),
        [Duplicate, Conflict, Conflict, Conflict]
    );
}

#[test]
fn l5_on_a_rejected_record_a_repeat_is_a_duplicate_before_and_after_its_dead_letter() {
    let expected = [Conflict, Duplicate, Conflict, Conflict];
    let rejected = |bench: &mut Bench| {
        bench
            .fetched(0, 3)
            .deliver(A, 0, 3)
            .applied(A, 0, 0, Rejected);
    };
    for policy in [policy(), in_lane_order()] {
        assert_eq!(table(policy, rejected), expected);
        assert_eq!(
            table(policy, |bench| {
                rejected(bench);
                bench.dead_letter(0, NotStored);
            }),
            expected
        );
        assert_eq!(
            table(policy, |bench| {
                rejected(bench);
                bench.dead_letter(0, Stored);
            }),
            expected
        );
    }
    assert_eq!(
        table(
            Policy {
                on_reject: OnReject::Hold,
                ..policy()
            },
            rejected
        ),
        expected
    );
    assert_eq!(
        table(
            Policy {
                on_reject: OnReject::Drop,
                ..policy()
            },
            rejected
        ),
        expected
    );
}

#[test]
fn l5_an_exhausted_record_is_decided_like_a_rejected_one() {
    let exhausted = |bench: &mut Bench| {
        bench
            .fetched(0, 3)
            .deliver(A, 0, 3)
            .applied(A, 0, 3, FAILED);
    };
    let table = table(
        Policy {
            max_attempts: 1,
            ..policy()
        },
        exhausted,
    );
    assert_eq!(table, [Conflict, Duplicate, Conflict, Conflict]);
}

#[test]
fn l4_a_verdict_with_the_number_of_an_older_delivery_is_stale() {
    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 0)
        .deliver(A, 0, 0)
        .applied(A, 0, 0, Released)
        .deliver(A, 0, 0);
    assert_eq!(bench.verdict(A, (0, 0), Some(1), Acked), [(0, 0, Stale)]);
    assert_eq!(bench.verdict(A, (0, 0), Some(3), Acked), [(0, 0, Stale)]);
    assert_eq!(bench.floor(), 0);
    assert_eq!(bench.verdict(A, (0, 0), Some(2), Acked), [(0, 0, Applied)]);
}

#[test]
fn l4_an_expired_delivery_is_told_apart_from_the_new_one_of_the_same_subscriber() {
    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 0)
        .deliver(A, 0, 0)
        .until(DEADLINE + 5000)
        .deliver(A, 0, 0);
    assert_eq!(bench.verdict(A, (0, 0), Some(1), Acked), [(0, 0, Expired)]);
    assert_eq!(bench.verdict(A, (0, 0), None, Acked), [(0, 0, Applied)]);
}

#[test]
fn l4_in_lane_order_a_voided_delivery_is_stale_before_and_after_the_seek() {
    let voided = |bench: &mut Bench| {
        bench.fetched(0, 3).deliver(A, 0, 3);
        bench.verdict(A, (0, 0), None, FAILED);
    };
    assert_eq!(table(in_lane_order(), voided), [Stale; 4]);
    assert_eq!(
        table(in_lane_order(), |bench| {
            voided(bench);
            bench.until(5000).sought(SeekOutcome::Done).fetched(0, 3);
        }),
        [Stale; 4]
    );
}

#[test]
fn a_run_is_answered_in_pieces_in_offset_order() {
    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 9)
        .deliver(A, 0, 5)
        .deliver(B, 6, 7)
        .ack(A, 0, 1)
        .ack(A, 3, 3);
    assert_eq!(
        bench.verdict(A, (0, 20), None, Acked),
        [
            (0, 1, Duplicate),
            (2, 2, Applied),
            (3, 3, Duplicate),
            (4, 5, Applied),
            (6, 9, Unknown),
        ]
    );
    assert_eq!(bench.floor(), 6);
}

#[test]
fn offsets_never_received_are_unknown_only_where_nothing_else_is_answered() {
    let mut bench = Bench::starting(policy(), Some(5), true);
    assert_eq!(bench.verdict(A, (0, 100), None, Acked), [(0, 100, Unknown)]);
    bench.fetched(10, 11).fetched(15, 15).deliver(A, 10, 15);
    assert_eq!(bench.verdict(A, (0, 9), None, Acked), [(0, 9, Unknown)]);
    assert_eq!(bench.verdict(A, (12, 14), None, Acked), [(12, 14, Unknown)]);
    assert_eq!(bench.verdict(A, (16, 90), None, Acked), [(16, 90, Unknown)]);
    assert_eq!(
        bench.verdict(A, (0, u64::MAX - 1), None, Acked),
        [(10, 15, Applied)]
    );
    assert_eq!(bench.floor(), 16);
    assert_eq!(bench.verdict(A, (0, 9), None, Acked), [(0, 9, Unknown)]);
}

#[test]
fn answers_are_appended_and_never_merged_with_those_of_an_earlier_input() {
    use ackgate_lane::{Answer, Target};
    let mut bench = Bench::new(policy());
    bench.fetched(0, 9).deliver(A, 0, 9);
    let mut answers = Vec::new();
    for (first, last) in [(0, 4), (5, 9)] {
        let target = Target {
            range: crate::support::range(first, last),
            delivery: None,
        };
        bench
            .lane
            .handle_verdict(bench.now, A, target, Acked, &mut answers);
    }
    assert_eq!(
        answers,
        [(0, 4), (5, 9)].map(|(first, last)| Answer {
            range: crate::support::range(first, last),
            result: Applied
        })
    );
}

#[test]
fn below_the_floor_refused_records_are_remembered() {
    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 5)
        .deliver(A, 0, 5)
        .ack(A, 0, 1)
        .applied(A, 2, 2, Rejected)
        .ack(A, 3, 5);
    bench.dead_letter(2, Stored);
    assert_eq!(bench.floor(), 6);
    assert_eq!(
        bench.verdict(A, (0, 9), None, Acked),
        [(0, 1, Duplicate), (2, 2, Conflict), (3, 5, Duplicate)]
    );
    assert_eq!(
        bench.verdict(A, (2, 2), None, Rejected),
        [(2, 2, Duplicate)]
    );
}
