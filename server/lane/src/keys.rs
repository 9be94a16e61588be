//! The keys of unsettled records: who comes after whom, with whom a key stays, and how
//! many records of one key are beyond its share of the window.
//!
//! **Boundary**: knows offsets, keys and subscribers; the lane turns what follows into
//! states.
//! **Invariant**: holds exactly the keyed records that are not settled, so it is never
//! larger than the window, and a key is forgotten with its last record.

use std::collections::{BTreeMap, VecDeque};

use crate::{OffsetRange, Subscriber};

/// Keys by number. Empty unless records come in with keys.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    /// Key of each unsettled record that has one.
    of: BTreeMap<u64, u64>,
    by_key: BTreeMap<u64, Key>,
    /// How many keys stay with each subscriber.
    owned: BTreeMap<Subscriber, u64>,
    /// Records of one key that count against the window.
    share: u64,
    /// Records beyond their key's share.
    beyond: u64,
    /// Records that have become the first of their key and were not looked at since.
    unblocked: VecDeque<u64>,
}

/// The unsettled records of one key.
#[derive(Debug)]
struct Key {
    /// The one whose turn it is.
    first: u64,
    /// Those behind it, in order. Most keys have none.
    rest: VecDeque<u64>,
    /// Who got a record of it and keeps it until all are settled or it gives it up.
    owner: Option<Subscriber>,
}

impl Key {
    fn len(&self) -> u64 {
        self.rest.len() as u64 + 1
    }
}

impl Keys {
    /// None yet; of one key `share` records, 1 or more, count against the window.
    pub(crate) fn new(share: u64) -> Self {
        Self {
            share,
            ..Self::default()
        }
    }

    /// Whether no unsettled record has a key.
    pub(crate) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Records beyond their key's share: they do not count against the window.
    pub(crate) const fn beyond(&self) -> u64 {
        self.beyond
    }

    /// How many things are remembered one by one.
    pub(crate) fn len(&self) -> usize {
        self.of.len()
    }

    /// A record has come in; whether it is the key's first. In a share of a broadcast it
    /// may come late, from below others of its key: it waits for the one whose turn it
    /// is, and comes before those behind that one.
    pub(crate) fn add(&mut self, offset: u64, key: u64) -> bool {
        if self.of.insert(offset, key).is_some() {
            return false;
        }
        match self.by_key.get_mut(&key) {
            None => {
                let alone = Key {
                    first: offset,
                    rest: VecDeque::new(),
                    owner: None,
                };
                self.by_key.insert(key, alone);
                true
            }
            Some(of) => {
                let at = of.rest.partition_point(|behind| *behind < offset);
                of.rest.insert(at, offset);
                self.beyond += u64::from(of.len() > self.share);
                false
            }
        }
    }

    /// The records of `range` are settled.
    pub(crate) fn settled(&mut self, range: OffsetRange) {
        while let Some((&offset, &key)) =
            self.of.range(range.first().get()..range.end().get()).next()
        {
            self.of.remove(&offset);
            let Some(of) = self.by_key.get_mut(&key) else {
                continue;
            };
            let is_beyond = of.len() > self.share;
            if of.first != offset {
                if let Ok(at) = of.rest.binary_search(&offset) {
                    of.rest.remove(at);
                }
            } else if let Some(next) = of.rest.pop_front() {
                of.first = next;
                self.unblocked.push_back(next);
            } else {
                let owner = of.owner;
                self.by_key.remove(&key);
                self.disown(owner);
            }
            self.beyond = self.beyond.saturating_sub(u64::from(is_beyond));
        }
    }

    /// The next record that has become the first of its key.
    pub(crate) fn next_unblocked(&mut self) -> Option<u64> {
        self.unblocked.pop_front()
    }

    /// Whom the key of the record at `offset` stays with.
    pub(crate) fn owner(&self, offset: u64) -> Option<Subscriber> {
        self.by_key.get(self.of.get(&offset)?)?.owner
    }

