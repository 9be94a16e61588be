//! A lane and a naive reference get the same random inputs and must agree on every
//! effect, answer and view; beside them a world checks the rules from outside.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "helpers of tests fail by panicking, and name only the cases they mean"
)]

mod commands;
mod harness;
mod reference;
mod world;

use ackgate_lane::{Cause, Effect, ResumeResult, VerdictResult};
use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};

use crate::{
    commands::{commands, policies},
    harness::Harness,
};

proptest! {
    // A failure shows the whole input, shrunk; PROPTEST_RNG_SEED fixes the run.
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_lane_agrees_with_its_reference_and_ends_with_everything_committed(
        policy in policies(),
        seed in any::<u64>(),
        commands in commands(),
    ) {
        let run = || {
            let mut harness = Harness::new(policy, seed);
            for command in &commands {
                harness.run(command);
            }
            harness.complete();
            harness.trace
        };
        // The same inputs twice: the same effects.
        prop_assert_eq!(run(), run());
    }
}

/// A property over inputs that never come about would prove nothing.
#[test]
fn the_random_inputs_bring_about_every_effect_and_every_answer() {
    let mut runner = TestRunner::deterministic();
    let (mut effects, mut answers, mut resumed) = (Vec::new(), Vec::new(), Vec::new());
    let (mut inputs, mut letters) = (Vec::new(), 0);
    for seed in 0..3_200 {
        // To make up inputs takes longer than to run them: each are run by eight policies.
        if seed % 8 == 0 {
            let tree = commands().new_tree(&mut runner);
            inputs = tree.expect("commands").current();
        }
        let policy = policies().new_tree(&mut runner);
        let mut harness = Harness::new(policy.expect("a policy").current(), seed);
        for command in &inputs {
            harness.run(command);
        }
        letters += harness.letters_stored();
        effects.extend(harness.trace.iter().map(kind));
        resumed.extend(harness.resumed);
        answers.extend(harness.answers.iter().map(|result| format!("{result:?}")));
    }
    assert!(letters >= 50, "{letters} letters went with commits");
    for expected in [
        "Commit",
        "Seek",
        "Rejected",
        "AttemptsExhausted",
        "DeliveriesExhausted",
        "Oversize",
        "Content",
        "Cause::Expired",
        "Verdict",
        "Expired",
        "Lost",
        "Rewound",
        "Drained",
        "Settled",
        "Skipped",
        "Vanished",
        "Dropped",
        "Parked",
        "Discarded",
        "Tripped",
        "End",
    ] {
        let count = effects.iter().filter(|effect| *effect == expected).count();
        assert!(count >= 10, "{expected}: {count}");
    }
    for expected in [
        VerdictResult::Applied,
        VerdictResult::Duplicate,
        VerdictResult::Conflict,
        VerdictResult::Stale,
        VerdictResult::Expired,
        VerdictResult::Unknown,
        VerdictResult::Fenced,
    ] {
        let expected = format!("{expected:?}");
        let count = answers.iter().filter(|answer| **answer == expected).count();
        assert!(count >= 10, "{expected}: {count}");
    }
    for expected in [
        ResumeResult::Kept,
        ResumeResult::Settled,
        ResumeResult::Lost,
    ] {
        let count = resumed.iter().filter(|result| **result == expected).count();
        assert!(count >= 10, "{expected:?}: {count}");
    }
}

fn kind(effect: &Effect) -> String {
    match effect {
        Effect::Commit { .. } => "Commit".to_owned(),
        Effect::MapRefused { .. } => "Refused".to_owned(),
        Effect::Seek { .. } => "Seek".to_owned(),
        // A delivery expires too.
        Effect::DeadLetter {
            cause: Cause::Expired,
            ..
        } => "Cause::Expired".to_owned(),
        Effect::DeadLetter { cause, .. } => format!("{cause:?}"),
        Effect::Returned { why, .. } => format!("{why:?}"),
        Effect::Settled { .. } => "Settled".to_owned(),
        Effect::Skipped { .. } => "Skipped".to_owned(),
        Effect::Lost { .. } => "Vanished".to_owned(),
        Effect::Dropped { .. } => "Dropped".to_owned(),
        Effect::Parked { .. } => "Parked".to_owned(),
        Effect::Discarded { .. } => "Discarded".to_owned(),
        Effect::Tripped { .. } => "Tripped".to_owned(),
        Effect::CutOff { .. } => "CutOff".to_owned(),
        Effect::Withdrawn { .. } => "Withdrawn".to_owned(),
        Effect::Drained => "End".to_owned(),
    }
}
