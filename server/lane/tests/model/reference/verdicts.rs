//! What a verdict is answered and what it does.

use std::time::Duration;

use ackgate_lane::{Cause, Return, Time, Verdict, VerdictResult};

use super::{Did, Is, Life, Outcome, Reference, Rewind};

impl Reference {
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
                Some(Is::Settled(outcome @ (Outcome::Refused | Outcome::Filtered))) => {
                    Some(outcome)
                }
                Some(Is::Settled(outcome)) if offset >= floor => Some(outcome),
                _ if self.origin.is_some_and(|origin| origin <= offset) && offset < floor => {
                    Some(Outcome::Acked)
                }
                Some(Is::Settled(_)) => continue,
                Some(Is::Acked(_)) => Some(Outcome::Acked),
                Some(Is::Refused(..) | Is::Letter(..) | Is::Held(_)) => Some(Outcome::Refused),
                None => continue,
                Some(_) => None,
            };
            let result = match settled {
                Some(Outcome::Gone) => VerdictResult::Stale,
                Some(Outcome::Filtered) => VerdictResult::Unknown,
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
}
