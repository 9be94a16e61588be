//! What becomes of a record: settled, given up or back to wait.

use std::time::Duration;

use ackgate_lane::{Cause, OnReject, Order, Time};

use super::{Did, Is, Outcome, Reference};

impl Reference {
    pub(super) fn ack(&mut self, offset: u64, from: u64) {
        if self.policy.order == (Order::Lane { skip_acked: false }) {
            self.record(offset).is = Is::Acked(from);
        } else {
            self.settle(offset, Outcome::Acked);
        }
    }

    pub(super) fn settle(&mut self, offset: u64, outcome: Outcome) {
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
            OnReject::DeadLetter => self.ask_letter(offset, cause),
            OnReject::Drop => {
                self.did.push(Did::Dropped(offset, cause));
                self.settle(offset, Outcome::Refused);
            }
            OnReject::Hold => self.record(offset).is = Is::Held,
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
}
