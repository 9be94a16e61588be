//! L12 and what it rests on, with maps of any size, brokers that refuse metadata, and
//! kills at any time: nothing confirmed as durable is ever handed out again.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail by panicking"
)]

mod world;

use std::{collections::BTreeMap, time::Duration};

use ackgate_lane::{MAX_MAP_BYTES, Order, Verdict};
use proptest::{collection::vec, prelude::*};

use crate::world::World;

#[derive(Clone, Copy, Debug)]
enum Step {
    Fetch(u64),
    Dispatch(u64),
    /// A verdict on this part of what is out, to be confirmed as durable or not.
    Say(usize, u64, Verdict, bool),
    Letter(bool),
    Commit(bool),
    Seek,
    Wait(u64),
    /// The brokers' limit changes.
    Limit(usize),
    Drain,
    /// Everything but Kafka is gone; what was asked for arrived there or did not.
    Kill(bool),
}

fn verdicts() -> impl Strategy<Value = Verdict> {
    let soon = Duration::from_millis(300);
    prop_oneof![
        8 => Just(Verdict::Acked),
        1 => Just(Verdict::Rejected),
        1 => Just(Verdict::Failed { retry_after: Some(soon) }),
        1 => Just(Verdict::Failed { retry_after: Some(soon * 20) }),
        1 => Just(Verdict::Released),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        9 => (1..200_u64).prop_map(Step::Fetch),
        12 => (1..100_u64).prop_map(Step::Dispatch),
        60 => (any::<usize>(), 1..9_u64, verdicts(), any::<bool>())
            .prop_map(|(at, count, verdict, durable)| Step::Say(at, count, verdict, durable)),
        3 => any::<bool>().prop_map(Step::Letter),
        6 => prop::bool::weighted(0.8).prop_map(Step::Commit),
        3 => Just(Step::Seek),
        3 => (1..1500_u64).prop_map(Step::Wait),
        1 => prop_oneof![Just(usize::MAX), 0..200_usize].prop_map(Step::Limit),
        1 => Just(Step::Drain),
        1 => any::<bool>().prop_map(Step::Kill),
    ]
}

fn orders() -> impl Strategy<Value = Order> {
    prop_oneof![
        3 => Just(Order::None),
        1 => Just(Order::Lane { skip_acked: false }),
        1 => Just(Order::Lane { skip_acked: true }),
    ]
}

fn rooms() -> impl Strategy<Value = usize> {
    prop_oneof![Just(0), 96..200_usize, Just(MAX_MAP_BYTES)]
}

proptest! {
    // A failure shows the whole input, shrunk; PROPTEST_RNG_SEED fixes the run.
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn l12_nothing_confirmed_as_durable_is_handed_out_again(
        order in orders(),
        most in rooms(),
        steps in vec(steps(), 1..300),
    ) {
        let mut world = World::new(order, most);
        for step in steps {
            world.run(step);
        }
        world.complete();
    }
}

/// A property over inputs that never come about would prove nothing.
#[test]
fn the_random_inputs_bring_about_what_the_property_is_about() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let mut counts = BTreeMap::<_, u64>::new();
    let inputs = (orders(), rooms(), vec(steps(), 1..300));
    for _ in 0..150 {
        let (order, most, steps) = inputs.new_tree(&mut runner).expect("inputs").current();
        let mut world = World::new(order, most);
        for step in steps {
            world.run(step);
        }
        for (what, count) in world.counts {
            *counts.entry(what).or_default() += count;
        }
    }
    for what in ["durable", "void", "full", "too large", "refused", "restart"] {
        assert!(
            counts.get(what).is_some_and(|count| *count >= 10),
            "{what}: {counts:?}"
        );
    }
}
