//! What surrounds a lane: a log, a group's committed position, subscribers with
//! credit. Carries out effects and checks by itself, from what it has seen alone,
//! that none breaks a rule.

use std::collections::{BTreeMap, BTreeSet};

use ackgate_lane::{AckMap, Effect, Lane, OffsetRange, Return};

use crate::reference::Did;

/// A commit asked for.
#[derive(Clone, Debug)]
pub(crate) struct Commit {
    pub(crate) serial: u64,
    pub(crate) position: u64,
    pub(crate) map: Option<Vec<u8>>,
    /// Exactly once: the dead letters that go with it.
    pub(crate) letters: BTreeSet<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct World {
    /// Offsets that exist.
    pub(crate) log: BTreeSet<u64>,
    /// The end of the log.
    pub(crate) end: u64,
    /// The next offset the consumer reads.
    pub(crate) position: u64,
    /// What Kafka has committed.
    pub(crate) committed: u64,
    /// Commits asked for and not answered.
    pub(crate) commits: Vec<Commit>,
    /// The map that Kafka has.
    pub(crate) map: Option<Vec<u8>>,
    /// What that map said was settled when this generation began.
    restored: BTreeSet<u64>,
    /// Dead letters asked for and not answered.
    pub(crate) letters: BTreeSet<u64>,
    /// Records whose dead letters this generation has asked for.
    asked: BTreeSet<u64>,
    /// The breaker is open.
    pub(crate) tripped: bool,
    /// Exactly once: dead letters that Kafka has.
    pub(crate) stored: BTreeSet<u64>,
    /// A seek asked for and not answered.
    pub(crate) seek: Option<u64>,
    /// Who has which record: one unit of credit each.
    pub(crate) out: BTreeMap<u64, u64>,
    /// Records answered for by an applied ack, a stored dead letter, a drop, or
    /// their disappearance; in any generation.
    pub(crate) answered: BTreeSet<u64>,
    /// Passed to this generation of the lane.
    received: BTreeSet<u64>,
    /// Settled in this generation.
    settled: BTreeSet<u64>,
    /// The lane has said that it is done.
    pub(crate) drained: bool,
}

/// The key of the record at `offset`: a few keys, one of them hot, and records without.
pub(crate) const fn key_of(offset: u64) -> Option<u64> {
    match offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61 {
        0 => None,
        1 | 2 => Some(1),
        3 => Some(2),
        4 => Some(3),
        _ => Some(100 + offset / 4),
    }
}

impl World {
    /// Adds records to the end of the log; every bit of `gaps` that is set leaves one out.
    pub(crate) fn append(&mut self, count: u64, gaps: u8) {
        for n in 0..count {
            if gaps >> (n % 8) & 1 == 0 {
                self.log.insert(self.end);
            }
            self.end += 1;
        }
    }

    /// Up to `count` records from the position on, as runs.
    pub(crate) fn fetch(&mut self, count: u64) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        let count = usize::try_from(count).expect("small");
        for &offset in self.log.range(self.position..).take(count) {
            self.received.insert(offset);
            match runs.last_mut() {
                Some((_, end)) if *end == offset => *end += 1,
                _ => runs.push((offset, offset + 1)),
            }
        }
        if let Some((_, end)) = runs.last() {
            self.position = *end;
        }
        runs
    }

    pub(crate) fn vanish(&mut self, offset: u64) {
        self.log.remove(&offset);
    }

    /// L8: takes credit for each record.
    pub(crate) fn hand_over(&mut self, subscriber: u64, offsets: (u64, u64), by_key: bool) {
        assert!(!self.tripped, "handed out behind an open breaker");
        for offset in offsets.0..offsets.1 {
            let key = key_of(offset).filter(|_| by_key);
            let mut earlier = self.received.range(..offset);
            let is_settled = |o: &u64| self.settled.contains(o) || self.restored.contains(o);
            let blocked = earlier.find(|o| key.is_some() && key_of(**o) == key && !is_settled(o));
            assert_eq!(blocked, None, "L9: {offset} is out before it");
            let before = self.out.insert(offset, subscriber);
            assert_eq!(before, None, "L10: {offset} handed out while it is out");
            assert!(
                !self.restored.contains(&offset),
                "settled {offset} handed out"
            );
        }
    }

    /// Carries out `effect`; the parts of it, offset by offset.
    pub(crate) fn carry_out(&mut self, effect: Effect, lane: &Lane) -> Vec<Did> {
        assert!(!self.drained, "an effect after the end: {effect:?}");
        let each = |range: OffsetRange| range.first().get()..range.end().get();
        match effect {
            Effect::Commit { position, serial } => {
                let letters = lane.commit_letters(serial);
                let commit = Commit {
                    serial,
                    position: position.get(),
                    map: lane.commit_map(serial).map(<[u8]>::to_vec),
                    letters: letters.iter().map(|letter| letter.offset.get()).collect(),
                };
                let rides = letters.iter().map(|letter| {
                    let offset = letter.offset.get();
                    Did::Rides(offset, letter.cause, letter.attempts, letter.deliveries)
                });
                let mut did: Vec<Did> = rides.collect();
                did.push(self.commit(commit));
                did
            }
            Effect::MapRefused { .. } => Vec::new(),
            Effect::Seek { to } => {
                assert_eq!(self.seek.replace(to.get()), None, "two seeks at once");
                assert!(self.out.is_empty(), "L10: a seek with records out");
                vec![Did::Seek(to.get())]
            }
            Effect::DeadLetter {
                offset,
                cause,
                attempts,
                deliveries,
            } => {
                let offset = offset.get();
                self.letter(offset);
                vec![Did::Letter(offset, cause, attempts, deliveries)]
            }
            Effect::Returned {
                subscriber,
                range,
                why,
            } => each(range)
                .map(|offset| self.returned(offset, subscriber.0, why))
                .collect(),
            Effect::Settled { range } => each(range).map(|offset| self.settled(offset)).collect(),
            Effect::Skipped { range } => each(range).map(Did::Skipped).collect(),
            Effect::Lost { range } => each(range).map(|offset| self.lost(offset)).collect(),
            Effect::Dropped { offset, cause } => {
                self.answered.insert(offset.get());
                vec![Did::Dropped(offset.get(), cause)]
            }
            Effect::Parked { offset, cause, .. } => vec![Did::Parked(offset.get(), cause)],
            Effect::Discarded { offset, cause, .. } => {
                self.answered.insert(offset.get());
                vec![Did::Discarded(offset.get(), cause)]
            }
            Effect::Tripped { .. } => {
                self.tripped = true;
                vec![Did::Tripped]
            }
            Effect::CutOff { .. } | Effect::Withdrawn { .. } => {
                panic!("only a broadcast knows members")
            }
            Effect::Drained => {
                assert!(
                    self.out.is_empty(),
                    "L8: credit is still taken after the end"
                );
                self.drained = true;
                vec![Did::Drained]
            }
        }
    }

