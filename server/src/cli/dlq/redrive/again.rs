//! [`Before`]: which dead letters have been put back already.
//!
//! It costs one reading of the retry topic, and memory for each run of dead letters that
//! follow each other: about 50 bytes a run, so a few in all where everything was put
//! back, and at most that for every second dead letter.

use std::{collections::BTreeMap, ops::ControlFlow};

use anyhow::Result;

use super::back::{self, Made};
use crate::{
    cli::dlq::reading::{Reading, Stop},
    config::Cluster,
};

/// Offsets of dead letters, by partition.
#[derive(Debug, Default)]
pub(super) struct Before {
    runs: BTreeMap<i32, Runs>,
}

/// Disjoint runs of offsets that do not touch: the first offset and the one after the
/// last.
#[derive(Debug, Default, PartialEq, Eq)]
struct Runs(BTreeMap<u64, u64>);

impl Before {
    /// Reads the retry topic. `None`: Ctrl-C came first.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn read(
        cluster: &Cluster,
        retry_topic: &str,
        dead_letter_topic: &str,
        stop: &Stop,
    ) -> Result<Option<Self>> {
        let what = "looking what is there already";
        let mut reading = Reading::new(cluster, retry_topic, what, stop)?;
        let mut before = Self::default();
        let complete = reading.all(|_, record| {
            if let Some(made) = back::made_from(&record.headers, dead_letter_topic) {
                before.add(made);
            }
            ControlFlow::Continue(())
        })?;
        Ok(complete.then_some(before))
    }

    pub(super) fn add(&mut self, made: Made) {
        self.runs
            .entry(made.partition)
            .or_default()
            .add(made.offset);
    }

    pub(super) fn has(&self, partition: i32, offset: i64) -> bool {
        let runs = self.runs.get(&partition);
        runs.zip(u64::try_from(offset).ok())
            .is_some_and(|(runs, offset)| runs.has(offset))
    }
}

impl Runs {
    fn has(&self, offset: u64) -> bool {
        let before = self.0.range(..=offset).next_back();
        before.is_some_and(|(_, end)| offset < *end)
    }

    fn add(&mut self, offset: u64) {
        if self.has(offset) {
            return;
        }
        let mut end = offset.saturating_add(1);
        if let Some(later) = self.0.remove(&end) {
            end = later;
        }
        let before = self.0.range_mut(..offset).next_back();
        match before {
            Some((_, before_end)) if *before_end == offset => *before_end = end,
            Some(_) | None => {
                self.0.insert(offset, end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_grow_together_from_any_order() {
        for order in [[1, 2, 3, 4], [4, 3, 2, 1], [1, 3, 2, 4], [2, 4, 1, 3]] {
            let mut runs = Runs::default();
            for offset in order {
                runs.add(offset);
                runs.add(offset);
                assert!(runs.has(offset));
            }
            assert_eq!(runs.0, BTreeMap::from([(1, 5)]), "{order:?}");
            assert!(!runs.has(0) && !runs.has(5));
        }
    }

    #[test]
    fn gaps_stay() {
        let mut runs = Runs::default();
        for offset in [0, 2, 9] {
            runs.add(offset);
        }
        assert_eq!(runs.0, BTreeMap::from([(0, 1), (2, 3), (9, 10)]));
        assert!(!runs.has(1));
    }
}
