//! L4, L9, L10 and L14 as deliveries show them: what is handed out, to whom, when
//! and with which numbers.

use super::{
    Violation,
    facts::Facts,
    known::{Became, Claim, Delivery, Lane},
    or_empty,
};
use crate::sim::{
    history::{Ending, Event, Saying},
    plan::Kind,
};

/// One delivery, taken apart.
struct New {
    session: u64,
    lane: u64,
    offset: u64,
    attempt: u32,
    delivery: u32,
    since: u64,
    prompt: bool,
}

/// Everything that a delivery may break but the credit.
pub(super) fn check(facts: &Facts<'_>, event: &Event, found: &mut Vec<Violation>) {
    let Event::Delivered {
        session,
        lane: id,
        partition,
        offset,
        attempt,
        delivery,
        since,
        prompt,
        intact,
        ..
    } = event
    else {
        return;
    };
    let mut complain = |rule, what: String| {
        let text = format!("{partition}/{offset} to session {session} in lane {id}: {what}");
        found.push(facts.violation(rule, text));
    };
    if !intact || !facts.ever.contains(&(*partition, *offset)) {
        complain("L7", "no such record was written".to_owned());
    }
    let gateway = facts.sessions.get(session).map(|s| s.gateway);
    let lane = facts
        .lanes
        .get(id)
        .filter(|lane| Some(lane.gateway) == gateway && lane.partition == *partition);
    let Some(lane) = lane else {
        complain("L4", "its gateway has no such lane".to_owned());
        return;
    };
    if lane.revoked.is_some_and(|(_, at)| *prompt && *since > at) {
        complain("L4", "the lane had gone".to_owned());
    }
    if *offset < lane.start {
        complain("L1", format!("below the committed position {}", lane.start));
    }
    if lane.had_settled(*offset) {
        complain(
            "L14",
            "settled before its lane came, as was committed".to_owned(),
        );
    }
    let durable = facts.durable.get(&(*partition, *offset));
    if let Some(told) = durable.filter(|told| **told < lane.assigned) {
        complain("L12", format!("confirmed as durable at #{told}"));
    }
    let new = New {
        session: *session,
        lane: *id,
        offset: *offset,
        attempt: *attempt,
        delivery: *delivery,
        since: *since,
        prompt: *prompt,
    };
    numbers(facts, &new, &mut complain);
    settled(facts, &new, &mut complain);
    too_early(facts, &new, &mut complain);
    if *prompt {
        match facts.plan.kind {
            Kind::Free => {}
            Kind::Keyed => in_key_order(facts, &new, lane, &mut complain),
            Kind::Ordered => in_order(facts, &new, lane, &mut complain),
        }
    }
}

/// Numbers count what took place.
fn numbers(facts: &Facts<'_>, new: &New, complain: &mut impl FnMut(&'static str, String)) {
    let policy = &facts.plan.subscription.policy;
    // In lane order what a neighbour's failure voids is numbered but not held against it.
    let too_often = new.delivery > policy.max_deliveries && !facts.plan.is_ordered();
    if new.attempt > policy.max_attempts || too_often {
        complain(
            "L3",
            format!(
                "attempt {}, delivery {}: too many",
                new.attempt, new.delivery
            ),
        );
    }
    let place = (new.lane, new.offset);
    let before = or_empty(&facts.deliveries, &place);
    let same = before.iter().any(|old| old.delivery == new.delivery);
    if same && !facts.plan.is_ordered() {
        complain("L10", format!("delivery {} twice", new.delivery));
    }
    let most = most_attempts(facts, new.lane, new.offset, new.delivery);
    let claims = or_empty(&facts.claims, &place);
    let failed = |old: &&Delivery| {
        old.delivery < new.delivery
            && claims.iter().any(|claim| {
                let counts = match claim.became {
                    Became::Applied(told) => told < facts.index,
                    Became::Refused(_) | Became::Untold => false,
                };
                claim.session == old.session
                    && claim.index > old.index
                    && claim.delivery == Some(old.delivery)
                    && matches!(claim.saying, Saying::Failed(_))
                    && counts
            })
    };
    let tried = facts.lanes.get(&new.lane).map(|l| l.had_tried(new.offset));
    let (attempts, deliveries) = tried.unwrap_or_default();
    if new.delivery <= deliveries {
        complain(
            "L10",
            format!("delivery {} after {deliveries}", new.delivery),
        );
    }
    let least = 1 + attempts + count(before.iter().filter(failed).count());
    if new.attempt > most || new.attempt < least {
        complain(
            "L10",
            format!(
                "attempt {} of delivery {}, which is between {least} and {most}",
                new.attempt, new.delivery
            ),
        );
    }
}

