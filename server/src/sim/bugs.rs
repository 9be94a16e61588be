//! Deliberate bugs: each has to break the rule that forbids it, in the words that
//! tell what is wrong.

use std::collections::BTreeMap;

use super::tests::watched;
use crate::consumer::mutation::Mutation;

/// Within so many seeds a bug has to show.
const BUG_SEEDS: u64 = 100;

/// Runs seeds with a bug switched on until the oracle sees `rule` broken, in these words.
fn caught(bug: Mutation, rule: &str, words: &str) {
    let mut other = BTreeMap::new();
    for seed in 1..=BUG_SEEDS {
        let outcome = watched(seed, false, Some(bug));
        for violation in outcome.violations {
            if violation.rule == rule && violation.what.contains(words) {
                eprintln!("{bug:?} shows with seed {seed}: {violation}");
                return;
            }
            let (count, _) = other
                .entry(violation.rule)
                .or_insert_with(|| (0, format!("seed {seed}: {violation}")));
            *count += 1;
        }
    }
    panic!(
        "{bug:?} did not break {rule} ({words}) in {BUG_SEEDS} seeds; instead, how often and \
         the first: {other:#?}"
    );
}

#[test]
fn committing_the_start_once_more_is_caught() {
    caught(Mutation::CommitTheStart, "L1", "went back");
}

#[test]
fn committing_the_highest_position_seen_is_caught() {
    caught(Mutation::CommitHighestSeen, "L2", "was committed");
}

#[test]
fn settling_before_the_dead_letter_is_confirmed_is_caught() {
    caught(Mutation::SettleBeforeDeadLetter, "L2", "was committed");
}

#[test]
fn committing_without_the_dead_letters_is_caught() {
    caught(Mutation::ForgetLetters, "L2", "was committed");
}

#[test]
fn taking_a_commit_with_dead_letters_for_failed_is_caught() {
    caught(Mutation::DoubtLetters, "L3", "a second time");
}

#[test]
fn taking_a_loss_for_an_ack_is_caught() {
    caught(Mutation::AckOnLoss, "L2", "was committed");
}

#[test]
fn forgetting_a_failed_record_is_caught() {
    caught(Mutation::ForgetFailed, "L2", "was committed");
}

#[test]
fn dead_lettering_what_was_only_released_is_caught() {
    caught(Mutation::CountReleased, "L3", "attempts-exhausted");
}

#[test]
fn accepting_a_superseded_delivery_is_caught() {
    caught(Mutation::AcceptSuperseded, "L4", "applied to");
}

#[test]
fn keeping_a_lane_over_a_revoke_is_caught() {
    caught(Mutation::KeepLaneOverRevoke, "L4", "the lane had gone");
}

#[test]
fn hiding_that_a_verdict_changed_nothing_is_caught() {
    caught(Mutation::HideProblems, "L4", "applied to");
}

#[test]
fn hiding_that_a_record_was_settled_is_caught() {
    caught(Mutation::HideProblems, "L5", "which was acked");
}

#[test]
fn passing_what_a_lost_subscriber_had_is_caught() {
    caught(Mutation::AckOnLoss, "L6", "left, which had");
}

#[test]
fn waiting_for_gaps_is_caught() {
    caught(Mutation::WaitForGaps, "L7", "where no record is");
}

#[test]
fn handing_out_more_than_the_credit_is_caught() {
    caught(Mutation::ExceedCredit, "L8", "and granted");
}

#[test]
fn handing_out_more_bytes_than_granted_is_caught() {
    caught(Mutation::ExceedBytes, "L8", "and granted");
}

#[test]
fn bringing_more_than_a_call_asked_for_is_caught() {
    caught(Mutation::ExceedDraw, "L8", "and asked for");
}

#[test]
fn forgetting_what_an_abandoned_call_took_is_caught() {
    caught(
        Mutation::KeepAbandoned,
        "liveness",
        "not everything was passed",
    );
}

#[test]
fn giving_to_others_what_a_call_brought_is_caught() {
    caught(Mutation::ReleaseHandedOver, "L10", "still has it");
}

#[test]
fn losing_the_order_of_keys_is_caught() {
    caught(Mutation::LoseOrder, "L9", "of the same key");
}

#[test]
fn losing_the_order_of_a_lane_is_caught() {
    caught(Mutation::LoseOrder, "L9", "was given back");
}

#[test]
fn counting_released_as_an_attempt_is_caught() {
    caught(Mutation::CountReleased, "L10", "attempt ");
}

#[test]
fn redelivering_before_the_delay_is_over_is_caught() {
    caught(Mutation::IgnoreDelay, "L10", "before the time");
}

#[test]
fn handing_a_record_to_two_at_once_is_caught() {
    caught(Mutation::HandOutTwice, "L10", "still has it");
}

#[test]
fn forgetting_deliveries_over_an_assignment_is_caught() {
    caught(Mutation::IgnoreMap, "L10", "delivery ");
}

#[test]
fn believing_the_map_of_before_a_reset_is_caught() {
    caught(Mutation::BelieveOldMap, "L11", "was skipped");
}

#[test]
fn confirming_before_the_commit_is_caught() {
    caught(Mutation::ConfirmEarly, "L12", "confirmed as durable");
}

#[test]
fn fetching_for_nobody_is_caught() {
    caught(Mutation::FetchForNobody, "L13", "nobody takes records");
}

#[test]
fn spinning_is_caught() {
    caught(Mutation::Spin, "L13", "spins");
}

#[test]
fn fetching_beyond_the_memory_is_caught() {
    caught(Mutation::IgnoreMemory, "L14", "at most");
}

#[test]
fn keeping_memory_is_caught() {
    caught(Mutation::LeakMemory, "L14", "still counts");
}

#[test]
fn delivering_what_the_map_says_is_settled_is_caught() {
    caught(Mutation::IgnoreMap, "L14", "settled before");
}
