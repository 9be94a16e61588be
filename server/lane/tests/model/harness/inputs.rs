//! Gives one input to the lane, its reference and the world.

use std::time::Duration;

use ackgate_lane::{
    Cause, CommitOutcome, DeadLetterOutcome, Offset, OnExpired, Order, Return, SeekOutcome,
    Subscriber, Target, Time, Verdict, VerdictResult,
};

use super::{Harness, range};
use crate::{commands::How, reference::Is, world::key_of};

impl Harness {
    pub(super) fn oversize(&mut self) {
        if let Some(ready) = self.lane.ready() {
            let offset = ready.range.first();
            self.lane.handle_oversize(self.now, offset);
            self.reference.oversize(self.now, offset.get());
            self.compare();
        }
    }

    pub(super) fn vanish(&mut self, index: usize) {
        let records = self.reference.records.iter();
        let unread = records
            .filter(|(_, record)| record.is == Is::Unread)
            .nth(index);
        let otherwise = self.reference.floor() + index as u64;
        self.world
            .vanish(unread.map_or(otherwise, |(&offset, _)| offset));
    }

    pub(super) fn drain(&mut self, deadline: Time) {
        self.lane.begin_drain(self.now, deadline);
        self.reference.drain(self.now, deadline);
        self.compare();
    }

    pub(super) fn fetch(&mut self, count: u64) {
        // While a seek is awaited the consumer passes nothing in.
        if self.world.seek.is_some() {
            return;
        }
        let room = u64::from(self.lane.room());
        for run in self.world.fetch(count.min(room)) {
            self.pass_in(run);
        }
    }

    fn pass_in(&mut self, run: (u64, u64)) {
        let keys: Vec<Option<u64>> = (run.0..run.1).map(key_of).collect();
        self.lane.handle_fetched_keyed(self.now, range(run), &keys);
        self.reference.fetched(self.now, run.0, run.1);
        self.compare();
    }

    pub(super) fn sift(&mut self, count: u64, which: u16, how: How) {
        if self.world.seek.is_some() {
            return;
        }
        let room = u64::from(self.lane.room());
        for run in self.world.fetch(count.min(room)) {
            self.pass_in(run);
            for offset in (run.0..run.1).filter(|offset| which >> (offset % 16) & 1 == 1) {
                self.take_out(offset, how);
            }
        }
    }

    pub(super) fn expire(&mut self, count: u64, how: How) {
        if let Some(ready) = self.lane.ready() {
            let first = ready.range.first().get();
            for offset in first..(first + count).min(ready.range.end().get()) {
                self.take_out(offset, how);
            }
        }
    }

    fn take_out(&mut self, offset: u64, how: How) {
        let expected = self.reference.taken_out(self.now, offset, how);
        let settles = matches!(how, How::Filtered | How::ExpiredDropped);
        if expected && settles {
            self.world.answered.insert(offset);
        }
        let (now, one) = (self.now, range((offset, offset + 1)));
        let taken = match how {
            How::Filtered => self.lane.handle_filtered(now, one),
            How::Unfit => self.lane.handle_unfit(now, one, Cause::Content),
            How::Expired => self.lane.handle_expired(now, one, OnExpired::DeadLetter),
            How::ExpiredDropped => self.lane.handle_expired(now, one, OnExpired::Drop),
        };
        assert_eq!(taken, u64::from(expected), "{offset} taken out: {how:?}");
        self.compare();
    }

    pub(super) fn fetch_again(&mut self, back: u64, count: u64) {
        let first = self.reference.next.saturating_sub(back);
        let end = (first + count).min(self.reference.next);
        if first < end && self.world.seek.is_none() {
            self.pass_in((first, end));
        }
    }

    pub(super) fn dispatch(&mut self, to: u64, count: u64, deadline: u64) {
        let to = match self.policy.order {
            Order::Lane { .. } => self.lane.ready().and_then(|ready| ready.owner),
            Order::None | Order::Key { .. } => None,
        }
        .map_or(to, |owner| owner.0);
        let Some(ready) = self.lane.ready_for(Subscriber(to)) else {
            return;
        };
        let first = ready.range.first().get();
        let offsets = (first, (first + count).min(ready.range.end().get()));
        for offset in offsets.0..offsets.1 {
            let record = &self.reference.records[&offset];
            assert_eq!(record.is, Is::Ready, "{offset} is not ready");
            assert_eq!(record.attempts + 1, ready.attempt, "attempt of {offset}");
            assert_eq!(
                record.deliveries + 1,
                ready.delivery,
                "delivery of {offset}"
            );
            let not_before = self.not_before.remove(&offset).unwrap_or_default();
            assert!(not_before <= self.now, "L10: {offset} before its time");
        }
        let deadline = Duration::from_millis(deadline);
        self.lane
            .handle_dispatched(self.now, Subscriber(to), range(offsets), deadline);
        self.reference.dispatched(self.now, to, offsets, deadline);
        let by_key = matches!(self.policy.order, Order::Key { .. });
        self.world.hand_over(to, offsets, by_key);
        self.unsent.push((to, offsets));
        self.compare();
    }

    pub(super) fn sent(&mut self, index: usize) {
        if index < self.unsent.len() {
            let (to, offsets) = self.unsent.remove(index);
            self.lane
                .handle_sent(self.now, Subscriber(to), range(offsets));
            self.reference.sent(self.now, to, offsets);
            self.compare();
        }
    }

