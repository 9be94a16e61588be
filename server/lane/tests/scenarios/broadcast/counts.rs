//! What becomes of a record, by what its subscribers say.

use ackgate_lane::{Cause, DeadLetterOutcome, Effect, Offset, OnReject, Policy, Target, Verdict};

use super::support::{Bench, letter};
use crate::support::{A, B, C, FAILED, policy, range, settled};

#[test]
fn a_record_settles_when_the_last_of_its_subscribers_acks() {
    let mut bench = Bench::new(policy(), &[A, B]);
    bench.fetched(0, 9);
    assert_eq!(bench.take(A), [(0, 9, 1)]);
    assert_eq!(bench.take(B), [(0, 9, 1)]);
    bench.ack(A, 0, 9);
    assert_eq!(bench.outcomes(), []);
    assert_eq!(bench.floor(), 0);
    bench.ack(B, 0, 3);
    assert_eq!(bench.outcomes(), [settled(0, 3)]);
    assert_eq!(bench.floor(), 4);
    bench.ack(B, 4, 9);
    assert_eq!(bench.floor(), 10);
}

#[test]
fn a_later_joiner_gets_records_from_the_next_fan_out_on() {
    let mut bench = Bench::new(policy(), &[A]);
    bench.fetched(0, 4).joined(B).fetched(5, 9);
    assert_eq!(bench.take(A), [(0, 9, 1)]);
    assert_eq!(bench.take(B), [(5, 9, 1)]);
    bench.ack(A, 0, 9);
    assert_eq!(bench.floor(), 5);
    assert_eq!(bench.debt(B), Some((5, 9, 5)));
}

#[test]
fn l6_records_that_meet_nobody_wait_and_are_not_settled() {
    // FC-42
    let mut bench = Bench::new(policy(), &[]);
    bench.fetched(0, 4).until(10_000);
    assert_eq!(bench.effects(), []);
    assert_eq!(bench.floor(), 0);
    assert_eq!(bench.lane.poll_timeout(), None, "nothing spins");
    bench.joined(A);
    assert_eq!(bench.take(A), [(0, 4, 1)]);
}

#[test]
fn l14_a_failed_record_comes_again_only_to_who_failed_it() {
    let mut bench = Bench::new(policy(), &[A, B]);
    bench.fetched(0, 9);
    bench.all_take(&[A, B]);
    bench.ack(A, 0, 9).ack(B, 0, 2).ack(B, 4, 9);
    bench.applied(B, 3, 3, FAILED);
    bench.until(10_000);
    assert_eq!(bench.take(A), []);
    assert_eq!(bench.take(B), [(3, 3, 2)]);
    assert_eq!(bench.floor(), 3);
    bench.ack(B, 3, 3);
    assert_eq!(bench.floor(), 10);
}

#[test]
fn l3_one_rejection_among_acks_is_one_dead_letter_when_all_have_decided() {
    let mut bench = Bench::new(policy(), &[A, B, C]);
    bench.fetched(0, 1);
    bench.all_take(&[A, B, C]);
    bench.ack(A, 0, 1);
    bench.applied(B, 0, 0, Verdict::Rejected).ack(B, 1, 1);
    assert_eq!(bench.outcomes(), [], "C has not decided");
    bench.applied(C, 0, 0, Verdict::Rejected).ack(C, 1, 1);
    let effects = bench.outcomes();
    assert_eq!(effects, [letter(0, Cause::Rejected, (1, 1)), settled(1, 1)]);
    let offset = Offset::new(0);
    let refusal = bench.lane.refusal(offset).expect("it was refused");
    assert_eq!((refusal.subscriber, refusal.cause), (B, Cause::Rejected));
    let counts = bench.lane.counts(offset).expect("it is unsettled");
    assert_eq!((counts.acked, counts.rejected, counts.owing), (1, 2, 0));
    bench.dead_letter(0, DeadLetterOutcome::Failed);
    assert_eq!(bench.floor(), 0, "the lane holds");
    bench.until(5_000);
    let again = letter(0, Cause::Rejected, (1, 1));
    assert_eq!(bench.outcomes(), [again], "the write is tried again");
    bench.dead_letter(0, DeadLetterOutcome::Stored);
    assert_eq!(bench.outcomes(), [settled(0, 0)]);
    assert_eq!(bench.floor(), 2);
}

#[test]
fn a_record_that_is_exhausted_at_one_subscriber_is_dead_lettered_with_its_numbers() {
    let few = Policy {
        max_attempts: 2,
        ..policy()
    };
    let mut bench = Bench::new(few, &[A, B]);
    bench.fetched(0, 0);
    bench.all_take(&[A, B]);
    bench.ack(A, 0, 0).applied(B, 0, 0, FAILED).until(2_000);
    assert_eq!(bench.take(B), [(0, 0, 2)]);
    // Nothing comes from B: the deadline passes.
    bench.until(60_000);
    let exhausted = letter(0, Cause::AttemptsExhausted, (2, 2));
    assert_eq!(bench.outcomes(), [exhausted]);
    assert_eq!(
        bench.lane.refusal(Offset::new(0)).map(|r| r.subscriber),
        Some(B)
    );
}

