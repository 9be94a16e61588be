//! Streams that broke, a group that is not heard, and a log that ends or begins anew.

use ackgate_lane::{ResumeResult, Return, Time};

use super::{Did, Is, Life, Outcome, Reference, Rewind};

impl Reference {
    /// `subscriber` is back and works on `named`, each by its number if it has one; what
    /// becomes of each.
    pub(crate) fn resumed(
        &mut self,
        now: Time,
        subscriber: u64,
        named: &[(u64, Option<u32>)],
    ) -> Vec<(u64, ResumeResult)> {
        let is_his = |is: Is| matches!(is, Is::Out(holder, ..) if holder == subscriber);
        let all = self.offsets().into_iter();
        let his: Vec<u64> = all.filter(|o| is_his(self.records[o].is)).collect();
        if self.life != Life::Done && !his.is_empty() {
            for offset in his {
                let current = self.records[&offset].deliveries;
                let names = |&(of, number): &(u64, Option<u32>)| {
                    of == offset && number.is_none_or(|number| number == current)
                };
                if !named.iter().any(names) {
                    self.lose(now, offset, subscriber);
                }
            }
            self.finish(now);
            for &(offset, _) in named {
                self.sent(now, subscriber, (offset, offset + 1));
            }
        }
        let becomes = |&(offset, number): &(u64, Option<u32>)| {
            (offset, self.becomes(offset, number, subscriber))
        };
        named.iter().map(becomes).collect()
    }

    fn becomes(&self, offset: u64, number: Option<u32>, subscriber: u64) -> ResumeResult {
        if self.life == Life::Done {
            return ResumeResult::Lost;
        }
        if offset < self.floor() {
            return ResumeResult::Settled;
        }
        let Some(record) = self.records.get(&offset) else {
            return ResumeResult::Lost;
        };
        let seek_asked = matches!(self.rewind, Rewind::Waiting(_, true) | Rewind::Seeking(_));
        let is_late = record.late == Some(subscriber) && !seek_asked;
        let is_current = number.is_none_or(|number| number == record.deliveries);
        match record.is {
            Is::Acked(_) | Is::Refused(..) | Is::Letter(..) | Is::Held(_) | Is::Settled(_) => {
                ResumeResult::Settled
            }
            Is::Out(holder, ..) if holder == subscriber && is_current => ResumeResult::Kept,
            _ if is_late && is_current => ResumeResult::Kept,
            _ => ResumeResult::Lost,
        }
    }

    pub(crate) fn fenced(&mut self, now: Time) {
        if self.life == Life::Done || self.in_flight() == 0 {
            return;
        }
        for offset in self.offsets() {
            if let Is::Out(holder, ..) = self.records[&offset].is {
                self.lose(now, offset, holder);
            }
        }
        self.finish(now);
    }

    fn lose(&mut self, now: Time, offset: u64, holder: u64) {
        let record = self.record(offset);
        record.over.push((holder, record.deliveries, false));
        record.lost += 1;
        self.did.push(Did::Returned(offset, holder, Return::Lost));
        self.back(now, offset, None, None);
    }

    pub(crate) fn ended(&mut self, now: Time, position: u64) {
        self.pass_over(now, position, false);
    }

    pub(crate) fn gone_from_the_log(&mut self, now: Time, oldest: u64) {
        self.pass_over(now, oldest, true);
    }

    /// Reading goes on at `position`; `were_there`: what lies before it is a loss.
    fn pass_over(&mut self, now: Time, position: u64, were_there: bool) {
        if self.life != Life::Active || matches!(self.rewind, Rewind::Seeking(_)) {
            return;
        }
        self.any |= self.next < position;
        for offset in self.next..position {
            match self.is(offset) {
                Some(Is::Unread | Is::Refused(..)) => {
                    self.did.push(Did::Lost(offset));
                    self.settle(offset, Outcome::Gone);
                }
                None if were_there => self.did.push(Did::Lost(offset)),
                _ => {}
            }
        }
        self.next = self.next.max(position);
        self.finish(now);
    }
}
