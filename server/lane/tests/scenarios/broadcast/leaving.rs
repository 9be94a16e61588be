//! Goodbyes, losses, returns and drains of a broadcast lane.

use ackgate_lane::{DeadLetterOutcome, Effect, Hold, Offset, Return, Verdict, VerdictResult};

use super::support::{Bench, GRACE};
use crate::support::{A, B, FAILED, at, policy, range, returned, settled};

#[test]
fn fc_69_the_floor_stands_at_the_slowest() {
    // FC-69
    let mut bench = Bench::new(policy(), &[A, B]);
    bench.fetched(0, 9);
    bench.all_take(&[A, B]);
    bench.ack(A, 0, 9).ack(B, 0, 3).drain(0);
    let effects: Vec<Effect> = std::iter::from_fn(|| bench.lane.poll_effect()).collect();
    let mut commits = Vec::new();
    for effect in &effects {
        if let Effect::Commit { position, .. } = effect {
            commits.push(position.get());
        }
    }
    assert_eq!(commits, [4], "{effects:?}");
    assert_eq!(effects.last(), Some(&Effect::Drained));
}

#[test]
fn a_goodbye_leaves_what_is_owed_to_the_others_and_keeps_what_was_said() {
    let mut bench = Bench::new(policy(), &[A, B]);
    bench.fetched(0, 9);
    bench.all_take(&[A, B]);
    bench.ack(B, 0, 4).ack(A, 0, 1).ack(A, 5, 7);
    bench.effects();
    bench.closed(A);
    // 2-4 by B, 5-7 owed by B still, 8-9 owed by B still.
    let effects = bench.effects();
    let verdict = Return::Verdict;
    assert_eq!(
        effects,
        [
            returned(A, 2, 4, verdict),
            returned(A, 8, 9, verdict),
            settled(2, 4)
        ]
    );
    assert_eq!(bench.floor(), 5);
    bench.ack(B, 5, 9);
    assert_eq!(bench.floor(), 10);
}

#[test]
fn l6_what_only_a_subscriber_that_left_had_is_fanned_out_anew() {
    let mut bench = Bench::new(policy(), &[A]);
    bench.fetched(0, 9);
    bench.take(A);
    bench.ack(A, 0, 3).joined(B).fetched(10, 19);
    bench.take(B);
    bench.ack(B, 10, 14).closed(A);
    // B decides on 10-19; 4-9 met nobody who stayed.
    assert_eq!(bench.take(B), [(4, 9, 1)]);
    assert_eq!(bench.floor(), 4);
    bench.ack(B, 4, 9);
    assert_eq!(bench.floor(), 15);
}

#[test]
fn l6_the_last_to_leave_passes_nothing() {
    let mut bench = Bench::new(policy(), &[A, B]);
    bench.fetched(0, 4);
    bench.all_take(&[A, B]);
    bench.closed(A).closed(B).until(GRACE * 2);
    assert_eq!(bench.outcomes(), []);
    assert_eq!((bench.floor(), bench.lane.poll_timeout()), (0, None));
    bench.joined(B);
    assert_eq!(bench.take(B), [(0, 4, 1)]);
}

#[test]
fn l14_a_lost_subscriber_that_returns_gets_what_it_owes_and_nothing_else_twice() {
    let mut bench = Bench::new(policy(), &[A, B]);
    bench.fetched(0, 9);
    bench.all_take(&[A, B]);
    bench.ack(A, 0, 9).ack(B, 0, 3).ack(B, 6, 6);
    bench.effects();
    let debt = bench.lost(B).expect("it owes");
    assert_eq!((debt.range, debt.records), (range(4, 9), 5));
    let lost = Return::Lost;
    assert_eq!(
        bench.effects(),
        [returned(B, 4, 5, lost), returned(B, 7, 9, lost)]
    );
    let hold = Hold::Subscriber {
        offset: Offset::new(4),
        subscriber: B,
        until: at(GRACE),
    };
    assert_eq!(bench.lane.snapshot().hold, Some(hold));
    // What is fanned out now is not B's.
    bench.fetched(10, 14);
    assert_eq!(bench.take(A), [(10, 14, 1)]);
    assert_eq!(bench.take(B), []);
    bench.ack(A, 10, 14).until(GRACE - 1).joined(B);
    assert_eq!(bench.take(B), [(4, 5, 2), (7, 9, 2)]);
    assert_eq!(bench.take(A), []);
    bench.ack(B, 4, 5).ack(B, 7, 9);
    assert_eq!(bench.floor(), 15);
    assert_eq!(bench.lane.snapshot().hold, None);
}

