//! What becomes of a record: settled, given up or back to wait.

use std::time::Duration;

use ackgate_lane::{Cause, OnReject, OnUnwritten, Order, Time};

use super::{Did, Is, Life, Outcome, Record, Reference};

impl Reference {
    pub(super) fn ack(&mut self, offset: u64, from: u64) {
        if self.policy.order == (Order::Lane { skip_acked: false }) {
            self.record(offset).is = Is::Acked(from);
        } else {
            self.settle(offset, Outcome::Acked);
        }
    }

    pub(super) fn settle(&mut self, offset: u64, outcome: Outcome) {
        if outcome == Outcome::Acked {
            self.decided.push(false);
        }
        self.did.push(Did::Settled(offset));
        self.record(offset).is = Is::Settled(outcome);
        self.settlements += 1;
        self.any = true;
        self.changed |= self.maps;
    }

    pub(super) fn give_up(&mut self, offset: u64, cause: Cause, from: Option<u64>) {
        if !self.is_lane_order() {
            self.dispose(offset, cause);
        } else {
            self.record(offset).is = Is::Refused(cause, from);
        }
    }

    pub(super) fn dispose(&mut self, offset: u64, cause: Cause) {
        match self.route(cause) {
            OnReject::DeadLetter if self.is_open => self.record(offset).is = Is::Held(cause),
            OnReject::DeadLetter => {
                self.ask_letter(offset, cause);
                self.decided.push(true);
                if self.is_too_much() {
                    self.is_open = true;
                    self.did.push(Did::Tripped);
                }
            }
            OnReject::Drop => {
                self.did.push(Did::Dropped(offset, cause));
                self.settle(offset, Outcome::Refused);
            }
            OnReject::Hold => self.record(offset).is = Is::Held(cause),
        }
    }

    pub(super) fn route(&self, cause: Cause) -> OnReject {
        if cause == Cause::Expired {
            OnReject::DeadLetter
        } else {
            self.policy.on_reject
        }
    }

    pub(super) fn ask_letter(&mut self, offset: u64, cause: Cause) {
        let record = self.record(offset);
        record.is = Is::Letter(cause, None);
        if self.policy.exactly_once {
            return self.await_commit();
        }
        let record = self.record(offset);
        let attempts = record.attempts + u32::from(cause == Cause::Rejected);
        let deliveries = record.deliveries;
        self.did
            .push(Did::Letter(offset, cause, attempts, deliveries));
    }

    pub(super) fn exhausted(&mut self, offset: u64) -> Option<Cause> {
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

    pub(super) fn back(
        &mut self,
        now: Time,
        offset: u64,
        wait: Option<Duration>,
        late: Option<u64>,
    ) {
        if (wait.is_none() || late.is_some())
            && let Some(key) = self.key(offset)
        {
            self.keepers.remove(&key);
        }
        self.any |= self.maps;
        self.changed |= self.maps;
        if let Some(cause) = self.exhausted(offset) {
            return self.give_up(offset, cause, late);
        }
        let until = now.after(wait.unwrap_or_default());
        let lane_order = self.is_lane_order();
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

    pub(super) fn fail_lane(&mut self, offset: u64, until: Time) {
        let (lowest, latest) = self.failure.unwrap_or((offset, until));
        self.failure = Some((lowest.min(offset), latest.max(until)));
    }

    /// Whether the breaker has to open now.
    fn is_too_much(&self) -> bool {
        let limits = self.policy.breaker;
        let run = self.decided.iter().rev().take_while(|up| **up).count();
        let by_run = limits.run.is_some_and(|most| run >= most as usize);
        let by_ratio = limits.ratio.is_some_and(|ratio| {
            let last = self.decided.iter().rev().take(ratio.of as usize);
            let (seen, up) = (last.len(), last.filter(|up| **up).count());
            seen == ratio.of as usize && up * 1000 >= usize::from(ratio.part) * seen
        });
        by_run || by_ratio
    }

    /// Whether the write of the record's dead letter fails, and the lane waits for it.
    fn is_failing(&self, record: &Record) -> bool {
        let most = match self.policy.on_unwritten {
            OnUnwritten::Block | OnUnwritten::Discard { .. } => u32::MAX,
            OnUnwritten::Park { tries } => tries,
        };
        matches!(record.is, Is::Letter(..)) && (1..most).contains(&record.tries)
    }

    /// Records that wait for their dead letters, and those that are set aside.
    pub(crate) fn letters(&self) -> (u64, u64) {
        let is_parked = |record: &&Record| match self.policy.on_unwritten {
            OnUnwritten::Park { tries } => {
                matches!(record.is, Is::Letter(..)) && record.tries >= tries
            }
            OnUnwritten::Block | OnUnwritten::Discard { .. } => false,
        };
        let parked = self.records.values().filter(is_parked).count() as u64;
        let by_policy = self.policy.on_reject == OnReject::Hold;
        let waiting = self.count(|is| match is {
            Is::Letter(..) => true,
            Is::Held(_) => !by_policy,
            _ => false,
        });
        (waiting - parked, parked)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        let waits = |record: &Record| matches!(record.is, Is::Letter(..));
        self.is_open
            || self.records.values().any(|record| self.is_failing(record))
            || (self.letters.failing && self.records.values().any(waits))
    }

    /// An operator closes the breaker; whether it was open.
    pub(crate) fn reset(&mut self, now: Time) -> bool {
        if self.life == Life::Done || !std::mem::take(&mut self.is_open) {
            return false;
        }
        self.decided.clear();
        for offset in self.offsets() {
            if let Is::Held(cause) = self.record(offset).is
                && self.route(cause) == OnReject::DeadLetter
            {
                self.ask_letter(offset, cause);
            }
        }
        self.finish(now);
        true
    }

    /// The dead letter of the record could not be written.
    pub(super) fn unwritten(&mut self, now: Time, offset: u64, cause: Cause) {
        let policy = self.policy;
        self.record(offset).tries += 1;
        match policy.on_unwritten {
            OnUnwritten::Discard { tries } if self.record(offset).tries >= tries => {
                self.did.push(Did::Discarded(offset, cause));
                self.settle(offset, Outcome::Refused);
            }
            OnUnwritten::Park { tries } if self.record(offset).tries == tries => {
                self.did.push(Did::Parked(offset, cause));
                self.record(offset).is = Is::Letter(cause, Some(now));
            }
            _ => self.record(offset).is = Is::Letter(cause, Some(now)),
        }
    }
}