    /// The keys of `range` stay with `owner` from now on, or with nobody.
    pub(crate) fn give(&mut self, range: OffsetRange, owner: Option<Subscriber>) {
        for key in self
            .of
            .range(range.first().get()..range.end().get())
            .map(|(_, key)| key)
        {
            let Some(of) = self.by_key.get_mut(key) else {
                continue;
            };
            if of.owner == owner {
                continue;
            }
            let before = std::mem::replace(&mut of.owner, owner);
            change(&mut self.owned, before, owner);
        }
    }

    /// `subscriber` gives up its keys; the first record of each.
    pub(crate) fn give_up(&mut self, subscriber: Subscriber) -> Vec<u64> {
        if self.owned.remove(&subscriber).is_none() {
            return Vec::new();
        }
        let its = |key: &&mut Key| key.owner == Some(subscriber);
        let keys = self.by_key.values_mut().filter(its);
        keys.map(|key| {
            key.owner = None;
            key.first
        })
        .collect()
    }

    /// Each key's records in order, and its owner.
    pub(crate) fn each(&self) -> impl Iterator<Item = (Vec<u64>, Option<Subscriber>)> {
        self.by_key.values().map(|key| {
            let mut offsets = vec![key.first];
            offsets.extend(&key.rest);
            (offsets, key.owner)
        })
    }

    /// What is wrong with the index itself, if anything.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let mut owned = BTreeMap::new();
        let (mut records, mut beyond) = (0, 0);
        for (number, key) in &self.by_key {
            records += key.len();
            beyond += key.len().saturating_sub(self.share);
            change(&mut owned, None, key.owner);
            let is_its_own = |offset: &u64| self.of.get(offset) == Some(number);
            let in_order = key.rest.iter().is_sorted_by(|one, next| one < next);
            if !in_order || !is_its_own(&key.first) || !key.rest.iter().all(is_its_own) {
                return Some("a key's records are out of order or not its own");
            }
        }
        if records != self.of.len() as u64 || beyond != self.beyond || owned != self.owned {
            return Some("counts of keys differ from the keys");
        }
        None
    }

    fn disown(&mut self, owner: Option<Subscriber>) {
        change(&mut self.owned, owner, None);
    }
}

/// One key fewer of `before`, one more of `after`.
fn change(
    owned: &mut BTreeMap<Subscriber, u64>,
    before: Option<Subscriber>,
    after: Option<Subscriber>,
) {
    if let Some(before) = before
        && let Some(count) = owned.get_mut(&before)
    {
        *count = count.saturating_sub(1);
        if *count == 0 {
            owned.remove(&before);
        }
    }
    if let Some(after) = after {
        *owned.entry(after).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Offset, Position};

    const A: Subscriber = Subscriber(1);

    fn range(first: u64, end: u64) -> OffsetRange {
        OffsetRange::new(Offset::new(first), Position::new(end)).expect("not empty")
    }

    #[test]
    fn a_key_is_forgotten_with_its_last_record() {
        let mut keys = Keys::new(10);
        assert!(keys.add(0, 7));
        assert!(!keys.add(1, 7));
        assert!(keys.add(2, 8));
        keys.give(range(0, 1), Some(A));
        keys.settled(range(0, 1));
        assert_eq!(keys.next_unblocked(), Some(1));
        assert_eq!(keys.owner(1), Some(A), "it stays while records are left");
        keys.settled(range(0, 3));
        assert_eq!(keys.next_unblocked(), None);
        assert!(keys.is_empty() && keys.by_key.is_empty() && keys.owned.is_empty());
        assert_eq!(keys.fault(), None);
    }

    #[test]
    fn only_records_beyond_the_share_of_their_key_are_counted() {
        let mut keys = Keys::new(2);
        for offset in 0..5 {
            keys.add(offset, 7);
        }
        keys.add(5, 8);
        assert_eq!(keys.beyond(), 3);
        // From the middle, as when its content is refused at once.
        keys.settled(range(3, 4));
        assert_eq!((keys.beyond(), keys.next_unblocked()), (2, None));
        keys.settled(range(0, 2));
        assert_eq!(keys.beyond(), 0);
        assert_eq!(keys.fault(), None);
    }
}