#[test]
fn after_its_grace_a_lost_subscriber_is_counted_out_and_reported() {
    let mut bench = Bench::new(policy(), &[A, B]);
    bench.fetched(0, 9);
    bench.all_take(&[A, B]);
    bench.ack(A, 0, 5).ack(B, 0, 3).lost(B);
    bench.effects();
    bench.until(GRACE - 1);
    assert_eq!(bench.floor(), 4);
    // A's records have expired meanwhile; it takes them again.
    bench.take(A);
    bench.effects();
    bench.until(GRACE);
    let withdrawn = Effect::Withdrawn {
        subscriber: B,
        range: range(4, 9),
        records: 6,
    };
    assert_eq!(bench.outcomes(), [withdrawn, settled(4, 5)]);
    assert_eq!(bench.floor(), 6);
    bench.joined(B);
    assert_eq!(bench.take(B), [], "its share is forgotten");
}

#[test]
fn l6_when_all_are_lost_for_good_their_records_wait_for_the_next() {
    let mut bench = Bench::new(policy(), &[A]);
    bench.fetched(0, 4);
    bench.take(A);
    bench.lost(A);
    bench.until(GRACE);
    assert_eq!(bench.floor(), 0);
    bench.joined(B);
    assert_eq!(bench.take(B), [(0, 4, 1)]);
}

#[test]
fn lost_subscribers_that_owe_nothing_are_forgotten_at_once() {
    let mut bench = Bench::new(policy(), &[]);
    for number in 10..1000 {
        let subscriber = ackgate_lane::Subscriber(number);
        bench.joined(subscriber);
        bench.lost(subscriber);
    }
    assert_eq!(bench.lane.tracked(), 0);
}

#[test]
fn l14_subscribers_that_come_and_go_for_ever_do_not_fill_the_memory() {
    let mut bench = Bench::new(policy(), &[A]);
    for number in 0..280 {
        let subscriber = ackgate_lane::Subscriber(1000 + number);
        bench.joined(subscriber).fetched(number, number);
        bench.lost(subscriber);
    }
    let members = bench.lane.members();
    assert!(members.len() <= 258, "{}", members.len());
    let withdrawn = |effect: &Effect| matches!(effect, Effect::Withdrawn { .. });
    assert!(bench.effects().iter().any(withdrawn));
}

#[test]
fn a_drain_waits_only_for_what_is_with_somebody() {
    let mut bench = Bench::new(policy(), &[A, B]);
    bench.fetched(0, 4);
    bench.take(A);
    // B has not taken anything: it owes, and nothing of it is awaited.
    bench.drain(5_000);
    assert_eq!(bench.effects(), []);
    assert_eq!(bench.lane.ready_for(B), None);
    bench.ack(A, 0, 4);
    let end = bench.effects();
    assert_eq!(end.last(), Some(&Effect::Drained), "{end:?}");
    assert_eq!(bench.floor(), 0);
}

/// The rules are checked after each step: nobody owes what nobody can answer for any more.
#[test]
fn a_drain_that_awaits_a_dead_letter_alone_has_given_back_what_was_owed() {
    let mut bench = Bench::new(policy(), &[A, B]);
    bench.fetched(0, 0).all_take(&[A, B]);
    bench.applied(A, 0, 0, Verdict::Rejected).ack(B, 0, 0);
    bench.fetched(1, 4).take(A);
    bench.ack(A, 1, 4).effects();
    // B has not taken 1 to 4: it owes them, and they are not awaited.
    bench.drain(5_000);
    assert_eq!(bench.effects(), []);
    assert_eq!(
        bench.verdict(B, 1, 4, Verdict::Acked),
        [VerdictResult::Fenced]
    );
    bench.dead_letter(0, DeadLetterOutcome::Stored);
    assert_eq!(bench.effects(), [settled(0, 0), Effect::Drained]);
    assert_eq!(bench.floor(), 1);
}

#[test]
fn a_drain_ends_at_its_deadline_and_gives_credit_back_before() {
    let mut bench = Bench::new(policy(), &[A]);
    bench.fetched(0, 4);
    bench.take(A);
    bench.ack(A, 0, 1).drain(5_000);
    bench.effects();
    bench.until(5_000);
    let effects = bench.effects();
    assert_eq!(
        effects,
        [returned(A, 2, 4, Return::Drained), Effect::Drained]
    );
}

#[test]
fn a_failure_that_waits_holds_the_floor_and_says_so() {
    let mut bench = Bench::new(policy(), &[A, B]);
    bench.fetched(0, 0);
    bench.all_take(&[A, B]);
    bench.ack(A, 0, 0).applied(B, 0, 0, FAILED);
    let hold = bench.lane.snapshot().hold;
    assert!(matches!(hold, Some(Hold::Backoff { .. })), "{hold:?}");
}
