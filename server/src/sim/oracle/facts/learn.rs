//! What each entry of the history adds to the facts.

use super::Facts;
use crate::sim::{
    history::{Event, Saying, Word},
    oracle::known::{Became, Claim, Draw, Lane, Session, delivery},
};

impl Facts<'_> {
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

    /// Takes an entry in.
    #[allow(clippy::too_many_lines, reason = "one arm for each kind of event")]
    pub(in crate::sim::oracle) fn learn(&mut self, event: &Event) {
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
                self.reset.insert(*partition);
                self.durable.retain(|(of, _), _| of != partition);
                // What lies above comes again, and so may its dead letter.
                self.stored
                    .retain(|(of, offset)| of != partition || offset < position);
            }
            Event::Committed {
                partition,
                position,
                ..
            } => {
                self.committed.insert(*partition, *position);
                self.reset.remove(partition);
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
                    is_reset: self.reset.contains(partition),
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
            Event::LetterStored {
                partition, offset, ..
            } => {
                self.stored.insert((*partition, *offset));
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
                accepts,
            } => {
                let facts = Session {
                    gateway: *gateway,
                    deadline: *ack_deadline,
                    confirm: *confirm,
                    accepts: *accepts,
                    credits: vec![(self.now, *credit)],
                    draw: None,
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
            Event::Draw { session: id, most } => {
                let now = self.now;
                if let Some(session) = self.sessions.get_mut(id) {
                    session.credits.push((now, *most));
                    let brought = (0, 0);
                    session.draw = Some(Draw {
                        most: *most,
                        brought,
                    });
                }
                self.follow_eligibility(*id);
            }
            // What it brought is read after it.
            Event::Drawn { session: id } => {
                let now = self.now;
                if let Some(session) = self.sessions.get_mut(id) {
                    session.credits.push((now, (0, 0)));
                }
                self.follow_eligibility(*id);
            }
            Event::Delivered {
                session: id, bytes, ..
            } => {
                if let Some(draw) = self.sessions.get_mut(id).and_then(|it| it.draw.as_mut()) {
                    draw.brought.0 += 1;
                    draw.brought.1 += bytes;
                }
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
            if self.reset.contains(&lane.partition) {
                // Nothing has been committed since: it was on its way when the group was
                // reset, and is about what was committed before.
                continue;
            }
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
