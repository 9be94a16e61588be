//! Dead letters that cannot be written: block, park, discard.

use ackgate_lane::{
    Cause, CommitOutcome,
    DeadLetterOutcome::{Failed, Postponed, Stored},
    Effect, Hold, Offset, OnExpired, OnReject, OnUnwritten, Order, Policy, Stop,
    Verdict::Rejected,
};

use crate::support::{A, B, Bench, FAILED, in_lane_order, policy, settled};

fn parking(tries: u32) -> Policy {
    Policy {
        on_unwritten: OnUnwritten::Park { tries },
        ..policy()
    }
}

fn discarding(tries: u32) -> Policy {
    Policy {
        on_unwritten: OnUnwritten::Discard { tries },
        ..policy()
    }
}

/// Fails the write of `offset` so many times, each when the lane asks for it.
fn fail(bench: &mut Bench, offset: u64, times: u32) {
    for _ in 0..times {
        let is_asked = |effect: &Effect| matches!(effect, Effect::DeadLetter { offset: of, .. } if of.get() == offset);
        while !bench.effects().iter().any(is_asked) {
            let next = bench.lane.poll_timeout().expect("a next try");
            bench.until(u64::try_from(next.0.as_millis()).expect("a short test") + 1);
        }
        bench.dead_letter(offset, Failed);
    }
}

fn stop(offset: u64) -> Option<Stop> {
    Some(Stop::DeadLetter {
        offset: Offset::new(offset),
    })
}

/// Records 0 to 5; 0 and 1 are out to A, who rejects 0.
fn rejecting(policy: Policy) -> Bench {
    let mut bench = Bench::new(policy);
    bench
        .fetched(0, 5)
        .deliver(A, 0, 1)
        .applied(A, 0, 0, Rejected);
    bench
}

#[test]
fn block_hands_out_nothing_new_while_a_write_fails_and_takes_verdicts() {
    let mut bench = rejecting(policy());
    assert_eq!(bench.ready_range(), Some((2, 5)), "the write may succeed");
    bench.dead_letter(0, Failed);
    assert_eq!((bench.ready(), bench.ready_offset(B)), (None, None));
    assert!(!bench.lane.has_ready());
    assert_eq!(bench.lane.snapshot().stop, stop(0));
    bench.ack(A, 1, 1);
    bench.until(600_000);
    assert_eq!((bench.ready(), bench.floor()), (None, 0), "also meanwhile");
    bench.dead_letter(0, Stored);
    assert_eq!(bench.ready_range(), Some((2, 5)));
    assert_eq!((bench.floor(), bench.lane.snapshot().stop), (2, None));
}

#[test]
fn the_lane_waits_until_the_last_failing_write_has_succeeded() {
    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 9)
        .deliver(A, 0, 3)
        .ack(A, 0, 0)
        .applied(A, 1, 3, Rejected)
        .dead_letter(1, Failed)
        .dead_letter(3, Failed)
        .dead_letter(2, Stored)
        .until(600_000)
        .dead_letter(1, Stored);
    let hold = bench.lane.snapshot().hold;
    assert!(
        matches!(hold, Some(Hold::DeadLetter { offset, .. }) if offset == Offset::new(3)),
        "{hold:?}"
    );
    assert_eq!((bench.ready(), bench.lane.snapshot().stop), (None, stop(3)));
    bench.dead_letter(3, Stored);
    assert_eq!(bench.ready_range(), Some((4, 9)));
}

#[test]
fn a_retry_that_comes_back_during_a_block_waits_for_its_end() {
    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 1)
        .deliver(A, 0, 1)
        .applied(A, 0, 0, Rejected)
        .dead_letter(0, Failed)
        .applied(A, 1, 1, FAILED)
        .until(100_000);
    assert_eq!(bench.ready(), None);
    bench.dead_letter(0, Stored);
    assert_eq!(bench.ready_range(), Some((1, 1)));
}

