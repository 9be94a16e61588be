//! Hands out what is ready: which lane's turn it is, which subscriber takes it, and
//! how much goes into one batch.

use std::sync::Arc;

use ackgate_lane::{Generation, Offset, OffsetRange, Ready, Standing, Subscriber, Time};

use super::{
    bodies::Size,
    draw::head_bytes,
    driver::Driver,
    handle::{Outbound, OutboundBatch, Redelivered},
    lanes::Entry,
    mutation::{self, Mutation},
    subscribers::{Allowance, MAX_RUNS},
    tell::tell,
    traces::keep_within,
};

/// How an attempt to hand something out ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Something went out, or away: look again.
    Moved,
    /// Nobody can take it now.
    Blocked,
    /// Nothing is ready.
    Nothing,
}

impl Driver {
    /// Hands out until nothing is ready or nobody has credit; lanes take turns. One
    /// that could hand out nothing keeps its place, so that whatever becomes free next
    /// is offered to it first.
    pub(super) fn dispatch(&mut self, now: Time) {
        self.waits.begin();
        self.subscribers.end_reservations(now);
        if self.stopping.is_some() {
            return;
        }
        let mut moved = true;
        while std::mem::take(&mut moved) {
            let mut blocked = Vec::new();
            for _ in 0..self.lanes.queue_len() {
                if !self.has_takers() {
                    break;
                }
                let Some(generation) = self.lanes.pop_queue() else {
                    break;
                };
                match self.dispatch_one(now, generation) {
                    Outcome::Moved => {
                        moved = true;
                        self.lanes.requeue(generation);
                    }
                    Outcome::Blocked => blocked.push(generation),
                    Outcome::Nothing => self.subscribers.release_from(generation),
                }
            }
            self.lanes.requeue_first(blocked);
        }
    }

    /// Whether a look at the lanes can be of use: nothing goes out in doubt about the
    /// group, and without room at any subscriber only
    /// records that no subscriber accepts could move, and they can wait.
    fn has_takers(&self) -> bool {
        self.fence.standing() == Standing::Sound
            && self.lanes.queue_len() > 0
            && self.subscribers.any_has_room()
    }

    fn dispatch_one(&mut self, now: Time, generation: Generation) -> Outcome {
        let Some(entry) = self.lanes.get_mut(generation) else {
            return Outcome::Nothing;
        };
        if !entry.lane.has_ready() {
            entry.waiting.clear();
            return Outcome::Nothing;
        }
        let mut passed_over = Vec::new();
        for subscriber in self.subscribers.with_room(generation) {
            let Some(entry) = self.lanes.get(generation) else {
                return Outcome::Nothing;
            };
            if !entry.may_take(subscriber) {
                self.subscribers.release(subscriber, generation);
                continue;
            }
            let Some(ready) = entry.lane.ready_for(subscriber) else {
                self.subscribers.release(subscriber, generation);
                continue;
            };
            // Nobody else can take it.
            let is_its_own = ready.owner.is_some() || entry.lane.is_broadcast();
            let first = ready.range.first();
            if ready.delivery == 1 && self.expire(now, generation, subscriber, first) {
                return Outcome::Moved;
            }
            if self.pass_over(now, generation, subscriber, ready) {
                return Outcome::Moved;
            }
            let Some(entry) = self.lanes.get(generation) else {
                return Outcome::Nothing;
            };
            let first_bytes = entry.bodies.size(OffsetRange::one(first)).bytes;
            if self.is_oversize(generation, subscriber, first_bytes) {
                self.oversize(now, generation, subscriber, first, first_bytes);
                return Outcome::Moved;
            }
            let allowance = self
                .subscribers
                .allowance(subscriber, first_bytes, ready.alone);
            if let Some(allowance) = allowance {
                if self.waits_for_more(now, generation, &ready, &allowance) {
                    continue;
                }
                self.hand_out(now, generation, ready, allowance);
                self.subscribers.release(subscriber, generation);
                return Outcome::Moved;
            }
            if !self.subscribers.accepts(subscriber, first_bytes) {
                if ready.owner.is_some() {
                    self.let_keys_go(now, generation, subscriber);
                    return Outcome::Moved;
                }
                continue;
            }
            if is_its_own {
                self.subscribers.reserve(now, subscriber, generation);
            } else {
                passed_over.push(subscriber);
            }
        }
        if !self.subscribers.is_any_reserved_for(generation) {
            passed_over
                .into_iter()
                .find(|of| self.subscribers.reserve(now, *of, generation));
        }
        Outcome::Blocked
    }

