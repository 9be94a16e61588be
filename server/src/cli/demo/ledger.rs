//! What the demo's subscriber has answered, each record counted once however often
//! it comes.

use std::collections::{BTreeMap, BTreeSet};

/// Verdicts so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Records acked.
    pub(super) acked: u64,
    /// Records rejected.
    pub(super) rejected: u64,
    /// Failed verdicts given.
    pub(super) failed: u64,
    /// Records that came again after they had been acked or rejected.
    pub(super) repeated: u64,
}

/// The answers of one subscriber. Memory does not grow with the number of records:
/// what lies below the first unanswered offset is one number.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    partitions: BTreeMap<i32, Answered>,
    counts: Counts,
}

/// Offsets of a partition that are answered for good. The topic is new, so they
/// begin at 0.
#[derive(Debug, Default)]
struct Answered {
    /// All below are answered.
    below: i64,
    above: BTreeSet<i64>,
}

impl Ledger {
    pub(super) fn acked(&mut self, partition: i32, offset: i64) {
        if self.first_answer(partition, offset) {
            self.counts.acked += 1;
        }
    }

    pub(super) fn rejected(&mut self, partition: i32, offset: i64) {
        if self.first_answer(partition, offset) {
            self.counts.rejected += 1;
        }
    }

    pub(super) const fn failed(&mut self) {
        self.counts.failed += 1;
    }

    pub(super) const fn counts(&self) -> Counts {
        self.counts
    }

    fn first_answer(&mut self, partition: i32, offset: i64) -> bool {
        let answered = self.partitions.entry(partition).or_default();
        if offset < answered.below || !answered.above.insert(offset) {
            self.counts.repeated += 1;
            return false;
        }
        while answered.above.remove(&answered.below) {
            answered.below += 1;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_is_counted_once_whatever_comes_again() {
        let mut ledger = Ledger::default();
        for offset in [2, 0, 1, 2, 0] {
            ledger.acked(0, offset);
        }
        ledger.rejected(0, 1);
        ledger.rejected(1, 0);
        ledger.failed();
        let expected = Counts {
            acked: 3,
            rejected: 1,
            failed: 1,
            repeated: 3,
        };
        assert_eq!(ledger.counts(), expected);
    }

    #[test]
    fn memory_is_one_number_once_there_are_no_gaps() {
        let mut ledger = Ledger::default();
        for offset in (0..1_000).rev() {
            ledger.acked(0, offset);
        }
        assert!(ledger.partitions[&0].above.is_empty());
        assert_eq!(ledger.partitions[&0].below, 1_000);
    }
}
