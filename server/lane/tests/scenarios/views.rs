//! What an operator sees.

use ackgate_lane::{
    Answered, DeadLetterOutcome, Hold, Offset, OffsetRange, Order, Policy, Verdict, VerdictResult,
};

use crate::support::{A, B, Bench, DEADLINE, FAILED, at, failed_for, in_lane_order, policy, range};

#[test]
fn a_snapshot_counts_what_is_out_delayed_and_unsettled() {
    let mut bench = Bench::starting(policy(), Some(3), true);
    bench
        .fetched(3, 12)
        .deliver(A, 3, 7)
        .ack(A, 3, 4)
        .applied(A, 5, 5, failed_for(5000));
    let snapshot = bench.lane.snapshot();
    assert_eq!(snapshot.floor.map(|position| position.get()), Some(5));
    assert_eq!(snapshot.committed.map(|position| position.get()), Some(3));
    assert_eq!(snapshot.next.map(|position| position.get()), Some(13));
    assert_eq!(
        (snapshot.unsettled, snapshot.in_flight, snapshot.delayed),
        (8, 2, 1)
    );
    assert_eq!(snapshot.hold, None);
}

#[test]
fn a_lane_that_only_waits_for_a_retry_says_so_with_its_end() {
    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 0)
        .deliver(A, 0, 0)
        .applied(A, 0, 0, failed_for(10_000));
    let hold = Hold::Backoff {
        offset: Offset::new(0),
        until: at(10_000),
    };
    assert_eq!(bench.lane.snapshot().hold, Some(hold));
    bench.fetched(1, 1);
    assert_eq!(bench.lane.snapshot().hold, None);
}

fn ready_for_a(bench: &Bench) -> Vec<OffsetRange> {
    bench.lane.ready_runs(A).collect()
}

#[test]
fn all_that_is_ready_is_told_whatever_its_numbers() {
    let mut bench = Bench::new(policy());
    assert_eq!(ready_for_a(&bench), []);
    bench.fetched(0, 4).fetched(7, 9);
    assert_eq!(ready_for_a(&bench), [range(0, 4), range(7, 9)]);
    bench.deliver(A, 0, 4).applied(A, 2, 2, Verdict::Released);
    assert_eq!(ready_for_a(&bench), [range(2, 2), range(7, 9)]);
    let mut ordered = Bench::new(in_lane_order());
    ordered.fetched(0, 4).deliver(B, 0, 1);
    assert_eq!(ready_for_a(&ordered), [], "the lane is another's");
}

#[test]
fn a_lane_owes_what_may_still_be_handed_to_a_subscriber() {
    let mut bench = Bench::new(policy());
    assert!(!bench.lane.owes(A), "nothing is there");
    bench.fetched(0, 4);
    assert!(bench.lane.owes(A), "it is ready");
    bench.deliver(A, 0, 3).deliver(B, 4, 4).ack(A, 0, 1);
    assert!(bench.lane.owes(A), "it is out");
    bench.applied(A, 2, 2, FAILED);
    bench.ack(A, 3, 3);
    assert!(bench.lane.owes(A), "it is delayed");
    bench.until(2000);
    bench.deliver(A, 2, 2).applied(A, 2, 2, Verdict::Rejected);
    assert!(
        !bench.lane.owes(A),
        "its dead letter is on the way, and another has one"
    );
    assert!(bench.lane.owes(B));
    bench.dead_letter(2, DeadLetterOutcome::Stored);
    assert!(!bench.lane.owes(A) && bench.lane.owes(B));
}

#[test]
fn a_lane_owes_what_is_behind_its_key_and_what_is_to_be_read_again() {
    let mut by_key = Bench::new(Policy {
        order: Order::Key { share: 250 },
        ..policy()
    });
    by_key.keyed(0, &[Some(1), Some(1)]);
    by_key.deliver(B, 0, 0);
    assert!(by_key.lane.owes(A), "the second may be A's yet");
    let mut ordered = Bench::new(in_lane_order());
    ordered.fetched(0, 1).deliver(A, 0, 1).ack(A, 1, 1);
    ordered.applied(A, 0, 0, FAILED);
    assert!(ordered.lane.owes(A), "the lane goes back");
}

#[test]
fn verdicts_that_apply_are_counted_once_with_the_time_since_the_hand_over() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 5).deliver(A, 0, 5);
    bench.until(40);
    bench.ack(A, 0, 2);
    bench.until(200);
    bench
        .applied(A, 3, 3, FAILED)
        .applied(A, 4, 4, Verdict::Rejected)
        .applied(A, 5, 5, Verdict::Released);
    let again = bench.verdict(A, (0, 2), None, Verdict::Acked);
    assert_eq!(again, [(0, 2, VerdictResult::Duplicate)]);
    let answered = bench.lane.take_answered();
    assert_eq!(
        (
            answered.acked,
            answered.rejected,
            answered.failed,
            answered.released
        ),
        (3, 1, 1, 1)
    );
    assert_eq!(answered.times.count(), 6);
    assert_eq!(answered.times.total.as_millis(), 3 * 40 + 3 * 200);
    assert_eq!(bench.lane.take_answered(), Answered::default());
}

#[test]
fn a_late_verdict_is_counted_and_has_no_time() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 0).deliver(A, 0, 0);
    bench.until(DEADLINE + 1);
    bench.ack(A, 0, 0);
    let answered = bench.lane.take_answered();
    assert_eq!((answered.acked, answered.times.count()), (1, 0));
}
