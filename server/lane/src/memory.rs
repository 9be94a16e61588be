//! What a lane remembers about deliveries and records that are no longer in its
//! window, so that repeats and late verdicts get a true answer.
//!
//! **Invariant**: both memories have a bound; beyond it answers become less exact,
//! never wrong about what counts.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::{Offset, OffsetRange, Position, Subscriber, VerdictResult, slot::Outcome};

/// Ended deliveries remembered. One entry is a run; a mass expiry of a full default
/// window (2,000 records) sent in batches of two still fits.
const ENDED: usize = 1024;

/// Refused records below the floor remembered.
const REFUSED: usize = 1024;

/// Runs of filtered records below the floor remembered.
const FILTERED: usize = 1024;

/// Deliveries that ended without settling their record.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    /// Oldest first.
    entries: VecDeque<Entry>,
    /// Whether an entry has been dropped that could still matter.
    forgotten: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    range: OffsetRange,
    subscriber: Subscriber,
    delivery: u32,
    expired: bool,
}

impl Ended {
    /// Remembers that `delivery` of `range` to `subscriber` has ended.
    pub(crate) fn note(
        &mut self,
        range: OffsetRange,
        subscriber: Subscriber,
        delivery: u32,
        expired: bool,
    ) {
        if self.entries.len() >= ENDED {
            self.entries.pop_front();
            self.forgotten = true;
        }
        self.entries.push_back(Entry {
            range,
            subscriber,
            delivery,
            expired,
        });
    }

    /// Drops what can no longer be asked for: verdicts below the floor are answered
    /// from what settled the record.
    pub(crate) fn forget_below(&mut self, floor: Position) {
        while self
            .entries
            .front()
            .is_some_and(|entry| entry.range.end() <= floor)
        {
            self.entries.pop_front();
        }
    }

    /// How the newest delivery to `subscriber` ended, numbered `delivery` if that is
    /// given, and for how many offsets from the first of `range` on that holds.
    pub(crate) fn look_up(
        &self,
        range: OffsetRange,
        subscriber: Subscriber,
        delivery: Option<u32>,
    ) -> (OffsetRange, Option<VerdictResult>) {
        let first = range.first();
        let mut end = range.end();
        for entry in self.entries.iter().rev() {
            if entry.subscriber != subscriber || delivery.is_some_and(|n| n != entry.delivery) {
                continue;
            }
            if entry.range.contains(first) {
                end = end.min(entry.range.end());
                let result = if entry.expired {
                    VerdictResult::Expired
                } else {
                    VerdictResult::Stale
                };
                return (OffsetRange::new(first, end).unwrap_or(range), Some(result));
            }
            if first < entry.range.first() {
                end = end.min(entry.range.first().position());
            }
        }
        (OffsetRange::new(first, end).unwrap_or(range), None)
    }

    /// Whether entries have been dropped for lack of room.
    pub(crate) const fn has_forgotten(&self) -> bool {
        self.forgotten
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

/// Records below the floor that were not settled by an ack: refused or filtered.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    offsets: BTreeSet<u64>,
    /// Runs of filtered records: first offset to the end.
    filtered: BTreeMap<u64, u64>,
}

impl Refusals {
    /// Remembers the records of `range`, which were refused; forgets the lowest
    /// beyond the bound.
    pub(crate) fn note(&mut self, range: OffsetRange) {
        for offset in range.first().get()..range.end().get() {
            self.offsets.insert(offset);
            if self.offsets.len() > REFUSED {
                self.offsets.pop_first();
            }
        }
    }

    /// Remembers that the records of `range` were filtered, above all noted before;
    /// forgets the lowest run beyond the bound.
    pub(crate) fn note_filtered(&mut self, range: OffsetRange) {
        let (first, end) = (range.first().get(), range.end().get());
        match self.filtered.last_entry() {
            Some(mut last) if *last.get() == first => *last.get_mut() = end,
            _ => {
                self.filtered.insert(first, end);
            }
        }
        if self.filtered.len() > FILTERED {
            self.filtered.pop_first();
        }
    }

