//! L4 and L5: what subscribers are told about their verdicts is true.

use super::{
    Violation,
    facts::Facts,
    known::{Became, Claim, Session},
    or_empty,
};
use crate::sim::history::{Event, Saying, Told, Word};

/// Checks the answers to one message, at the first of them.
pub(super) fn check(facts: &Facts<'_>, event: &Event, found: &mut Vec<Violation>) {
    let Event::Answered {
        session, sequence, ..
    } = event
    else {
        return;
    };
    let Some((said, at, words)) = facts.words.get(&(*session, *sequence)) else {
        let what = format!("session {session} was told of message {sequence}, which it never said");
        found.push(facts.violation("L4", what));
        return;
    };
    for word in words {
        let mut complain = |rule, what: String| {
            let text = format!("session {session} said {word:?} at #{said}: {what}");
            found.push(facts.violation(rule, text));
        };
        if matches!(word.saying, Saying::Nonsense(_)) {
            let became = facts.became(*session, *sequence, word, word.first);
            if !matches!(became, Became::Refused(Told::Invalid)) {
                complain("L4", format!("it is no verdict, and {became:?}"));
            }
            continue;
        }
        let gone = facts.lanes.get(&word.lane).is_none_or(|lane| {
            lane.revoked
                .is_some_and(|(index, when)| index < *said && when < *at)
        });
        let own = facts.touched(*session, word);
        if gone {
            let became = facts.became(*session, *sequence, word, word.first);
            if !matches!(
                became,
                Became::Refused(Told::Fenced | Told::Unknown) | Became::Untold
            ) {
                complain("L4", format!("the lane is not there, and {became:?}"));
            }
            continue;
        }
        for offset in own {
            let became = facts.became(*session, *sequence, word, offset);
            match became {
                Became::Applied(_) => applied(facts, *session, *said, word, offset, &mut complain),
                Became::Refused(told) => {
                    refused(facts, *said, word, offset, told, &mut complain);
                }
                Became::Untold => {}
            }
        }
        strangers(facts, *session, *sequence, *said, word, &mut complain);
    }
}

/// A verdict counts from the session that has the record.
fn applied(
    facts: &Facts<'_>,
    session: u64,
    said: usize,
    word: &Word,
    offset: u64,
    complain: &mut impl FnMut(&'static str, String),
) {
    let deliveries = or_empty(&facts.deliveries, &(word.lane, offset));
    let own = deliveries.iter().filter(|d| d.session == session);
    let best = own.clone().map(|d| d.delivery).max().unwrap_or(0);
    let newer = deliveries
        .iter()
        .find(|d| d.session != session && d.index < said && d.delivery > best);
    if let Some(newer) = newer {
        let holder = newer.session;
        complain(
            "L4",
            format!("applied to {offset}, which had gone to session {holder}"),
        );
    }
    if let Some(number) = word.delivery
        && !own.clone().any(|d| d.delivery == number)
    {
        complain(
            "L4",
            format!("applied to {offset}, whose delivery {number} it never had"),
        );
    }
    if matches!(word.saying, Saying::Extend(_)) || facts.plan.is_ordered() {
        return;
    }
    let earlier = settled_before(facts, word.lane, offset, said);
    if let Some(earlier) = earlier {
        complain(
            "L5",
            format!("applied to {offset}, which was acked at #{}", earlier.index),
        );
    }
}

/// The ack that certainly settled a record before an entry.
fn settled_before<'a>(
    facts: &'a Facts<'_>,
    lane: u64,
    offset: u64,
    before: usize,
) -> Option<&'a Claim> {
    or_empty(&facts.claims, &(lane, offset))
        .iter()
        .find(|claim| {
            let told = match claim.became {
                Became::Applied(told) => told,
                Became::Refused(_) | Became::Untold => return false,
            };
            claim.saying == Saying::Acked && claim.index < before && told < before
        })
}

/// A refusal names the true reason, as far as it can be known.
fn refused(
    facts: &Facts<'_>,
    said: usize,
    word: &Word,
    offset: u64,
    told: Told,
    complain: &mut impl FnMut(&'static str, String),
) {
    if facts.plan.is_ordered() {
        return;
    }
    if settled_before(facts, word.lane, offset, said).is_some() {
        let right = match word.saying {
            Saying::Acked => told == Told::Duplicate,
            Saying::Extend(_) | Saying::Rejected | Saying::Failed(_) | Saying::Released => {
                told == Told::Conflict
            }
            Saying::Nonsense(_) => true,
        };
        if !right && told != Told::Fenced {
            complain("L5", format!("{told:?} for {offset}, which was acked"));
        }
    }
    if told == Told::Duplicate {
        let equal = facts.may_have_said((word.lane, offset), |said| said == word.saying);
        let floor = facts
            .lanes
            .get(&word.lane)
            .is_some_and(|lane| offset < lane.start || lane.had_settled(offset));
        let letter = facts.lanes.get(&word.lane).is_some_and(|lane| {
            facts
                .letters
                .contains(&(lane.gateway, lane.partition, offset))
        });
        let given_up = word.saying == Saying::Rejected;
        if !equal && !floor && !letter && !given_up {
            complain("L5", format!("a duplicate for {offset}, and of what?"));
        }
    }
}

/// What others have is not for this session to answer.
fn strangers(
    facts: &Facts<'_>,
    session: u64,
    sequence: u64,
    said: usize,
    word: &Word,
    complain: &mut impl FnMut(&'static str, String),
) {
    let Some(last) = word.last.checked_add(1).filter(|end| *end > word.first) else {
        return;
    };
    // The answer of a call that is under way may hold it, and is not read yet.
    let calls = facts
        .sessions
        .get(&session)
        .is_some_and(Session::is_calling);
    let places = facts
        .deliveries
        .range((word.lane, word.first)..(word.lane, last));
    for ((_, offset), deliveries) in places {
        let known = deliveries.iter().any(|d| d.index < said);
        let own = calls || deliveries.iter().any(|d| d.session == session);
        let became = facts.became(session, sequence, word, *offset);
        if known && !own && matches!(became, Became::Applied(_)) {
            complain("L4", format!("applied to {offset}, which it never had"));
        }
    }
}