#[test]
fn l2_a_parked_record_keeps_the_floor_and_the_lane_goes_on() {
    let mut bench = rejecting(parking(3));
    bench.ack(A, 1, 1);
    fail(&mut bench, 0, 2);
    assert_eq!((bench.ready(), bench.lane.snapshot().parked), (None, 0));
    fail(&mut bench, 0, 1);
    let parked = Effect::Parked {
        offset: Offset::new(0),
        cause: Cause::Rejected,
        tries: 3,
    };
    assert_eq!(bench.effects(), [parked]);
    let snapshot = bench.lane.snapshot();
    assert_eq!(
        (snapshot.parked, snapshot.dead_lettering, snapshot.stop),
        (1, 0, None)
    );
    let now = bench.now;
    let next = bench.lane.poll_timeout().expect("a next try");
    bench.deliver(A, 2, 5).ack(A, 2, 5).quiet();
    assert_eq!(bench.floor(), 0);
    let waits = next.since(now).as_secs();
    assert!(
        (30..=60).contains(&waits),
        "not at the longest backoff: {waits} s"
    );
    // Also while it is tried again.
    fail(&mut bench, 0, 5);
    bench.fetched(6, 9);
    assert_eq!(bench.ready_range(), Some((6, 9)));
    bench.until(10_000_000).quiet();
    assert_eq!(bench.ready_range(), Some((6, 9)));
    bench.dead_letter(0, Stored);
    assert_eq!(bench.effects(), [settled(0, 0)]);
    assert_eq!((bench.floor(), bench.lane.snapshot().parked), (6, 0));
}

#[test]
fn parked_records_fill_the_window_and_no_more() {
    let mut bench = Bench::new(Policy {
        window: ackgate_lane::Window {
            records: 3,
            span: 100,
        },
        ..parking(1)
    });
    for offset in 0..3 {
        bench
            .fetched(offset, offset)
            .deliver(A, offset, offset)
            .applied(A, offset, offset, Rejected)
            .dead_letter(offset, Failed);
    }
    assert_eq!((bench.lane.room(), bench.lane.snapshot().parked), (0, 3));
    bench.until(60_000).dead_letter(1, Stored);
    assert_eq!(bench.lane.room(), 1);
}

#[test]
fn l9_what_is_behind_a_parked_record_of_its_key_stays_there() {
    let mut bench = Bench::new(Policy {
        order: Order::Key { share: 1000 },
        ..parking(1)
    });
    bench
        .keyed(0, &[Some(1), Some(2), Some(1)])
        .hand(A, 0, 0)
        .applied(A, 0, 0, Rejected)
        .dead_letter(0, Failed);
    assert_eq!(bench.lane.snapshot().parked, 1);
    bench.hand(A, 1, 1).ack(A, 1, 1);
    assert_eq!((bench.ready(), bench.lane.snapshot().behind), (None, 1));
    bench.until(60_000).dead_letter(0, Stored);
    assert_eq!(bench.ready_range(), Some((2, 2)));
}

#[test]
fn l9_in_lane_order_nothing_overtakes_a_parked_record() {
    let mut bench = Bench::new(Policy {
        order: in_lane_order().order,
        ..parking(1)
    });
    bench
        .fetched(0, 3)
        .deliver(A, 0, 0)
        .applied(A, 0, 0, Rejected)
        .dead_letter(0, Failed);
    assert_eq!((bench.ready(), bench.lane.snapshot().parked), (None, 1));
    bench.until(60_000).dead_letter(0, Stored);
    assert_eq!(bench.ready_range(), Some((1, 3)));
}

#[test]
fn discard_settles_without_a_copy_after_so_many_failed_writes_and_says_so() {
    let mut bench = rejecting(discarding(3));
    fail(&mut bench, 0, 2);
    bench.ack(A, 1, 1).quiet();
    assert_eq!((bench.ready(), bench.floor()), (None, 0));
    fail(&mut bench, 0, 1);
    let discarded = Effect::Discarded {
        offset: Offset::new(0),
        cause: Cause::Rejected,
        tries: 3,
    };
    assert_eq!(bench.effects(), [discarded, settled(0, 0)]);
    assert_eq!((bench.floor(), bench.ready_range()), (2, Some((2, 5))));
}

#[test]
fn l3_what_was_not_tried_counts_as_no_failed_write() {
    let mut bench = rejecting(discarding(1));
    for _ in 0..20 {
        bench.dead_letter(0, Postponed);
        let next = bench.lane.poll_timeout().expect("a next try");
        assert_eq!(bench.lane.snapshot().stop, None);
        bench.until(u64::try_from(next.0.as_millis()).expect("short") + 1);
    }
    assert_eq!(
        (bench.floor(), bench.lane.snapshot().dead_lettering),
        (0, 1)
    );
    bench.dead_letter(0, Failed);
    assert_eq!(bench.floor(), 1, "that was a write");
}

