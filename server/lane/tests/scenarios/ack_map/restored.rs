//! What a lane makes of the map that it begins with.

use ackgate_lane::{DeadLetterOutcome, Doubt, Effect, Epoch, Order, Policy, Position};

use super::{map, restored, tried};
use crate::support::{A, FAILED, policy, range, settled};

#[test]
fn restored_records_that_are_settled_are_skipped_and_the_others_go_on_counting() {
    let mut of = map(10, &[(12, 13), (15, 15)]);
    of.counters = vec![tried(10, 11, 4, 6), tried(14, 14, 0, 1)];
    let mut bench = restored(policy(), 10, of);
    assert_eq!((bench.floor(), bench.lane.epoch()), (10, Epoch(3)));
    bench.fetched(10, 17);
    let skipped = |first, last| Effect::Skipped {
        range: range(first, last),
    };
    assert_eq!(bench.effects(), [skipped(12, 13), skipped(15, 15)]);
    let ready = bench.ready().expect("something is ready");
    assert_eq!(
        (ready.range, ready.attempt, ready.delivery),
        (range(10, 11), 5, 7)
    );
    // FC-34: one more failure uses up the five attempts.
    bench
        .deliver(A, 10, 11)
        .ack(A, 11, 11)
        .applied(A, 10, 10, FAILED);
    assert!(bench.effects().iter().any(|effect| matches!(
        effect,
        Effect::DeadLetter {
            attempts: 5,
            deliveries: 7,
            ..
        }
    )));
    bench.dead_letter(10, DeadLetterOutcome::Stored);
    assert_eq!(bench.floor(), 14);
    bench.deliver(A, 14, 17).ack(A, 14, 14).ack(A, 16, 17);
    assert_eq!(bench.floor(), 18);
}

#[test]
fn attempts_used_up_before_the_restart_lead_to_the_dead_letter_at_once() {
    let mut of = map(10, &[]);
    of.counters = vec![tried(10, 10, 5, 5)];
    let mut bench = restored(policy(), 10, of);
    bench.fetched(10, 11);
    assert!(matches!(bench.effects()[..], [Effect::DeadLetter { .. }]));
    assert_eq!(bench.ready_range(), Some((11, 11)));
}

/// In key order it waits for its turn first, as any other record of its key.
#[test]
fn attempts_used_up_before_the_restart_lead_to_the_dead_letter_once_it_is_the_keys_turn() {
    let by_key = Policy {
        order: Order::Key { share: 250 },
        ..policy()
    };
    let mut of = map(10, &[]);
    of.counters = vec![tried(11, 11, 5, 5)];
    let mut bench = restored(by_key, 10, of);
    bench.keyed(10, &[Some(1), Some(1)]);
    assert_eq!(bench.effects(), []);
    bench.hand(A, 10, 10).quiet().ack(A, 10, 10);
    let asked = |effect: &Effect| matches!(effect, Effect::DeadLetter { attempts: 5, .. });
    assert!(bench.effects().iter().any(asked));
    assert_eq!(bench.ready_offset(A), None, "it does not go out again");
}

/// L7: what a map speaks of may have left the log meanwhile.
#[test]
fn restored_records_that_are_gone_are_reported_if_they_were_unsettled_and_hold_nothing() {
    let mut of = map(10, &[(12, 13), (16, 18)]);
    of.counters = vec![tried(11, 11, 1, 1), tried(14, 15, 1, 1)];
    let mut bench = restored(policy(), 10, of);
    bench.fetched(15, 15);
    let lost = |first, last| Effect::Lost {
        range: range(first, last),
    };
    assert_eq!(
        bench.effects(),
        [lost(11, 11), lost(14, 14), settled(11, 11), settled(14, 14)]
    );
    bench.fetched(20, 20).deliver(A, 15, 20);
    bench.ack(A, 15, 15).ack(A, 20, 20);
    assert_eq!(bench.floor(), 21);
    assert_eq!(bench.commits_until(1000), [21]);
}

#[test]
fn a_map_of_another_position_is_not_used_and_begins_another_epoch() {
    let mut bench = restored(policy(), 11, map(10, &[(12, 13)]));
    let doubt = bench.lane.snapshot().map.doubt;
    assert_eq!(
        doubt,
        Some(Doubt::Floor {
            found: Position::new(10)
        })
    );
    assert_eq!(bench.lane.epoch(), Epoch(4), "it never goes down");
    bench.fetched(11, 14);
    assert_eq!(bench.ready_range(), Some((11, 14)));
}

/// Retention took what was unsettled below; without a commit the group would show lag
/// until something new came.
#[test]
fn l7_the_floor_passes_restored_records_above_what_is_gone_and_is_committed() {
    let mut bench = restored(policy(), 5, map(5, &[(6, 7), (36, 38)]));
    bench.fetched(36, 38);
    assert_eq!(bench.floor(), 39);
    assert_eq!(bench.commits_until(2000), [39]);
}

#[test]
fn what_was_restored_is_in_the_next_map_and_is_not_committed_again_by_itself() {
    let mut bench = restored(policy(), 10, map(10, &[(12, 13)]));
    bench.fetched(10, 19);
    assert_eq!(bench.quiet().commits_until(5000), []);
    bench.deliver(A, 10, 19).ack(A, 15, 15);
    assert_eq!(bench.commits_until(6000), [10]);
    assert_eq!(
        bench.map().expect("a map").settled,
        [range(12, 13), range(15, 15)]
    );
}
