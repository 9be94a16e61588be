//! What each input does, but for verdicts.

use std::time::Duration;

use ackgate_lane::{Cause, CommitOutcome, DeadLetterOutcome, Return, SeekOutcome, Time};

use super::{Did, Is, Life, Outcome, Record, Reference, Rewind};
use crate::commands::How;

impl Reference {
    pub(crate) fn fetched(&mut self, now: Time, first: u64, end: u64) {
        if self.life != Life::Active || matches!(self.rewind, Rewind::Seeking(_)) {
            return;
        }
        self.origin.get_or_insert_with(|| first.max(self.next));
        for offset in first..end {
            if offset < self.next {
                match self.records.get(&offset) {
                    Some(record) if !matches!(record.is, Is::Settled(_)) => {}
                    _ => self.did.push(Did::Skipped(offset)),
                }
                continue;
            }
            for gone in self.next..offset {
                if self
                    .records
                    .get(&gone)
                    .is_some_and(|record| matches!(record.is, Is::Unread | Is::Refused(..)))
                {
                    self.did.push(Did::Lost(gone));
                    self.settle(gone, Outcome::Gone);
                }
            }
            self.next = offset + 1;
            match self.records.get(&offset).map(|record| record.is) {
                None => {
                    let record = Record {
                        is: Is::Ready,
                        attempts: 0,
                        deliveries: 0,
                        lost: 0,
                        voided: 0,
                        late: None,
                        tries: 0,
                        over: Vec::new(),
                    };
                    self.records.insert(offset, record);
                    let key = self.key(offset);
                    if key.is_some_and(|key| self.of_key(key).len() > 1) {
                        self.record(offset).is = Is::Behind;
                    } else {
                        self.admit(offset);
                    }
                }
                Some(Is::Unread) => self.admit(offset),
                Some(Is::Settled(_)) => {
                    // Restored: the floor may pass it without anything settling anew.
                    self.any = true;
                    self.did.push(Did::Skipped(offset));
                }
                Some(_) => {}
            }
        }
        self.finish(now);
    }

    fn admit(&mut self, offset: u64) {
        let waiting = self.rewind != Rewind::None;
        let cause = self.exhausted(offset);
        let record = self.record(offset);
        if waiting {
            record.is = Is::Unread;
        } else if let Some(cause) = cause {
            self.give_up(offset, cause, None);
        } else {
            record.is = Is::Ready;
            record.late = None;
        }
    }

    pub(crate) fn dispatched(&mut self, now: Time, to: u64, offsets: (u64, u64), for_: Duration) {
        for offset in offsets.0..offsets.1 {
            let record = self.record(offset);
            record.is = Is::Out(to, for_, None, None);
            record.deliveries += 1;
            record.late = None;
            if let Some(key) = self.key(offset) {
                self.keepers.insert(key, to);
            }
        }
        self.finish(now);
    }

    pub(crate) fn sent(&mut self, now: Time, to: u64, offsets: (u64, u64)) {
        for offset in offsets.0..offsets.1 {
            if let Some(record) = self.records.get_mut(&offset)
                && let Is::Out(holder, for_, None, None) = record.is
                && holder == to
            {
                record.is = Is::Out(to, for_, Some(now), Some(now.after(for_)));
            }
        }
        self.finish(now);
    }

    pub(crate) fn gone(&mut self, now: Time, subscriber: u64, why: Return) {
        if self.life == Life::Done {
            return;
        }
        self.keepers.retain(|_, keeper| *keeper != subscriber);
        for offset in self.offsets() {
            let record = self.record(offset);
            if matches!(record.is, Is::Out(holder, ..) if holder == subscriber) {
                record.over.push((subscriber, record.deliveries, false));
                record.lost += u32::from(why == Return::Lost);
                self.did.push(Did::Returned(offset, subscriber, why));
                self.back(now, offset, None, None);
            }
        }
        self.finish(now);
    }

    pub(crate) fn paused(&mut self, now: Time, subscriber: u64) {
        self.keepers.retain(|_, keeper| *keeper != subscriber);
        self.finish(now);
    }

