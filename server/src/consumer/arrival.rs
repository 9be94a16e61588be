//! A session begins: who it is, whether it takes another one's place, and what it goes
//! on with.

use std::{collections::BTreeMap, sync::Arc};

use ackgate_lane::{Generation, ResumeResult, Subscriber, Target, Time};

use super::{
    driver::Driver,
    handle::{Departure, End, LaneLabel, NoticeKind, Outbound},
    identity::Token,
    inputs::notice,
    opening::{Accepted, Attach, Held, Manifest, Opened, Refusal, Resumed},
    tell::tell_of_session,
};
use crate::broker::TopicPartition;

/// Bytes of an answer beside its topic: five numbers, tags and lengths.
const ANSWER_BYTES: u64 = 48;

impl Driver {
    pub(super) fn attach(&mut self, mut attach: Attach, opened: Opened) {
        let now = self.now();
        if self.stopping.is_some() {
            // The session may have gone meanwhile.
            let _unheard = opened.send(Err(Refusal::ShuttingDown));
            return;
        }
        let before = self.subscribers.named(&attach.name);
        let manifest = attach.resume.take();
        let goes_on = before.is_some_and(|before| {
            manifest
                .as_ref()
                .is_some_and(|manifest| self.subscribers.knows(before, &manifest.token))
        });
        if let Some(before) = before
            && self.subscribers.get(before).is_some()
        {
            if !attach.takeover && !goes_on {
                let _unheard = opened.send(Err(Refusal::InUse));
                return;
            }
            self.supersede(now, before);
        }
        if let Some(before) = before
            && !goes_on
            && self.subscribers.is_awaited(before)
        {
            self.take_back(before, Departure::Lost);
        }
        tell_of_session!(attach.pulls, self;
            subscriber = %attach.name,
            session = attach.session.0,
            resumes = goes_on,
            "subscriber attached"
        );
        let offers = attach.resumable && !self.parts.subscription.resume_grace.is_zero();
        let token = match before.filter(|_| goes_on && offers) {
            Some(before) => self.subscribers.token(before),
            None => offers.then(Token::new).flatten(),
        };
        let limit = attach.max_message_bytes / 2;
        let subscriber = self
            .subscribers
            .attach(attach, token.clone(), self.taking());
        let resumed =
            manifest.map(|manifest| self.resume(now, subscriber, goes_on, manifest, limit));
        let accepted = Accepted {
            subscriber,
            token: token.map(|token| token.as_str().to_owned()),
            resumed: resumed.unwrap_or_default(),
        };
        self.leases_moved = true;
        if self
            .subscribers
            .get(subscriber)
            .is_some_and(|attached| attached.taking.is_none())
        {
            // It may have kept keys from a session that took records.
            self.give_up_keys(now, subscriber);
        }
        // A session that has gone meanwhile says so itself.
        let _unheard = opened.send(Ok(accepted));
        for generation in self.lanes.generations() {
            if let Some(entry) = self.lanes.get(generation) {
                let news = notice(entry.label(), NoticeKind::Assigned, None, "");
                let _missed = self.subscribers.inform(subscriber, Outbound::Lane(news));
            }
        }
        self.tell_of_leases(subscriber);
        self.member_joined(subscriber);
    }

    /// Another session takes the place of the subscriber's.
    fn supersede(&mut self, now: Time, subscriber: Subscriber) {
        self.durable.forget(subscriber);
        if let Some(mut attached) = self.subscribers.leave(subscriber, Some(now), now) {
            tracing::info!(
                subscription = self.parts.subscription.name,
                subscriber = %attached.name,
                "another session takes the subscriber's place"
            );
            attached.cut(End::Superseded);
        }
    }

    /// What becomes of each run that `subscriber` says it works on. Answers that would
    /// not fit into a message of `limit` bytes are not given, and their runs are lost.
    fn resume(
        &mut self,
        now: Time,
        subscriber: Subscriber,
        goes_on: bool,
        manifest: Manifest,
        limit: u64,
    ) -> Vec<Resumed> {
        let mut answers = Answers {
            list: Vec::new(),
            left: limit,
        };
        let lanes = if goes_on {
            self.lanes.by_partition()
        } else {
            BTreeMap::new()
        };
        let mut by_lane: BTreeMap<Generation, Vec<Target>> = BTreeMap::new();
        for held in manifest.held {
            let partition = TopicPartition {
                topic: Arc::from(held.topic.as_str()),
                partition: held.partition,
            };
            match (lanes.get(&partition), held.range) {
                (Some(&(lane, epoch)), Some(range)) if epoch.0 == held.epoch => {
                    let delivery = held.delivery;
                    let target = Target { range, delivery };
                    by_lane.entry(lane).or_default().push(target);
                }
                _ => answers.unknown(held),
            }
        }
        if goes_on {
            // Also those of which it names nothing: there it has lost everything.
            for generation in self.lanes.generations() {
                let named = by_lane.remove(&generation).unwrap_or_default();
                self.resume_lane(now, generation, subscriber, named, &mut answers);
            }
        }
        answers.list
    }

    fn resume_lane(
        &mut self,
        now: Time,
        generation: Generation,
        subscriber: Subscriber,
        mut named: Vec<Target>,
        answers: &mut Answers,
    ) {
        let Some(entry) = self.lanes.touch(generation) else {
            return;
        };
        let label = entry.label();
        let mut parts = Vec::new();
        loop {
            parts.clear();
            entry
                .lane
                .handle_resumed(now, subscriber, &named, &mut parts);
            if named.is_empty() || answers.has_room_for(&label.topic, parts.len()) {
                break;
            }
            named.truncate(named.len() / 2);
        }
        for part in parts {
            let offset = |offset: u64| i64::try_from(offset).unwrap_or(i64::MAX);
            let kept = part.result == ResumeResult::Kept;
            answers.push(Resumed {
                topic: Arc::clone(&label.topic),
                partition: label.partition,
                first: offset(part.range.first().get()),
                last: offset(part.range.last().get()),
                result: part.result,
                lane: if kept { label.lane } else { 0 },
            });
        }
    }
}

/// Answers to a manifest, as many as a message may hold.
struct Answers {
    list: Vec<Resumed>,
    /// Bytes that may still be used.
    left: u64,
}

impl Answers {
    fn has_room_for(&self, topic: &str, count: usize) -> bool {
        self.left >= (ANSWER_BYTES + topic.len() as u64).saturating_mul(count as u64)
    }

    fn push(&mut self, answer: Resumed) {
        if self.has_room_for(&answer.topic, 1) {
            self.left -= ANSWER_BYTES + answer.topic.len() as u64;
            self.list.push(answer);
        }
    }

    /// A run in no lane of this gateway, or of an earlier life of one.
    fn unknown(&mut self, held: Held) {
        self.push(Resumed {
            topic: Arc::from(held.topic),
            partition: held.partition,
            first: held.offsets.0,
            last: held.offsets.1,
            result: ResumeResult::Lost,
            lane: 0,
        });
    }
}

/// The lane as a subscriber that has no right to it sees it.
pub(super) fn standby(label: LaneLabel, detail: &str) -> Outbound {
    Outbound::Lane(notice(label, NoticeKind::Standby, None, detail))
}
