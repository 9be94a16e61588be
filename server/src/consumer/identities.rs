//! [`Identities`]: which sessions are one subscriber of a broadcast, by its name, so
//! that one that was lost and comes back finds what it owes.
//!
//! **Invariant**: a session speaks for a subscriber only between its attaching and its
//! end; what a late message of an ended session says reaches nobody.

use std::{collections::HashMap, sync::Arc};

use ackgate_lane::{Subscriber, Time};

/// Numbers of identities begin here; sessions never come so far, so the two are never
/// taken for each other.
const FIRST: u64 = 1 << 62;

/// Names and the numbers that lanes know them by.
#[derive(Debug, Default)]
pub(super) struct Identities {
    by_name: HashMap<Arc<str>, Known>,
    /// Attached sessions.
    sessions: HashMap<Subscriber, Subscriber>,
    given: u64,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    subscriber: Subscriber,
    /// `None` while attached.
    forget_at: Option<Time>,
}

impl Identities {
    /// Whom `session` speaks for: itself, where identities are not kept.
    pub(super) fn of(&self, session: Subscriber) -> Subscriber {
        self.sessions.get(&session).copied().unwrap_or(session)
    }

    /// `session` attaches under `name`; `None` if another one has it.
    pub(super) fn begin(&mut self, session: Subscriber, name: &Arc<str>) -> Option<Subscriber> {
        let subscriber = match self.by_name.get(name) {
            Some(Known {
                forget_at: None, ..
            }) => return None,
            Some(known) => known.subscriber,
            None => {
                self.given += 1;
                Subscriber(FIRST + self.given)
            }
        };
        let known = Known {
            subscriber,
            forget_at: None,
        };
        self.by_name.insert(Arc::clone(name), known);
        self.sessions.insert(session, subscriber);
        Some(subscriber)
    }

    /// The session of `subscriber` is over: it is remembered until `at`, or not.
    pub(super) fn end(&mut self, subscriber: Subscriber, at: Option<Time>) {
        self.sessions.retain(|_, of| *of != subscriber);
        match at {
            None => self
                .by_name
                .retain(|_, known| known.subscriber != subscriber),
            Some(_) => {
                let mut all = self.by_name.values_mut();
                if let Some(known) = all.find(|known| known.subscriber == subscriber) {
                    known.forget_at = at;
                }
            }
        }
    }

    /// Forgets those whose time is over.
    pub(super) fn forget_overdue(&mut self, now: Time) {
        self.by_name
            .retain(|_, known| known.forget_at.is_none_or(|at| at > now));
    }

    /// The name behind a number.
    pub(super) fn name(&self, subscriber: Subscriber) -> Option<Arc<str>> {
        let mut all = self.by_name.iter();
        all.find(|(_, known)| known.subscriber == subscriber)
            .map(|(name, _)| Arc::clone(name))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_name_has_one_session_at_a_time_and_keeps_its_number_while_it_is_remembered() {
        let name: Arc<str> = Arc::from("audit");
        let at = |seconds| Time(Duration::from_secs(seconds));
        let mut all = Identities::default();
        let first = all.begin(Subscriber(1), &name).expect("a free name");
        assert_eq!(all.begin(Subscriber(2), &name), None);
        assert_eq!(all.of(Subscriber(1)), first);
        all.end(first, Some(at(10)));
        assert_eq!(all.of(Subscriber(1)), Subscriber(1), "it speaks for nobody");
        all.forget_overdue(at(9));
        assert_eq!(all.begin(Subscriber(3), &name), Some(first));
        all.end(first, Some(at(10)));
        all.forget_overdue(at(10));
        assert_ne!(all.begin(Subscriber(4), &name), Some(first));
    }
}