/// The highest number of an attempt with a delivery above the known ones below
/// `delivery`: those that failed or may have expired use one each.
pub(super) fn most_attempts(facts: &Facts<'_>, lane: u64, offset: u64, delivery: u32) -> u32 {
    let place = (lane, offset);
    let claims = or_empty(&facts.claims, &place);
    let all = or_empty(&facts.handed_over, &place);
    let uses = all.iter().filter(|old| {
        let deadline = facts.sessions.get(&old.session).map_or(0, |s| s.deadline);
        let failed = claims.iter().any(|claim| {
            claim.session == old.session
                && claim.index > old.index
                && matches!(claim.saying, Saying::Failed(_))
                && !matches!(claim.became, Became::Refused(_))
        });
        old.since <= facts.now
            && old.delivery < delivery
            && (failed || facts.now >= old.safe_until(deadline, claims, all))
    });
    // What waits unread in an outbox can be failed too, and may never be read.
    let unread = claims.iter().filter(|claim| {
        matches!(claim.saying, Saying::Failed(_))
            && !claim.prompt
            && claim.delivery.is_none()
            && !matches!(claim.became, Became::Refused(_))
    });
    let blind = facts.blindly(place, |said| matches!(said, Saying::Failed(_))) + unread.count();
    let tried = facts.lanes.get(&lane).map(|l| l.had_tried(offset));
    1 + tried.unwrap_or_default().0 + count(uses.count() + blind)
}

/// **L5**, **L14**: what was acked does not come again in the same lane.
fn settled(facts: &Facts<'_>, new: &New, complain: &mut impl FnMut(&'static str, String)) {
    if facts.plan.is_ordered() || !new.prompt {
        return;
    }
    let claims = or_empty(&facts.claims, &(new.lane, new.offset));
    let acked = claims.iter().find(|claim| {
        let told = match claim.became {
            Became::Applied(told) => told,
            Became::Refused(_) | Became::Untold => return false,
        };
        claim.saying == Saying::Acked && told < facts.index && new.since > facts.time_of(told)
    });
    if let Some(claim) = acked {
        complain("L5", format!("acked at #{} already", claim.index));
    }
}

