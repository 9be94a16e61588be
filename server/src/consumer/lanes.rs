//! The lanes that this gateway owns, each with its retained records, its grants
//! and what is known of its deliveries; and the index of their deadlines.

mod turns;
mod whose;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use ackgate_lane::{
    Answer, Broadcast, Epoch, Generation, Kind, Lane, Lease, Offset, OffsetRange, Position, Start,
    Subscriber, Time, VerdictResult,
};

use super::{
    bodies::Bodies, handle::LaneLabel, intake::Gate, metadata, mutation, numbers::Numbers,
    progress::Progress, standstill::Standstill, told::Told, traces::Traces, watched::Watched,
};
use crate::{
    broker::{Assigned, Commit, TopicPartition},
    config::{self, Delivery},
};

/// What a subscriber said about a record that is not settled yet, for its dead letter.
#[derive(Clone, Debug)]
pub(super) struct Note {
    pub(super) code: Arc<str>,
    pub(super) reason: Arc<str>,
    pub(super) subscriber: Arc<str>,
}

/// One lane with what it needs around it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) lane: Kind,
    pub(super) partition: TopicPartition,
    /// Whether its records were put back from the dead-letter topic.
    pub(super) retry: bool,
    /// The number that verdicts name it by.
    number: u64,
    /// Whose the lane is, where it belongs to one subscriber at a time.
    pub(super) lease: Option<Lease>,
    pub(super) bodies: Bodies,
    /// Those of its records that are traced.
    pub(super) traces: Traces,
    /// Fetched and not shown to the lane yet.
    pub(super) gate: Gate,
    /// By offset and, where each subscriber has its own say, by subscriber; an entry
    /// goes when its record is settled.
    notes: BTreeMap<(u64, Option<Subscriber>), Note>,
    /// Granted to the consumer and not fetched yet.
    pub(super) granted: Grant,
    /// Number of the last seek: chunks of an earlier one are void.
    pub(super) seek: u64,
    /// The last commit of a drain, to be given with the answer to the revoke.
    pub(super) last_commit: Option<Commit>,
    pub(super) drained: bool,
    /// Where reading began.
    pub(super) start: Option<Position>,
    /// It cannot be read until an operator acts: nothing is granted or taken.
    pub(super) failed: bool,
    /// Its bytes leave no room to fetch, as the lane was last told.
    pub(super) full: bool,
    /// Exactly once: how often their topic has refused the dead letters of these offsets
    /// as too large.
    pub(super) refusals: BTreeMap<u64, u32>,
    /// Why it hands nothing out, as told to subscribers and the log.
    pub(super) standstill: Option<Standstill>,
    /// Whether it makes progress.
    pub(super) progress: Progress,
    /// Why the last dead letter could not be written.
    pub(super) letter_error: Option<String>,
    /// End of what has been fetched since the last seek; earlier records are known.
    pub(super) fetched: Option<Position>,
    /// The look at which the end of the log was last reached, unless records have come
    /// since.
    pub(super) at_end: Option<u64>,
    /// Since when something has been ready for a subscriber that waits for more.
    pub(super) waiting: BTreeMap<Subscriber, Time>,
    /// The end of its log, as far as it is known, markers included.
    pub(super) head: Option<Position>,
    /// What the log told while records from before it waited at the gate.
    pub(super) told: Told,
    /// What is remembered of it for those who watch.
    pub(super) watched: Watched,
    /// It gets no grant for want of memory.
    pub(super) starved: bool,
    /// Retained and granted bytes as they were last counted in the gateway's budget.
    pub(super) counted: u64,
    dirty: bool,
    queued: bool,
    timeout: Option<Time>,
}

/// Records and bytes that may still be fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) records: u32,
    pub(super) bytes: u64,
}

/// All lanes owned now.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    entries: BTreeMap<Generation, Entry>,
    /// Lanes whose effects have to be looked at in this turn.
    dirty: Vec<Generation>,
    /// Lanes that may have something to hand out, in the order of their turns.
    queue: VecDeque<Generation>,
    timeouts: BTreeSet<(Time, Generation)>,
    /// Lanes by the number that subscribers know them by.
    by_number: BTreeMap<u64, Generation>,
    /// The epoch of each lane that was ever here; as many as the topics' partitions.
    epochs: BTreeMap<TopicPartition, Epoch>,
    numbers: Numbers,
}

impl Entry {
    /// The lane as subscribers see it.
    pub(super) fn label(&self) -> LaneLabel {
        LaneLabel {
            lane: self.number,
            topic: Arc::clone(&self.partition.topic),
            partition: self.partition.partition,
            epoch: self.lane.epoch().0,
        }
    }

    /// Whether `subscriber` may be given its records.
    pub(super) fn may_take(&self, subscriber: Subscriber) -> bool {
        self.lease.is_none_or(|lease| lease.may_take(subscriber))
    }

    /// Whether there is nobody to fetch for.
    pub(super) fn is_unclaimed(&self) -> bool {
        self.lease.is_some_and(|lease| lease.holder().is_none())
    }

    /// Bytes of records that are fetched and not settled.
    pub(super) const fn retained(&self) -> u64 {
        self.bodies.retained() + self.gate.bytes()
    }

    /// Forgets what is fetched: it will be read again.
    pub(super) fn forget_fetched(&mut self) {
        self.keep_stamp();
        self.bodies.clear();
        self.gate.clear();
        self.told = Told::default();
        self.fetched = None;
        self.at_end = None;
    }

