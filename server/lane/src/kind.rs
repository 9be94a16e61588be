//! [`Kind`]: a lane, whether its subscribers compete for records or each gets all.
//!
//! **Boundary**: one set of names for both, so that who drives lanes has one way to
//! do it. What only one kind knows is answered by the other as the documents say.

use std::time::Duration;

use crate::{
    Answer, Answered, Broadcast, Cause, CommitOutcome, Confirmation, DeadLetterOutcome, Debt,
    Effect, Joined, Lane, Offset, OffsetRange, OnExpired, Position, ResumeAnswer, SeekOutcome,
    Subscriber, Target, Time, Verdict,
};

/// A lane of either delivery.
#[derive(Debug)]
pub enum Kind {
    /// Each record goes to one subscriber.
    Competing(Box<Lane>),
    /// Each record goes to every subscriber.
    Broadcast(Box<Broadcast>),
}

/// The same call on either kind.
macro_rules! both {
    ($self:ident.$method:ident($($argument:expr),*)) => {
        match $self {
            Kind::Competing(lane) => lane.$method($($argument),*),
            Kind::Broadcast(lane) => lane.$method($($argument),*),
        }
    };
}

// After the macro, which it uses.
mod view;

impl Kind {
    /// As [`Lane::handle_fetched`].
    pub fn handle_fetched(&mut self, now: Time, range: OffsetRange) {
        both!(self.handle_fetched(now, range));
    }

    /// As [`Lane::handle_fetched_keyed`].
    pub fn handle_fetched_keyed(&mut self, now: Time, range: OffsetRange, keys: &[Option<u64>]) {
        both!(self.handle_fetched_keyed(now, range, keys));
    }

    /// As [`Lane::handle_end`].
    pub fn handle_end(&mut self, now: Time, position: Position) {
        both!(self.handle_end(now, position));
    }

    /// As [`Lane::handle_gone`].
    pub fn handle_gone(&mut self, now: Time, oldest: Position) {
        both!(self.handle_gone(now, oldest));
    }

    /// Records of `range`, which exist and need not have been passed in before, are
    /// wanted by nobody: they settle. Returns how many.
    pub fn handle_filtered(&mut self, now: Time, range: OffsetRange) -> u64 {
        match self {
            Self::Competing(lane) => {
                lane.handle_fetched(now, range);
                lane.handle_filtered(now, range)
            }
            Self::Broadcast(lane) => lane.handle_filtered(now, range),
        }
    }

    /// Records of `range`, which exist and need not have been passed in before, are
    /// nothing that may be handed out: they go the way of rejected records. Returns how
    /// many. `keys` are those of [`Lane::handle_fetched_keyed`]: in key order later
    /// records of a key wait until the dead letter of an unfit one is stored.
    pub fn handle_unfit(
        &mut self,
        now: Time,
        range: OffsetRange,
        keys: &[Option<u64>],
        cause: Cause,
    ) -> u64 {
        match self {
            Self::Competing(lane) => {
                lane.handle_fetched_keyed(now, range, keys);
                lane.handle_unfit(now, range, cause)
            }
            Self::Broadcast(lane) => lane.handle_unfit(now, range, cause),
        }
    }

    /// Records of `range`, which exist and need not have been passed in before, are too
    /// old: those that were never handed out never will be. Returns how many. `keys` as
    /// for [`Self::handle_unfit`].
    pub fn handle_expired_on_arrival(
        &mut self,
        now: Time,
        range: OffsetRange,
        keys: &[Option<u64>],
        then: OnExpired,
    ) -> u64 {
        match self {
            Self::Competing(lane) => {
                lane.handle_fetched_keyed(now, range, keys);
                lane.handle_expired(now, range, then)
            }
            Self::Broadcast(lane) => lane.handle_expired_on_arrival(now, range, then),
        }
    }

    /// As [`Lane::handle_expired`], for what was fetched and about to go to `subscriber`.
    pub fn handle_expired(
        &mut self,
        now: Time,
        subscriber: Subscriber,
        range: OffsetRange,
        then: OnExpired,
    ) -> u64 {
        match self {
            Self::Competing(lane) => lane.handle_expired(now, range, then),
            Self::Broadcast(lane) => lane.handle_expired(now, subscriber, range, then),
        }
    }

    /// Records of `range`, which may go to `subscriber`, are nothing that it wants.
    /// Returns how many it is rid of: none where records are shared, since others may
    /// want them.
    pub fn handle_unwanted(
        &mut self,
        now: Time,
        subscriber: Subscriber,
        range: OffsetRange,
    ) -> u64 {
        match self {
            Self::Competing(_) => 0,
            Self::Broadcast(lane) => lane.handle_unwanted(now, subscriber, range),
        }
    }

    /// As [`Lane::handle_fenced`].
    pub fn handle_fenced(&mut self, now: Time) {
        both!(self.handle_fenced(now));
    }

    /// As [`Lane::handle_subscriber_paused`].
    pub fn handle_subscriber_paused(&mut self, now: Time, subscriber: Subscriber) {
        both!(self.handle_subscriber_paused(now, subscriber));
    }