#[test]
fn given_up_records_are_dropped_or_held_as_the_policy_says() {
    let with = |on_reject| {
        let policy = Policy {
            on_reject,
            ..policy()
        };
        let mut bench = Bench::new(policy, &[A, B]);
        bench.fetched(0, 0);
        bench.all_take(&[A, B]);
        bench.applied(A, 0, 0, Verdict::Rejected).ack(B, 0, 0);
        (bench.outcomes(), bench.floor())
    };
    let dropped = Effect::Dropped {
        offset: Offset::new(0),
        cause: Cause::Rejected,
    };
    assert_eq!(with(OnReject::Drop), (vec![dropped, settled(0, 0)], 1));
    assert_eq!(with(OnReject::Hold), (vec![], 0));
}

#[test]
fn a_record_too_large_for_one_subscriber_reaches_the_others_and_is_dead_lettered_once() {
    let mut bench = Bench::new(policy(), &[A, B]);
    bench.fetched(0, 1);
    bench.lane.handle_oversize(bench.now, A, Offset::new(0));
    bench.checked();
    assert_eq!(bench.take(A), [(1, 1, 1)]);
    assert_eq!(bench.take(B), [(0, 1, 1)]);
    bench.ack(A, 1, 1).ack(B, 0, 1);
    let effects = bench.outcomes();
    assert_eq!(effects, [letter(0, Cause::Oversize, (0, 0)), settled(1, 1)]);
}

#[test]
fn what_one_subscriber_does_not_want_goes_to_the_others_and_settles_with_them() {
    let mut bench = Bench::new(policy(), &[A, B]);
    bench.fetched(0, 4);
    let now = bench.now;
    assert_eq!(bench.lane.handle_unwanted(now, A, range(1, 2)), 2);
    assert_eq!(bench.lane.handle_unwanted(now, C, range(1, 2)), 0);
    bench.checked();
    assert_eq!(bench.take(A), [(0, 0, 1), (3, 4, 1)]);
    assert_eq!(bench.take(B), [(0, 4, 1)]);
    bench.ack(A, 0, 0).ack(A, 3, 4);
    assert_eq!(bench.floor(), 0, "B has not decided");
    bench.ack(B, 0, 4);
    assert_eq!(bench.outcomes(), [settled(0, 4)]);
    // Wanted by nobody: nothing is out and it settles.
    bench.fetched(5, 5);
    for member in [A, B] {
        bench.lane.handle_unwanted(now, member, range(5, 5));
    }
    assert_eq!(bench.floor(), 6);
}

#[test]
fn answers_are_about_what_the_subscriber_itself_said() {
    use ackgate_lane::VerdictResult::{Applied, Conflict, Duplicate, Fenced, Stale, Unknown};
    let mut bench = Bench::new(policy(), &[A, B]);
    bench.fetched(0, 3);
    bench.all_take(&[A, B]);
    bench.ack(A, 0, 0);
    assert_eq!(bench.verdict(A, 0, 0, Verdict::Acked), [Duplicate]);
    assert_eq!(bench.verdict(A, 0, 0, Verdict::Rejected), [Conflict]);
    assert_eq!(bench.verdict(B, 0, 0, Verdict::Rejected), [Applied]);
    assert_eq!(bench.verdict(C, 0, 0, Verdict::Acked), [Unknown]);
    bench.applied(B, 1, 1, FAILED);
    assert_eq!(bench.verdict(B, 1, 1, Verdict::Acked), [Stale]);
    bench.drain(0);
    assert_eq!(bench.verdict(A, 3, 3, Verdict::Acked), [Fenced]);
    assert_eq!(bench.verdict(C, 3, 3, Verdict::Acked), [Fenced]);
}

#[test]
fn a_million_records_acked_by_three_in_order_are_a_handful_of_runs() {
    let mut bench = Bench::new(policy(), &[A, B, C]);
    // Past the bench, whose checks walk over every record.
    let now = bench.now;
    bench.lane.handle_fetched(now, range(0, 999_999));
    for member in [A, B, C] {
        let ready = bench.lane.ready_for(member).expect("all of it").range;
        assert_eq!(ready, range(0, 999_999));
        let deadline = std::time::Duration::from_secs(30);
        bench.lane.handle_dispatched(now, member, ready, deadline);
        bench.lane.handle_sent(now, member, ready);
    }
    for step in 0..1000 {
        for (member, ahead) in [(A, 3), (B, 1), (C, 0)] {
            let last = (step + ahead) * 1000 + 999;
            let target = Target {
                range: range(if step == 0 { 0 } else { last - 999 }, last),
                delivery: None,
            };
            bench
                .lane
                .handle_verdict(now, member, target, Verdict::Acked, &mut Vec::new());
            while bench.lane.poll_effect().is_some() {}
        }
        let tracked = bench.lane.tracked();
        assert!(tracked < 24, "{tracked} things are tracked");
    }
    assert_eq!(bench.floor(), 1_000_000);
}

#[test]
fn each_members_own_verdicts_are_counted_also_of_one_that_leaves_right_after() {
    let mut bench = Bench::new(policy(), &[A, B]);
    bench.fetched(0, 3);
    bench.all_take(&[A, B]);
    bench.ack(A, 0, 3).ack(B, 0, 1);
    bench.applied(B, 2, 3, Verdict::Rejected);
    bench.closed(B);
    let answered = bench.lane.take_answered();
    assert_eq!((answered.acked, answered.rejected), (6, 2));
}
