//! What the lane remembers is bounded by its window, not by its history.

use ackgate_lane::{CommitOutcome, Effect, Offset, Policy, Position, Target, Verdict, Window};

use crate::support::{A, Bench, policy, range};

/// A generator for the order of acks (xorshift); the seed is fixed and shown on failure.
struct Order(u64);

impl Order {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Acks `records` in random order within a window of 1,000, in runs of about
/// `run`; the most that was ever tracked.
fn acked_in_random_order(records: u64, run: u64, seed: u64) -> usize {
    const WINDOW: u64 = 1000;
    let mut order = Order(seed);
    let policy = Policy {
        window: Window {
            records: 1000,
            span: WINDOW,
        },
        commit_settlements: 10_000,
        ..policy()
    };
    let mut bench = Bench::new(policy);
    let lane = &mut bench.lane;
    let (mut next, mut most, mut answers) = (0, 0, Vec::new());
    let mut open: Vec<(u64, u64)> = Vec::new();
    while lane.floor() != Some(Position::new(records)) {
        let room = u64::from(lane.room()).min(records - next);
        if room > 0 {
            lane.handle_fetched(bench.now, range(next, next + room - 1));
            while let Some(ready) = lane.ready() {
                lane.handle_dispatched(bench.now, A, ready.range, policy.ack_deadline);
                lane.handle_sent(bench.now, A, ready.range);
            }
            let mut at = next;
            next += room;
            while at < next {
                let end = (at + 1 + order.below(2 * run - 1)).min(next);
                open.push((at, end - 1));
                at = end;
            }
        }
        let index = usize::try_from(order.below(open.len() as u64)).expect("small");
        let (first, last) = open.swap_remove(index);
        let target = Target {
            range: range(first, last),
            delivery: None,
        };
        answers.clear();
        lane.handle_verdict(bench.now, A, target, Verdict::Acked, &mut answers);
        assert_eq!(answers.len(), 1, "seed {seed}");
        most = most.max(lane.tracked());
        while let Some(effect) = lane.poll_effect() {
            if let Effect::Commit { serial, .. } = effect {
                lane.handle_commit(bench.now, serial, CommitOutcome::Done);
            }
        }
    }
    assert_eq!(lane.tracked(), 0, "seed {seed}");
    most
}

#[test]
fn ten_million_records_acked_in_random_order_keep_the_runs_within_the_window() {
    let seed = 0x5eed;
    let early = acked_in_random_order(100_000, 10, seed);
    let late = acked_in_random_order(10_000_000, 10, seed);
    assert!(late <= 1000, "{late}, seed {seed}");
    assert!(late * 10 <= early * 13, "{early} then {late}, seed {seed}");
}

#[test]
fn single_acks_in_random_order_keep_the_runs_within_the_window() {
    let most = acked_in_random_order(200_000, 1, 0x5eed);
    assert!(most <= 1000, "{most}");
}

#[test]
fn a_million_plainly_acked_records_above_the_floor_are_one_run() {
    let window = Window {
        records: u32::MAX,
        span: u64::MAX,
    };
    let mut bench = Bench::new(Policy { window, ..policy() });
    bench.fetched(0, 1_000_000).deliver(A, 0, 1_000_000);
    for first in (1..1_000_000).step_by(1000) {
        bench.lane.handle_verdict(
            bench.now,
            A,
            Target {
                range: range(first, first + 999),
                delivery: None,
            },
            Verdict::Acked,
            &mut Vec::new(),
        );
    }
    assert!(bench.lane.tracked() <= 3, "{}", bench.lane.tracked());
    assert_eq!(bench.floor(), 0);
}

#[test]
fn what_is_remembered_about_old_deliveries_and_refusals_is_bounded() {
    let mut bench = Bench::new(Policy {
        max_deliveries: u32::MAX,
        ..policy()
    });
    bench.fetched(0, 0);
    for _ in 0..5000 {
        bench.deliver(A, 0, 0).applied(A, 0, 0, Verdict::Released);
    }
    assert!(bench.lane.tracked() < 1100);
    for offset in 1..=5000 {
        bench.fetched(offset, offset);
        bench.lane.handle_oversize(bench.now, Offset::new(offset));
        bench.dead_letter(offset, ackgate_lane::DeadLetterOutcome::Stored);
    }
    bench.deliver(A, 0, 0).ack(A, 0, 0);
    assert!(bench.lane.tracked() < 1100);
}
