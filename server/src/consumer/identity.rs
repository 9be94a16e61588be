//! Who a session belongs to: names, sessions and the subscribers that they are, also
//! while a subscriber is away.
//!
//! **Invariant**: a subscriber has one session at most, and its number while anything
//! is out to it; nobody is remembered beyond what the driver asked for.

use std::{collections::BTreeMap, sync::Arc};

use ackgate_lane::{Subscriber, Time};

use super::{bodies::Size, opening::Session};

/// Bytes of a token: as hard to guess as a 128-bit key.
const TOKEN: usize = 16;

/// Names remembered without anything waiting for them. Beyond it the one whose time is
/// over first is forgotten: subscribers that come and go for ever must not fill the memory.
const REMEMBERED: usize = 4096;

/// What shows that a session goes on where another one broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token(String);

impl Token {
    /// A new one; `None` if the system has no randomness, so that none can be guessed.
    pub(super) fn new() -> Option<Self> {
        let mut bytes = [0; TOKEN];
        getrandom::fill(&mut bytes).ok()?;
        Some(Self(
            bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        ))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Compared in the same time wherever they differ.
    pub(super) fn is(&self, shown: &str) -> bool {
        let differ = self.0.bytes().zip(shown.bytes());
        self.0.len() == shown.len() && differ.fold(0, |all, (a, b)| all | (a ^ b)) == 0
    }
}

/// A subscriber without a stream whose deliveries are still its own, or whose number is
/// to be the same when it comes back.
#[derive(Debug)]
pub(super) struct Away {
    pub(super) name: Arc<str>,
    pub(super) token: Option<Token>,
    /// What is out to it counts as credit used when it comes back.
    pub(super) out: Size,
    pub(super) alone: bool,
    /// The last sign of life.
    pub(super) heard: Time,
    /// Until when what is out waits for it; `None`: it is lost already.
    pub(super) held_until: Option<Time>,
    /// Until when its name stands for the same number, held or not.
    pub(super) known_until: Time,
}

/// Names and sessions of one subscription.
#[derive(Debug, Default)]
pub(super) struct Identities {
    sessions: BTreeMap<Session, Subscriber>,
    names: BTreeMap<Arc<str>, Subscriber>,
    away: BTreeMap<Subscriber, Away>,
    last: u64,
}

impl Identities {
    /// Whom `name` stands for, attached or away.
    pub(super) fn named(&self, name: &str) -> Option<Subscriber> {
        self.names.get(name).copied()
    }

    /// Whose stream it is.
    pub(super) fn of(&self, session: Session) -> Option<Subscriber> {
        self.sessions.get(&session).copied()
    }

    /// Binds the session to whom its name stands for, or to somebody new.
    pub(super) fn bind(&mut self, session: Session, name: &Arc<str>) -> Subscriber {
        let subscriber = self.named(name).unwrap_or_else(|| {
            self.last += 1;
            Subscriber(self.last)
        });
        self.names.insert(Arc::clone(name), subscriber);
        self.sessions.insert(session, subscriber);
        subscriber
    }

    /// The stream is over; its subscriber keeps its name and number.
    pub(super) fn unbind(&mut self, session: Session) {
        self.sessions.remove(&session);
    }

    /// Nobody stands behind the name any more.
    pub(super) fn forget(&mut self, name: &str) {
        if let Some(subscriber) = self.names.remove(name) {
            self.away.remove(&subscriber);
        }
    }

    pub(super) fn leave(&mut self, subscriber: Subscriber, away: Away) {
        self.away.insert(subscriber, away);
        if self.away.len() > REMEMBERED
            && let Some(name) = self
                .away
                .values()
                .filter(|away| away.held_until.is_none())
                .min_by_key(|away| away.known_until)
                .map(|away| Arc::clone(&away.name))
        {
            self.forget(&name);
        }
    }

    pub(super) fn away(&self, subscriber: Subscriber) -> Option<&Away> {
        self.away.get(&subscriber)
    }

    pub(super) fn away_mut(&mut self, subscriber: Subscriber) -> Option<&mut Away> {
        self.away.get_mut(&subscriber)
    }

    /// It comes back.
    pub(super) fn come_back(&mut self, subscriber: Subscriber) -> Option<Away> {
        self.away.remove(&subscriber)
    }

    /// Those whose deliveries still wait for them.
    pub(super) fn held(&self) -> impl Iterator<Item = (Subscriber, Time)> {
        self.away
            .iter()
            .filter_map(|(subscriber, away)| Some((*subscriber, away.held_until?)))
    }

    /// Those whose names stand for nothing any more.
    pub(super) fn forgotten_at(&self, now: Time) -> Vec<Arc<str>> {
        let over = |away: &&Away| away.known_until <= now && away.held_until.is_none();
        let names = self.away.values().filter(over);
        names.map(|away| Arc::clone(&away.name)).collect()
    }

    /// When the next absence changes by itself.
    pub(super) fn next_change(&self) -> Option<Time> {
        self.away
            .values()
            .map(|away| away.held_until.unwrap_or(away.known_until))
            .min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ_and_only_the_whole_one_is_accepted() {
        let (one, two) = (Token::new().expect("random"), Token::new().expect("random"));
        assert_ne!(one, two);
        assert_eq!(one.as_str().len(), 2 * TOKEN);
        assert!(one.is(one.as_str()));
        assert!(!one.is(two.as_str()));
        assert!(!one.is(""));
        assert!(!one.is(&one.as_str()[1..]));
    }

    #[test]
    fn names_of_those_that_left_are_bounded() {
        let mut identities = Identities::default();
        for number in 0..=2 * REMEMBERED as u64 {
            let name = Arc::from(format!("{number}"));
            let subscriber = identities.bind(Session(number), &name);
            identities.unbind(Session(number));
            let away = Away {
                name,
                token: None,
                out: Size::default(),
                alone: false,
                heard: Time::default(),
                held_until: None,
                known_until: Time(std::time::Duration::from_secs(number)),
            };
            identities.leave(subscriber, away);
        }
        assert_eq!(identities.away.len(), REMEMBERED);
        assert_eq!(identities.names.len(), REMEMBERED);
        assert_eq!(identities.named("0"), None, "the oldest goes first");
        assert!(identities.named(&format!("{}", 2 * REMEMBERED)).is_some());
    }

    #[test]
    fn name_stands_for_the_same_number_until_it_is_forgotten() {
        let mut identities = Identities::default();
        let name = Arc::from("billing");
        let first = identities.bind(Session(1), &name);
        identities.unbind(Session(1));
        assert_eq!(identities.of(Session(1)), None);
        assert_eq!(identities.bind(Session(2), &name), first);
        identities.forget("billing");
        assert_ne!(identities.bind(Session(3), &name), first);
    }
}
