//! What the members of each snapshot have said so far, as runs of equal counts.
//!
//! **Boundary**: counts; which counts mean what is decided in `pump`.
//! **Invariant**: a record is in the tally from its fan-out until it settles or is
//! given back, and neighbours with equal counts are one run: a million records that
//! three subscribers acked in order are a handful of runs.

use std::collections::BTreeMap;

use super::Refusal;
use crate::{Offset, OffsetRange, Position};

/// The verdicts on a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Subscribers of its snapshot that have not decided yet and may still do so.
    pub owing: u32,
    /// Subscribers that have acked it.
    pub acked: u32,
    /// Subscribers that have rejected it, or at which it is exhausted.
    pub rejected: u32,
}

/// What one member has decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Acked,
    Rejected,
    /// It has gone for good: the others decide.
    Withdrawn,
}

/// Counts by run, and who refused what.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// First offset to end and counts.
    runs: BTreeMap<u64, (u64, Counts)>,
    /// The first refusal of each record that has one.
    refusals: BTreeMap<u64, Refusal>,
    /// Parts on which nobody owes a verdict any more, not taken yet.
    decided: Vec<(OffsetRange, Counts)>,
}

impl Tally {
    /// `range` has been fanned out to `owing` members.
    pub(super) fn open(&mut self, range: OffsetRange, owing: u32) {
        let counts = Counts {
            owing,
            ..Counts::default()
        };
        self.place(range.first().get(), range.end().get(), counts);
    }

    /// One member has decided on every record of `range` that is in the tally.
    pub(super) fn decide(&mut self, range: OffsetRange, decision: Decision) {
        for (first, end, before) in self.cut_out(range) {
            let mut counts = before;
            counts.owing = counts.owing.saturating_sub(1);
            match decision {
                Decision::Acked => counts.acked = counts.acked.saturating_add(1),
                Decision::Rejected => counts.rejected = counts.rejected.saturating_add(1),
                Decision::Withdrawn => {}
            }
            self.place(first, end, counts);
            if counts.owing == 0
                && let Some(part) = OffsetRange::new(Offset::new(first), Position::new(end))
            {
                self.decided.push((part, counts));
            }
        }
    }

    /// Remembers who refused the record at `offset`, if nobody did before.
    pub(super) fn note(&mut self, offset: Offset, refusal: Refusal) {
        self.refusals.entry(offset.get()).or_insert(refusal);
    }

    /// Parts on which everybody has decided, or gone, since the last call.
    pub(super) fn take_decided(&mut self) -> Vec<(OffsetRange, Counts)> {
        std::mem::take(&mut self.decided)
    }

    /// Forgets the records of `range`.
    pub(super) fn forget(&mut self, range: OffsetRange) {
        drop(self.cut_out(range));
        while let Some(offset) = self
            .refusals
            .range(range.first().get()..range.end().get())
            .next()
            .map(|(&offset, _)| offset)
        {
            self.refusals.remove(&offset);
        }
    }

    /// The counts of the record at `offset`.
    pub(super) fn counts(&self, offset: Offset) -> Option<Counts> {
        let (_, &(end, counts)) = self.runs.range(..=offset.get()).next_back()?;
        (offset.get() < end).then_some(counts)
    }

    /// Who refused the record at `offset` first.
    pub(super) fn refusal(&self, offset: Offset) -> Option<Refusal> {
        self.refusals.get(&offset.get()).copied()
    }

    /// How many things are remembered one by one.
    pub(super) fn len(&self) -> usize {
        self.runs.len() + self.refusals.len()
    }

    /// Takes the parts of runs within `range` out.
    fn cut_out(&mut self, range: OffsetRange) -> Vec<(u64, u64, Counts)> {
        let (first, end) = (range.first().get(), range.end().get());
        let mut parts = Vec::new();
        while let Some((at, run_end, counts)) = self.last_overlapping(first, end) {
            self.runs.remove(&at);
            if end < run_end {
                self.runs.insert(end, (run_end, counts));
            }
            if at < first {
                self.runs.insert(at, (first, counts));
            }
            parts.push((at.max(first), run_end.min(end), counts));
        }
        parts.reverse();
        parts
    }

    /// The highest run with an offset in `first..end`.
    fn last_overlapping(&self, first: u64, end: u64) -> Option<(u64, u64, Counts)> {
        let (&at, &(run_end, counts)) = self.runs.range(..end).next_back()?;
        (first < run_end).then_some((at, run_end, counts))
    }

    /// Puts a run where none is, joined with equal neighbours.
    fn place(&mut self, mut first: u64, mut end: u64, counts: Counts) {
        if let Some((&left, &(left_end, of_left))) = self.runs.range(..first).next_back()
            && left_end == first
            && of_left == counts
        {
            self.runs.remove(&left);
            first = left;
        }
        if let Some(&(right_end, of_right)) = self.runs.get(&end)
            && of_right == counts
        {
            self.runs.remove(&end);
            end = right_end;
        }
        self.runs.insert(first, (end, counts));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: u64, end: u64) -> OffsetRange {
        OffsetRange::new(Offset::new(first), Position::new(end)).expect("not empty")
    }

    #[test]
    fn parts_are_decided_when_nobody_owes_them_and_equal_neighbours_join() {
        let mut tally = Tally::default();
        tally.open(range(0, 10), 2);
        tally.open(range(10, 20), 2);
        assert_eq!(tally.len(), 1);
        tally.decide(range(0, 8), Decision::Acked);
        assert!(tally.take_decided().is_empty());
        tally.decide(range(4, 12), Decision::Acked);
        let both = Counts {
            owing: 0,
            acked: 2,
            rejected: 0,
        };
        assert_eq!(tally.take_decided(), [(range(4, 8), both)]);
        assert_eq!(tally.counts(Offset::new(8)).map(|c| c.owing), Some(1));
        tally.forget(range(4, 8));
        assert_eq!(tally.counts(Offset::new(5)), None);
        tally.decide(range(0, 20), Decision::Withdrawn);
        let decided = tally.take_decided();
        let ranges: Vec<OffsetRange> = decided.iter().map(|(range, _)| *range).collect();
        assert_eq!(ranges, [range(0, 4), range(8, 12)]);
        assert_eq!(tally.counts(Offset::new(15)).map(|c| c.owing), Some(1));
    }
}
