//! Records that are never handed out: filtered, unfit, too old.

use ackgate_lane::{
    Cause,
    DeadLetterOutcome::{Failed, Stored},
    Effect, Offset, OnExpired, OnReject, Order, Policy,
    SeekOutcome::Done,
    Verdict::{Acked, Rejected},
    VerdictResult::{Duplicate, Unknown},
};

use crate::support::{
    A, Bench, commit, failed_for, in_lane_order, policy, range, returned, settled,
};

fn letter(offset: u64, cause: Cause) -> Effect {
    Effect::DeadLetter {
        offset: Offset::new(offset),
        cause,
        attempts: 0,
        deliveries: 0,
    }
}

#[test]
fn filtered_records_settle_at_once_and_move_the_floor_as_acks_do() {
    let mut bench = Bench::new(policy());
    assert_eq!(bench.filtered(0, 9), 10);
    assert_eq!(bench.floor(), 10);
    assert_eq!(bench.effects(), [settled(0, 9)]);
    assert_eq!(bench.ready_range(), None);
    assert_eq!(bench.commits_until(1000), [10]);
}

#[test]
fn l2_filtered_records_above_an_unsettled_one_wait_with_the_floor() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 0);
    assert_eq!(bench.filtered(1, 5), 5);
    assert_eq!(bench.floor(), 0);
    assert_eq!(bench.commits_until(2000), []);
    bench.deliver(A, 0, 0).ack(A, 0, 0);
    assert_eq!(bench.floor(), 6);
    assert_eq!(bench.commits_until(4000), [6]);
}

#[test]
fn a_verdict_on_a_filtered_record_is_unknown_above_and_below_the_floor() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 0).filtered(1, 2);
    bench.fetched(3, 3).deliver(A, 0, 0).deliver(A, 3, 3);
    assert_eq!(bench.result(A, 1, Acked), Unknown);
    bench.ack(A, 0, 0).ack(A, 3, 3);
    assert_eq!(bench.floor(), 4);
    assert_eq!(
        bench.verdict(A, (0, 3), None, Acked),
        [(0, 0, Duplicate), (1, 2, Unknown), (3, 3, Duplicate)]
    );
    assert_eq!(bench.result(A, 2, Rejected), Unknown);
}

#[test]
fn records_that_are_out_or_settled_are_not_filtered() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 3).deliver(A, 0, 1).ack(A, 0, 0).quiet();
    assert_eq!(bench.lane.handle_filtered(bench.now, range(0, 3)), 2);
    assert_eq!(bench.effects(), [settled(2, 3)]);
    assert_eq!(bench.lane.handle_filtered(bench.now, range(2, 3)), 0, "L5");
    bench.ack(A, 1, 1);
    assert_eq!(bench.floor(), 4);
}

#[test]
fn lane_order_passes_filtered_records_over_when_it_reads_again() {
    let mut bench = Bench::new(in_lane_order());
    bench.fetched(0, 1).filtered(2, 3);
    bench.fetched(4, 4).deliver(A, 0, 1).deliver(A, 4, 4);
    bench
        .applied(A, 0, 0, failed_for(10))
        .until(10)
        .sought(Done)
        .quiet();
    bench.fetched(0, 1);
    assert_eq!(bench.filtered(2, 3), 0, "settled before");
    assert_eq!(bench.effects(), [Effect::Skipped { range: range(2, 3) }]);
    bench.fetched(4, 4).deliver(A, 0, 1).deliver(A, 4, 4);
    bench.ack(A, 0, 1).ack(A, 4, 4);
    assert_eq!(bench.floor(), 5);
}

#[test]
fn l3_unfit_records_are_dead_lettered_with_no_attempt_and_settle_once_that_is_stored() {
    let mut bench = Bench::new(policy());
    assert_eq!(bench.unfit(0, 1), 2);
    let letters = [letter(0, Cause::Content), letter(1, Cause::Content)];
    assert_eq!(bench.effects(), letters);
    let now = bench.now;
    let answer = |bench: &mut Bench, offset, outcome| {
        bench
            .lane
            .handle_dead_letter(now, Offset::new(offset), outcome)
    };
    assert_eq!(answer(&mut bench, 0, Failed), None);
    assert_eq!(bench.floor(), 0, "L3");
    assert_eq!(answer(&mut bench, 1, Stored), Some(Cause::Content));
    assert_eq!(answer(&mut bench, 1, Stored), None, "settled once");
    bench.until(10_000);
    assert!(bench.effects().contains(&letter(0, Cause::Content)));
    assert_eq!(answer(&mut bench, 0, Stored), Some(Cause::Content));
    assert_eq!(bench.floor(), 2);
}

