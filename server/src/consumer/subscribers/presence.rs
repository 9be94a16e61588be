//! Who is there: sessions that come and go, and the subscribers that they are.

use std::{sync::Arc, time::Duration};

use ackgate_lane::{Subscriber, Time};

use super::{
    super::{
        drained::Taking,
        identity::{Away, Token},
        opening::{Attach, Session},
    },
    Attached, HEAD_ROOM, Subscribers,
};

impl Subscribers {
    /// Lets a session take part. What is still out to its subscriber is so to the new
    /// session.
    pub(in crate::consumer) fn attach(
        &mut self,
        attach: Attach,
        token: Option<Token>,
        now: Taking,
    ) -> Subscriber {
        let subscriber = self.identities.bind(attach.session, &attach.name);
        let (out, alone) = self
            .identities
            .come_back(subscriber)
            .map_or_else(Default::default, |away| (away.out, away.alone));
        self.turns.push(subscriber);
        self.attached.insert(
            subscriber,
            Attached {
                name: attach.name,
                session: attach.session,
                token,
                heard: now.since,
                batch: attach.batch,
                until_drained: attach.until_drained,
                pulls: attach.pulls,
                leaving: None,
                taking: attach.credit.is_some().then_some(now),
                max_batch_bytes: attach.max_message_bytes.saturating_sub(HEAD_ROOM),
                ack_deadline: attach.ack_deadline,
                filter: attach.filter,
                credit: attach.credit,
                drawing: None,
                out,
                alone,
                reserved: None,
                reservable: Time::default(),
                outbox: attach.outbox,
                cut: Some(attach.cut),
            },
        );
        subscriber
    }

    /// Ends the subscriber and its session.
    pub(in crate::consumer) fn detach(&mut self, subscriber: Subscriber) -> Option<Attached> {
        let attached = self.end_session(subscriber)?;
        self.identities.forget(&attached.name);
        Some(attached)
    }

    /// Ends the subscriber and its session, but for what its name stands for until
    /// `known_until`.
    pub(in crate::consumer) fn end(
        &mut self,
        subscriber: Subscriber,
        known_until: Option<Time>,
    ) -> Option<Attached> {
        match known_until {
            Some(known_until) => self.leave(subscriber, None, known_until),
            None => self.detach(subscriber),
        }
    }

    /// Ends the session alone: what is out stays the subscriber's until `held_until`,
    /// and its name stands for it until `known_until` at least.
    pub(in crate::consumer) fn leave(
        &mut self,
        subscriber: Subscriber,
        held_until: Option<Time>,
        known_until: Time,
    ) -> Option<Attached> {
        let attached = self.end_session(subscriber)?;
        let away = Away {
            name: Arc::clone(&attached.name),
            token: attached.token.clone(),
            out: attached.out,
            alone: attached.alone,
            heard: attached.heard,
            held_until,
            known_until,
        };
        self.identities.leave(subscriber, away);
        Some(attached)
    }

    fn end_session(&mut self, subscriber: Subscriber) -> Option<Attached> {
        self.turns.retain(|turn| *turn != subscriber);
        let attached = self.attached.remove(&subscriber)?;
        self.identities.unbind(attached.session);
        Some(attached)
    }

    /// Whose stream it is, attached now.
    pub(in crate::consumer) fn of(&self, session: Session) -> Option<Subscriber> {
        self.identities.of(session)
    }

    /// Whom a name stands for, attached or away.
    pub(in crate::consumer) fn named(&self, name: &str) -> Option<Subscriber> {
        self.identities.named(name)
    }

    /// The subscriber's name, attached or away.
    pub(in crate::consumer) fn name(&self, subscriber: Subscriber) -> Option<Arc<str>> {
        let attached = self.attached.get(&subscriber).map(|a| &a.name);
        let away = self.identities.away(subscriber).map(|away| &away.name);
        attached.or(away).map(Arc::clone)
    }

    /// What the subscriber may go on with.
    pub(in crate::consumer) fn token(&self, subscriber: Subscriber) -> Option<Token> {
        match self.attached.get(&subscriber) {
            Some(attached) => attached.token.clone(),
            None => self.identities.away(subscriber)?.token.clone(),
        }
    }

    /// Whether `shown` is that.
    pub(in crate::consumer) fn knows(&self, subscriber: Subscriber, shown: &str) -> bool {
        self.token(subscriber).is_some_and(|token| token.is(shown))
    }

    pub(in crate::consumer) fn is_resumable(&self, subscriber: Subscriber) -> bool {
        self.token(subscriber).is_some()
    }

    /// Whether anything is out to an attached subscriber.
    pub(in crate::consumer) fn has_out(&self, subscriber: Subscriber) -> bool {
        self.attached
            .get(&subscriber)
            .is_some_and(|a| a.out.records > 0)
    }

    /// Whether anything is still out to a subscriber that is away.
    pub(in crate::consumer) fn owes(&self, subscriber: Subscriber) -> bool {
        self.identities
            .away(subscriber)
            .is_some_and(|away| away.out.records > 0)
    }

    /// Takes a sign of life. Returns how long ago the last one was.
    pub(in crate::consumer) fn hear(&mut self, subscriber: Subscriber, now: Time) -> Duration {
        self.attached
            .get_mut(&subscriber)
            .map_or(Duration::ZERO, |a| {
                now.since(std::mem::replace(&mut a.heard, now))
            })
    }

    /// The last sign of life, attached or away.
    pub(in crate::consumer) fn heard(&self, subscriber: Subscriber) -> Option<Time> {
        let attached = self.attached.get(&subscriber).map(|a| a.heard);
        attached.or_else(|| Some(self.identities.away(subscriber)?.heard))
    }

    /// Those away for which nothing waits any longer, or all of those for which
    /// something waits.
    pub(in crate::consumer) fn overdue(&self, now: Time, all: bool) -> Vec<Subscriber> {
        let held = self.identities.held();
        held.filter(|(_, until)| all || *until <= now)
            .map(|(subscriber, _)| subscriber)
            .collect()
    }

    /// Nothing is out to it any longer; its name is known until `known_until`, if at all.
    pub(in crate::consumer) fn give_up(
        &mut self,
        subscriber: Subscriber,
        known_until: Option<Time>,
    ) {
        if let Some(away) = self.identities.away_mut(subscriber) {
            (away.held_until, away.token) = (None, None);
            away.known_until = known_until.unwrap_or_default();
        }
    }

    /// Forgets the names of those that have been away for too long.
    pub(in crate::consumer) fn forget_absent(&mut self, now: Time) {
        for name in self.identities.forgotten_at(now) {
            self.identities.forget(&name);
        }
    }

    /// When an absence changes by itself.
    pub(in crate::consumer) fn next_absence(&self) -> Option<Time> {
        self.identities.next_change()
    }

    /// Whether it is away and something waits for it.
    pub(in crate::consumer) fn is_awaited(&self, subscriber: Subscriber) -> bool {
        self.identities
            .away(subscriber)
            .is_some_and(|away| away.held_until.is_some())
    }

    /// Who takes records and was heard of less than `silence` ago, in the order of their
    /// numbers.
    pub(in crate::consumer) fn lively(&self, now: Time, silence: Duration) -> Vec<Subscriber> {
        let lively = |a: &Attached| a.is_eligible() && now.since(a.heard) < silence;
        let mut lively: Vec<Subscriber> = self
            .attached
            .iter()
            .filter(|(_, a)| lively(a))
            .map(|(subscriber, _)| *subscriber)
            .collect();
        lively.sort_unstable();
        lively
    }
}
