//! The seeds.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
};

use parking_lot::Mutex;

use super::{Outcome, history, run};
use crate::consumer::mutation::Mutation;

/// Entries shown before the one that breaks a rule.
const CONTEXT: usize = 12;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// A failed seed in words: what broke, and how to see it happen.
fn failure(seed: u64, outcome: &Outcome) -> String {
    let mut text = format!(
        "seed {seed} breaks {} rules ({:?}, {} entries)\nreplay: ACKGATE_SIM_SEED={seed} cargo \
         test -p ackgate --lib sim::tests::seeds -- --nocapture\n",
        outcome.violations.len(),
        outcome.plan.kind,
        outcome.history.len()
    );
    for violation in outcome.violations.iter().take(5) {
        writeln!(text, "  {violation}").expect("memory");
    }
    if let Some(first) = outcome.violations.first() {
        let from = first.index.saturating_sub(CONTEXT);
        let entries = outcome.history.iter().enumerate().skip(from);
        for (index, (at, event)) in entries.take(CONTEXT + 1) {
            writeln!(text, "    {}", history::line(index, *at, event)).expect("memory");
        }
    }
    text
}

/// Runs `count` seeds from `first` on, on all processors; the failures, in words.
fn failures(first: u64, count: u64) -> Vec<String> {
    let next = AtomicU64::new(first);
    let entries = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        return;
                    }
                    let outcome = run(seed, false, None);
                    entries.fetch_add(outcome.history.len(), Ordering::Relaxed);
                    if !outcome.violations.is_empty() {
                        failed.lock().push((seed, failure(seed, &outcome)));
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner();
    failed.sort();
    eprintln!(
        "{count} seeds from {first} on, {} entries of history, {} failures",
        entries.into_inner(),
        failed.len()
    );
    failed.into_iter().map(|(_, text)| text).collect()
}

#[test]
fn seeds_break_no_rule() {
    if let Some(seed) = number("ACKGATE_SIM_SEED") {
        let outcome = run(seed, true, None);
        eprintln!("history {:016x}", history::hash(&outcome.history));
        assert!(outcome.violations.is_empty(), "{}", failure(seed, &outcome));
        return;
    }
    let first = number("ACKGATE_SIM_FIRST").unwrap_or(1);
    let count = number("ACKGATE_SIM_SEEDS").unwrap_or(200);
    let failures = failures(first, count);
    assert!(
        failures.is_empty(),
        "{} of {count} seeds break rules:\n{}",
        failures.len(),
        failures.iter().take(6).cloned().collect::<String>()
    );
}

#[test]
fn same_seed_gives_the_same_history() {
    for seed in 1..=12 {
        let (one, other) = (run(seed, false, None), run(seed, false, None));
        let differ = one
            .history
            .iter()
            .zip(&other.history)
            .position(|(a, b)| a != b);
        assert_eq!(differ, None, "seed {seed} went another way");
        assert_eq!(
            history::hash(&one.history),
            history::hash(&other.history),
            "seed {seed}"
        );
    }
}

/// Runs seeds with a bug switched on until the oracle sees one of `rules` broken.
fn caught(bug: Mutation, rules: &[&str]) {
    let mut other = Vec::new();
    for seed in 1..=BUG_SEEDS {
        let outcome = run(seed, false, Some(bug));
        for violation in outcome.violations {
            if rules.contains(&violation.rule) {
                return;
            }
            other.push(format!("seed {seed}: {violation}"));
        }
    }
    panic!("{bug:?} broke none of {rules:?} in {BUG_SEEDS} seeds; instead: {other:#?}");
}

/// Within so many seeds a bug has to show.
const BUG_SEEDS: u64 = 100;

#[test]
fn committing_the_highest_position_seen_is_caught() {
    caught(Mutation::CommitHighestSeen, &["L2"]);
}

#[test]
fn settling_before_the_dead_letter_is_confirmed_is_caught() {
    caught(Mutation::SettleBeforeDeadLetter, &["L2", "L3"]);
}

#[test]
fn accepting_a_superseded_delivery_is_caught() {
    caught(Mutation::AcceptSuperseded, &["L4"]);
}

#[test]
fn keeping_a_lane_over_a_revoke_is_caught() {
    caught(Mutation::KeepLaneOverRevoke, &["L4"]);
}

#[test]
fn counting_released_as_an_attempt_is_caught() {
    caught(Mutation::CountReleased, &["L10", "L3"]);
}

#[test]
fn taking_a_loss_for_an_ack_is_caught() {
    caught(Mutation::AckOnLoss, &["L2"]);
}

#[test]
fn handing_out_more_than_the_credit_is_caught() {
    caught(Mutation::ExceedCredit, &["L8"]);
}

#[test]
fn redelivering_before_the_delay_is_over_is_caught() {
    caught(Mutation::IgnoreDelay, &["L10"]);
}

#[test]
fn handing_a_record_to_two_at_once_is_caught() {
    caught(Mutation::HandOutTwice, &["L10"]);
}

#[test]
fn forgetting_a_failed_record_is_caught() {
    caught(Mutation::ForgetFailed, &["L2"]);
}

#[test]
fn hiding_that_a_verdict_changed_nothing_is_caught() {
    caught(Mutation::HideProblems, &["L4", "L5"]);
}
