//! The end of an assignment, and the next one.

use ackgate_lane::{
    CommitOutcome::{Done, Failed},
    DeadLetterOutcome, Effect, Hold, Return,
    Verdict::{Acked, Rejected},
    VerdictResult::{Applied, Fenced, Unknown},
};

use crate::support::{
    A, B, Bench, FAILED, at, commit, failed_for, in_lane_order, policy, returned, settled,
};

#[test]
fn a_drain_waits_for_verdicts_then_commits_and_ends() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 9).deliver(A, 0, 5).drain(5000);
    assert_eq!((bench.ready(), bench.lane.room()), (None, 0));
    assert_eq!(
        bench.lane.snapshot().hold,
        Some(Hold::Draining { deadline: at(5000) })
    );
    assert_eq!(bench.effects(), []);
    bench
        .ack(A, 0, 3)
        .applied(A, 4, 4, FAILED)
        .quiet()
        .ack(A, 5, 5);
    assert_eq!(
        bench.effects(),
        [
            returned(A, 5, 5, Return::Verdict),
            settled(5, 5),
            commit(4),
            Effect::Drained
        ]
    );
}

#[test]
fn l6_at_its_deadline_a_drain_takes_back_what_is_out_and_commits_only_what_settled() {
    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 9)
        .deliver(A, 0, 5)
        .dispatch(B, 6, 7)
        .ack(A, 0, 1)
        .drain(700)
        .quiet();
    assert_eq!(bench.until(699).effects(), []);
    assert_eq!(
        bench.until(700).effects(),
        [
            returned(A, 2, 5, Return::Drained),
            returned(B, 6, 7, Return::Drained),
            commit(2),
            Effect::Drained
        ]
    );
}

#[test]
fn with_nothing_out_a_drain_ends_at_once_and_commits_nothing_known() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 99).drain(5000);
    assert_eq!(bench.effects(), [Effect::Drained]);
}

#[test]
fn l4_after_the_drain_a_verdict_is_fenced_and_has_no_effect() {
    let mut bench = Bench::new(policy());
    bench
        .fetched(5, 9)
        .deliver(A, 5, 9)
        .drain(100)
        .until(100)
        .quiet();
    assert_eq!(bench.verdict(A, (0, 9), None, Acked), [(0, 9, Fenced)]);
    assert_eq!(bench.extend(A, (5, 5), 1000), [(5, 5, Fenced)]);
    bench
        .lost(A)
        .fetched(10, 12)
        .sent(A, 5, 9)
        .dead_letter(5, DeadLetterOutcome::Stored);
    bench.committed(5, Failed).drain(9000).until(100_000);
    assert_eq!(
        (bench.effects(), bench.lane.poll_timeout(), bench.ready()),
        (vec![], None, None)
    );
}

#[test]
fn the_last_commit_does_not_wait_for_one_that_is_unanswered() {
    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 9)
        .deliver(A, 0, 9)
        .ack(A, 0, 1)
        .until(1000);
    assert_eq!(bench.effects().last(), Some(&commit(2)));
    bench.drain(5000).ack(A, 2, 9);
    assert_eq!(bench.effects()[2..], [commit(10), Effect::Drained]);
    bench.committed(2, Done).committed(10, Done);
    assert_eq!(
        bench
            .lane
            .snapshot()
            .committed
            .map(|position| position.get()),
        Some(10)
    );
}

#[test]
fn a_drain_waits_for_a_dead_letter_in_flight_and_not_for_one_that_failed() {
    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 1)
        .deliver(A, 0, 1)
        .applied(A, 0, 0, Rejected)
        .ack(A, 1, 1)
        .quiet();
    bench.drain(5000);
    assert_eq!(bench.effects(), []);
    bench.dead_letter(0, DeadLetterOutcome::Stored);
    assert_eq!(bench.effects(), [settled(0, 0), commit(2), Effect::Drained]);

    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 0)
        .deliver(A, 0, 0)
        .applied(A, 0, 0, Rejected)
        .quiet()
        .drain(5000);
    bench.dead_letter(0, DeadLetterOutcome::Failed);
    assert_eq!(bench.effects(), [Effect::Drained]);
}

#[test]
fn a_drain_in_the_middle_of_retries_gives_nothing_up() {
    for policy in [policy(), in_lane_order()] {
        let mut bench = Bench::new(policy);
        bench
            .fetched(0, 3)
            .deliver(A, 0, 3)
            .applied(A, 0, 0, failed_for(9000))
            .drain(5000);
        bench.lost(A).until(5000);
        let effects = bench.effects();
        assert_eq!(effects.last(), Some(&Effect::Drained));
        assert!(
            effects
                .iter()
                .all(|effect| { matches!(effect, Effect::Returned { .. } | Effect::Drained) })
        );
    }
}

#[test]
fn in_lane_order_a_draining_lane_seeks_no_more() {
    let mut bench = Bench::new(in_lane_order());
    bench
        .fetched(0, 9)
        .deliver(A, 0, 4)
        .applied(A, 3, 3, failed_for(10))
        .drain(5000);
    bench.quiet().until(4999);
    assert_eq!(bench.effects(), []);
    bench.ack(A, 0, 2);
    assert_eq!(bench.effects()[2..], [commit(3), Effect::Drained]);
}

/// L1: the next assignment knows nothing of the last one but the committed position.
#[test]
fn l1_a_revoke_clears_the_lane_and_the_next_assignment_never_commits_below_its_start() {
    let mut first = Bench::starting(policy(), Some(5), true);
    first
        .fetched(5, 9)
        .deliver(A, 5, 9)
        .applied(A, 5, 5, failed_for(9000))
        .ack(A, 6, 9);
    first.drain(100).until(100);
    assert!(
        first
            .effects()
            .iter()
            .all(|effect| !matches!(effect, Effect::Commit { .. }))
    );

    // Meanwhile another gateway has moved the group to 20.
    let mut second = Bench::starting(policy(), Some(20), true);
    assert_eq!(second.result(A, 5, Acked), Unknown);
    second.fetched(20, 22);
    assert_eq!(second.result(A, 5, Acked), Unknown);
    second
        .deliver(A, 20, 22)
        .applied(A, 20, 20, failed_for(5000))
        .ack(A, 21, 22);
    assert_eq!(second.commits_until(5000), []);
    second.deliver(A, 20, 20);
    assert_eq!(second.result(A, 20, Acked), Applied);
    assert_eq!(second.commits_until(6000), [23]);
}

#[test]
fn records_never_sent_are_not_committed_by_a_revoke() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 99).dispatch(A, 0, 99).drain(10).until(10);
    assert_eq!(
        bench.effects(),
        [returned(A, 0, 99, Return::Drained), Effect::Drained]
    );
    assert_eq!(bench.floor(), 0);
}

/// The request that is under way may fail with the revoke.
#[test]
fn the_last_commit_repeats_one_that_is_unanswered_and_none_that_is_confirmed() {
    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 1)
        .deliver(A, 0, 1)
        .ack(A, 0, 1)
        .until(1000)
        .quiet()
        .drain(5000);
    assert_eq!(bench.effects(), [commit(2), Effect::Drained]);

    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 1)
        .deliver(A, 0, 1)
        .ack(A, 0, 1)
        .until(1000)
        .quiet();
    bench.committed(2, Done).drain(5000);
    assert_eq!(bench.effects(), [Effect::Drained]);
}