/// **L10**: not before the earlier delivery is over, nor before its time.
fn too_early(facts: &Facts<'_>, new: &New, complain: &mut impl FnMut(&'static str, String)) {
    if !new.prompt {
        return;
    }
    let place = (new.lane, new.offset);
    let before = or_empty(&facts.deliveries, &place).iter();
    let Some(old) = before
        .filter(|old| old.delivery < new.delivery || facts.plan.is_ordered())
        .max_by_key(|old| (old.delivery, old.index))
    else {
        return;
    };
    let claims = or_empty(&facts.claims, &place);
    // What names no delivery is about whatever is out, also if it was on its way then.
    let is_about = |c: &Claim| c.index > old.index || (c.delivery.is_none() && c.at >= old.since);
    let own: Vec<_> = claims
        .iter()
        .filter(|c| c.session == old.session && is_about(c))
        .filter(|c| !matches!(c.saying, Saying::Extend(_) | Saying::Nonsense(_)))
        .collect();
    if let [only] = own.as_slice()
        && let (Saying::Failed(Some(after)), Became::Applied(_)) = (only.saying, only.became)
        && facts.now < only.at + after
        && only.delivery == Some(old.delivery)
    {
        let wait = only.at + after - facts.now;
        complain(
            "L10",
            format!("{wait} ms before the time that #{} set", only.index),
        );
    }
    if facts.plan.is_ordered() {
        return;
    }
    let holder = facts.sessions.get(&old.session);
    let over = holder.is_some_and(|s| s.over.is_some());
    let deadline = holder.map_or(0, |s| s.deadline);
    let all = or_empty(&facts.handed_over, &place);
    let cut = matches!(facts.ending(old.session), Some(Ending::Told(Some(_))));
    if own.is_empty() && !over && !cut && facts.now < old.safe_until(deadline, claims, all) {
        complain(
            "L10",
            format!("session {} still has it, since #{}", old.session, old.index),
        );
    }
}

/// **L9** in order of keys: whatever lies below with the same key is settled.
fn in_key_order(
    facts: &Facts<'_>,
    new: &New,
    lane: &Lane,
    complain: &mut impl FnMut(&'static str, String),
) {
    let Some(log) = facts.logs.get(&lane.partition) else {
        return;
    };
    let Some(Some(key)) = log.get(&new.offset) else {
        return;
    };
    for (below, _) in log
        .range(lane.start.min(new.offset)..new.offset)
        .filter(|(_, other)| **other == Some(*key))
    {
        let letter = (lane.gateway, lane.partition, *below);
        let acked = facts.may_have_said((new.lane, *below), |said| said == Saying::Acked);
        if !acked
            && !lane.had_settled(*below)
            && !facts.letters.contains(&letter)
            && !facts.plan.drops()
        {
            complain("L9", format!("{below} of the same key is not settled"));
            return;
        }
    }
}

/// **L9** in lane order: whatever lies below is settled or out to the same session.
fn in_order(
    facts: &Facts<'_>,
    new: &New,
    lane: &Lane,
    complain: &mut impl FnMut(&'static str, String),
) {
    let Some(log) = facts.logs.get(&lane.partition) else {
        return;
    };
    if new.offset < lane.start {
        return;
    }
    for (below, _) in log.range(lane.start..new.offset).rev() {
        let place = (new.lane, *below);
        let claims = or_empty(&facts.claims, &place);
        let letter = (lane.gateway, lane.partition, *below);
        let decided = facts.may_have_said(place, |said| match said {
            Saying::Acked => true,
            Saying::Rejected => facts.plan.drops(),
            Saying::Failed(_) | Saying::Released | Saying::Nonsense(_) | Saying::Extend(_) => false,
        });
        if decided
            || lane.had_settled(*below)
            || facts.letters.contains(&letter)
            || facts.plan.drops()
        {
            continue;
        }
        // Not the one read last: an old one may have waited in a transport.
        let known = or_empty(&facts.deliveries, &place).iter();
        let last = known.max_by_key(|d| (d.delivery, d.index));
        let gave_back = |last: &Delivery| {
            claims.iter().any(|claim| {
                let back = matches!(claim.saying, Saying::Failed(_) | Saying::Released);
                let told = match claim.became {
                    Became::Applied(told) => told < facts.index,
                    Became::Refused(_) | Became::Untold => false,
                };
                back && told && claim.session == last.session && claim.index > last.index
            })
        };
        match last {
            None => complain("L9", format!("{below} was never handed out")),
            Some(last) if last.session != new.session => {
                complain("L9", format!("{below} is out to session {}", last.session));
            }
            Some(last) if gave_back(last) => {
                complain(
                    "L9",
                    format!("{below} was given back after #{}", last.index),
                );
            }
            Some(_) => continue,
        }
        return;
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
