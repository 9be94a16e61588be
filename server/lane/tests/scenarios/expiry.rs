//! Deadlines: when they start, what extends them, what their passing does.

use ackgate_lane::{
    Effect, Policy, Return,
    Verdict::Acked,
    VerdictResult::{Applied, Conflict, Expired, Stale, Unknown},
};

use crate::support::{A, B, Bench, DEADLINE, at, policy, returned};

const HOUR: u64 = 3_600_000;

#[test]
fn the_deadline_starts_when_the_record_is_sent_and_not_while_it_is_queued() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 9).dispatch(A, 0, 9).until(10 * DEADLINE);
    assert_eq!(bench.effects(), []);
    assert_eq!(bench.lane.poll_timeout(), None);
    bench.sent(A, 0, 9);
    assert_eq!(bench.lane.poll_timeout(), Some(at(11 * DEADLINE)));
    bench.until(11 * DEADLINE - 1);
    assert_eq!(bench.effects(), []);
    assert_eq!(
        bench.until(11 * DEADLINE).effects(),
        [returned(A, 0, 9, Return::Expired)]
    );
}

#[test]
fn an_expiry_uses_an_attempt_and_waits_for_its_backoff() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 0).deliver(A, 0, 0).until(DEADLINE - 1);
    bench.now = at(DEADLINE);
    bench.lane.handle_timeout(bench.now);
    let until = bench.lane.poll_timeout();
    assert!(
        until > Some(at(DEADLINE)) && until <= Some(at(DEADLINE + 1000)),
        "{until:?}"
    );
    assert_eq!((bench.ready(), bench.lane.snapshot().delayed), (None, 1));
    bench.until(DEADLINE + 1000);
    assert_eq!(
        bench.ready().map(|ready| (ready.attempt, ready.delivery)),
        Some((2, 2))
    );
}

#[test]
fn expiries_exhaust_a_record_and_the_last_one_dead_letters_it_at_once() {
    let mut bench = Bench::new(Policy {
        max_attempts: 2,
        ..policy()
    });
    bench
        .fetched(0, 0)
        .deliver(A, 0, 0)
        .until(2 * DEADLINE)
        .deliver(A, 0, 0);
    bench.quiet().until(3 * DEADLINE);
    assert!(matches!(
        bench.effects()[..],
        [
            Effect::Returned {
                why: Return::Expired,
                ..
            },
            Effect::DeadLetter {
                attempts: 2,
                deliveries: 2,
                ..
            }
        ]
    ));
}

#[test]
fn an_extension_moves_the_deadline_and_repeats_up_to_an_hour() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 9).deliver(A, 0, 9).until(DEADLINE - 1);
    assert_eq!(bench.extend(A, (3, 4), 600_000), [(3, 4, Applied)]);
    bench.until(DEADLINE);
    assert_eq!(
        bench.effects(),
        [
            returned(A, 0, 2, Return::Expired),
            returned(A, 5, 9, Return::Expired)
        ]
    );
    assert_eq!(bench.extend(A, (3, 4), 2 * HOUR), [(3, 4, Applied)]);
    bench.until(HOUR - 1);
    assert_eq!(bench.lane.snapshot().in_flight, 2);
    assert_eq!(
        bench.quiet().until(HOUR).effects(),
        [returned(A, 3, 4, Return::Expired)]
    );
}

#[test]
fn an_extension_ahead_of_the_notice_that_the_record_was_sent_counts() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 0).dispatch(A, 0, 0);
    assert_eq!(bench.extend(A, (0, 0), 50_000), [(0, 0, Applied)]);
    bench.sent(A, 0, 0);
    assert_eq!(bench.lane.poll_timeout(), Some(at(50_000)));
}

#[test]
fn an_extension_of_what_is_not_out_is_answered_like_a_verdict_and_changes_nothing() {
    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 3)
        .deliver(A, 0, 2)
        .deliver(B, 3, 3)
        .ack(A, 1, 1);
    assert_eq!(bench.extend(A, (1, 1), 1000), [(1, 1, Conflict)]);
    assert_eq!(bench.extend(A, (3, 9), 1000), [(3, 3, Unknown)]);
    assert_eq!(bench.extend(A, (7, 9), 1000), [(7, 9, Unknown)]);
    bench
        .applied(A, 2, 2, crate::support::failed_for(90_000))
        .until(DEADLINE);
    assert_eq!(bench.extend(A, (2, 2), 1000), [(2, 2, Stale)]);
    assert_eq!(bench.extend(A, (0, 0), 1000), [(0, 0, Expired)]);
    assert_eq!(bench.result(A, 0, Acked), Applied);
}

/// The window of the subscriber is one record and its handler takes 1.5 s of the 2 s.
#[test]
fn records_that_queue_behind_a_slow_handler_do_not_expire() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 9);
    for offset in 0..10 {
        bench
            .deliver(A, offset, offset)
            .until((offset + 1) * (DEADLINE - 1));
        bench.ack(A, offset, offset);
    }
    assert!(bench.effects().iter().all(|effect| {
        !matches!(
            effect,
            Effect::Returned {
                why: Return::Expired,
                ..
            }
        )
    }));
    assert_eq!(bench.floor(), 10);
}
