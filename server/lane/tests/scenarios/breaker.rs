//! Too many records given up: the lane stops until an operator says to go on.

use ackgate_lane::{
    Breaker, Cause,
    DeadLetterOutcome::{Failed, Stored},
    Effect, Hold, Offset, OnExpired, OnReject, OnUnwritten, Policy, Ratio, Stop, Trip,
    Verdict::Rejected,
    VerdictResult::Duplicate,
};

use crate::support::{A, B, Bench, in_lane_order, policy, settled};

fn by_run(run: u32) -> Policy {
    Policy {
        breaker: Breaker {
            run: Some(run),
            ratio: None,
        },
        ..policy()
    }
}

fn in_order(run: u32) -> Policy {
    Policy {
        order: in_lane_order().order,
        ..by_run(run)
    }
}

/// Offsets of the dead letters asked for.
fn letters(bench: &mut Bench) -> Vec<u64> {
    let mut offsets = Vec::new();
    for effect in bench.effects() {
        if let Effect::DeadLetter { offset, .. } = effect {
            offsets.push(offset.get());
        }
    }
    offsets
}

fn tripped(records: u32) -> Effect {
    Effect::Tripped {
        trip: Trip::Run { records },
    }
}

/// FC-54: a subscriber that rejects everything.
#[test]
fn of_a_run_of_rejected_records_the_limit_is_dead_lettered_and_the_rest_waits() {
    let mut bench = Bench::new(by_run(100));
    bench
        .fetched(0, 999)
        .deliver(A, 0, 899)
        .applied(A, 0, 899, Rejected);
    let effects = bench.effects();
    assert_eq!(effects.last(), Some(&tripped(100)));
    let asked = |effect: &&Effect| matches!(effect, Effect::DeadLetter { .. });
    assert_eq!(effects.iter().filter(asked).count(), 100);
    for offset in 0..100 {
        bench.dead_letter(offset, Stored);
    }
    let snapshot = bench.lane.snapshot();
    assert_eq!((bench.floor(), snapshot.dead_lettering), (100, 800));
    let trip = Trip::Run { records: 100 };
    assert_eq!(snapshot.stop, Some(Stop::Breaker { trip }));
    assert_eq!(snapshot.hold, Some(Hold::Breaker { trip }));
    assert_eq!((bench.ready(), bench.lane.has_ready()), (None, false));
    assert_eq!(letters(bench.until(3_600_000)), [0; 0]);
}

#[test]
fn a_reset_writes_what_was_given_up_meanwhile_and_counts_anew() {
    let mut bench = Bench::new(by_run(2));
    bench
        .fetched(0, 9)
        .deliver(A, 0, 4)
        .applied(A, 0, 4, Rejected);
    assert_eq!(letters(&mut bench), [0, 1]);
    assert!(bench.lane.reset_breaker(bench.now));
    assert_eq!(letters(&mut bench), [2, 3, 4]);
    assert_eq!(bench.lane.snapshot().stop, None);
    assert!(!bench.lane.reset_breaker(bench.now), "it is closed");
    bench.deliver(A, 5, 7).applied(A, 5, 5, Rejected);
    assert_eq!(bench.ready_range(), Some((8, 9)));
    bench.applied(A, 6, 6, Rejected);
    assert_eq!(bench.effects().last(), Some(&tripped(2)));
    assert_eq!(bench.ready(), None);
}

#[test]
fn an_ack_between_ends_the_run_and_does_not_close_an_open_breaker() {
    let mut bench = Bench::new(by_run(2));
    bench.fetched(0, 9).deliver(A, 0, 9);
    for offset in 0..3 {
        bench
            .applied(A, 2 * offset, 2 * offset, Rejected)
            .ack(A, 2 * offset + 1, 2 * offset + 1);
    }
    assert_eq!(bench.lane.snapshot().stop, None);
    bench.applied(A, 6, 7, Rejected).ack(A, 8, 8).quiet();
    assert!(bench.lane.snapshot().stop.is_some());
    bench.applied(A, 9, 9, Rejected);
    assert_eq!(letters(&mut bench), [0; 0], "no further one");
}

#[test]
fn verdicts_on_what_is_out_count_while_it_is_open() {
    let mut bench = Bench::new(by_run(1));
    bench
        .fetched(0, 5)
        .deliver(A, 0, 3)
        .applied(A, 0, 0, Rejected)
        .quiet()
        .ack(A, 1, 1)
        .applied(A, 2, 2, Rejected);
    assert_eq!(bench.result(A, 2, Rejected), Duplicate);
    bench.dead_letter(0, Stored);
    assert_eq!(bench.floor(), 2, "L2: the rejected one waits");
    bench.ack(A, 3, 3);
    bench.lane.reset_breaker(bench.now);
    bench.dead_letter(2, Stored);
    assert_eq!((bench.floor(), bench.ready_range()), (4, Some((4, 5))));
}