    /// Whether nobody who could get the next record of a lane, offered to `subscriber`,
    /// accepts it. Where each has its own, each record is its own to refuse, and so is
    /// what comes next on a lane that is its alone.
    fn is_oversize(&self, generation: Generation, subscriber: Subscriber, bytes: u64) -> bool {
        let is_its_own = |entry: &Entry| entry.lane.is_broadcast() || entry.lease.is_some();
        if self.lanes.get(generation).is_some_and(is_its_own) {
            self.subscribers.refuses(subscriber, bytes)
        } else {
            self.subscribers.all_refuse(bytes)
        }
    }

    /// The record is its key's next and too large for the subscriber that has the key,
    /// but not for others: the key would wait for ever.
    fn let_keys_go(&mut self, now: Time, generation: Generation, subscriber: Subscriber) {
        if let Some(entry) = self.lanes.touch(generation) {
            entry.lane.handle_subscriber_paused(now, subscriber);
        }
        self.carry_out(now);
    }

    /// The last look at the age of records that never went out. Whether some are too
    /// old, and have left the line.
    fn expire(
        &mut self,
        now: Time,
        generation: Generation,
        subscriber: Subscriber,
        first: Offset,
    ) -> bool {
        let intake = &self.parts.subscription.intake;
        let of = (subscriber, OffsetRange::one(first));
        intake.max_age.is_some()
            && self.lanes.touch(generation).is_some_and(|entry| {
                self.tally
                    .expire_before_hand_over(now, entry, intake, &self.parts.wall, of)
            })
    }

    /// Broadcast: lets go of the beginning of what is ready that the subscriber's own
    /// filter says no to. Whether there was any.
    fn pass_over(
        &mut self,
        now: Time,
        generation: Generation,
        subscriber: Subscriber,
        ready: Ready,
    ) -> bool {
        let filter = self.subscribers.get(subscriber);
        let Some(filter) = filter.and_then(|attached| attached.filter.as_ref()) else {
            return false;
        };
        let first = OffsetRange::one(ready.range.first());
        self.lanes.touch(generation).is_some_and(|entry| {
            self.tally
                .trim(now, entry, filter, subscriber, (first, ready.range))
                .is_err_and(|passed_over| passed_over > 0)
        })
    }

    /// Nobody who could get the record accepts it: its lane decides what becomes of it.
    fn oversize(
        &mut self,
        now: Time,
        generation: Generation,
        subscriber: Subscriber,
        offset: Offset,
        bytes: u64,
    ) {
        let Some(entry) = self.lanes.touch(generation) else {
            return;
        };
        if let Some(count) = self.tally.oversize.again(now) {
            tell!(warn, self, entry;
                offset = offset.get(), bytes, count,
                "records are larger than their subscribers accept"
            );
        }
        entry.lane.handle_oversize(now, subscriber, offset);
        // Its effects decide what is ready next.
        self.carry_out(now);
    }

