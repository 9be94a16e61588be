//! What follows from every input: voids, rewinds, commits and the end.

use ackgate_lane::{Cause, OnReject, Return, Time};

use super::{Did, Is, Life, Outcome, Reference, Rewind};

impl Reference {
    pub(super) fn finish(&mut self, now: Time) {
        if self.life == Life::Done {
            return;
        }
        self.void_above();
        if self.is_lane_order() {
            self.prefix();
        }
        self.line_up();
        self.maybe_seek(now);
        self.maybe_commit(now);
        if let Life::Draining(deadline) = self.life {
            let awaits = self.in_flight() > 0 || self.drain_awaits_letters();
            if now >= deadline || !awaits {
                self.end();
            }
        }
    }

    /// Whose turn it is in each key, and which keys nobody keeps any more.
    fn line_up(&mut self) {
        for offset in self.offsets() {
            if self.record(offset).is == Is::Behind
                && let Some(key) = self.key(offset)
                && self.of_key(key).first() == Some(&offset)
            {
                self.record(offset).is = Is::Ready;
            }
        }
        let kept: Vec<u64> = self.keepers.keys().copied().collect();
        for key in kept {
            if self.of_key(key).is_empty() {
                self.keepers.remove(&key);
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
                    all_settled &= self.route(cause) == OnReject::Drop;
                }
                Is::Letter(..) | Is::Held(_) => all_settled = false,
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
            && self.given_up() == self.count(|is| matches!(is, Is::Refused(..)))
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
        let news = self.changed || floor > self.base;
        if self.asked.is_some() || !self.any || !news {
            self.letters.hurry &= self.asked.is_some();
            self.due = None;
            return;
        }
        let step = self.policy.commit_interval;
        let ticks = now.0.as_nanos() / step.as_nanos() + 1;
        let tick = Time(step * u32::try_from(ticks).expect("a short test"));
        let due = *self.due.get_or_insert(tick);
        let many = self.settlements >= self.policy.commit_settlements;
        let early = !self.commit_failed && (self.letters.hurry || many);
        if early || due <= now {
            self.ask_commit();
        }
    }

    fn ask_commit(&mut self) {
        let (position, map, letters, left) = self.plan();
        self.settlements = 0;
        self.due = None;
        self.commit_failed = false;
        self.changed = false;
        self.letters.hurry = false;
        if self.is_known(position, map.as_ref()) {
            return;
        }
        self.changed = left;
        self.asked = Some(position);
        self.asked_map = map;
        self.did.push(Did::Commit(position));
        self.ride(letters);
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
        let news = self.changed || self.asked.is_some() || floor > self.base;
        if !self.are_riding() && self.any && news {
            self.ask_commit();
        }
        self.life = Life::Done;
        self.did.push(Did::Drained);
    }
}
