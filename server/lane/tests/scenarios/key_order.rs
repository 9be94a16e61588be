//! Order by key: one record of a key at a time, and a key stays where it is.

use ackgate_lane::{
    Cause, DeadLetterOutcome, Effect, Hold, Offset, OnReject, Order, Policy, Return, Subscriber,
    Verdict, VerdictResult, Window,
};

use crate::support::{A, B, Bench, DEADLINE, FAILED, failed_for, policy, range};

const K: Option<u64> = Some(7);
const J: Option<u64> = Some(8);

fn by_key() -> Policy {
    Policy {
        order: Order::Key { share: 250 },
        ..policy()
    }
}

/// What `subscriber` may take now, handed to it: offsets.
fn take(bench: &mut Bench, subscriber: Subscriber) -> Vec<u64> {
    let mut taken = Vec::new();
    while let Some(ready) = bench.lane.ready_for(subscriber) {
        let (first, last) = (ready.range.first().get(), ready.range.last().get());
        bench.hand(subscriber, first, last);
        taken.extend(first..=last);
    }
    taken
}

#[test]
fn l9_of_each_key_one_record_is_out_and_records_without_a_key_are_free() {
    let mut bench = Bench::new(by_key());
    bench.keyed(0, &[K, J, None, K, None, J, K]);
    assert_eq!(take(&mut bench, A), [0, 1, 2, 4]);
    assert_eq!(bench.lane.snapshot().behind, 3);
    bench.ack(A, 0, 0);
    assert_eq!(take(&mut bench, A), [3]);
    bench.ack(A, 3, 3).ack(A, 1, 2).ack(A, 4, 4);
    assert_eq!(take(&mut bench, A), [5, 6]);
    bench.ack(A, 5, 6);
    assert_eq!((bench.floor(), bench.lane.tracked()), (7, 0));
}

/// FC-64
#[test]
fn l9_a_failed_record_keeps_its_place_in_its_key_and_the_others_go_on() {
    let mut bench = Bench::new(by_key());
    bench.keyed(0, &[K, K, K, K, K, J, J, J, J, J]);
    let mut delivered = Vec::new();
    let mut failed = false;
    loop {
        let taken = take(&mut bench, A);
        if taken.is_empty() {
            let Some(next) = bench.lane.poll_timeout() else {
                break;
            };
            let ms = u64::try_from(next.0.as_millis()).expect("soon");
            if ms > 1000 {
                break;
            }
            let js = delivered.iter().filter(|offset| **offset >= 5).count();
            assert_eq!(js, 5, "the other key is through before the retry");
            bench.until(ms);
        }
        for offset in taken {
            delivered.push(offset);
            if offset == 0 && !failed {
                failed = true;
                bench.applied(A, 0, 0, failed_for(1000));
            } else {
                bench.ack(A, offset, offset);
            }
        }
        bench.quiet();
    }
    let ks: Vec<u64> = delivered.into_iter().filter(|o| *o < 5).collect();
    assert_eq!(ks, [0, 0, 1, 2, 3, 4]);
    assert_eq!(bench.floor(), 10);
}

/// FC-66
#[test]
fn records_with_a_null_key_are_unordered_and_an_empty_key_is_a_key() {
    let empty = Some(0);
    let mut bench = Bench::new(by_key());
    bench.keyed(0, &[None, empty, None, empty, None]);
    assert_eq!(take(&mut bench, A), [0, 1, 2, 4]);
}

#[test]
fn a_key_stays_with_its_subscriber_also_after_a_failure() {
    let mut bench = Bench::new(by_key());
    bench.keyed(0, &[K, K, J]);
    bench.hand(A, 0, 0);
    bench.applied(A, 0, 0, failed_for(10)).until(20);
    assert_eq!(take(&mut bench, B), [2], "B gets the other key alone");
    assert_eq!(bench.lane.ready().and_then(|ready| ready.owner), Some(A));
    assert_eq!(take(&mut bench, A), [0]);
    bench.ack(A, 0, 0);
    assert_eq!(take(&mut bench, B), []);
    assert_eq!(take(&mut bench, A), [1]);
    bench.ack(A, 1, 1).keyed(3, &[K]);
    assert_eq!(
        take(&mut bench, B),
        [3],
        "with all of it settled it is anyone's"
    );
}

#[test]
fn a_key_whose_hand_out_is_void_moves_and_may_come_back() {
    for how in ["lost", "closed", "released", "expired", "paused"] {
        let mut bench = Bench::new(by_key());
        bench.keyed(0, &[K, K, K]);
        bench.hand(A, 0, 0);
        let first = match how {
            "lost" => bench.lost(A).ready_offset(B),
            "closed" => bench.closed(A).ready_offset(B),
            "released" => bench.applied(A, 0, 0, Verdict::Released).ready_offset(B),
            "expired" => bench.until(DEADLINE + 60_000).ready_offset(B),
            _ => bench.ack(A, 0, 0).paused(A).ready_offset(B),
        };
        let expected = u64::from(how == "paused");
        assert_eq!(first, Some(expected), "{how}");
        bench.hand(B, expected, expected);
        bench.ack(B, expected, expected);
        assert_eq!(bench.ready_offset(A), None, "{how}: it is with B now");
        bench.lost(B);
        let next = bench.ready_offset(A).expect("A may have it again");
        bench.hand(A, next, next);
        assert_eq!(bench.ready_offset(B), None, "{how}");
        bench.ack(A, next, next);
        while let Some(&offset) = take(&mut bench, A).first() {
            bench.ack(A, offset, offset);
        }
        assert_eq!((bench.floor(), bench.lane.tracked()), (3, 0), "{how}");
    }
}

