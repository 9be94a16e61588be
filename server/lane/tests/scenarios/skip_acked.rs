//! Lane order with `skip_acked`: what was acked above a failure stays settled.

use ackgate_lane::{
    Effect, Order, Policy, Return,
    SeekOutcome::Done,
    Verdict::{Acked, Rejected},
    VerdictResult::{Conflict, Duplicate},
};

use crate::support::{A, Bench, failed_for, policy, range, returned, settled};

fn skipping() -> Policy {
    Policy {
        order: Order::Lane { skip_acked: true },
        ..policy()
    }
}

#[test]
fn acked_records_are_not_delivered_again_after_the_seek() {
    let mut bench = Bench::new(skipping());
    bench.fetched(0, 5).deliver(A, 0, 5).ack(A, 1, 2);
    assert_eq!(
        bench.effects(),
        [returned(A, 1, 2, Return::Verdict), settled(1, 2)]
    );
    bench
        .ack(A, 4, 4)
        .applied(A, 0, 0, failed_for(10))
        .until(10)
        .sought(Done)
        .quiet()
        .fetched(0, 5);
    assert_eq!(
        bench.effects(),
        [
            Effect::Skipped { range: range(1, 2) },
            Effect::Skipped { range: range(4, 4) }
        ]
    );
    assert_eq!(bench.ready_range(), Some((0, 0)));
    bench.deliver(A, 0, 0);
    assert_eq!(bench.ready_range(), Some((3, 3)));
    bench.deliver(A, 3, 5);
    assert_eq!(bench.result(A, 1, Acked), Duplicate);
    assert_eq!(bench.result(A, 1, Rejected), Conflict);
    bench.ack(A, 0, 0);
    assert_eq!(bench.floor(), 3);
    bench.ack(A, 3, 3).ack(A, 5, 5);
    assert_eq!(bench.floor(), 6);
}

#[test]
fn a_reject_above_a_failure_is_delivered_again() {
    let mut bench = Bench::new(skipping());
    bench
        .fetched(0, 2)
        .deliver(A, 0, 2)
        .applied(A, 1, 1, Rejected)
        .ack(A, 2, 2);
    bench
        .applied(A, 0, 0, failed_for(10))
        .until(10)
        .sought(Done)
        .fetched(0, 2);
    assert!(
        bench
            .effects()
            .iter()
            .all(|effect| !matches!(effect, Effect::DeadLetter { .. }))
    );
    bench
        .deliver(A, 0, 1)
        .ack(A, 0, 0)
        .applied(A, 1, 1, Rejected);
    assert!(matches!(
        bench.effects().last(),
        Some(Effect::DeadLetter { attempts: 1, .. })
    ));
}

#[test]
fn acked_records_that_are_still_to_be_read_again_are_not_forgotten_when_the_floor_reaches_them() {
    let mut bench = Bench::new(skipping());
    bench.fetched(0, 3).deliver(A, 0, 3).ack(A, 1, 3);
    bench
        .applied(A, 0, 0, failed_for(10))
        .until(10)
        .sought(Done)
        .fetched(0, 0);
    bench.deliver(A, 0, 0).ack(A, 0, 0).quiet();
    assert_eq!(bench.floor(), 1);
    bench.fetched(1, 4);
    assert_eq!(bench.effects(), [Effect::Skipped { range: range(1, 3) }]);
    assert_eq!((bench.floor(), bench.ready_range()), (4, Some((4, 4))));
}
