//! A broadcast lane and a naive model, which keeps a table of every record and every
//! subscriber, get the same random inputs and must agree on what is settled, what is
//! dead-lettered, where the floor is and what comes next for whom.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "helpers of tests fail by panicking, and name only the cases they mean"
)]

mod harness;
mod model;

use ackgate_lane::{Breaker, OnUnwritten, Order};
use proptest::prelude::*;

use crate::harness::{Harness, Saw};

/// One input, in small numbers.
#[derive(Clone, Debug)]
enum Command {
    /// That many records exist, after so many missing offsets.
    Fetch(u64, u64),
    Join(u64),
    Close(u64),
    Lose(u64),
    /// A subscriber takes that many records.
    Take(u64, u64),
    /// A subscriber says something about some records, from the floor plus so many on.
    Say(u64, u64, u64, Word),
    /// Time passes, in milliseconds.
    Pass(u64),
    /// The oldest dead letter that is asked for is stored, or not.
    Letter(bool),
    /// An operator closes the breaker.
    Reset,
}

#[derive(Clone, Copy, Debug)]
enum Word {
    Ack,
    Reject,
    Fail,
    Release,
}

fn commands() -> impl Strategy<Value = Vec<Command>> {
    let who = || 1..4_u64;
    let word = prop_oneof![
        8 => Just(Word::Ack),
        1 => Just(Word::Reject),
        2 => Just(Word::Fail),
        1 => Just(Word::Release),
    ];
    let command = prop_oneof![
        3 => (1..8_u64, 0..3_u64).prop_map(|(n, gap)| Command::Fetch(n, gap)),
        4 => who().prop_map(Command::Join),
        1 => who().prop_map(Command::Close),
        1 => who().prop_map(Command::Lose),
        10 => (who(), 1..30_u64).prop_map(|(who, n)| Command::Take(who, n)),
        16 => (who(), prop_oneof![2 => Just(0_u64), 1 => 0..12_u64], 1..12_u64, word)
            .prop_map(|(who, skip, n, word)| Command::Say(who, skip, n, word)),
        2 => prop_oneof![3 => Just(10_u64), 3 => Just(600), 1 => Just(3_000)].prop_map(Command::Pass),
        3 => any::<bool>().prop_map(Command::Letter),
        1 => Just(Command::Reset),
    ];
    prop::collection::vec(command, 1..120)
}

fn on_unwritten() -> impl Strategy<Value = OnUnwritten> {
    prop_oneof![
        2 => Just(OnUnwritten::Block),
        1 => (1..4_u32).prop_map(|tries| OnUnwritten::Park { tries }),
        1 => (1..4_u32).prop_map(|tries| OnUnwritten::Discard { tries }),
    ]
}

fn breaker() -> impl Strategy<Value = Breaker> {
    let run = prop::option::of(1..5_u32);
    run.prop_map(|run| Breaker { run, ratio: None })
}

proptest! {
    // A failure shows the whole input, shrunk; PROPTEST_RNG_SEED fixes the run.
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_broadcast_agrees_with_a_table_of_every_record_and_subscriber(
        commands in commands(),
        on_unwritten in on_unwritten(),
    ) {
        let mut harness = Harness::new(Order::None, on_unwritten, Breaker::default());
        for command in &commands {
            harness.run(command);
            harness.compare();
        }
        harness.complete();
    }

    #[test]
    fn in_any_order_every_record_is_settled_once_and_nothing_locks(
        commands in commands(),
        order in prop_oneof![
            Just(Order::Lane { skip_acked: false }),
            Just(Order::Lane { skip_acked: true }),
            Just(Order::Key { share: 250 }),
        ],
        on_unwritten in on_unwritten(),
        breaker in breaker(),
    ) {
        let mut harness = Harness::new(order, on_unwritten, breaker);
        for command in &commands {
            harness.run(command);
        }
        harness.complete();
    }
}

/// A property over inputs that never come about would prove nothing.
#[test]
fn the_random_inputs_bring_about_everything() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let mut saw = Saw::default();
    for _ in 0..300 {
        let commands = commands().new_tree(&mut runner).expect("a tree").current();

        let on_unwritten = on_unwritten()
            .new_tree(&mut runner)
            .expect("a tree")
            .current();
        let breaker = breaker().new_tree(&mut runner).expect("a tree").current();
        let mut harness = Harness::new(Order::None, on_unwritten, breaker);
        for command in &commands {
            harness.run(command);
        }
        saw.add(&harness.saw);
    }
    saw.expect_all();
}