#[test]
fn a_paused_subscriber_keeps_what_is_out_and_gives_up_the_rest_of_the_key() {
    let mut bench = Bench::new(by_key());
    bench.keyed(0, &[K, K]);
    bench.hand(A, 0, 0);
    bench.paused(A);
    assert_eq!(take(&mut bench, B), [], "one record of a key at a time");
    bench.ack(A, 0, 0);
    assert_eq!(take(&mut bench, B), [1]);
}

#[test]
fn l3_l9_a_key_goes_on_only_once_the_dead_letter_before_it_is_confirmed() {
    let mut bench = Bench::new(by_key());
    bench.keyed(0, &[K, K, J]);
    bench.hand(A, 0, 0);
    bench.applied(A, 0, 0, Verdict::Rejected);
    assert_eq!(take(&mut bench, A), [2]);
    bench.dead_letter(0, DeadLetterOutcome::Failed);
    assert_eq!(take(&mut bench, A), []);
    bench.until(2000).dead_letter(0, DeadLetterOutcome::Stored);
    assert_eq!(take(&mut bench, A), [1]);
}

#[test]
fn a_held_record_holds_its_key_and_a_dropped_one_does_not() {
    for (on_reject, next) in [(OnReject::Hold, vec![]), (OnReject::Drop, vec![1])] {
        let mut bench = Bench::new(Policy {
            on_reject,
            ..by_key()
        });
        bench.keyed(0, &[K, K]);
        bench.hand(A, 0, 0);
        bench.applied(A, 0, 0, Verdict::Rejected);
        assert_eq!(take(&mut bench, A), next, "{on_reject:?}");
    }
}

#[test]
fn an_exhausted_record_of_a_key_is_dead_lettered_and_the_key_goes_on() {
    let mut bench = Bench::new(Policy {
        max_attempts: 2,
        ..by_key()
    });
    bench.keyed(0, &[K, K]);
    bench.hand(A, 0, 0);
    bench.applied(A, 0, 0, failed_for(5)).until(5).hand(A, 0, 0);
    bench.quiet().applied(A, 0, 0, FAILED);
    assert!(bench.effects().contains(&Effect::DeadLetter {
        offset: Offset::new(0),
        cause: Cause::AttemptsExhausted,
        attempts: 2,
        deliveries: 2,
    }));
    bench.dead_letter(0, DeadLetterOutcome::Stored);
    assert_eq!(take(&mut bench, A), [1]);
}

#[test]
fn a_suspected_poison_of_a_key_goes_out_alone_and_in_its_place() {
    let mut bench = Bench::new(by_key());
    bench.keyed(0, &[K, K, J]);
    bench.hand(A, 2, 2);
    for _ in 0..3 {
        bench.hand(B, 0, 0);
        bench.lost(B);
    }
    let ready = bench.lane.ready_for(A).expect("ready");
    assert!(ready.alone && ready.range.first() == Offset::new(0));
    bench.hand(A, 0, 0);
    bench.ack(A, 0, 0);
    let ready = bench.lane.ready_for(A).expect("ready");
    assert!(!ready.alone && ready.range.first() == Offset::new(1));
}

#[test]
fn a_record_too_large_for_anyone_lets_its_key_go_on() {
    let mut bench = Bench::new(by_key());
    bench.keyed(0, &[K, K]);
    bench.lane.handle_oversize(bench.now, Offset::new(0));
    assert_eq!(take(&mut bench, A), []);
    bench.dead_letter(0, DeadLetterOutcome::Stored);
    assert_eq!(take(&mut bench, A), [1]);
}

#[test]
fn a_late_ack_lets_the_key_go_on_with_anyone() {
    let mut bench = Bench::new(by_key());
    bench.keyed(0, &[K, K]);
    bench.hand(A, 0, 0);
    bench.until(DEADLINE);
    assert_eq!(bench.result(A, 0, Verdict::Acked), VerdictResult::Applied);
    assert_eq!(take(&mut bench, B), [1]);
}

#[test]
fn records_passed_in_twice_count_once_in_their_key() {
    let mut bench = Bench::new(by_key());
    bench.keyed(0, &[K, K]).keyed(0, &[K, K]).keyed(1, &[K]);
    bench.hand(A, 0, 0);
    bench.ack(A, 0, 0).keyed(0, &[K]);
    bench.hand(A, 1, 1);
    bench.ack(A, 1, 1);
    assert_eq!((bench.floor(), bench.lane.tracked()), (2, 0));
}

