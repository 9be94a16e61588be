//! Seeded runs on virtual time: the real driver, lanes and session code between an
//! in-memory broker and subscribers of every kind, while the world does its worst;
//! and an oracle that reads the history of each run (L1 to L14).
//!
//! | environment | meaning |
//! |---|---|
//! | `ACKGATE_SIM_SEEDS` | how many seeds to run, 200 if not set |
//! | `ACKGATE_SIM_FIRST` | the first of them, 1 if not set |
//! | `ACKGATE_SIM_SEED` | this one alone, with all that takes place on standard error |
//!
//! A run is one thread, one current-thread runtime and one seed: the same seed gives
//! the same history, entry by entry. Replay a failing one with
//! `ACKGATE_SIM_SEED=n cargo test -p ackgate --lib sim::tests::seeds -- --nocapture`.
//!
//! Boundary: knows the gateway as subscribers and Kafka do. The oracle knows the
//! history alone, and is itself proved by deliberate bugs.

#![allow(
    clippy::print_stderr,
    reason = "a trace and the words of a failing test are for whoever runs it"
)]
#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "a reader of a history looks at few of its events"
)]

mod bugs;
mod calls;
mod cluster;
mod dice;
mod gateway;
mod history;
mod link;
mod manner;
mod oracle;
mod plan;
mod subscriber;
mod tests;
mod world;

use std::time::Duration;

use self::{
    dice::Dice,
    history::{Entry, History},
    oracle::Violation,
    plan::Plan,
};
use crate::consumer::mutation::{self, Mutation};

/// What a run left.
struct Outcome {
    plan: Plan,
    history: Vec<Entry>,
    violations: Vec<Violation>,
}

/// Virtual time after which a run has failed to end.
const NEVER: Duration = Duration::from_secs(24 * 3600);

/// Runs one seed, with a deliberate bug in the driver if one is named.
fn run(seed: u64, aloud: bool, bug: Option<Mutation>) -> Outcome {
    mutation::begin(bug);
    let mut dice = Dice::new(seed);
    let plan = Plan::draw(&mut dice);
    if aloud {
        eprintln!("{plan:#?}");
    }
    // Jitter and the names of subscribers come from the thread's generator.
    fastrand::seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let history = runtime.block_on(async {
        let history = History::new(aloud);
        let run = world::run(plan.clone(), dice, history.clone());
        drop(tokio::time::timeout(NEVER, run).await);
        history.take()
    });
    drop(runtime);
    let turns = mutation::end();
    let mut violations = oracle::check(&plan, &history);
    if turns.is_too_many() {
        violations.push(Violation {
            index: history.len(),
            rule: "L13",
            what: format!("a driver spins: {} turns within a second", turns.most),
        });
    }
    Outcome {
        plan,
        history,
        violations,
    }
}
