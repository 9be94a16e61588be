//! L8, L13 and L14: credit, idleness and memory.

use super::{Violation, facts::Facts, known::Draw, or_empty};
use crate::sim::history::Event;

/// A lane always gets this much, whatever the budget says.
const LEAST_PER_LANE: u64 = 256 * 1024;

/// A message on its way to the driver, or a chunk on its way from the broker.
const ON_ITS_WAY: u64 = 100;

/// **L8**: a call never brings more than it asked for, but for one record that is larger.
pub(super) fn check_draw(facts: &Facts<'_>, event: &Event, found: &mut Vec<Violation>) {
    let Event::Delivered {
        session: id, bytes, ..
    } = event
    else {
        return;
    };
    let Some(draw) = facts.sessions.get(id).and_then(|it| it.draw) else {
        return;
    };
    let Draw {
        most,
        brought: (records, weight),
    } = draw;
    let too_many = records >= most.0;
    let too_heavy = records > 0 && weight + bytes > most.1;
    if too_many || too_heavy {
        let (records, weight) = (records + 1, weight + bytes);
        let what = format!(
            "a call of session {id} brought {records} records, {weight} bytes, and asked for \
             {most:?}"
        );
        found.push(facts.violation("L8", what));
    }
}

/// **L8**: what is out never exceeds the credit.
pub(super) fn check_credit(facts: &Facts<'_>, event: &Event, found: &mut Vec<Violation>) {
    let Event::Delivered {
        session: id,
        lane,
        offset,
        bytes,
        prompt: true,
        ..
    } = event
    else {
        return;
    };
    let Some(session) = facts.sessions.get(id).filter(|it| it.draw.is_none()) else {
        return;
    };
    // A credit that came at this moment may not have been heard yet.
    let recent = session
        .credits
        .iter()
        .rev()
        .scan(false, |done, (from, credit)| {
            let take = !*done;
            *done = *from < facts.now;
            take.then_some(*credit)
        });
    let (records, most_bytes) = recent.fold((0, 0), |most: (u32, u64), credit| {
        (most.0.max(credit.0), most.1.max(credit.1))
    });
    let ordered = facts.plan.is_ordered();
    let (mut out, mut weight) = (1_u64, *bytes);
    if let Some(places) = facts.out.get(id) {
        for (place, delivery) in places {
            let claims = or_empty(&facts.claims, place);
            let safe = delivery.safe_until(
                session.deadline,
                claims,
                or_empty(&facts.handed_over, place),
            );
            // In lane order an expiry voids what lies above it.
            let voided = ordered && place.0 == *lane;
            if *place != (*lane, *offset) && facts.now < safe && !voided {
                out += 1;
                weight += delivery.bytes;
            }
        }
    }
    let too_many = out > u64::from(records);
    // One record may be larger than the whole credit.
    let too_heavy = out > 1 && weight > most_bytes;
    if session.over.is_none() && (too_many || too_heavy) {
        let what = format!(
            "session {id} has {out} records, {weight} bytes, and granted {records}, {most_bytes}"
        );
        found.push(facts.violation("L8", what));
    }
}

/// **L13**: nothing is fetched for nobody. **L14**: nor beyond the memory.
pub(super) fn check_fetch(facts: &Facts<'_>, event: &Event, found: &mut Vec<Violation>) {
    let Event::Fetched { gateway, used, .. } = event else {
        return;
    };
    let last = facts.eligible.get(gateway).copied();
    if last.is_none_or(|last| facts.now > last.saturating_add(ON_ITS_WAY)) {
        let what = format!("gateway {gateway} fetches, and nobody takes records since {last:?} ms");
        found.push(facts.violation("L13", what));
    }
    let lanes = facts
        .lanes
        .values()
        .filter(|lane| lane.gateway == *gateway && lane.revoked.is_none())
        .count() as u64;
    let most = facts.plan.memory + (lanes + 1) * LEAST_PER_LANE;
    if *used > most {
        let what =
            format!("gateway {gateway} holds {used} bytes: at most {most} with {lanes} lanes");
        found.push(facts.violation("L14", what));
    }
}
