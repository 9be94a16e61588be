//! What is committed and when.

use ackgate_lane::{CommitOutcome, Policy, Return, Verdict};

use crate::support::{A, B, Bench, FAILED, commit, failed_for, policy, returned, settled};

#[test]
fn acked_records_settle_free_their_credit_and_are_committed_at_the_next_tick() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 9).deliver(A, 0, 9).ack(A, 0, 9);
    assert_eq!(
        bench.effects(),
        [returned(A, 0, 9, Return::Verdict), settled(0, 9)]
    );
    assert_eq!(bench.until(999).effects(), []);
    assert_eq!(bench.until(1000).effects(), [commit(10)]);
}

/// L2: batch by batch, the committed position stays at the failed record.
#[test]
fn l2_a_later_good_batch_does_not_commit_past_an_earlier_failed_record() {
    let mut bench = Bench::starting(policy(), Some(10), true);
    bench.fetched(10, 12).deliver(A, 10, 12);
    bench.ack(A, 10, 10).applied(A, 11, 11, failed_for(5000));
    assert_eq!(bench.commits_until(1500), [11]);
    bench.ack(A, 12, 12);
    assert_eq!(bench.commits_until(4000), []);
    assert_eq!(bench.floor(), 11);
    bench.until(5000).deliver(B, 11, 11).ack(B, 11, 11);
    assert_eq!(bench.commits_until(6000), [13]);
}

#[test]
fn l2_acks_out_of_order_commit_only_the_contiguous_prefix() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 4).deliver(A, 0, 1).deliver(B, 2, 4);
    bench.ack(B, 4, 4).ack(B, 2, 3).ack(A, 0, 0);
    assert_eq!(bench.commits_until(2000), [1]);
    bench.ack(A, 1, 1);
    assert_eq!(bench.commits_until(3000), [5]);
}

#[test]
fn the_committed_value_is_the_next_offset_to_read() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 9).deliver(A, 0, 9).ack(A, 0, 9);
    assert_eq!(bench.commits_until(1000), [10]);
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
fn nothing_is_committed_before_anything_has_settled() {
    for committed in [true, false] {
        let mut bench = Bench::starting(policy(), Some(5), committed);
        bench
            .fetched(8, 9)
            .deliver(A, 8, 9)
            .applied(A, 8, 9, FAILED);
        assert_eq!(bench.commits_until(10_000), []);
    }
    let mut bench = Bench::starting(policy(), None, false);
    bench.fetched(8, 9);
    assert_eq!(bench.commits_until(10_000), []);
}

#[test]
fn a_position_is_never_committed_twice() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 1).deliver(A, 0, 1).ack(A, 0, 0);
    assert_eq!(bench.commits_until(10_000), [1]);
    bench.drain(11_000).ack(A, 1, 1);
    assert_eq!(bench.commits_until(11_000), [2]);
}

#[test]
fn one_commit_is_outstanding_and_the_next_carries_the_floor_of_its_own_time() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 9).deliver(A, 0, 9).ack(A, 0, 0);
    assert_eq!(
        bench
            .until(1000)
            .quiet()
            .ack(A, 1, 1)
            .until(5000)
            .effects()
            .len(),
        2
    );
    bench.committed(1, CommitOutcome::Done).ack(A, 2, 2);
    assert_eq!(bench.until(6000).effects().last(), Some(&commit(3)));
}

#[test]
fn a_failed_commit_is_asked_for_again_at_the_next_tick_with_the_current_floor() {
    let mut bench = Bench::new(Policy {
        commit_settlements: 2,
        ..policy()
    });
    bench.fetched(0, 9).deliver(A, 0, 9).ack(A, 0, 1);
    assert_eq!(bench.effects().last(), Some(&commit(2)));
    bench.committed(2, CommitOutcome::Failed).ack(A, 2, 5);
    assert_eq!(bench.effects().last(), Some(&settled(2, 5)));
    assert_eq!(bench.until(1000).effects(), [commit(6)]);
}

#[test]
fn many_settlements_are_committed_before_the_tick() {
    let mut bench = Bench::new(Policy {
        commit_settlements: 5,
        ..policy()
    });
    bench.fetched(0, 9).deliver(A, 0, 9).ack(A, 0, 3);
    assert_eq!(bench.effects().last(), Some(&settled(0, 3)));
    bench.ack(A, 4, 4);
    assert_eq!(bench.effects().last(), Some(&commit(5)));
}

#[test]
fn l1_an_answer_to_an_older_or_unknown_commit_moves_nothing_back_or_ahead() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 9).deliver(A, 0, 9).ack(A, 0, 4);
    assert_eq!(bench.commits_until(1000), [5]);
    bench
        .committed(2, CommitOutcome::Done)
        .committed(99, CommitOutcome::Done);
    assert_eq!(
        bench
            .lane
            .snapshot()
            .committed
            .map(|position| position.get()),
        Some(5)
    );
    bench
        .committed(5, CommitOutcome::Failed)
        .applied(A, 5, 5, Verdict::Acked);
    assert_eq!(bench.commits_until(2000), [6]);
}
