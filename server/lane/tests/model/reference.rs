//! The lane once more, offset by offset and as plainly as possible: no runs, no
//! indexes, no bounded memories. Its backoffs are zero, as the property's policy says.

use std::{collections::BTreeMap, time::Duration};

use ackgate_lane::{
    Cause, CommitOutcome, DeadLetterOutcome, OnReject, Order, Policy, Return, SeekOutcome, Time,
    Verdict, VerdictResult,
};

/// One effect on one offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Did {
    Returned(u64, u64, Return),
    Settled(u64),
    Letter(u64, Cause, u32, u32),
    Dropped(u64, Cause),
    Lost(u64),
    Skipped(u64),
    Seek(u64),
    Commit(u64),
    Drained,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Is {
    Ready,
    /// Subscriber, time for a verdict, hand-over to the transport, deadline.
    Out(u64, Duration, Option<Time>, Option<Time>),
    Delayed(Time),
    Unread,
    Acked(u64),
    Refused(Cause, Option<u64>),
    /// Retry time, unless the answer is awaited.
    Letter(Cause, Option<Time>),
    Held,
    Settled(Outcome),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Acked,
    Refused,
    Gone,
}

#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) is: Is,
    pub(crate) attempts: u32,
    pub(crate) deliveries: u32,
    lost: u32,
    voided: u32,
    late: Option<u64>,
    /// Deliveries that are over: subscriber, number, expired.
    pub(crate) over: Vec<(u64, u32, bool)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rewind {
    None,
    Waiting(Time, bool),
    Seeking(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Active,
    Draining(Time),
    Done,
}

#[derive(Debug)]
pub(crate) struct Reference {
    policy: Policy,
    pub(crate) records: BTreeMap<u64, Record>,
    pub(crate) next: u64,
    origin: Option<u64>,
    rewind: Rewind,
    failure: Option<(u64, Time)>,
    life: Life,
    base: u64,
    asked: Option<u64>,
    settlements: u64,
    any: bool,
    due: Option<Time>,
    commit_failed: bool,
    did: Vec<Did>,
}

impl Reference {
    pub(crate) fn new(policy: Policy, position: u64) -> Self {
        Self {
            policy,
            records: BTreeMap::new(),
            next: position,
            origin: None,
            rewind: Rewind::None,
            failure: None,
            life: Life::Active,
            base: position,
            asked: None,
            settlements: 0,
            any: false,
            due: None,
            commit_failed: false,
            did: Vec::new(),
        }
    }

    /// What has been done since the last call.
    pub(crate) fn did(&mut self) -> Vec<Did> {
        std::mem::take(&mut self.did)
    }

    pub(crate) fn floor(&self) -> u64 {
        let lowest = self
            .records
            .iter()
            .find(|(_, record)| !matches!(record.is, Is::Settled(_)));
        lowest.map_or(self.next, |(&offset, _)| offset.min(self.next))
    }

    pub(crate) fn count(&self, which: impl Fn(&Is) -> bool) -> u64 {
        self.records
            .values()
            .filter(|record| which(&record.is))
            .count() as u64
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.count(|is| matches!(is, Is::Out(..)))
    }

    pub(crate) fn unsettled(&self) -> u64 {
        self.count(|is| !matches!(is, Is::Settled(_)))
    }

    fn given_up(&self) -> u64 {
        self.count(is_given_up)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.life == Life::Done
    }

    /// The lowest offset that may go out: offset, attempt, delivery, alone, owner.
    pub(crate) fn ready(&self) -> Option<(u64, u32, u32, bool, Option<u64>)> {
        if self.life != Life::Active {
            return None;
        }
        let lane_order = self.policy.order != Order::None;
        let waiting = self
            .records
            .values()
            .find(|record| record.is == Is::Ready || (lane_order && is_given_up(&record.is)));
        if lane_order && (self.rewind != Rewind::None || waiting?.is != Is::Ready) {
            return None;
        }
        let owner = self.records.values().find_map(|record| match record.is {
            Is::Out(subscriber, ..) if lane_order => Some(subscriber),
            _ => None,
        });
        self.records
            .iter()
            .find(|(_, record)| record.is == Is::Ready)
            .map(|(&offset, record)| {
                (
                    offset,
                    record.attempts + 1,
                    record.deliveries + 1,
                    record.lost >= 3,
                    owner,
                )
            })
    }

    pub(crate) fn room(&self) -> u64 {
        if self.life != Life::Active || self.rewind != Rewind::None {
            return 0;
        }
        let held = self.count(|is| !matches!(is, Is::Settled(_) | Is::Unread));
        let records = u64::from(self.policy.window.records).saturating_sub(held);
        records.min((self.floor() + self.policy.window.span).saturating_sub(self.next))
    }

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
                    .is_some_and(|record| record.is == Is::Unread)
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
                        over: Vec::new(),
                    };
                    self.records.insert(offset, record);
                    self.admit(offset);
                }
                Some(Is::Unread) => self.admit(offset),
                Some(Is::Settled(_)) => self.did.push(Did::Skipped(offset)),
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

    /// The answer for each offset that gets one.
    pub(crate) fn verdict(
        &mut self,
        now: Time,
        from: u64,
        offsets: (u64, u64),
        delivery: Option<u32>,
        verdict: Option<Verdict>,
        extend: Duration,
    ) -> Vec<(u64, VerdictResult)> {
        if self.life == Life::Done {
            return (offsets.0..offsets.1)
                .map(|offset| (offset, VerdictResult::Fenced))
                .collect();
        }
        let floor = self.floor();
        let mut answers = Vec::new();
        for offset in offsets.0..offsets.1 {
            let settled = match self.records.get(&offset).map(|record| record.is) {
                Some(Is::Settled(Outcome::Refused)) => Some(Outcome::Refused),
                Some(Is::Settled(outcome)) if offset >= floor => Some(outcome),
                _ if self.origin.is_some_and(|origin| origin <= offset) && offset < floor => {
                    Some(Outcome::Acked)
                }
                Some(Is::Acked(_)) => Some(Outcome::Acked),
                Some(Is::Refused(..) | Is::Letter(..) | Is::Held) => Some(Outcome::Refused),
                None => continue,
                Some(_) => None,
            };
            let result = match settled {
                Some(Outcome::Gone) => VerdictResult::Stale,
                Some(outcome) => match (outcome, verdict) {
                    (Outcome::Acked, Some(Verdict::Acked))
                    | (Outcome::Refused, Some(Verdict::Rejected)) => VerdictResult::Duplicate,
                    _ => VerdictResult::Conflict,
                },
                None => self.judge(now, from, offset, delivery, verdict, extend),
            };
            answers.push((offset, result));
        }
        self.finish(now);
        answers
    }

    fn judge(
        &mut self,
        now: Time,
        from: u64,
        offset: u64,
        delivery: Option<u32>,
        verdict: Option<Verdict>,
        extend: Duration,
    ) -> VerdictResult {
        let seek_asked = matches!(self.rewind, Rewind::Waiting(_, true) | Rewind::Seeking(_));
        let record = self.record(offset).clone();
        let current = delivery.is_none_or(|number| number == record.deliveries);
        let has_it = matches!(record.is, Is::Out(holder, ..) if holder == from);
        let had_it_last = record.late == Some(from) && !seek_asked;
        match verdict {
            Some(verdict) if current && has_it => self.apply(now, from, offset, verdict),
            Some(verdict) if current && had_it_last => self.late(now, from, offset, verdict),
            None if current && has_it => self.extend(now, offset, extend),
            _ => {
                let over = record.over.iter().rev();
                let mut his = over.filter(|(subscriber, ..)| *subscriber == from);
                let same = |number: u32| delivery.is_none_or(|asked| asked == number);
                return match his.clone().find(|(_, number, _)| same(*number)) {
                    Some((.., true)) => VerdictResult::Expired,
                    Some((.., false)) => VerdictResult::Stale,
                    None if has_it || record.late == Some(from) => VerdictResult::Stale,
                    None if his.next().is_some() => VerdictResult::Stale,
                    None => VerdictResult::Unknown,
                };
            }
        }
        VerdictResult::Applied
    }

    fn apply(&mut self, now: Time, from: u64, offset: u64, verdict: Verdict) {
        self.did.push(Did::Returned(offset, from, Return::Verdict));
        let record = self.record(offset);
        let over = (from, record.deliveries, false);
        match verdict {
            Verdict::Acked => self.ack(offset, from),
            Verdict::Rejected => self.give_up(offset, Cause::Rejected, Some(from)),
            Verdict::Failed { retry_after } => {
                record.over.push(over);
                record.attempts += 1;
                self.back(now, offset, Some(retry_after.unwrap_or_default()), None);
            }
            Verdict::Released => {
                record.over.push(over);
                self.back(now, offset, None, None);
            }
        }
    }

    fn late(&mut self, now: Time, from: u64, offset: u64, verdict: Verdict) {
        let record = self.record(offset);
        match verdict {
            Verdict::Acked => self.ack(offset, from),
            Verdict::Rejected => self.give_up(offset, Cause::Rejected, Some(from)),
            Verdict::Failed {
                retry_after: Some(delay),
            } => {
                record.late = None;
                if record.is == Is::Unread {
                    self.fail_lane(offset, now.after(delay));
                } else {
                    record.is = Is::Delayed(now.after(delay));
                }
            }
            Verdict::Failed { retry_after: None } | Verdict::Released => record.late = None,
        }
    }

    fn extend(&mut self, now: Time, offset: u64, by: Duration) {
        let record = self.record(offset);
        if let Is::Out(holder, _, sent, _) = record.is {
            record.is = match sent {
                Some(sent) => {
                    let latest = sent.after(Duration::from_secs(3600));
                    Is::Out(holder, by, Some(sent), Some(now.after(by).min(latest)))
                }
                None => Is::Out(holder, by.min(Duration::from_secs(3600)), None, None),
            };
        }
    }

    fn ack(&mut self, offset: u64, from: u64) {
        if self.policy.order == (Order::Lane { skip_acked: false }) {
            self.record(offset).is = Is::Acked(from);
        } else {
            self.settle(offset, Outcome::Acked);
        }
    }

    fn settle(&mut self, offset: u64, outcome: Outcome) {
        self.did.push(Did::Settled(offset));
        self.record(offset).is = Is::Settled(outcome);
        self.settlements += 1;
        self.any = true;
    }

    fn give_up(&mut self, offset: u64, cause: Cause, from: Option<u64>) {
        if self.policy.order == Order::None {
            self.dispose(offset, cause);
        } else {
            self.record(offset).is = Is::Refused(cause, from);
        }
    }

    fn dispose(&mut self, offset: u64, cause: Cause) {
        match self.policy.on_reject {
            OnReject::DeadLetter => self.ask_letter(offset, cause),
            OnReject::Drop => {
                self.did.push(Did::Dropped(offset, cause));
                self.settle(offset, Outcome::Refused);
            }
            OnReject::Hold => self.record(offset).is = Is::Held,
        }
    }

    fn ask_letter(&mut self, offset: u64, cause: Cause) {
        let record = self.record(offset);
        record.is = Is::Letter(cause, None);
        let attempts = record.attempts + u32::from(cause == Cause::Rejected);
        let deliveries = record.deliveries;
        self.did
            .push(Did::Letter(offset, cause, attempts, deliveries));
    }

    fn exhausted(&mut self, offset: u64) -> Option<Cause> {
        let policy = self.policy;
        let record = self.record(offset);
        if record.attempts >= policy.max_attempts {
            Some(Cause::AttemptsExhausted)
        } else if record.deliveries - record.voided >= policy.max_deliveries {
            Some(Cause::DeliveriesExhausted)
        } else {
            None
        }
    }

    fn back(&mut self, now: Time, offset: u64, wait: Option<Duration>, late: Option<u64>) {
        if let Some(cause) = self.exhausted(offset) {
            return self.give_up(offset, cause, late);
        }
        let until = now.after(wait.unwrap_or_default());
        let lane_order = self.policy.order != Order::None;
        let record = self.record(offset);
        record.late = late;
        if lane_order {
            record.is = Is::Unread;
            self.fail_lane(offset, until);
        } else {
            record.is = if wait.is_none() {
                Is::Ready
            } else {
                Is::Delayed(until)
            };
        }
    }

    fn fail_lane(&mut self, offset: u64, until: Time) {
        let (lowest, latest) = self.failure.unwrap_or((offset, until));
        self.failure = Some((lowest.min(offset), latest.max(until)));
    }

    pub(crate) fn gone(&mut self, now: Time, subscriber: u64, why: Return) {
        if self.life == Life::Done {
            return;
        }
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

    pub(crate) fn oversize(&mut self, now: Time, offset: u64) {
        if self.life != Life::Done && self.is(offset) == Some(Is::Ready) {
            self.give_up(offset, Cause::Oversize, None);
        }
        self.finish(now);
    }

    pub(crate) fn letter(&mut self, now: Time, offset: u64, outcome: DeadLetterOutcome) {
        if self.life != Life::Done
            && let Some(Is::Letter(cause, retry)) = self.is(offset)
        {
            match outcome {
                DeadLetterOutcome::Stored => self.settle(offset, Outcome::Refused),
                DeadLetterOutcome::Failed => {
                    self.record(offset).is = Is::Letter(cause, retry.or(Some(now)));
                }
            }
        }
        self.finish(now);
    }

    pub(crate) fn commit(&mut self, now: Time, position: u64, outcome: CommitOutcome) {
        if self.asked == Some(position) {
            self.asked = None;
            self.commit_failed = outcome == CommitOutcome::Failed;
        }
        if outcome == CommitOutcome::Done {
            self.base = self.base.max(position);
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
        for offset in self.offsets() {
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

    fn finish(&mut self, now: Time) {
        if self.life == Life::Done {
            return;
        }
        self.void_above();
        if self.policy.order != Order::None {
            self.prefix();
        }
        self.maybe_seek(now);
        self.maybe_commit(now);
        if let Life::Draining(deadline) = self.life {
            let letters = self.count(|is| matches!(is, Is::Letter(_, None)));
            if now >= deadline || self.in_flight() + letters == 0 {
                self.end();
            }
        }
    }

    fn void_above(&mut self) {
        let Some((lowest, until)) = self.failure.take() else {
            return;
        };
        for offset in self
            .offsets()
            .into_iter()
            .filter(|offset| *offset >= lowest)
        {
            let record = self.record(offset);
            let delivery = record.deliveries;
            let mut returned = None;
            match record.is {
                Is::Ready => {}
                Is::Out(holder, ..) => {
                    record.over.push((holder, delivery, false));
                    record.voided += 1;
                    returned = Some(holder);
                }
                Is::Acked(from) => {
                    record.over.push((from, delivery, false));
                    record.voided += 1;
                }
                Is::Refused(cause, from) => {
                    record.over.extend(from.map(|from| (from, delivery, false)));
                    record.voided += u32::from(cause == Cause::Rejected);
                }
                _ => continue,
            }
            record.is = Is::Unread;
            record.late = None;
            if let Some(holder) = returned {
                self.did
                    .push(Did::Returned(offset, holder, Return::Rewound));
            }
        }
        self.rewind = match self.rewind {
            Rewind::None => Rewind::Waiting(until, false),
            Rewind::Waiting(before, asked) => Rewind::Waiting(before.max(until), asked),
            Rewind::Seeking(to) => Rewind::Seeking(to),
        };
    }

    fn prefix(&mut self) {
        let mut all_settled = true;
        for offset in self.offsets() {
            match self.record(offset).is {
                Is::Settled(_) => {}
                Is::Acked(_) if all_settled => self.settle(offset, Outcome::Acked),
                Is::Acked(_) => {}
                Is::Refused(cause, _) => {
                    self.dispose(offset, cause);
                    all_settled &= self.policy.on_reject == OnReject::Drop;
                }
                Is::Letter(..) | Is::Held => all_settled = false,
                _ => break,
            }
        }
    }

    fn maybe_seek(&mut self, now: Time) {
        let Rewind::Waiting(until, asked) = self.rewind else {
            return;
        };
        if self.count(|is| *is == Is::Unread) == 0 && !asked {
            self.rewind = Rewind::None;
        } else if now >= until
            && self.life == Life::Active
            && self.in_flight() == 0
            && self.given_up() == 0
        {
            let to = self.floor();
            self.rewind = Rewind::Seeking(to);
            self.did.push(Did::Seek(to));
            for record in self
                .records
                .values_mut()
                .filter(|record| record.is == Is::Unread)
            {
                record.late = None;
            }
        }
    }

    fn maybe_commit(&mut self, now: Time) {
        let floor = self.floor();
        if self.asked.is_some() || !self.any || floor <= self.base {
            self.due = None;
            return;
        }
        let step = self.policy.commit_interval;
        let ticks = now.0.as_nanos() / step.as_nanos() + 1;
        let tick = Time(step * u32::try_from(ticks).expect("a short test"));
        let due = *self.due.get_or_insert(tick);
        let early = !self.commit_failed && self.settlements >= self.policy.commit_settlements;
        if early || due <= now {
            self.ask_commit(floor);
        }
    }

    fn ask_commit(&mut self, floor: u64) {
        self.asked = Some(floor);
        self.settlements = 0;
        self.due = None;
        self.commit_failed = false;
        self.did.push(Did::Commit(floor));
    }

    fn end(&mut self) {
        for offset in self.offsets() {
            if let Is::Out(holder, ..) = self.record(offset).is {
                self.did
                    .push(Did::Returned(offset, holder, Return::Drained));
                self.record(offset).is = Is::Ready;
            }
        }
        let floor = self.floor();
        if self.any && floor > self.base {
            self.ask_commit(floor);
        }
        self.life = Life::Done;
        self.did.push(Did::Drained);
    }

    pub(crate) fn is(&self, offset: u64) -> Option<Is> {
        self.records.get(&offset).map(|record| record.is)
    }

    fn offsets(&self) -> Vec<u64> {
        self.records.keys().copied().collect()
    }

    fn record(&mut self, offset: u64) -> &mut Record {
        self.records.get_mut(&offset).expect("a received record")
    }
}

fn is_given_up(is: &Is) -> bool {
    matches!(is, Is::Refused(..) | Is::Letter(..) | Is::Held)
}