/// A key that never settles fills its share of the window and no more: a thousand
/// others flow past it until the span is used up.
#[test]
fn a_hot_key_takes_its_share_of_the_window_and_others_flow() {
    let records = 100;
    let mut bench = Bench::new(Policy {
        window: Window {
            records,
            span: 4000,
        },
        ..by_key()
    });
    let (mut next, mut others) = (0, 0);
    while others < 1000 {
        let room = u64::from(bench.lane.room());
        assert!(room > 0, "stuck with {others} others through");
        // Two in three are of the hot key.
        let keys: Vec<Option<u64>> = (next..next + room)
            .map(|offset| Some(if offset % 3 == 2 { offset } else { 1_000_000 }))
            .collect();
        bench.keyed(next, &keys);
        next += room;
        for offset in take(&mut bench, A) {
            if offset % 3 == 2 {
                bench.ack(A, offset, offset);
                others += 1;
            } else {
                assert_eq!(offset, 0, "L9");
            }
        }
        bench.quiet();
        let counts = bench.lane.snapshot();
        let limit = 2 * u64::from(records) + counts.behind;
        assert!(counts.unsettled <= limit, "{counts:?}");
    }
    // The hard bound: nothing beyond the span, whatever the shares.
    while bench.lane.room() > 0 {
        let keys = vec![Some(1_000_000); bench.lane.room() as usize];
        let first = next;
        next += keys.len() as u64;
        bench.keyed(first, &keys);
    }
    assert_eq!(
        (bench.floor(), next),
        (0, 4000),
        "the span is the hard bound"
    );
    // And it counts as one again when it settles.
    bench.ack(A, 0, 0);
    assert_eq!(take(&mut bench, A), [1]);
}

/// FC-80: what is remembered of keys is what the window holds.
#[test]
fn keys_cost_memory_only_while_their_records_are_unsettled() {
    let mut bench = Bench::new(Policy {
        window: Window {
            records: 1000,
            span: 1000,
        },
        ..by_key()
    });
    let mut most = 0;
    for batch in 0..10_u64 {
        let first = batch * 500;
        let keys: Vec<Option<u64>> = (first..first + 500).map(|n| Some(n / 2)).collect();
        bench.keyed(first, &keys);
        for offset in take(&mut bench, A) {
            bench.ack(A, offset, offset);
        }
        most = most.max(bench.lane.tracked());
        for offset in take(&mut bench, A) {
            bench.ack(A, offset, offset);
        }
        bench.quiet();
        assert_eq!(bench.lane.tracked(), 0, "batch {batch}");
    }
    assert!(most <= 1000, "{most}");
}

#[test]
fn a_drain_ends_with_records_behind_and_asks_for_the_floor() {
    let mut bench = Bench::new(by_key());
    bench.keyed(0, &[K, K, J]);
    bench.hand(A, 0, 0);
    bench.ack(A, 0, 0).drain(5000);
    assert_eq!(bench.lane.ready_for(A), None);
    assert!(bench.effects().contains(&Effect::Drained));
    assert_eq!(bench.floor(), 1);
}

#[test]
fn what_is_out_at_the_end_of_a_drain_is_returned_once() {
    let mut bench = Bench::new(by_key());
    bench.keyed(0, &[K, J, K]);
    bench.hand(A, 0, 1);
    bench.quiet().drain(1000);
    bench.until(1000);
    let returned = crate::support::returned(A, 0, 1, Return::Drained);
    assert!(bench.effects().contains(&returned));
}

#[test]
fn a_lane_whose_only_key_waits_says_until_when() {
    let mut bench = Bench::new(by_key());
    bench.keyed(0, &[K, K]);
    bench.hand(A, 0, 0);
    bench.applied(A, 0, 0, failed_for(5000));
    assert_eq!(
        bench.lane.snapshot().hold,
        Some(Hold::Backoff {
            offset: Offset::new(0),
            until: crate::support::at(5000)
        })
    );
}

#[test]
fn l3_l9_an_unfit_record_holds_its_key_until_its_dead_letter_is_confirmed() {
    let mut bench = Bench::new(by_key());
    bench.keyed(0, &[K, K, K]);
    let unfit = bench
        .lane
        .handle_unfit(bench.now, range(1, 1), Cause::Rejected);
    assert_eq!(unfit, 1);
    assert_eq!(take(&mut bench, A), [0]);
    bench.ack(A, 0, 0);
    assert_eq!(take(&mut bench, A), [], "its dead letter is on its way");
    bench.dead_letter(1, DeadLetterOutcome::Stored);
    assert_eq!(take(&mut bench, A), [2]);
    bench.ack(A, 2, 2);
    assert_eq!(bench.floor(), 3);
}

#[test]
fn a_filtered_record_holds_nobody_back() {
    let mut bench = Bench::new(by_key());
    bench.keyed(0, &[K, K, K]);
    assert_eq!(bench.lane.handle_filtered(bench.now, range(0, 1)), 2);
    assert_eq!(take(&mut bench, A), [2]);
}
