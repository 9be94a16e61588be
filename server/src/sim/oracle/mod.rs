//! The oracle: reads a history and says what in it breaks a rule (L1 to L14, as far
//! as they show from outside). It knows nothing of the gateway's code.
//!
//! What cannot be told from outside is never held against the gateway: a verdict
//! without a confirmation may or may not have been applied, a message that waited in
//! a transport may have been handed over at any time since the last look.

mod answers;
mod commits;
mod deliveries;
mod facts;
mod flow;
mod known;

use std::{collections::BTreeMap, fmt};

use self::facts::Facts;
use super::{
    history::{Entry, Event},
    plan::Plan,
};

/// A rule that was broken, by the entry of the history that shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    /// Index into the history.
    pub(super) index: usize,
    /// The rule's id, and `liveness`.
    pub(super) rule: &'static str,
    /// In words.
    pub(super) what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at #{}: {}", self.rule, self.index, self.what)
    }
}

/// All rules that the history breaks.
pub(super) fn check(plan: &Plan, history: &[Entry]) -> Vec<Violation> {
    let mut facts = Facts::new(plan, history);
    let mut found = Vec::new();
    for (index, (now, event)) in history.iter().enumerate() {
        let before = found.len();
        facts.begin(index, *now);
        match event {
            Event::Delivered { .. } => {
                deliveries::check(&facts, event, &mut found);
                flow::check_credit(&facts, event, &mut found);
                flow::check_draw(&facts, event, &mut found);
            }
            Event::Answered { .. } => answers::check(&facts, event, &mut found),
            Event::Committed { .. } => commits::check(&facts, event, &mut found),
            Event::LetterStored { .. } => commits::check_letter(&facts, event, &mut found),
            Event::Fetched { .. } => flow::check_fetch(&facts, event, &mut found),
            Event::Stopped { gateway, memory } if *memory > 0 => {
                let what = format!("gateway {gateway} stopped and still counts {memory} bytes");
                found.push(facts.violation("L14", what));
            }
            Event::Finished(Some(stuck)) => {
                let what = format!("not everything was passed: {stuck}");
                found.push(facts.violation("liveness", what));
                commits::check_stuck(&facts, &mut found);
            }
            _ => {}
        }
        debug_assert!(found.len() >= before, "violations only grow");
        facts.learn(event);
    }
    if !history
        .iter()
        .any(|(_, event)| matches!(event, Event::Finished(_)))
    {
        found.push(Violation {
            index: history.len(),
            rule: "liveness",
            what: "the run did not end".to_owned(),
        });
    }
    found
}

/// A record of a lane.
type Place = (u64, u64);

/// By key, an empty one if there is none.
fn or_empty<'a, K: Ord, V>(map: &'a BTreeMap<K, Vec<V>>, key: &K) -> &'a [V] {
    map.get(key).map_or(&[], Vec::as_slice)
}
