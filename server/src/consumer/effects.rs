//! Carries out what lanes ask for, one match arm per effect, and grants what they
//! have room for.

use ackgate_lane::{Effect, Generation, OffsetRange, Position, Return, Time};

use super::{
    atomic,
    dead_letter::GivenUp,
    driver::Driver,
    handle::{End, NoticeKind, Outbound},
    inputs::notice,
    lanes::Grant,
    metadata,
    meter::SeekReason,
    mutation::{self, Mutation},
    tell::tell,
};
use crate::broker::Commit;

/// A lane always gets this much, so that each can move whatever the others hold;
/// also the least that is worth a grant.
pub(super) const LEAST_GRANT: u64 = 256 * 1024;

impl Driver {
    /// Empties the lanes that were touched of their effects and grants them room.
    pub(super) fn carry_out(&mut self, now: Time) {
        while let Some(generation) = self.lanes.pop_dirty() {
            while let Some(effect) = self
                .lanes
                .get_mut(generation)
                .and_then(|entry| entry.lane.poll_effect())
            {
                self.carry_out_one(now, generation, effect);
            }
            if let Some(entry) = self.lanes.get_mut(generation) {
                self.meter.answered.add(&entry.lane.take_answered());
                entry.follow_floor(now);
            }
            self.confirmed(generation);
            self.watch_stop(generation);
            if let Some(entry) = self.lanes.get_mut(generation)
                && let Some(floor) = entry.lane.floor()
            {
                entry.bodies.release_below(floor);
            }
            self.see_lease_answered(generation);
            self.watch_bytes(now, generation);
            self.grant(generation);
            self.recount(generation);
            self.lanes.settle_in(generation);
        }
    }

    /// What a lane holds and what is on its way to it both count in the budget.
    fn recount(&mut self, generation: Generation) {
        if let Some(entry) = self.lanes.get_mut(generation) {
            let held = entry.retained() + entry.granted.bytes;
            self.parts.budget.recount(entry.counted, held);
            entry.counted = held;
        }
    }

    fn carry_out_one(&mut self, now: Time, generation: Generation, effect: Effect) {
        match effect {
            Effect::Commit { position, serial } => self.commit(now, generation, position, serial),
            Effect::MapRefused { most_bytes } => self.map_refused(generation, most_bytes),
            Effect::Seek { to } => self.seek(generation, to),
            Effect::DeadLetter {
                offset,
                cause,
                attempts,
                deliveries,
            } => {
                let given_up = GivenUp {
                    offset,
                    cause,
                    attempts,
                    deliveries,
                };
                self.dead_letter(now, generation, &given_up);
            }
            Effect::Returned {
                subscriber,
                range,
                why,
            } => {
                let Some(entry) = self.lanes.get(generation) else {
                    return;
                };
                self.meter.ended.note(why.into(), range.len());
                self.subscribers
                    .give_back(subscriber, entry.bodies.size(range));
                if why == Return::Rewound {
                    let news = notice(entry.label(), NoticeKind::Rewound, Some(range), "");
                    let _missed = self.subscribers.inform(subscriber, Outbound::Lane(news));
                }
                self.trace_returned(generation, subscriber, range, why);
            }
            Effect::Settled { range } => self.settled(generation, range),
            Effect::Skipped { range } => {
                if let Some(entry) = self.lanes.get_mut(generation) {
                    entry.bodies.release(range);
                }
                self.trace_settled(generation, range);
            }
            Effect::Lost { range } => self.lost(generation, range),
            Effect::Dropped { offset, cause } => self.dropped(generation, offset, cause),
            Effect::Parked {
                offset,
                cause,
                tries,
            } => self.parked(generation, offset, cause, tries),
            Effect::Discarded {
                offset,
                cause,
                tries,
            } => self.discarded(generation, offset, cause, tries),
            Effect::Tripped { trip } => self.tripped(generation, trip),
            Effect::CutOff { subscriber } => self.cut_off(subscriber, End::Slow),
            Effect::Withdrawn {
                subscriber,
                range,
                records,
            } => self.withdrawn(generation, subscriber, range, records),
            Effect::Drained => {
                if let Some(entry) = self.lanes.get_mut(generation) {
                    entry.drained = true;
                }
            }
        }
    }

    fn settled(&mut self, generation: Generation, range: OffsetRange) {
        if let Some(entry) = self.lanes.get_mut(generation) {
            entry.bodies.release(range);
            entry.forget_notes(range);
            atomic::forget(&mut entry.refusals, range);
        }
        self.trace_settled(generation, range);
    }

    /// A drain's last commit travels with the answer to the revoke. Before a stop has
    /// drained a lane the consumer is free to commit, and whoever waits for that before
    /// its next verdict would hold the drain up. Exactly once the drain waits for the
    /// dead letters of such a commit, so the consumer makes it while it waits too.
    fn commit(&mut self, now: Time, generation: Generation, position: Position, serial: u64) {
        let Some(letters) = self.letters_of(now, generation, serial) else {
            return;
        };
        let is_revoked = !self.parts.subscription.policy.exactly_once
            && self
                .revokes
                .iter()
                .any(|of| of.generations.contains(&generation));
        let Some(entry) = self.lanes.get_mut(generation) else {
            return;
        };
        entry.watched.asks(now, serial);
        let commit = Commit {
            generation,
            position: mutation::position(position, serial, (entry.start, entry.fetched)),
            serial,
            metadata: entry.lane.commit_map(serial).map(metadata::write),
            letters,
        };
        let is_last = is_revoked || entry.lane.is_done();
        self.trace_commit(&commit);
        if is_last {
            if let Some(entry) = self.lanes.get_mut(generation) {
                entry.last_commit = Some(commit);
            }
        } else {
            self.commits.push(commit);
        }
    }