    /// Keeps what was said about the records that a verdict applied to.
    pub(super) fn keep_notes(&mut self, from: Subscriber, parts: &[Answer], note: &Note) {
        let from = self.lane.is_broadcast().then_some(from);
        for part in parts {
            if part.result == VerdictResult::Applied {
                for offset in self.bodies.offsets(part.range) {
                    self.notes.insert((offset.get(), from), note.clone());
                }
            }
        }
    }

    /// Forgets what was said about settled records.
    pub(super) fn forget_notes(&mut self, range: OffsetRange) {
        if self.notes.is_empty() {
            return;
        }
        let settled: Vec<(u64, Option<Subscriber>)> = self
            .notes
            .range((range.first().get(), None)..(range.end().get(), None))
            .map(|(of, _)| *of)
            .collect();
        for of in settled {
            self.notes.remove(&of);
        }
    }

    /// What was said about the record that is given up, by who gave it up.
    pub(super) fn note(&self, offset: Offset) -> Option<&Note> {
        let of = self.lane.refusal(offset).map(|refusal| refusal.subscriber);
        self.notes.get(&(offset.get(), of))
    }
}

/// Of a lane that no reset is known of.
const FIRST_EPOCH: Epoch = Epoch(1);

impl Lanes {
    /// Begins a lane.
    pub(super) fn assign(
        &mut self,
        now: Time,
        subscription: &config::Subscription,
        assigned: Assigned,
    ) {
        let leased = subscription.lane_lease().is_some();
        let generation = assigned.generation;
        let known = self.epochs.entry(assigned.partition.clone());
        let epoch = known.or_insert(FIRST_EPOCH);
        if assigned.anew.is_some() {
            epoch.0 += 1;
        }
        let map = metadata::restore(assigned.metadata.as_deref(), subscription.map_bytes);
        let start = Start {
            generation,
            epoch: *epoch,
            position: assigned.start,
            committed: assigned.committed,
            seed: fastrand::u64(..),
            map: mutation::map(map, assigned.start),
        };
        let lane = match subscription.delivery {
            Delivery::Competing => {
                let policy = mutation::policy(subscription.policy);
                Kind::Competing(Box::new(Lane::new(policy, start)))
            }
            Delivery::Broadcast(sharing) => Kind::Broadcast(Box::new(Broadcast::new(
                subscription.policy,
                sharing,
                start,
            ))),
        };
        // What was committed may tell of a later epoch than this process knows.
        self.epochs.insert(assigned.partition.clone(), lane.epoch());
        let number = self.numbers.next();
        let entry = Entry {
            lane,
            retry: subscription.retry_topic() == Some(&*assigned.partition.topic),
            partition: assigned.partition,
            number,
            lease: leased.then(Lease::default),
            bodies: Bodies::default(),
            traces: Traces::default(),
            gate: Gate::default(),
            notes: BTreeMap::new(),
            granted: Grant::default(),
            seek: 0,
            last_commit: None,
            refusals: BTreeMap::new(),
            drained: false,
            start: assigned.start,
            failed: false,
            full: false,
            standstill: None,
            progress: Progress::default(),
            letter_error: None,
            fetched: None,
            at_end: None,
            waiting: BTreeMap::new(),
            head: None,
            told: Told::default(),
            watched: Watched::begin(assigned.start, now),
            starved: false,
            counted: 0,
            dirty: false,
            queued: false,
            timeout: None,
        };
        mutation::number(number, generation.0);
        self.by_number.insert(number, generation);
        self.entries.insert(generation, entry);
        self.touch(generation);
    }

    /// Ends a lane; whatever it held is gone from memory.
    pub(super) fn remove(&mut self, generation: Generation) -> Option<Entry> {
        let entry = self.entries.remove(&generation)?;
        self.by_number.remove(&entry.number);
        if let Some(timeout) = entry.timeout {
            self.timeouts.remove(&(timeout, generation));
        }
        Some(entry)
    }

    /// The lane, whose effects and deadline will be looked at in this turn.
    pub(super) fn touch(&mut self, generation: Generation) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(&generation)?;
        if !entry.dirty {
            entry.dirty = true;
            self.dirty.push(generation);
        }
        Some(entry)
    }

    /// The lane that subscribers know by `number`, as [`Self::touch`] gives it.
    pub(super) fn touch_named(&mut self, number: u64) -> Option<&mut Entry> {
        let generation = self.by_number.get(&number).copied()?;
        self.touch(generation)
    }

    /// The lane, unchanged by what the caller does.
    pub(super) fn get(&self, generation: Generation) -> Option<&Entry> {
        self.entries.get(&generation)
    }

    pub(super) fn get_mut(&mut self, generation: Generation) -> Option<&mut Entry> {
        self.entries.get_mut(&generation)
    }

    /// All of them, in no order.
    pub(super) fn all(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn generations(&self) -> Vec<Generation> {
        self.entries.keys().copied().collect()
    }

    /// Whether a lane of this number has ever been here.
    pub(super) const fn knew(&self, number: u64) -> bool {
        self.numbers.has_given(number)
    }

    pub(super) fn all_drained(&self) -> bool {
        self.entries.values().all(|entry| entry.drained)
    }

    /// Takes a lane to look at.
    pub(super) fn pop_dirty(&mut self) -> Option<Generation> {
        let generation = self.dirty.pop()?;
        if let Some(entry) = self.entries.get_mut(&generation) {
            entry.dirty = false;
        }
        Some(generation)
    }
}
