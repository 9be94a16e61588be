//! L1, L2 and L3: what is committed, and what dead letters say.

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
    let Some(lane) = facts.lanes.get(id) else {
        let what = format!("a commit for lane {id}, which was never assigned");
        found.push(facts.violation("L2", what));
        return;
    };
    let Some(log) = facts.logs.get(partition) else {
        return;
    };
    let from = lane.start.min(*position);
    for (offset, _) in log.range(from..*position) {
        if !is_settled(facts, *id, lane, *offset) {
            let what = format!(
                "partition {partition}: {position} was committed in lane {id}, and nobody \
                 answered for {offset}"
            );
            found.push(facts.violation("L2", what));
            return;
        }
    }
    for (first, last) in settled {
        for (offset, _) in log.range(*first..=*last) {
            if !is_settled(facts, *id, lane, *offset) {
                let what = format!(
                    "partition {partition}: the map committed in lane {id} says that {offset} is \
                     settled, and nobody answered for it"
                );
                found.push(facts.violation("L2", what));
                return;
            }
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
    // a record that reached nobody may have been too large for all.
    rejected
        || deliveries == 0
        || super::deliveries::most_attempts(facts, lane, offset, u32::MAX) > policy.max_attempts
        || deliveries >= policy.max_deliveries
        || facts
            .sessions
            .values()
            .any(|session| session.over.is_some())
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
