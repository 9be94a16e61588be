//! Lane order: verdicts that come after their deadline, on the way back to the floor.

use ackgate_lane::{
    DeadLetterOutcome::Stored,
    Effect,
    SeekOutcome::Done,
    Verdict::{Acked, Rejected},
    VerdictResult::{Applied, Expired},
};

use crate::support::{A, B, Bench, DEADLINE, failed_for, in_lane_order, range, seek, settled};

#[test]
fn a_late_ack_counts_until_the_seek_is_asked_for() {
    let mut bench = Bench::new(in_lane_order());
    bench
        .fetched(0, 1)
        .deliver(A, 0, 1)
        .until(DEADLINE - 1)
        .applied(A, 1, 1, failed_for(9000));
    bench.until(DEADLINE).quiet().ack(A, 0, 0);
    assert_eq!(bench.effects(), [settled(0, 0)]);
    assert_eq!(
        bench.until(DEADLINE + 9000).effects().last(),
        Some(&seek(1))
    );

    let mut bench = Bench::new(in_lane_order());
    bench.fetched(0, 0).deliver(A, 0, 0).until(DEADLINE + 2000);
    assert_eq!(bench.effects().last(), Some(&seek(0)));
    assert_ne!(bench.result(A, 0, Acked), Applied);
    assert_eq!(bench.floor(), 0);
}

#[test]
fn when_late_acks_answer_everything_there_is_nothing_to_seek() {
    let mut bench = Bench::new(in_lane_order());
    bench
        .fetched(0, 3)
        .deliver(A, 0, 3)
        .until(DEADLINE)
        .quiet()
        .ack(A, 0, 3);
    bench
        .committed(0, ackgate_lane::CommitOutcome::Done)
        .fetched(4, 5);
    assert_eq!(bench.ready_range(), Some((4, 5)));
    assert_eq!(bench.effects(), [settled(0, 3)]);
}

/// The expiry has voided 1, which waits to be read again; the late refusal of 2 waits
/// for 1. Had the seek waited for 2, the lane would have stood still for ever.
#[test]
fn a_late_refusal_above_a_voided_record_does_not_hold_back_the_seek() {
    let mut bench = Bench::new(in_lane_order());
    bench.fetched(0, 2).deliver(A, 0, 2);
    bench.extend(A, (1, 1), 60_000);
    bench
        .until(DEADLINE)
        .ack(A, 0, 0)
        .applied(A, 2, 2, Rejected);
    let again = bench.until(DEADLINE + 5000).effects();
    assert!(again.contains(&seek(1)), "{again:?}");
    bench.sought(Done).fetched(1, 2);
    assert_eq!(bench.ready_range(), Some((1, 1)));
    bench.deliver(B, 1, 1).ack(B, 1, 1).dead_letter(2, Stored);
    assert_eq!(bench.floor(), 3);
}

/// Its body has gone with the seek and is not in the log any more.
#[test]
fn l7_a_late_refusal_whose_record_has_vanished_is_released_and_reported() {
    let mut bench = Bench::new(in_lane_order());
    bench.fetched(0, 2).deliver(A, 0, 2);
    bench.extend(A, (1, 1), 60_000);
    bench
        .until(DEADLINE)
        .ack(A, 0, 0)
        .applied(A, 2, 2, Rejected);
    bench.until(DEADLINE + 5000).sought(Done).quiet();
    bench.fetched(1, 1).fetched(3, 3);
    let lost = Effect::Lost { range: range(2, 2) };
    assert!(bench.effects().contains(&lost));
    bench.deliver(B, 1, 1).deliver(B, 3, 3);
    bench.ack(B, 1, 1).ack(B, 3, 3);
    assert_eq!(bench.floor(), 4);
}

/// The bodies went with the seek, so a reject would have nothing to dead-letter.
#[test]
fn l4_a_late_verdict_from_before_a_seek_does_not_count_during_the_next_wait_either() {
    let mut bench = Bench::new(in_lane_order());
    bench
        .fetched(0, 3)
        .deliver(A, 0, 3)
        .until(DEADLINE + 5000)
        .sought(Done)
        .fetched(0, 0);
    bench.deliver(B, 0, 0).applied(B, 0, 0, failed_for(9000));
    for verdict in [Acked, Rejected] {
        assert_eq!(bench.result(A, 2, verdict), Expired);
    }
    assert_eq!(bench.floor(), 0);
}