    /// As [`Lane::handle_dispatched`].
    pub fn handle_dispatched(
        &mut self,
        now: Time,
        subscriber: Subscriber,
        range: OffsetRange,
        ack_deadline: Duration,
    ) {
        both!(self.handle_dispatched(now, subscriber, range, ack_deadline));
    }

    /// As [`Lane::handle_sent`].
    pub fn handle_sent(&mut self, now: Time, subscriber: Subscriber, range: OffsetRange) {
        both!(self.handle_sent(now, subscriber, range));
    }

    /// As [`Lane::handle_verdict`].
    pub fn handle_verdict(
        &mut self,
        now: Time,
        subscriber: Subscriber,
        target: Target,
        verdict: Verdict,
        answers: &mut Vec<Answer>,
    ) {
        both!(self.handle_verdict(now, subscriber, target, verdict, answers));
    }

    /// As [`Lane::handle_extend`].
    pub fn handle_extend(
        &mut self,
        now: Time,
        subscriber: Subscriber,
        target: Target,
        by: Duration,
        answers: &mut Vec<Answer>,
    ) {
        both!(self.handle_extend(now, subscriber, target, by, answers));
    }

    /// `subscriber` has attached. Competing: that changes nothing here.
    pub fn handle_subscriber_joined(&mut self, now: Time, subscriber: Subscriber) -> Joined {
        match self {
            Self::Competing(_) => Joined::Unchanged,
            Self::Broadcast(lane) => lane.handle_subscriber_joined(now, subscriber),
        }
    }

    /// `subscriber`'s stream has died. Broadcast: returns what is kept for it.
    pub fn handle_subscriber_lost(&mut self, now: Time, subscriber: Subscriber) -> Option<Debt> {
        match self {
            Self::Competing(lane) => {
                lane.handle_subscriber_lost(now, subscriber);
                None
            }
            Self::Broadcast(lane) => lane.handle_subscriber_lost(now, subscriber),
        }
    }

    /// As [`Lane::handle_resumed`].
    pub fn handle_resumed(
        &mut self,
        now: Time,
        subscriber: Subscriber,
        named: &[Target],
        answers: &mut Vec<ResumeAnswer>,
    ) {
        both!(self.handle_resumed(now, subscriber, named, answers));
    }

    /// `subscriber` has said goodbye.
    pub fn handle_subscriber_closed(&mut self, now: Time, subscriber: Subscriber) {
        both!(self.handle_subscriber_closed(now, subscriber));
    }

    /// The record is larger than anybody accepts; in a broadcast, than `subscriber`
    /// accepts.
    pub fn handle_oversize(&mut self, now: Time, subscriber: Subscriber, offset: Offset) {
        match self {
            Self::Competing(lane) => lane.handle_oversize(now, offset),
            Self::Broadcast(lane) => lane.handle_oversize(now, subscriber, offset),
        }
    }

    /// As [`Lane::handle_dead_letter`].
    pub fn handle_dead_letter(
        &mut self,
        now: Time,
        offset: Offset,
        outcome: DeadLetterOutcome,
    ) -> Option<Cause> {
        both!(self.handle_dead_letter(now, offset, outcome))
    }

    /// As [`Lane::reset_breaker`].
    pub fn reset_breaker(&mut self, now: Time) -> bool {
        both!(self.reset_breaker(now))
    }

    /// As [`Lane::handle_commit`].
    pub fn handle_commit(&mut self, now: Time, serial: u64, outcome: CommitOutcome) {
        both!(self.handle_commit(now, serial, outcome));
    }

    /// As [`Lane::handle_seek`]. A broadcast never asks for a seek.
    pub fn handle_seek(&mut self, now: Time, outcome: SeekOutcome) {
        match self {
            Self::Competing(lane) => lane.handle_seek(now, outcome),
            Self::Broadcast(_) => {}
        }
    }

    /// As [`Lane::confirm`].
    pub fn confirm(&mut self, now: Time, token: u64, ranges: Vec<OffsetRange>) {
        both!(self.confirm(now, token, ranges));
    }

    /// As [`Lane::poll_confirmation`].
    pub fn poll_confirmation(&mut self) -> Option<Confirmation> {
        both!(self.poll_confirmation())
    }

    /// As [`Lane::commit_start`].
    pub fn commit_start(&mut self, now: Time) {
        both!(self.commit_start(now));
    }

    /// As [`Lane::commit_soon`].
    pub fn commit_soon(&mut self, now: Time) {
        both!(self.commit_soon(now));
    }

    /// As [`Lane::handle_timeout`].
    pub fn handle_timeout(&mut self, now: Time) {
        both!(self.handle_timeout(now));
    }

    /// As [`Lane::begin_drain`].
    pub fn begin_drain(&mut self, now: Time, deadline: Time) {
        both!(self.begin_drain(now, deadline));
    }

    /// As [`Broadcast::handle_full`]. Competing: that changes nothing.
    pub fn handle_full(&mut self, now: Time, is_full: bool) {
        match self {
            Self::Competing(_) => {}
            Self::Broadcast(lane) => lane.handle_full(now, is_full),
        }
    }

    /// As [`Lane::take_answered`].
    pub fn take_answered(&mut self) -> Answered {
        both!(self.take_answered())
    }

    /// The next thing to do; call until `None` after every input.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        both!(self.poll_effect())
    }
}
