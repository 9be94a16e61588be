//! L1 to L3, L6, L7 and L11: what is committed, and what dead letters say.

use super::{Violation, facts::Facts, known::Lane, or_empty};
use crate::sim::history::{Event, Saying};

/// **L1**, **L2**, **L3**: a commit passes only what somebody has answered for.
pub(super) fn check(facts: &Facts<'_>, event: &Event, found: &mut Vec<Violation>) {
    let Event::Committed {
        lane: id,
        partition,
        position,
        settled,
        ..
    } = event
    else {
        return;
    };
    if let Some(before) = facts.committed.get(partition)
        && position < before
    {
        let what = format!("partition {partition} went back from {before} to {position}");
        found.push(facts.violation("L1", what));
    }
    let settles = |offset: u64| {
        let mut runs = settled.iter();
        offset < *position || runs.any(|(first, last)| (*first..=*last).contains(&offset))
    };
    let mut stored = facts.stored.iter();
    if facts.plan.is_atomic()
        && let Some((_, offset)) = stored.find(|(of, offset)| of == partition && !settles(*offset))
    {
        let what = format!(
            "partition {partition}: the dead letter of {offset} is there, and the commit of \
             {position} does not say that the record is settled"
        );
        found.push(facts.violation("L3", what));
    }
    let Some(lane) = facts.lanes.get(id) else {
        let what = format!("a commit for lane {id}, which was never assigned");
        found.push(facts.violation("L2", what));
        return;
    };
    let Some(log) = facts.logs.get(partition) else {
        return;
    };
    let from = lane.start.min(*position);
    let passed = log.range(from..*position).map(|(offset, _)| *offset);
    if let Some(offset) = unanswered(facts, *id, passed) {
        let what = format!(
            "partition {partition}: {position} was committed in lane {id}, and nobody answered \
             for {offset}"
        );
        found.push(facts.violation("L2", what));
        explain(facts, *id, offset, found);
        return;
    }
    let named = settled
        .iter()
        .flat_map(|(first, last)| log.range(*first..=*last));
    if let Some(offset) = unanswered(facts, *id, named.map(|(offset, _)| *offset)) {
        let what = format!(
            "partition {partition}: the map committed in lane {id} says that {offset} is \
             settled, and nobody answered for it"
        );
        found.push(facts.violation("L2", what));
        explain(facts, *id, offset, found);
    }
}

/// The first of these records of a lane that nobody answered for.
fn unanswered(facts: &Facts<'_>, id: u64, mut of: impl Iterator<Item = u64>) -> Option<u64> {
    let lane = facts.lanes.get(&id)?;
    of.find(|offset| !is_settled(facts, id, lane, *offset))
}

/// What else a record shows that is passed unanswered. **L6**: whoever had it left.
/// **L11**: nobody got it, and the group was reset to a place at or below it.
fn explain(facts: &Facts<'_>, id: u64, offset: u64, found: &mut Vec<Violation>) {
    let had = or_empty(&facts.deliveries, &(id, offset));
    let left = |session: &u64| {
        facts
            .sessions
            .get(session)
            .is_some_and(|s| s.over.is_some())
    };
    if let Some(last) = had.last().map(|delivery| delivery.session)
        && had.iter().all(|delivery| left(&delivery.session))
    {
        let what = format!("session {last} left, which had {offset}, and so it was passed");
        found.push(facts.violation("L6", what));
    }
    let lane = facts.lanes.get(&id);
    if let Some(lane) = lane.filter(|lane| lane.is_reset && had.is_empty()) {
        let start = lane.start;
        let what = format!("the group was reset to {start}, and {offset} was skipped");
        found.push(facts.violation("L11", what));
    }
}

/// **L7**: what holds the group up is a record, and not a place where none is.
pub(super) fn check_stuck(facts: &Facts<'_>, found: &mut Vec<Violation>) {
    for (partition, log) in &facts.logs {
        let Some(position) = facts.committed.get(partition) else {
            continue;
        };
        let Some((next, _)) = log.range(position..).next() else {
            continue;
        };
        let mut lanes = facts.lanes.iter();
        let last = lanes.rfind(|(_, lane)| lane.partition == *partition);
        if next > position && last.is_some_and(|(id, lane)| is_settled(facts, *id, lane, *next)) {
            let what = format!(
                "partition {partition} waits at {position}, where no record is, below {next}, \
                 which is settled"
            );
            found.push(facts.violation("L7", what));
        }
    }
}

