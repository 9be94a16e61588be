//! [`Facts`]: what is known at one entry of the history, and what later entries will
//! tell about the verdicts before it.

mod learn;

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Place, Violation,
    known::{Became, Claim, Delivery, Lane, Session, delivery},
};
use crate::sim::{
    history::{Ending, Entry, Event, Reply, Saying, Told, Word},
    plan::Plan,
};

/// Everything known.
pub(super) struct Facts<'a> {
    pub(super) plan: &'a Plan,
    pub(super) index: usize,
    pub(super) now: u64,
    /// Of each partition: the records that exist.
    pub(super) logs: BTreeMap<i32, BTreeMap<u64, Option<u64>>>,
    /// Records that ever existed.
    pub(super) ever: BTreeSet<(i32, u64)>,
    pub(super) committed: BTreeMap<i32, u64>,
    /// Partitions that another tool has moved and nobody has committed since.
    reset: BTreeSet<i32>,
    pub(super) lanes: BTreeMap<u64, Lane>,
    pub(super) sessions: BTreeMap<u64, Session>,
    pub(super) deliveries: BTreeMap<Place, Vec<Delivery>>,
    pub(super) claims: BTreeMap<Place, Vec<Claim>>,
    /// Confirmed as durable: by the entry that says so, until the group is reset.
    pub(super) durable: BTreeMap<(i32, u64), usize>,
    /// Dead letters that are there, unless the group was reset below them.
    pub(super) stored: BTreeSet<(i32, u64)>,
    /// Confirmed to these gateways.
    pub(super) letters: BTreeSet<(u64, i32, u64)>,
    /// What each session has received of each lane.
    received: BTreeMap<(u64, u64), BTreeSet<u64>>,
    pub(super) words: BTreeMap<(u64, u64), (usize, u64, Vec<Word>)>,
    /// Words by lane that reach beyond what their sessions had received: they count for
    /// what is on its way to them.
    blind: BTreeMap<u64, Vec<(u64, u64, Word)>>,
    /// Answers of the whole history: the first one's index, and all replies.
    answers: BTreeMap<(u64, u64), (usize, Vec<Reply>)>,
    /// Every delivery of the whole history: some were handed over long before they
    /// were read.
    pub(super) handed_over: BTreeMap<Place, Vec<Delivery>>,
    /// When each entry took place.
    times: Vec<u64>,
    /// How each session will end.
    endings: BTreeMap<u64, Ending>,
    /// Per session: places out, as far as is certain.
    pub(super) out: BTreeMap<u64, BTreeMap<Place, Delivery>>,
    /// When each gateway last had a subscriber with credit; the end of time: it has.
    pub(super) eligible: BTreeMap<u64, u64>,
}

impl<'a> Facts<'a> {
    /// Looks ahead for answers and endings; knows nothing else yet.
    pub(super) fn new(plan: &'a Plan, history: &[Entry]) -> Self {
        let mut answers: BTreeMap<(u64, u64), (usize, Vec<Reply>)> = BTreeMap::new();
        let mut endings = BTreeMap::new();
        let mut handed_over: BTreeMap<Place, Vec<Delivery>> = BTreeMap::new();
        for (index, (_, event)) in history.iter().enumerate() {
            match event {
                Event::Answered {
                    session,
                    sequence,
                    replies,
                } => answers
                    .entry((*session, *sequence))
                    .or_insert((index, Vec::new()))
                    .1
                    .extend(replies.iter().cloned()),
                Event::Ended { session, how } => {
                    endings.insert(*session, how.clone());
                }
                _ => {
                    if let Some((place, delivery)) = delivery(index, event) {
                        handed_over.entry(place).or_default().push(delivery);
                    }
                }
            }
        }
        Self {
            plan,
            index: 0,
            now: 0,
            logs: BTreeMap::new(),
            ever: BTreeSet::new(),
            committed: BTreeMap::new(),
            reset: BTreeSet::new(),
            lanes: BTreeMap::new(),
            sessions: BTreeMap::new(),
            deliveries: BTreeMap::new(),
            claims: BTreeMap::new(),
            durable: BTreeMap::new(),
            letters: BTreeSet::new(),
            stored: BTreeSet::new(),
            received: BTreeMap::new(),
            words: BTreeMap::new(),
            blind: BTreeMap::new(),
            answers,
            handed_over,
            times: history.iter().map(|(at, _)| *at).collect(),
            endings,
            out: BTreeMap::new(),
            eligible: BTreeMap::new(),
        }
    }

    /// Moves to an entry.
    pub(super) fn begin(&mut self, index: usize, now: u64) {
        self.index = index;
        self.now = now;
    }

    /// A violation shown by this entry.
    pub(super) fn violation(&self, rule: &'static str, what: String) -> Violation {
        Violation {
            index: self.index,
            rule,
            what,
        }
    }

    /// How a session will end, if it does.
    pub(super) fn ending(&self, session: u64) -> Option<&Ending> {
        self.endings.get(&session)
    }

    /// When an entry took place.
    pub(super) fn time_of(&self, index: usize) -> u64 {
        self.times.get(index).copied().unwrap_or(u64::MAX)
    }

    /// Offsets of a lane within a word that its session has received.
    pub(super) fn touched(&self, session: u64, word: &Word) -> Vec<u64> {
        if word.first > word.last {
            return Vec::new();
        }
        self.received
            .get(&(session, word.lane))
            .map(|got| got.range(word.first..=word.last).copied().collect())
            .unwrap_or_default()
    }

    /// Whether something like this may have been applied to a record.
    pub(super) fn may_have_said(&self, place: Place, like: impl Fn(Saying) -> bool) -> bool {
        let claims = self.claims.get(&place).into_iter().flatten();
        let mut seen = claims.filter(|c| !matches!(c.became, Became::Refused(_)));
        seen.any(|claim| like(claim.saying)) || self.blindly(place, like) > 0
    }

    /// How many words like this reach blindly to a record, and may have been applied.
    pub(super) fn blindly(&self, place: Place, like: impl Fn(Saying) -> bool) -> usize {
        let blind = self.blind.get(&place.0).into_iter().flatten();
        blind
            .filter(|(session, sequence, word)| {
                let became = || self.became(*session, *sequence, word, place.1);
                like(word.saying)
                    && (word.first..=word.last).contains(&place.1)
                    && !matches!(became(), Became::Refused(_))
            })
            .count()
    }

    /// What became of a word's part about one offset.
    pub(super) fn became(&self, session: u64, sequence: u64, word: &Word, offset: u64) -> Became {
        let confirm = self.sessions.get(&session).map_or(0, |s| s.confirm);
        let Some((index, replies)) = self.answers.get(&(session, sequence)) else {
            return Became::Untold;
        };
        let offset = i64::try_from(offset).unwrap_or(i64::MAX);
        let reply = replies
            .iter()
            .find(|r| r.lane == word.lane && (r.first..=r.last).contains(&offset));
        match reply {
            // It may have been applied, and be told as what could not be made durable.
            Some(reply) if confirm > 1 && matches!(reply.result, Told::Fenced | Told::Stale) => {
                Became::Untold
            }
            Some(reply) => Became::Refused(reply.result),
            None if confirm > 0 || !replies.is_empty() => Became::Applied(*index),
            None => Became::Untold,
        }
    }
}
