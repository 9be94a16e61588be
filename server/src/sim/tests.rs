//! The seeds.

use std::{
    fmt::Write as _,
    io::Write as _,
    sync::{
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc::{RecvTimeoutError, sync_channel},
    },
    time::Duration,
};

use parking_lot::Mutex;

use super::{Outcome, history, run};
use crate::consumer::mutation::Mutation;

/// Entries shown before the one that breaks a rule.
const CONTEXT: usize = 12;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Real time after which a seed is taken for stuck: most need a tenth of a second.
const STUCK: Duration = Duration::from_secs(120);

/// How to see a seed's run.
fn replay(seed: u64) -> String {
    format!(
        "replay: ACKGATE_SIM_SEED={seed} cargo test -p ackgate --lib sim::tests::seeds -- \
         --nocapture"
    )
}

/// A failed seed in words: what broke, and how to see it happen.
fn failure(seed: u64, outcome: &Outcome) -> String {
    let mut text = format!(
        "seed {seed} breaks {} rules ({:?}, {} entries)\n{}\n",
        outcome.violations.len(),
        outcome.plan.kind,
        outcome.history.len(),
        replay(seed)
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

/// Runs one seed, and ends all tests if it never ends, which no oracle sees: a thread
/// that is stuck cannot be stopped.
pub(super) fn watched(seed: u64, aloud: bool, bug: Option<Mutation>) -> Outcome {
    let (running, over) = sync_channel::<()>(0);
    std::thread::spawn(move || {
        if over.recv_timeout(STUCK) == Err(RecvTimeoutError::Timeout) {
            let text = format!("seed {seed} with {bug:?} does not end\n{}\n", replay(seed));
            // Not what is captured: that is lost when the process aborts.
            let _unheard = std::io::stderr().write_all(text.as_bytes());
            std::process::abort();
        }
    });
    let outcome = run(seed, aloud, bug);
    drop(running);
    outcome
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
                    let outcome = watched(seed, false, None);
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
        let outcome = watched(seed, true, None);
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
        let (one, other) = (watched(seed, false, None), watched(seed, false, None));
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