    pub(super) fn say(
        &mut self,
        from: u64,
        offsets: (u64, u64),
        delivery: Option<u32>,
        verdict: Option<Verdict>,
        by: u64,
    ) {
        let target = Target {
            range: range(offsets),
            delivery,
        };
        let by = Duration::from_millis(by);
        let mut answers = Vec::new();
        if let (Some(old), Some(verdict)) = (&mut self.old, verdict) {
            old.handle_verdict(self.now, Subscriber(from), target, verdict, &mut answers);
            assert!(
                answers.iter().all(|a| a.result == VerdictResult::Fenced),
                "L4: {answers:?}"
            );
            assert_eq!(
                old.poll_effect(),
                None,
                "L4: an effect of an old generation"
            );
            self.answers
                .extend(answers.drain(..).map(|answer| answer.result));
        }
        match verdict {
            Some(verdict) => {
                let from = Subscriber(from);
                self.lane
                    .handle_verdict(self.now, from, target, verdict, &mut answers);
            }
            None => {
                self.lane
                    .handle_extend(self.now, Subscriber(from), target, by, &mut answers);
            }
        }
        let expected = self
            .reference
            .verdict(self.now, from, offsets, delivery, verdict, by);
        let mut end = 0;
        for answer in &answers {
            assert!(
                answer.range.first().get() >= end,
                "answers overlap: {answers:?}"
            );
            end = answer.range.end().get();
        }
        if expected.is_empty() {
            let all = VerdictResult::Unknown;
            assert!(matches!(answers[..], [a] if a.result == all && a.range == target.range));
        }
        self.answers
            .extend(answers.iter().map(|answer| answer.result));
        for &(offset, result) in &expected {
            let answer = answers
                .iter()
                .find(|a| a.range.contains(Offset::new(offset)));
            assert_eq!(
                answer.map(|a| a.result),
                Some(result),
                "answer for {offset}"
            );
            if result == VerdictResult::Applied {
                self.note_applied(offset, verdict);
            }
        }
        self.compare();
    }

    fn note_applied(&mut self, offset: u64, verdict: Option<Verdict>) {
        match verdict {
            Some(Verdict::Acked) => {
                self.world.answered.insert(offset);
            }
            Some(Verdict::Failed {
                retry_after: Some(delay),
            }) => {
                self.not_before.insert(offset, self.now.after(delay));
            }
            Some(Verdict::Failed { retry_after: None } | Verdict::Released | Verdict::Rejected)
            | None => {}
        }
    }

    pub(super) fn gone(&mut self, subscriber: u64, why: Return) {
        if why == Return::Lost {
            self.lane
                .handle_subscriber_lost(self.now, Subscriber(subscriber));
        } else {
            self.lane
                .handle_subscriber_closed(self.now, Subscriber(subscriber));
        }
        self.reference.gone(self.now, subscriber, why);
        self.compare();
    }

    pub(super) fn paused(&mut self, subscriber: u64) {
        self.lane
            .handle_subscriber_paused(self.now, Subscriber(subscriber));
        self.reference.paused(self.now, subscriber);
        self.compare();
    }

    pub(super) fn reset(&mut self) {
        let was_open = self.lane.reset_breaker(self.now);
        assert_eq!(was_open, self.reference.reset(self.now), "open");
        if was_open {
            self.world.tripped = false;
        }
        self.compare();
    }

    pub(super) fn letter(&mut self, offset: u64, stored: Option<bool>) {
        self.world.letters.remove(&offset);
        let outcome = match stored {
            Some(true) => DeadLetterOutcome::Stored,
            Some(false) => DeadLetterOutcome::Failed,
            None => DeadLetterOutcome::Postponed,
        };
        if stored == Some(true) {
            self.world.answered.insert(offset);
        }
        self.lane
            .handle_dead_letter(self.now, Offset::new(offset), outcome);
        self.reference.letter(self.now, offset, outcome);
        self.compare();
    }

    pub(super) fn commit(&mut self, done: bool) {
        if self.world.commits.is_empty() {
            return;
        }
        let commit = self.world.commits.remove(0);
        let (serial, position) = (commit.serial, commit.position);
        let outcome = if done {
            CommitOutcome::Done
        } else {
            CommitOutcome::Failed
        };
        if done {
            assert!(self.world.committed <= position, "L1");
            self.world.done(commit);
        }
        self.lane.handle_commit(self.now, serial, outcome);
        self.reference.commit(self.now, position, outcome);
        self.compare();
    }

    pub(super) fn seek(&mut self, done: bool) {
        let Some(to) = self.world.seek.take() else {
            return;
        };
        let outcome = if done {
            SeekOutcome::Done
        } else {
            SeekOutcome::Failed
        };
        if done {
            self.world.position = to;
        }
        self.lane.handle_seek(self.now, outcome);
        self.reference.seek(self.now, outcome);
        self.compare();
    }

    pub(super) fn wait(&mut self, by: Duration) {
        let end = self.now.after(by);
        while let Some(time) = self.lane.poll_timeout().filter(|time| *time <= end) {
            self.now = self.now.max(time);
            self.timeout();
        }
        self.now = end;
    }

    pub(super) fn timeout(&mut self) {
        self.lane.handle_timeout(self.now);
        self.reference.timeout(self.now);
        self.compare();
        let next = self.lane.poll_timeout();
        assert!(
            next.is_none_or(|time| time > self.now),
            "L13: {next:?} comes again and again"
        );
    }
}