    /// How the first offset of `range`, which is below the floor, was settled, and
    /// up to where that holds.
    pub(crate) fn look_up(&self, range: OffsetRange) -> (OffsetRange, Outcome) {
        let (first, end) = (range.first().get(), range.end().get());
        let up_to = |end| OffsetRange::new(Offset::new(first), Position::new(end)).unwrap_or(range);
        let refused = self.offsets.range(first..end).next();
        if refused == Some(&first) {
            return (OffsetRange::one(range.first()), Outcome::Refused);
        }
        let end = refused.map_or(end, |&refused| refused);
        let within = self.filtered.range(..=first).next_back();
        if let Some((_, &filtered)) = within.filter(|&(_, &end)| first < end) {
            return (up_to(end.min(filtered)), Outcome::Filtered);
        }
        let filtered = self.filtered.range(first..end).next();
        (
            up_to(filtered.map_or(end, |(&first, _)| first)),
            Outcome::Acked,
        )
    }

    /// How many offsets and runs are remembered.
    pub(crate) fn len(&self) -> usize {
        self.offsets.len() + self.filtered.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Offset;

    fn range(first: u64, end: u64) -> OffsetRange {
        OffsetRange::new(Offset::new(first), Position::new(end)).expect("not empty")
    }

    #[test]
    fn the_newest_matching_delivery_answers_and_ends_at_the_next_difference() {
        let mut ended = Ended::default();
        let one = Subscriber(1);
        ended.note(range(0, 10), one, 1, true);
        ended.note(range(5, 8), one, 2, false);
        let ask = |first, delivery| ended.look_up(range(first, 20), one, delivery);
        assert_eq!(ask(0, None), (range(0, 5), Some(VerdictResult::Expired)));
        assert_eq!(ask(5, None), (range(5, 8), Some(VerdictResult::Stale)));
        assert_eq!(
            ask(5, Some(1)),
            (range(5, 10), Some(VerdictResult::Expired))
        );
        assert_eq!(ask(10, None), (range(10, 20), None));
        assert_eq!(
            ended.look_up(range(0, 20), Subscriber(2), None),
            (range(0, 20), None)
        );
    }

    #[test]
    fn memories_keep_to_their_bounds() {
        let mut ended = Ended::default();
        let mut refusals = Refusals::default();
        for offset in 0..3000 {
            ended.note(range(offset, offset + 1), Subscriber(1), 1, true);
            refusals.note(range(offset, offset + 1));
        }
        assert_eq!(ended.len(), ENDED);
        assert!(ended.has_forgotten());
        assert_eq!(refusals.len(), REFUSED);
        assert_eq!(refusals.look_up(range(2999, 3000)).1, Outcome::Refused);
        assert_eq!(refusals.look_up(range(0, 1)).1, Outcome::Acked);
        ended.forget_below(Position::new(2990));
        assert_eq!(ended.len(), 10);
    }

    #[test]
    fn filtered_runs_are_joined_bounded_and_cut_at_refusals() {
        let mut refusals = Refusals::default();
        refusals.note_filtered(range(2, 4));
        refusals.note_filtered(range(4, 7));
        refusals.note(range(7, 8));
        refusals.note_filtered(range(8, 9));
        assert_eq!(refusals.len(), 3);
        let ask = |first| refusals.look_up(range(first, 20));
        assert_eq!(ask(0), (range(0, 2), Outcome::Acked));
        assert_eq!(ask(3), (range(3, 7), Outcome::Filtered));
        assert_eq!(ask(7), (range(7, 8), Outcome::Refused));
        assert_eq!(ask(8), (range(8, 9), Outcome::Filtered));
        assert_eq!(ask(9), (range(9, 20), Outcome::Acked));
        for n in 10..5000 {
            refusals.note_filtered(range(2 * n, 2 * n + 1));
        }
        assert_eq!(refusals.len(), 1 + FILTERED);
    }

    #[test]
    fn offsets_between_refusals_count_as_acked() {
        let mut refusals = Refusals::default();
        refusals.note(range(4, 5));
        assert_eq!(refusals.look_up(range(0, 9)), (range(0, 4), Outcome::Acked));
        assert_eq!(
            refusals.look_up(range(4, 9)),
            (range(4, 5), Outcome::Refused)
        );
        assert_eq!(refusals.look_up(range(5, 9)), (range(5, 9), Outcome::Acked));
    }
}
