//! [`Facts`]: what is known at one entry of the history, and what later entries will
//! tell about the verdicts before it.

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
    pub(super) lanes: BTreeMap<u64, Lane>,
    pub(super) sessions: BTreeMap<u64, Session>,
    pub(super) deliveries: BTreeMap<Place, Vec<Delivery>>,
    pub(super) claims: BTreeMap<Place, Vec<Claim>>,
    /// Confirmed as durable: by the entry that says so, until the group is reset.
    pub(super) durable: BTreeMap<(i32, u64), usize>,
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
            lanes: BTreeMap::new(),
            sessions: BTreeMap::new(),
            deliveries: BTreeMap::new(),
            claims: BTreeMap::new(),
            durable: BTreeMap::new(),
            letters: BTreeSet::new(),
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

    /// Somebody's credit has changed.
    fn follow_eligibility(&mut self, session: u64) {
        let Some(gateway) = self.sessions.get(&session).map(|s| s.gateway) else {
            return;
        };
        let mut own = self.sessions.values().filter(|s| s.gateway == gateway);
        if own.any(Session::is_eligible) {
            self.eligible.insert(gateway, u64::MAX);
        } else if let Some(until) = self.eligible.get_mut(&gateway) {
            *until = self.now.min(*until);
        }
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

    /// Takes an entry in.
    #[allow(clippy::too_many_lines, reason = "one arm for each kind of event")]
    pub(super) fn learn(&mut self, event: &Event) {
        match event {
            Event::Appended {
                partition,
                offset,
                key,
            } => {
                self.ever.insert((*partition, *offset));
                self.logs
                    .entry(*partition)
                    .or_default()
                    .insert(*offset, *key);
            }
            Event::Trimmed { partition, start } => {
                let log = self.logs.entry(*partition).or_default();
                *log = log.split_off(start);
            }
            Event::Reset {
                partition,
                position,
            } => {
                self.committed.insert(*partition, *position);
                self.durable.retain(|(of, _), _| of != partition);
            }
            Event::Committed {
                partition,
                position,
                ..
            } => {
                self.committed.insert(*partition, *position);
            }
            Event::Assigned {
                gateway,
                lane,
                partition,
                position,
                settled,
                tried,
                ..
            } => {
                let lane_facts = Lane {
                    assigned: self.index,
                    settled: settled.clone(),
                    tried: tried.clone(),
                    gateway: *gateway,
                    partition: *partition,
                    start: *position,
                    revoked: None,
                };
                self.lanes.insert(*lane, lane_facts);
            }
            Event::Revoking { lane, .. } => {
                // Its drain may end at any time.
                for out in self.out.values_mut() {
                    out.retain(|(of, _), _| of != lane);
                }
            }
            Event::Revoked { lane: lane_id, .. } => {
                let (index, now) = (self.index, self.now);
                if let Some(lane) = self.lanes.get_mut(lane_id) {
                    lane.revoked = Some((index, now));
                }
                for out in self.out.values_mut() {
                    out.retain(|(of, _), _| of != lane_id);
                }
            }
            Event::LetterAnswered {
                gateway,
                partition,
                offset,
                stored: true,
            } => {
                self.letters.insert((*gateway, *partition, *offset));
            }
            _ => self.learn_of_session(event),
        }
    }

    #[allow(clippy::too_many_lines, reason = "one arm for each kind of event")]
    fn learn_of_session(&mut self, event: &Event) {
        match event {
            Event::Opening {
                session,
                gateway,
                credit,
                ack_deadline,
                confirm,
            } => {
                let facts = Session {
                    gateway: *gateway,
                    deadline: *ack_deadline,
                    confirm: *confirm,
                    credits: vec![(self.now, *credit)],
                    over: None,
                };
                self.sessions.insert(*session, facts);
                self.follow_eligibility(*session);
            }
            Event::Credit {
                session: id,
                credit,
            } => {
                let now = self.now;
                if let Some(session) = self.sessions.get_mut(id) {
                    session.credits.push((now, *credit));
                }
                self.follow_eligibility(*id);
            }
            Event::Delivered { .. } => {
                let Some((place, delivery)) = delivery(self.index, event) else {
                    return;
                };
                self.deliveries.entry(place).or_default().push(delivery);
                self.received
                    .entry((delivery.session, place.0))
                    .or_default()
                    .insert(place.1);
                self.out
                    .entry(delivery.session)
                    .or_default()
                    .insert(place, delivery);
            }
            Event::Said {
                session,
                sequence,
                words,
                prompt,
            } => self.heard(*session, *sequence, words, *prompt),
            Event::LaneNews {
                session,
                lane,
                range: Some((first, _)),
                kind,
            } if kind.ends_with("REWOUND") => {
                let first = u64::try_from(*first).unwrap_or(0);
                if let Some(out) = self.out.get_mut(session) {
                    out.retain(|(of, offset), _| of != lane || *offset < first);
                }
            }
            Event::LaneNews {
                session,
                lane,
                kind,
                ..
            } if !kind.ends_with("ASSIGNED") => {
                // Its lease may have gone, and what was out with it.
                if let Some(out) = self.out.get_mut(session) {
                    out.retain(|(of, _), _| of != lane);
                }
            }
            Event::Answered {
                session, sequence, ..
            } => self.confirmed(*session, *sequence),
            Event::Goodbye { session, .. } => self.over(*session),
            Event::Ended { session, .. } => self.over(*session),
            _ => {}
        }
    }

    /// A durable confirmation stands for good.
    fn confirmed(&mut self, session: u64, sequence: u64) {
        if self.sessions.get(&session).is_none_or(|s| s.confirm < 2) {
            return;
        }
        let Some((said, _, words)) = self.words.get(&(session, sequence)) else {
            return;
        };
        let mut certain = Vec::new();
        for word in words.iter().filter(|w| w.saying == Saying::Acked) {
            let Some(lane) = self.lanes.get(&word.lane) else {
                continue;
            };
            for offset in self.touched(session, word) {
                // What came after it was said is not meant by it.
                let known = self.deliveries.get(&(word.lane, offset));
                let had = known
                    .is_some_and(|all| all.iter().any(|d| d.session == session && d.index < *said));
                let became = self.became(session, sequence, word, offset);
                if had && matches!(became, Became::Applied(_)) {
                    certain.push((lane.partition, offset));
                }
            }
        }
        let index = self.index;
        for record in certain {
            self.durable.entry(record).or_insert(index);
        }
    }

    fn over(&mut self, id: u64) {
        let index = self.index;
        if let Some(session) = self.sessions.get_mut(&id) {
            session.over.get_or_insert(index);
        }
        self.out.remove(&id);
        self.follow_eligibility(id);
    }

    fn heard(&mut self, session: u64, sequence: u64, words: &[Word], prompt: bool) {
        for word in words {
            let ordered = self.plan.is_ordered();
            let touched = self.touched(session, word);
            if touched.len() as u64 <= word.last.saturating_sub(word.first) {
                let blind = self.blind.entry(word.lane).or_default();
                blind.push((session, sequence, word.clone()));
            }
            for offset in touched {
                let claim = Claim {
                    index: self.index,
                    at: self.now,
                    session,
                    saying: word.saying,
                    delivery: word.delivery,
                    prompt,
                    became: self.became(session, sequence, word, offset),
                };
                let place = (word.lane, offset);
                self.claims.entry(place).or_default().push(claim);
                let gives_back = match word.saying {
                    Saying::Acked | Saying::Rejected => false,
                    Saying::Failed(_) | Saying::Released | Saying::Nonsense(_) => true,
                    Saying::Extend(_) => continue,
                };
                if let Some(out) = self.out.get_mut(&session) {
                    out.remove(&place);
                    if ordered && gives_back {
                        // It may have voided whatever lies above.
                        out.retain(|(lane, _), _| *lane != word.lane);
                    }
                }
            }
        }
        self.words
            .insert((session, sequence), (self.index, self.now, words.to_vec()));
    }
}
