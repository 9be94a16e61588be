//! [`Before`]: which dead letters have been put back already.
//!
//! It costs one reading of the retry topic, and memory for each run of dead letters that
//! follow each other: about 60 bytes a run, so a few in all where everything was put
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

/// Disjoint runs of offsets that do not touch, by the first one.
#[derive(Debug, Default, PartialEq, Eq)]
struct Runs(BTreeMap<u64, Run>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    /// The offset after the last.
    end: u64,
    /// Of which record the first one was.
    of: u64,
}

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
            .add(made.offset, made.of);
    }

    pub(super) fn has(&self, partition: i32, offset: i64) -> bool {
        let run = self.run(partition, offset);
        run.is_some()
    }

    /// Whether what was put back from there was another dead letter than one of record
    /// `of`: then the dead-letter topic is not the one that it was. It is known of the
    /// first offset of each run.
    pub(super) fn contradicts(&self, partition: i32, offset: i64, of: u64) -> bool {
        let run = self.run(partition, offset);
        run.is_some_and(|(first, run)| i64::try_from(first) == Ok(offset) && run.of != of)
    }

    fn run(&self, partition: i32, offset: i64) -> Option<(u64, Run)> {
        let offset = u64::try_from(offset).ok()?;
        self.runs.get(&partition)?.with(offset)
    }
}

impl Runs {
    fn with(&self, offset: u64) -> Option<(u64, Run)> {
        let (first, run) = self.0.range(..=offset).next_back()?;
        (offset < run.end).then_some((*first, *run))
    }

    fn add(&mut self, offset: u64, of: u64) {
        if let Some((first, _)) = self.with(offset) {
            // The later one counts.
            let run = self.0.get_mut(&first).filter(|_| first == offset);
            if let Some(run) = run {
                run.of = of;
            }
            return;
        }
        let mut end = offset.saturating_add(1);
        if let Some(later) = self.0.remove(&end) {
            end = later.end;
        }
        let before = self.0.range_mut(..offset).next_back();
        match before {
            Some((_, before)) if before.end == offset => before.end = end,
            Some(_) | None => {
                self.0.insert(offset, Run { end, of });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(end: u64, of: u64) -> Run {
        Run { end, of }
    }

    #[test]
    fn runs_grow_together_from_any_order() {
        for order in [[1, 2, 3, 4], [4, 3, 2, 1], [1, 3, 2, 4], [2, 4, 1, 3]] {
            let mut runs = Runs::default();
            for offset in order {
                runs.add(offset, offset);
                runs.add(offset, offset);
                assert!(runs.with(offset).is_some());
            }
            assert_eq!(runs.0, BTreeMap::from([(1, run(5, 1))]), "{order:?}");
            assert_eq!((runs.with(0), runs.with(5)), (None, None));
        }
    }

    #[test]
    fn gaps_stay() {
        let mut runs = Runs::default();
        for offset in [0, 2, 9] {
            runs.add(offset, 7);
        }
        let each = [(0, run(1, 7)), (2, run(3, 7)), (9, run(10, 7))];
        assert_eq!(runs.0, BTreeMap::from(each));
        assert_eq!(runs.with(1), None);
    }

    #[test]
    fn other_dead_letters_in_the_place_of_those_that_were_put_back_are_noticed() {
        let mut before = Before::default();
        for (offset, of) in [(0, 10), (1, 11), (5, 15)] {
            before.add(Made {
                partition: 3,
                offset,
                of,
            });
        }
        assert!(!before.contradicts(3, 0, 10) && before.has(3, 0));
        assert!(before.contradicts(3, 0, 99) && before.contradicts(3, 5, 99));
        assert!(
            !before.contradicts(3, 2, 99),
            "nothing was put back from there"
        );
        assert!(!before.contradicts(4, 0, 99));
    }
}