    fn hand_out(&mut self, now: Time, generation: Generation, first: Ready, to: Allowance) {
        let Some(attached) = self.subscribers.get(to.subscriber) else {
            return;
        };
        let (deadline, filter) = (attached.ack_deadline, attached.filter.clone());
        let name = Arc::clone(&attached.name);
        let max_records = to.records.min(u64::from(attached.batch.max_records));
        let max_bytes = to.bytes.min(attached.batch.max_bytes);
        let Some(entry) = self.lanes.touch(generation) else {
            return;
        };
        entry.waiting.remove(&to.subscriber);
        entry.progress.handed += 1;
        let mut batch = OutboundBatch::of(entry.label());
        let mut total = Size::default();
        let mut next = Some(first);
        while let Some(ready) = next {
            let records = max_records - total.records;
            let bytes = max_bytes.saturating_sub(total.bytes);
            let (mut range, mut size) = entry.bodies.cut(ready.range, records, bytes);
            if total.records > 0 && size.bytes > bytes {
                break;
            }
            let (intake, wall) = (&self.parts.subscription.intake, &self.parts.wall);
            let of = (to.subscriber, range);
            if ready.delivery == 1
                && self
                    .tally
                    .expire_before_hand_over(now, entry, intake, wall, of)
            {
                // What is ready now is another matter: the lane's next turn is soon.
                break;
            }
            let is_part = range != ready.range;
            if let Some(filter) = &filter {
                let of = (range, ready.range);
                match self.tally.trim(now, entry, filter, to.subscriber, of) {
                    Ok(run) => (range, size) = (run, entry.bodies.size(run)),
                    Err(passed_over) => {
                        // The first of a batch decides whether there is room for it.
                        let goes_on = passed_over > 0 && !batch.ranges.is_empty();
                        let more = entry.lane.ready_for(to.subscriber);
                        next = more.filter(|more| goes_on && !more.alone);
                        continue;
                    }
                }
            }
            entry
                .lane
                .handle_dispatched(now, to.subscriber, range, deadline);
            entry.bodies.slices(range, &mut batch.records);
            batch.ranges.push(range);
            batch.redelivered.extend(redelivered(&ready, range));
            self.meter.handed_out(&ready, size.records);
            if !entry.traces.is_empty() {
                let who = (to.subscriber, &*name);
                entry.name_spans(&self.parts.tracer, (range, ready), who, &mut batch.traces);
            }
            total.records += size.records;
            total.bytes += size.bytes;
            let is_full = is_part || total.records >= max_records || batch.ranges.len() >= MAX_RUNS;
            next = entry
                .lane
                .ready_for(to.subscriber)
                .filter(|more| !ready.alone && !more.alone && !is_full);
        }
        if batch.ranges.is_empty() {
            return;
        }
        self.send_batch(&to, batch, total, first.alone);
    }

    /// Puts a batch into the outbox of its subscriber.
    fn send_batch(&mut self, to: &Allowance, mut batch: OutboundBatch, total: Size, alone: bool) {
        if !batch.traces.is_empty() {
            // Without them a record is as good as one that is not traced.
            let attached = self.subscribers.get(to.subscriber);
            let room = attached.map_or(0, |attached| attached.message_room(to));
            keep_within(room.saturating_sub(total.bytes), &mut batch.traces);
        }
        self.meter.delivered.note(total.records, total.bytes);
        self.subscribers.take(to.subscriber, total, alone);
        self.subscribers
            .take_from_draw(to.subscriber, total, head_bytes(&batch));
        self.hand_out_twice(to.subscriber, &batch);
        // Its allowance says that the outbox has room.
        let _room = self.subscribers.tell(to.subscriber, Outbound::Batch(batch));
    }

    /// Nothing, unless a test has this bug switched on.
    fn hand_out_twice(&self, to: Subscriber, batch: &OutboundBatch) {
        if mutation::is_on(Mutation::HandOutTwice) {
            for other in self.subscribers.ids() {
                if other != to {
                    let again = Outbound::Batch(batch.clone());
                    let _room = self.subscribers.tell(other, again);
                }
            }
        }
    }
}

/// What a batch tells of `range`, if it was handed out before.
fn redelivered(ready: &Ready, range: OffsetRange) -> Option<Redelivered> {
    let Ready {
        attempt, delivery, ..
    } = *ready;
    (attempt > 1 || delivery > 1).then_some(Redelivered {
        range,
        attempt,
        delivery,
    })
}
