//! The lane once more, offset by offset and as plainly as possible: no runs, no
//! indexes, no bounded memories. Its backoffs are zero, as the property's policy says.

mod atomic;
mod broken;
mod fates;
mod finish;
mod inputs;
mod verdicts;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use ackgate_lane::{AckMap, Cause, Counters, Order, Policy, Return, Time};

use crate::world::key_of;

/// One effect on one offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Did {
    Returned(u64, u64, Return),
    Settled(u64),
    Letter(u64, Cause, u32, u32),
    Dropped(u64, Cause),
    Parked(u64, Cause),
    Discarded(u64, Cause),
    Tripped,
    Lost(u64),
    Skipped(u64),
    Seek(u64),
    Commit(u64),
    /// Its dead letter goes with the commit that is asked for.
    Rides(u64, Cause, u32, u32),
    Drained,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Is {
    Ready,
    /// An earlier record of its key is not settled.
    Behind,
    /// Subscriber, time for a verdict, hand-over to the transport, deadline.
    Out(u64, Duration, Option<Time>, Option<Time>),
    Delayed(Time),
    Unread,
    Acked(u64),
    Refused(Cause, Option<u64>),
    /// Retry time, unless the answer is awaited.
    Letter(Cause, Option<Time>),
    Held(Cause),
    Settled(Outcome),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Acked,
    Refused,
    Filtered,
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
    /// Failed writes of its dead letter.
    tries: u32,
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

/// An ack map, offset by offset.
type Map = BTreeMap<u64, Option<[u32; 4]>>;

#[derive(Debug)]
pub(crate) struct Reference {
    policy: Policy,
    pub(crate) records: BTreeMap<u64, Record>,
    pub(crate) next: u64,
    origin: Option<u64>,
    /// Whom each key stays with.
    keepers: BTreeMap<u64, u64>,
    rewind: Rewind,
    failure: Option<(u64, Time)>,
    life: Life,
    base: u64,
    asked: Option<u64>,
    settlements: u64,
    any: bool,
    due: Option<Time>,
    commit_failed: bool,
    /// Whether maps are written.
    maps: bool,
    /// The map may differ from the one last asked for.
    changed: bool,
    base_map: Option<Map>,
    asked_map: Option<Map>,
    /// What was given up (or else acked) since the breaker was last closed.
    decided: Vec<bool>,
    is_open: bool,
    /// Exactly once: the dead letters that go with commits.
    letters: atomic::Letters,
    did: Vec<Did>,
}

impl Reference {
    pub(crate) fn new(policy: Policy, position: u64, maps: bool, map: Option<&AckMap>) -> Self {
        let mut reference = Self {
            policy,
            records: BTreeMap::new(),
            next: position,
            origin: None,
            keepers: BTreeMap::new(),
            rewind: Rewind::None,
            failure: None,
            life: Life::Active,
            base: position,
            asked: None,
            settlements: 0,
            any: false,
            due: None,
            commit_failed: false,
            maps,
            changed: false,
            base_map: None,
            asked_map: None,
            decided: Vec::new(),
            is_open: false,
            letters: atomic::Letters::default(),
            did: Vec::new(),
        };
        if let Some(map) = map {
            reference.restore(map);
        }
        reference
    }

    fn restore(&mut self, map: &AckMap) {
        let record = |is, counters: Option<&Counters>| Record {
            is,
            attempts: counters.map_or(0, |counters| counters.attempts),
            deliveries: counters.map_or(0, |counters| counters.deliveries),
            lost: counters.map_or(0, |counters| counters.lost),
            voided: counters.map_or(0, |counters| counters.voided),
            late: None,
            tries: 0,
            over: Vec::new(),
        };
        for counters in &map.counters {
            for offset in counters.range.first().get()..counters.range.end().get() {
                self.records
                    .insert(offset, record(Is::Unread, Some(counters)));
            }
        }
        for range in &map.settled {
            for offset in range.first().get()..range.end().get() {
                self.records
                    .insert(offset, record(Is::Settled(Outcome::Acked), None));
            }
        }
        self.base_map = Some(self.map(&[]));
    }

    /// What the map would say if `letters` were settled, offset by offset: `None` is
    /// settled.
    fn map(&self, letters: &[u64]) -> Map {
        let numbers = |offset: u64, record: &Record| match record.is {
            Is::Settled(_) => Some(None),
            _ if letters.contains(&offset) => Some(None),
            _ if record.deliveries + record.attempts == 0 => None,
            _ => Some(Some([
                record.attempts,
                record.deliveries,
                record.lost,
                record.voided,
            ])),
        };
        self.records
            .range(self.floor_beyond(letters)..)
            .filter_map(|(&offset, record)| Some((offset, numbers(offset, record)?)))
            .collect()
    }

    /// What has been done since the last call.
    pub(crate) fn did(&mut self) -> Vec<Did> {
        std::mem::take(&mut self.did)
    }

    pub(crate) fn floor(&self) -> u64 {
        self.floor_beyond(&[])
    }

    /// The floor if `letters` were settled.
    fn floor_beyond(&self, letters: &[u64]) -> u64 {
        let lowest = self.records.iter().find(|(offset, record)| {
            !matches!(record.is, Is::Settled(_)) && !letters.contains(offset)
        });
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
        if self.life != Life::Active || self.is_stopped() {
            return None;
        }
        let lane_order = self.is_lane_order();
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
        self.all_ready()
            .next()
            .map(|(offset, attempt, delivery, alone, keeper)| {
                (offset, attempt, delivery, alone, owner.or(keeper))
            })
    }

    /// The same of what `subscriber` may take.
    pub(crate) fn ready_for(&self, subscriber: u64) -> Option<(u64, u32, u32, bool, Option<u64>)> {
        let may = |owner: Option<u64>| owner.is_none_or(|owner| owner == subscriber);
        if self.is_lane_order() || self.life != Life::Active || self.is_stopped() {
            return self.ready().filter(|ready| may(ready.4));
        }
        self.all_ready().find(|ready| may(ready.4))
    }

    fn all_ready(&self) -> impl Iterator<Item = (u64, u32, u32, bool, Option<u64>)> {
        self.records
            .iter()
            .filter(|(_, record)| record.is == Is::Ready)
            .map(|(&offset, record)| {
                (
                    offset,
                    record.attempts + 1,
                    record.deliveries + 1,
                    record.lost >= 3,
                    self.key(offset)
                        .and_then(|key| self.keepers.get(&key).copied()),
                )
            })
    }

    fn is_lane_order(&self) -> bool {
        matches!(self.policy.order, Order::Lane { .. })
    }

    /// The record's key, where keys matter.
    fn key(&self, offset: u64) -> Option<u64> {
        match self.policy.order {
            Order::Key { .. } => key_of(offset),
            Order::None | Order::Lane { .. } => None,
        }
    }

    /// The unsettled records of `key`, in order.
    fn of_key(&self, key: u64) -> Vec<u64> {
        let unsettled = self.records.iter().filter(|(offset, record)| {
            self.key(**offset) == Some(key) && !matches!(record.is, Is::Settled(_))
        });
        unsettled.map(|(&offset, _)| offset).collect()
    }

    pub(crate) fn room(&self) -> u64 {
        if self.life != Life::Active || self.rewind != Rewind::None {
            return 0;
        }
        let held = self.count(|is| !matches!(is, Is::Settled(_) | Is::Unread));
        let records = u64::from(self.policy.window.records).saturating_sub(held - self.beyond());
        records.min((self.floor() + self.policy.window.span).saturating_sub(self.next))
    }

    /// Records beyond their key's share.
    fn beyond(&self) -> u64 {
        let Order::Key { share } = self.policy.order else {
            return 0;
        };
        let share = u64::from(self.policy.window.records) * u64::from(share) / 1000;
        let keys: BTreeSet<u64> = self
            .records
            .keys()
            .filter_map(|&offset| self.key(offset))
            .collect();
        keys.into_iter()
            .map(|key| (self.of_key(key).len() as u64).saturating_sub(share.max(1)))
            .sum()
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
    matches!(is, Is::Refused(..) | Is::Letter(..) | Is::Held(_))
}
