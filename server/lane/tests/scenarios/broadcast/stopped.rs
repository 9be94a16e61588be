//! Dead letters of a broadcast that cannot be written, and too many of them.

use ackgate_lane::{
    Breaker, Cause,
    DeadLetterOutcome::{Failed, Stored},
    Effect, Offset, OnUnwritten, Policy, Stop, Trip,
    Verdict::Rejected,
    Window,
};

use super::support::{Bench, letter};
use crate::support::{A, B, in_lane_order, policy, settled};

/// Records 0 to 5, the first of them with A and B, who have decided on it.
fn refused(policy: Policy) -> Bench {
    let mut bench = Bench::new(policy, &[A, B]);
    bench.fetched(0, 0);
    bench.all_take(&[A, B]);
    bench.ack(A, 0, 0).applied(B, 0, 0, Rejected);
    assert_eq!(bench.outcomes(), [letter(0, Cause::Rejected, (1, 1))]);
    bench
}

#[test]
fn block_hands_out_nothing_new_to_anybody() {
    let mut bench = refused(policy());
    bench.fetched(1, 2).dead_letter(0, Failed).fetched(3, 5);
    let zero = Offset::new(0);
    assert_eq!(
        bench.lane.snapshot().stop,
        Some(Stop::DeadLetter { offset: zero })
    );
    assert!(!bench.lane.has_ready());
    assert_eq!((bench.take(A), bench.take(B)), (vec![], vec![]));
    bench.until(60_000).dead_letter(0, Stored);
    assert_eq!(bench.take(A), [(1, 5, 1)]);
    assert_eq!(bench.floor(), 1);
}

#[test]
fn nobody_is_cut_off_for_what_a_blocked_lane_keeps_back() {
    let small = Policy {
        window: Window {
            records: 2,
            span: 2,
        },
        ..policy()
    };
    let mut bench = Bench::sharing(small, Some(60_000), &[A, B]);
    bench.fetched(0, 1);
    bench.take(A);
    // A's share of the first record is ready again, and stays so.
    bench.applied(A, 0, 0, ackgate_lane::Verdict::Released);
    bench.applied(A, 1, 1, Rejected);
    bench.take(B);
    bench.ack(B, 0, 1).dead_letter(1, Failed);
    bench.until(50_000);
    assert!(bench.lane.snapshot().stop.is_some());
    bench.until(3_600_000);
    let cut_off = |effect: &Effect| matches!(effect, Effect::CutOff { .. });
    assert!(!bench.effects().iter().any(cut_off), "it is not its fault");
    bench.dead_letter(1, Stored);
    assert_eq!(bench.take(A), [(0, 0, 2)]);
}

#[test]
fn in_lane_order_too_the_others_go_on_without_a_parked_record() {
    let mut bench = refused(Policy {
        order: in_lane_order().order,
        on_unwritten: OnUnwritten::Park { tries: 1 },
        ..policy()
    });
    bench.dead_letter(0, Failed).fetched(1, 3);
    assert_eq!(
        (bench.take(A), bench.take(B)),
        (vec![(1, 3, 1)], vec![(1, 3, 1)])
    );
    bench.ack(A, 1, 3).ack(B, 1, 3);
    assert_eq!((bench.floor(), bench.lane.snapshot().parked), (0, 1));
    bench.until(60_000).dead_letter(0, Stored);
    assert_eq!(bench.floor(), 4);
}

#[test]
fn what_is_discarded_has_the_cause_of_the_first_refusal() {
    let mut bench = Bench::new(
        Policy {
            max_attempts: 1,
            on_unwritten: OnUnwritten::Discard { tries: 1 },
            ..policy()
        },
        &[A, B],
    );
    bench.fetched(0, 0);
    bench.all_take(&[A, B]);
    bench
        .applied(A, 0, 0, crate::support::FAILED)
        .ack(B, 0, 0)
        .outcomes();
    bench.dead_letter(0, Failed);
    let discarded = Effect::Discarded {
        offset: Offset::new(0),
        cause: Cause::AttemptsExhausted,
        tries: 1,
    };
    assert_eq!(bench.outcomes(), [discarded, settled(0, 0)]);
    assert_eq!(bench.floor(), 1);
}

#[test]
fn the_breaker_counts_records_and_not_the_verdicts_on_them() {
    let mut bench = Bench::new(
        Policy {
            breaker: Breaker {
                run: Some(2),
                ratio: None,
            },
            ..policy()
        },
        &[A, B],
    );
    bench.fetched(0, 9);
    bench.all_take(&[A, B]);
    bench.applied(A, 0, 0, Rejected).applied(B, 0, 0, Rejected);
    assert_eq!(bench.lane.snapshot().stop, None);
    bench.applied(A, 1, 3, Rejected).ack(B, 1, 3);
    let trip = Trip::Run { records: 2 };
    assert_eq!(bench.lane.snapshot().stop, Some(Stop::Breaker { trip }));
    let outcomes = bench.outcomes();
    let asked = |effect: &&Effect| matches!(effect, Effect::DeadLetter { .. });
    assert_eq!(outcomes.iter().filter(asked).count(), 2, "{outcomes:?}");
    assert!(outcomes.contains(&Effect::Tripped { trip }));
    bench.fetched(10, 12);
    assert_eq!((bench.take(A), bench.take(B)), (vec![], vec![]));
    assert!(bench.lane.reset_breaker(bench.now));
    assert_eq!(
        bench.outcomes(),
        [2, 3].map(|offset| letter(offset, Cause::Rejected, (1, 1)))
    );
    assert_eq!(bench.take(A), [(10, 12, 1)]);
}