fn is_settled(facts: &Facts<'_>, id: u64, lane: &Lane, offset: u64) -> bool {
    let place = (id, offset);
    lane.had_settled(offset)
        || facts.may_have_said(place, |saying| saying == Saying::Acked)
        || facts
            .letters
            .contains(&(lane.gateway, lane.partition, offset))
        || (facts.plan.drops() && may_be_given_up(facts, id, offset))
}

/// Whether the record may have been given up by now, as its deliveries show.
fn may_be_given_up(facts: &Facts<'_>, lane: u64, offset: u64) -> bool {
    let rejected = facts.may_have_said((lane, offset), |said| said == Saying::Rejected);
    let policy = &facts.plan.subscription.policy;
    let last = or_empty(&facts.deliveries, &(lane, offset)).iter();
    let deliveries = last.map(|d| d.delivery).max().unwrap_or(0);
    // Some hand-overs reach nobody, so the deliveries cannot be counted from outside;
    // a record that reached nobody may have been too large for all, and where a lane
    // belongs to one, one that others got may be too large for the next.
    rejected
        || deliveries == 0
        || may_be_too_large(facts, lane, offset)
        || super::deliveries::most_attempts(facts, lane, offset, u32::MAX) > policy.max_attempts
        || deliveries >= policy.max_deliveries
        || facts
            .sessions
            .values()
            .any(|session| session.over.is_some())
}

/// What a message holds beside its records, at most.
const AROUND: u64 = 1024;

/// Whether a session came to the lane's gateway whose messages the record does not fit:
/// where a lane belongs to one at a time, that one decides, whoever had it before.
fn may_be_too_large(facts: &Facts<'_>, lane: u64, offset: u64) -> bool {
    let delivered = or_empty(&facts.deliveries, &(lane, offset)).iter();
    let bytes = delivered.map(|d| d.bytes).max().unwrap_or(0);
    let gateway = facts.lanes.get(&lane).map(|lane| lane.gateway);
    facts.sessions.values().any(|session| {
        let is_small = session.accepts > 0 && session.accepts < bytes + AROUND;
        Some(session.gateway) == gateway && is_small
    })
}

/// **L3** the other way round: a dead letter is a true copy and has a cause.
pub(super) fn check_letter(facts: &Facts<'_>, event: &Event, found: &mut Vec<Violation>) {
    let Event::LetterStored {
        gateway,
        partition,
        offset,
        cause,
        attempts,
        deliveries,
        intact,
    } = event
    else {
        return;
    };
    if facts.plan.is_atomic() && facts.stored.contains(&(*partition, *offset)) {
        let what = format!("the dead letter of {partition}/{offset} is there a second time");
        found.push(facts.violation("L3", what));
    }
    if !intact {
        let what = format!("the dead letter of {partition}/{offset} is no true copy");
        found.push(facts.violation("L3", what));
    }
    let policy = &facts.plan.subscription.policy;
    let mut lanes = facts
        .lanes
        .iter()
        .filter(|(_, lane)| lane.gateway == *gateway && lane.partition == *partition)
        .map(|(id, _)| *id);
    let justified = match cause.as_str() {
        "rejected" => {
            lanes.any(|lane| facts.may_have_said((lane, *offset), |said| said == Saying::Rejected))
        }
        "attempts-exhausted" => {
            *attempts >= policy.max_attempts
                && lanes.any(|lane| {
                    super::deliveries::most_attempts(facts, lane, *offset, u32::MAX)
                        > policy.max_attempts
                })
        }
        "deliveries-exhausted" => *deliveries >= policy.max_deliveries,
        "oversize" => true,
        _ => false,
    };
    if !justified {
        let what = format!(
            "{partition}/{offset} was dead-lettered as {cause} with {attempts} attempts and \
             {deliveries} deliveries, and nothing that took place explains it"
        );
        found.push(facts.violation("L3", what));
    }
}
