//! From hand-over to verdict, for one subscriber: its share alone is concerned.

use std::time::Duration;

use super::{Broadcast, share::Share};
use crate::{
    Answer, Offset, OffsetRange, Subscriber, Target, Time, Verdict, VerdictResult, lane::Phase,
};

impl Broadcast {
    /// As [`Lane::handle_fenced`](crate::Lane::handle_fenced), for every member.
    pub fn handle_fenced(&mut self, now: Time) {
        for share in self.shares.values_mut() {
            share.lane.handle_fenced(now);
        }
        self.pump(now);
    }

    /// As [`Lane::handle_subscriber_paused`](crate::Lane::handle_subscriber_paused).
    pub fn handle_subscriber_paused(&mut self, now: Time, subscriber: Subscriber) {
        if let Some(share) = self.shares.get_mut(&subscriber) {
            share.lane.handle_subscriber_paused(now, subscriber);
        }
        self.pump(now);
    }

    /// As [`Lane::handle_dispatched`](crate::Lane::handle_dispatched), from what [`Self::ready_for`] returned.
    pub fn handle_dispatched(
        &mut self,
        now: Time,
        subscriber: Subscriber,
        range: OffsetRange,
        ack_deadline: Duration,
    ) {
        if let Some(share) = self.shares.get_mut(&subscriber) {
            share
                .lane
                .handle_dispatched(now, subscriber, range, ack_deadline);
        }
        self.pump(now);
    }

    /// As [`Lane::handle_sent`](crate::Lane::handle_sent).
    pub fn handle_sent(&mut self, now: Time, subscriber: Subscriber, range: OffsetRange) {
        if let Some(share) = self.shares.get_mut(&subscriber) {
            share.lane.handle_sent(now, subscriber, range);
        }
        self.pump(now);
    }

    /// As [`Lane::handle_verdict`](crate::Lane::handle_verdict), on what `subscriber` itself got.
    pub fn handle_verdict(
        &mut self,
        now: Time,
        subscriber: Subscriber,
        target: Target,
        verdict: Verdict,
        answers: &mut Vec<Answer>,
    ) {
        let before = answers.len();
        let Some(share) = self.member(subscriber, target, answers) else {
            return;
        };
        share
            .lane
            .handle_verdict(now, subscriber, target, verdict, answers);
        let counted = |answer: &Answer| answer.result == VerdictResult::Applied;
        if answers.iter().skip(before).any(counted) {
            share.heard = now;
        }
        let answered = share.lane.take_answered();
        self.answered.add(&answered);
        self.pump(now);
    }

    /// As [`Lane::handle_extend`](crate::Lane::handle_extend).
    pub fn handle_extend(
        &mut self,
        now: Time,
        subscriber: Subscriber,
        target: Target,
        by: Duration,
        answers: &mut Vec<Answer>,
    ) {
        let Some(share) = self.member(subscriber, target, answers) else {
            return;
        };
        share
            .lane
            .handle_extend(now, subscriber, target, by, answers);
        self.pump(now);
    }

    /// The record is larger than `subscriber` accepts: it counts as refused by it,
    /// with cause oversize. The others get it.
    pub fn handle_oversize(&mut self, now: Time, subscriber: Subscriber, offset: Offset) {
        if let Some(share) = self.shares.get_mut(&subscriber) {
            share.lane.handle_oversize(now, offset);
        }
        self.pump(now);
    }

    /// The share that an input of `subscriber` is for; without one the answer is
    /// given here.
    fn member(
        &mut self,
        subscriber: Subscriber,
        target: Target,
        answers: &mut Vec<Answer>,
    ) -> Option<&mut Share> {
        let is_done = self.trunk.phase == Phase::Done;
        let share = self.shares.get_mut(&subscriber);
        if share.is_none() {
            let result = if is_done {
                VerdictResult::Fenced
            } else {
                VerdictResult::Unknown
            };
            answers.push(Answer {
                range: target.range,
                result,
            });
        }
        share
    }
}