#[test]
fn every_cause_takes_the_same_way() {
    type GiveUp = fn(&mut Bench);
    let give_up: [(Cause, GiveUp); 6] = [
        (Cause::Rejected, |bench| {
            bench.deliver(A, 0, 0).applied(A, 0, 0, Rejected);
        }),
        (Cause::AttemptsExhausted, |bench| {
            bench.deliver(A, 0, 0).applied(A, 0, 0, FAILED);
        }),
        (Cause::DeliveriesExhausted, |bench| {
            bench.deliver(A, 0, 0).lost(A);
            bench.deliver(A, 0, 0).lost(A);
        }),
        (Cause::Oversize, |bench| {
            bench.lane.handle_oversize(bench.now, Offset::new(0));
        }),
        (Cause::Content, |bench| {
            assert_eq!(bench.unfit(1, 1), 1);
            // The floor is not what it is about.
            bench.deliver(A, 0, 0).ack(A, 0, 0);
        }),
        (Cause::Expired, |bench| {
            assert_eq!(bench.expired(0, 0, OnExpired::DeadLetter), 1);
        }),
    ];
    for (cause, give_up) in give_up {
        let mut bench = Bench::new(Policy {
            max_attempts: 1,
            max_deliveries: 2,
            ..discarding(2)
        });
        bench.fetched(0, 0);
        give_up(&mut bench);
        let offset = u64::from(cause == Cause::Content);
        fail(&mut bench, offset, 1);
        assert_eq!(bench.lane.snapshot().stop, stop(offset), "{cause:?}");
        fail(&mut bench, offset, 1);
        let discarded = Effect::Discarded {
            offset: Offset::new(offset),
            cause,
            tries: 2,
        };
        let effects = bench.effects();
        assert!(effects.contains(&discarded), "{effects:?}");
        assert_eq!(bench.floor(), offset + 1, "{cause:?}");
    }
}

#[test]
fn a_blocked_lane_drains_at_once_and_commits_below_the_record() {
    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 3)
        .deliver(A, 0, 3)
        .ack(A, 0, 1)
        .applied(A, 2, 2, Rejected)
        .dead_letter(2, Failed)
        .ack(A, 3, 3)
        .quiet()
        .drain(5000);
    let effects = bench.effects();
    assert!(effects.contains(&crate::support::commit(2)), "{effects:?}");
    assert_eq!(effects.last(), Some(&Effect::Drained));
}

#[test]
fn a_drain_waits_for_a_parked_record_that_is_being_written_and_no_longer_than_its_deadline() {
    let mut bench = rejecting(parking(1));
    bench.dead_letter(0, Failed).ack(A, 1, 1).until(60_000);
    bench.quiet().drain(65_000);
    assert!(!bench.lane.is_done());
    bench.until(65_000);
    assert!(bench.lane.is_done());
    assert!(!bench.effects().contains(&settled(0, 0)), "L3");
}

#[test]
fn held_records_are_no_dead_letters() {
    let mut bench = rejecting(Policy {
        on_reject: OnReject::Hold,
        ..policy()
    });
    let snapshot = bench.lane.snapshot();
    assert_eq!((snapshot.dead_lettering, snapshot.stop), (0, None));
    assert!(!bench.lane.reset_breaker(bench.now));
}

#[test]
fn block_holds_for_dead_letters_that_travel_with_commits_too() {
    let mut bench = rejecting(Policy {
        exactly_once: true,
        ..policy()
    });
    assert_eq!(bench.effects().last(), Some(&crate::support::commit(1)));
    assert_eq!(bench.ready_range(), Some((2, 5)), "it may succeed");
    bench.committed(1, CommitOutcome::Failed);
    assert_eq!((bench.lane.snapshot().stop, bench.ready()), (stop(0), None));
    assert_eq!(bench.floor(), 0);
    bench.until(5000).committed(1, CommitOutcome::Done);
    assert_eq!((bench.floor(), bench.ready_range()), (1, Some((2, 5))));
    assert_eq!(bench.lane.snapshot().stop, None);
}