    fn map_refused(&mut self, generation: Generation, most_bytes: usize) {
        let Some(entry) = self.lanes.get(generation) else {
            return;
        };
        tell!(warn, self, entry;
            limit_bytes = most_bytes,
            "a broker refused the size of a commit's metadata: maps have less room from now on; \
             set commit.metadata_bytes to the brokers' offset.metadata.max.bytes"
        );
    }

    fn seek(&mut self, generation: Generation, to: Position) {
        let Some(entry) = self.lanes.get_mut(generation) else {
            return;
        };
        entry.forget_fetched();
        entry.granted = Grant::default();
        entry.seek += 1;
        let seek = entry.seek;
        self.meter.seeks.note(SeekReason::Failure, 1);
        tell!(info, self, entry;
            position = to.get(),
            "lane seeks back to its floor"
        );
        self.trace_seek(generation, to);
        if let Some(consumer) = self.membership.consumer() {
            consumer.seek(generation, to, seek);
        }
    }

    fn lost(&mut self, generation: Generation, range: OffsetRange) {
        let Some(entry) = self.lanes.get(generation) else {
            return;
        };
        let counts = &mut self.tally.counts;
        counts.lost = counts.lost.saturating_add(range.len());
        tell!(error, self, entry;
            first_offset = range.first().get(),
            last_offset = range.last().get(),
            offsets = range.len(),
            total = counts.lost,
            "records vanished from the log before they were settled"
        );
        let news = notice(entry.label(), NoticeKind::LostRange, Some(range), "");
        self.subscribers.announce(&Outbound::Lane(news));
    }

    /// Tells the lane when its bytes leave no room to fetch: it knows only of records.
    fn watch_bytes(&mut self, now: Time, generation: Generation) {
        let limit = self.parts.subscription.window_bytes;
        let Some(entry) = self.lanes.get_mut(generation) else {
            return;
        };
        let retained = entry.bodies.retained();
        let is_full = retained >= LEAST_GRANT / 2 && limit < retained + LEAST_GRANT / 2;
        if is_full != entry.full {
            entry.full = is_full;
            entry.lane.handle_full(now, is_full);
            // What follows from it.
            let _again = self.lanes.touch(generation);
        }
    }

    /// Lets the consumer fetch what the lane, its bytes and the gateway's memory
    /// have room for. **L13**: nothing without somebody to take it.
    fn grant(&mut self, generation: Generation) {
        if !self.eligible || self.stopping.is_some() || !self.membership.is_staying() {
            return;
        }
        let window = self.parts.subscription.policy.window.records;
        let lanes = self.lanes.len() as u64;
        let Some(entry) = self.lanes.get_mut(generation) else {
            return;
        };
        if entry.failed || entry.is_unclaimed() {
            return;
        }
        let room = entry.gate.room(entry.lane.room());
        let records = room.saturating_sub(entry.granted.records);
        let wants_records = records > 0 && entry.granted.records <= window / 2;
        let wants_bytes = entry.granted.records > 0 && entry.granted.bytes < LEAST_GRANT / 2;
        if !wants_records && !wants_bytes {
            entry.starved = false;
            return;
        }
        let held = entry.retained() + entry.granted.bytes;
        let lane_left = self.parts.subscription.window_bytes.saturating_sub(held);
        let floor = LEAST_GRANT.saturating_sub(entry.retained());
        let wanted = match self.parts.budget.limit() / 2 / lanes.max(1) {
            share if share >= 4 * LEAST_GRANT => 4 * LEAST_GRANT,
            _ => LEAST_GRANT,
        };
        let bytes = match wanted.min(lane_left).min(self.parts.budget.left()) {
            some if some >= LEAST_GRANT / 2 => some,
            _ if floor >= LEAST_GRANT / 2 => floor,
            _ => {
                self.starved = true;
                if !std::mem::replace(&mut entry.starved, true) {
                    tracing::debug!(
                        subscription = self.parts.subscription.name,
                        topic = %entry.partition.topic,
                        partition = entry.partition.partition,
                        retained_bytes = entry.retained(),
                        granted_bytes = entry.granted.bytes,
                        limit_bytes = self.parts.subscription.window_bytes,
                        used_bytes = self.parts.budget.used(),
                        memory_bytes = self.parts.budget.limit(),
                        "lane is not fetched for want of memory"
                    );
                }
                return;
            }
        };
        entry.starved = false;
        let bytes = if mutation::is_on(Mutation::IgnoreMemory) {
            self.parts.subscription.window_bytes
        } else {
            bytes.saturating_sub(entry.granted.bytes)
        };
        entry.granted.records += records;
        entry.granted.bytes += bytes;
        if let Some(consumer) = self.membership.consumer() {
            consumer.grant(generation, records, bytes);
        }
    }

    /// Tells all lanes when the first subscriber wants records, or the last one
    /// pauses or leaves, and when memory may have become free.
    pub(super) fn follow_eligibility(&mut self, now: Time) {
        let eligible = self.is_cohort_complete(now) && self.subscribers.any_eligible()
            || mutation::is_on(Mutation::FetchForNobody);
        let changed = eligible != self.eligible;
        self.eligible = eligible;
        if changed && !eligible {
            for generation in self.lanes.generations() {
                if let Some(entry) = self.lanes.touch(generation) {
                    entry.granted = Grant::default();
                }
                if let Some(consumer) = self.membership.consumer() {
                    consumer.withdraw(generation);
                }
            }
        }
        if (changed && eligible) || std::mem::take(&mut self.starved) {
            for generation in self.lanes.generations() {
                let _lane = self.lanes.touch(generation);
            }
        }
    }
}