#[test]
fn unfit_records_honour_on_reject() {
    let with = |on_reject| Policy {
        on_reject,
        ..policy()
    };
    let mut bench = Bench::new(with(OnReject::Drop));
    bench.unfit(0, 0);
    let dropped = Effect::Dropped {
        offset: Offset::new(0),
        cause: Cause::Content,
    };
    assert_eq!(bench.effects(), [dropped, settled(0, 0)]);
    let mut bench = Bench::new(with(OnReject::Hold));
    bench.unfit(0, 0);
    assert_eq!(bench.effects(), []);
    assert_eq!(bench.floor(), 0);
}

#[test]
fn lane_order_dead_letters_an_unfit_record_only_when_everything_below_is_decided() {
    let mut bench = Bench::new(in_lane_order());
    bench.fetched(0, 0).unfit(1, 1);
    bench.fetched(2, 2);
    assert_eq!(bench.effects(), []);
    bench.deliver(A, 0, 0);
    assert_eq!(bench.ready_range(), None, "L9: nothing overtakes it");
    // A failure below: it is read again, and found unfit again.
    bench
        .applied(A, 0, 0, failed_for(10))
        .until(10)
        .sought(Done)
        .quiet();
    bench.fetched(0, 0);
    assert_eq!(bench.unfit(1, 1), 1);
    bench.fetched(2, 2).deliver(A, 0, 0).ack(A, 0, 0);
    assert!(bench.effects().contains(&letter(1, Cause::Content)));
    bench.dead_letter(1, Stored);
    assert_eq!(bench.ready_range(), Some((2, 2)));
}

#[test]
fn fc_39_a_record_expires_only_before_its_first_hand_over() {
    // FC-39
    let mut bench = Bench::new(policy());
    bench.fetched(0, 3).deliver(A, 0, 0);
    bench.applied(A, 0, 0, failed_for(10)).until(10).quiet();
    assert_eq!(bench.expired(0, 2, OnExpired::Drop), 2);
    assert_eq!(bench.effects(), [settled(1, 2)]);
    assert_eq!(bench.expired(0, 2, OnExpired::Drop), 0, "once");
    assert_eq!(bench.ready_range(), Some((0, 0)));
    assert_eq!(bench.result(A, 1, Acked), Unknown);
}

#[test]
fn expired_records_are_dead_lettered_whatever_becomes_of_rejected_ones() {
    for order in [Order::None, Order::Lane { skip_acked: false }] {
        let mut bench = Bench::new(Policy {
            on_reject: OnReject::Drop,
            order,
            ..policy()
        });
        bench.fetched(0, 1);
        assert_eq!(bench.expired(0, 0, OnExpired::DeadLetter), 1);
        assert_eq!(bench.effects(), [letter(0, Cause::Expired)]);
        assert_eq!(bench.floor(), 0, "L3");
        bench.dead_letter(0, Stored);
        assert_eq!(bench.effects(), [settled(0, 0)]);
        bench.deliver(A, 1, 1).ack(A, 1, 1);
        assert_eq!(bench.floor(), 2);
    }
}

#[test]
fn nothing_is_taken_out_after_the_end_of_a_drain() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 1).drain(0).quiet();
    assert_eq!(bench.lane.handle_filtered(bench.now, range(0, 1)), 0);
    assert_eq!(bench.expired(0, 1, OnExpired::DeadLetter), 0);
    assert_eq!(bench.effects(), []);
}

#[test]
fn a_million_filtered_records_cost_as_much_as_one() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 0);
    for hundred in 0..10_000 {
        bench.filtered(1 + hundred * 100, 100 + hundred * 100);
        bench.quiet();
    }
    assert!(bench.lane.tracked() <= 2, "{}", bench.lane.tracked());
    bench.deliver(A, 0, 0).ack(A, 0, 0).until(1000);
    let effects = bench.effects();
    assert!(effects.contains(&returned(A, 0, 0, ackgate_lane::Return::Verdict)));
    assert!(effects.contains(&commit(1_000_001)), "{effects:?}");
}