    /// A dead letter of `offset` is asked for.
    fn letter(&mut self, offset: u64) {
        assert!(
            self.letters.insert(offset),
            "two dead letters of {offset} at once"
        );
        assert!(
            !self.settled.contains(&offset),
            "a dead letter of settled {offset}"
        );
        assert!(
            !self.asked.insert(offset) || !self.tripped,
            "a new dead letter of {offset} behind an open breaker"
        );
    }

    fn commit(&mut self, commit: Commit) -> Did {
        let Commit {
            position,
            map,
            letters,
            ..
        } = &commit;
        let position = *position;
        let again: Vec<_> = letters.intersection(&self.stored).collect();
        assert!(again.is_empty(), "dead letters of {again:?} a second time");
        let awaited = self.commits.iter().any(|other| !other.letters.is_empty());
        assert!(!awaited, "a commit beside letters of which nobody knows");
        let is_answered = |offset: &u64| self.answered.contains(offset) || letters.contains(offset);
        let below = self
            .log
            .range(..position)
            .chain(self.received.range(..position));
        let missing: Vec<_> = below.filter(|offset| !is_answered(offset)).collect();
        assert!(
            missing.is_empty(),
            "L2: commit of {position} passes {missing:?}"
        );
        match map {
            None => assert!(position > self.committed, "L1: commit of {position}"),
            Some(bytes) => {
                assert!(position >= self.committed, "L1: commit of {position}");
                let settled = settled(bytes, position);
                let untrue = settled.iter().find(|offset| !is_answered(offset));
                assert_eq!(untrue, None, "L2: the map says more than is true");
            }
        }
        self.commits.push(commit);
        Did::Commit(position)
    }

    fn returned(&mut self, offset: u64, subscriber: u64, why: Return) -> Did {
        let holder = self.out.remove(&offset);
        assert_eq!(
            holder,
            Some(subscriber),
            "L8: credit of {offset} freed ({why:?})"
        );
        Did::Returned(offset, subscriber, why)
    }

    fn settled(&mut self, offset: u64) -> Did {
        assert!(self.settled.insert(offset), "L5: {offset} settled twice");
        assert!(
            self.answered.contains(&offset),
            "L3, L6: {offset} settled unanswered"
        );
        Did::Settled(offset)
    }

    fn lost(&mut self, offset: u64) -> Did {
        assert!(!self.log.contains(&offset), "L7: {offset} is there");
        self.answered.insert(offset);
        Did::Lost(offset)
    }

    /// Kafka takes a commit and the dead letters that go with it: it has a letter if
    /// and only if what it has committed says that the record is settled.
    pub(crate) fn done(&mut self, commit: Commit) {
        self.committed = commit.position;
        self.map = commit.map;
        self.answered.extend(&commit.letters);
        self.stored.extend(&commit.letters);
        let map = self.map.as_ref();
        let settled = map.map_or_else(BTreeSet::new, |bytes| settled(bytes, self.committed));
        let is_told = |offset: &u64| *offset < self.committed || settled.contains(offset);
        let untold: Vec<_> = self.stored.iter().filter(|o| !is_told(o)).collect();
        assert!(untold.is_empty(), "dead letters of unsettled {untold:?}");
    }

    /// The lane goes and comes again: only the committed position and map are left.
    /// Commits under way have been taken, or `none` of them.
    pub(crate) fn reassign(&mut self, none: bool) {
        if none {
            self.commits.clear();
        }
        for commit in std::mem::take(&mut self.commits) {
            assert!(self.committed <= commit.position, "L1");
            self.done(commit);
        }
        let map = self.map.as_ref();
        self.restored = map.map_or_else(BTreeSet::new, |bytes| settled(bytes, self.committed));
        self.letters.clear();
        self.asked.clear();
        self.tripped = false;
        self.seek = None;
        self.settled.clear();
        self.drained = false;
        self.position = self.committed;
        self.received.clear();
    }
}

/// The offsets that a map says are settled.
fn settled(bytes: &[u8], position: u64) -> BTreeSet<u64> {
    let map = AckMap::decode(bytes).expect("a sound map");
    assert_eq!(
        map.floor.get(),
        position,
        "the map belongs to another position"
    );
    map.settled
        .iter()
        .flat_map(|range| range.first().get()..range.end().get())
        .collect()
}