    pub(crate) fn oversize(&mut self, now: Time, offset: u64) {
        if self.life != Life::Done && self.is(offset) == Some(Is::Ready) {
            self.give_up(offset, Cause::Oversize, None);
        }
        self.finish(now);
    }

    /// The record at `offset` is not to be handed out; whether that comes in time.
    pub(crate) fn taken_out(&mut self, now: Time, offset: u64, how: How) -> bool {
        let is_fresh = self.records.get(&offset).is_some_and(|r| r.deliveries == 0);
        let concerns = match how {
            How::Filtered | How::Unfit => true,
            How::Expired | How::ExpiredDropped => is_fresh,
        };
        if self.life == Life::Done
            || !matches!(self.is(offset), Some(Is::Ready | Is::Behind))
            || !concerns
        {
            return false;
        }
        match how {
            How::Filtered | How::ExpiredDropped => self.settle(offset, Outcome::Filtered),
            How::Unfit => self.give_up(offset, Cause::Content, None),
            How::Expired => self.give_up(offset, Cause::Expired, None),
        }
        self.finish(now);
        true
    }

    pub(crate) fn letter(&mut self, now: Time, offset: u64, outcome: DeadLetterOutcome) {
        if self.life != Life::Done
            && let Some(Is::Letter(cause, retry)) = self.is(offset)
        {
            match outcome {
                DeadLetterOutcome::Stored if self.policy.exactly_once => {}
                DeadLetterOutcome::Stored => self.settle(offset, Outcome::Refused),
                DeadLetterOutcome::Failed if retry.is_none() && !self.policy.exactly_once => {
                    self.unwritten(now, offset, cause);
                }
                DeadLetterOutcome::Failed | DeadLetterOutcome::Postponed => {
                    self.record(offset).is = Is::Letter(cause, retry.or(Some(now)));
                }
            }
        }
        self.finish(now);
    }

    pub(crate) fn commit(&mut self, now: Time, position: u64, outcome: CommitOutcome) {
        self.asked = None;
        if self.life != Life::Done {
            self.letters_answered(outcome);
        }
        self.commit_failed = outcome == CommitOutcome::Failed;
        if outcome == CommitOutcome::Done {
            self.base = position;
            self.base_map = self.asked_map.take();
        } else {
            self.changed = true;
        }
        self.finish(now);
    }

    pub(crate) fn seek(&mut self, now: Time, outcome: SeekOutcome) {
        if let Rewind::Seeking(to) = self.rewind {
            self.rewind = match outcome {
                SeekOutcome::Done => {
                    self.next = to;
                    Rewind::None
                }
                SeekOutcome::Failed => Rewind::Waiting(now.after(Duration::from_secs(1)), true),
            };
        }
        self.finish(now);
    }

    pub(crate) fn timeout(&mut self, now: Time) {
        if self.life == Life::Done {
            return;
        }
        // As they come due: what expires decides in this order whether it is too much.
        let mut due = self.offsets();
        due.sort_by_key(|offset| match self.records[offset].is {
            Is::Out(_, _, _, Some(deadline)) => deadline,
            _ => Time::default(),
        });
        for offset in due {
            let record = self.record(offset);
            if let Is::Out(holder, _, _, Some(deadline)) = record.is
                && deadline <= now
            {
                record.over.push((holder, record.deliveries, true));
                record.attempts += 1;
                self.did
                    .push(Did::Returned(offset, holder, Return::Expired));
                self.back(now, offset, Some(Duration::ZERO), Some(holder));
            }
            match self.is(offset) {
                Some(Is::Delayed(until)) if until <= now => self.record(offset).is = Is::Ready,
                Some(Is::Letter(cause, Some(retry))) if retry <= now => {
                    self.ask_letter(offset, cause);
                }
                _ => {}
            }
        }
        self.finish(now);
    }

    pub(crate) fn drain(&mut self, now: Time, deadline: Time) {
        self.life = match self.life {
            Life::Active => Life::Draining(deadline),
            Life::Draining(before) => Life::Draining(before.min(deadline)),
            Life::Done => Life::Done,
        };
        self.finish(now);
    }
}