#[test]
fn a_ratio_of_the_last_records_opens_it_too() {
    let mut bench = Bench::new(Policy {
        breaker: Breaker {
            run: None,
            ratio: Some(Ratio { part: 500, of: 10 }),
        },
        ..policy()
    });
    bench.fetched(0, 99).deliver(A, 0, 29).ack(A, 0, 9);
    for pair in 5..9 {
        bench
            .applied(A, 2 * pair, 2 * pair, Rejected)
            .ack(A, 2 * pair + 1, 2 * pair + 1);
    }
    assert_eq!(bench.lane.snapshot().stop, None, "four of ten");
    bench.applied(A, 18, 18, Rejected);
    let trip = Trip::Ratio {
        given_up: 5,
        of: 10,
    };
    assert_eq!(bench.lane.snapshot().stop, Some(Stop::Breaker { trip }));
}

#[test]
fn what_is_unfit_or_too_old_counts_and_what_is_dropped_or_filtered_does_not() {
    let mut bench = Bench::new(by_run(3));
    assert_eq!(bench.unfit(0, 1), 2);
    bench.fetched(2, 5);
    bench.expired(2, 2, OnExpired::DeadLetter);
    assert!(bench.lane.snapshot().stop.is_some());
    let mut bench = Bench::new(Policy {
        on_reject: OnReject::Drop,
        ..by_run(1)
    });
    bench
        .fetched(0, 9)
        .deliver(A, 0, 9)
        .applied(A, 0, 9, Rejected);
    bench.filtered(10, 20);
    assert_eq!((bench.lane.snapshot().stop, bench.floor()), (None, 21));
}

#[test]
fn in_lane_order_the_rest_of_the_run_waits_in_its_place() {
    let mut bench = Bench::new(in_order(2));
    bench
        .fetched(0, 9)
        .deliver(A, 0, 4)
        .applied(A, 0, 4, Rejected);
    assert_eq!(letters(&mut bench), [0, 1]);
    bench.dead_letter(0, Stored).dead_letter(1, Stored);
    assert_eq!((bench.floor(), bench.ready()), (2, None));
    bench.lane.reset_breaker(bench.now);
    assert_eq!(letters(&mut bench), [2, 3, 4]);
    for offset in 2..5 {
        bench.dead_letter(offset, Stored);
    }
    assert_eq!(bench.ready_range(), Some((5, 9)));
}

#[test]
fn an_open_breaker_does_not_keep_a_drain_and_the_next_assignment_has_them_again() {
    let mut bench = Bench::new(by_run(1));
    bench
        .fetched(0, 5)
        .deliver(A, 0, 2)
        .applied(A, 0, 2, Rejected)
        .dead_letter(0, Stored)
        .quiet()
        .drain(5000);
    let effects = bench.effects();
    assert!(effects.contains(&crate::support::commit(1)), "{effects:?}");
    assert_eq!(effects.last(), Some(&Effect::Drained));
    assert!(!bench.lane.reset_breaker(bench.now), "it is over");
}

#[test]
fn what_was_asked_for_before_it_opened_is_tried_again_behind_it() {
    let mut bench = Bench::new(Policy {
        on_unwritten: OnUnwritten::Discard { tries: 2 },
        ..by_run(1)
    });
    bench
        .fetched(0, 5)
        .deliver(A, 0, 1)
        .applied(A, 0, 1, Rejected)
        .dead_letter(0, Failed)
        .quiet()
        .until(60_000);
    assert_eq!(letters(&mut bench), [0]);
    bench.dead_letter(0, Failed);
    let discarded = Effect::Discarded {
        offset: Offset::new(0),
        cause: Cause::Rejected,
        tries: 2,
    };
    assert_eq!(bench.effects(), [discarded, settled(0, 0)]);
    assert!(bench.lane.snapshot().stop.is_some());
}

#[test]
fn it_is_off_unless_it_is_asked_for() {
    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 1999)
        .deliver(B, 0, 1999)
        .applied(B, 0, 1999, Rejected);
    assert_eq!(letters(&mut bench).len(), 2000);
    assert_eq!(bench.lane.snapshot().stop, None);
}
