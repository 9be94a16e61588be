//! The table of what happens by itself and when, one entry per run that has a time.
//!
//! **Invariant**: an entry exists exactly while its run is in the window, so the
//! table is never larger than the window and never wakes anyone for nothing.

use std::collections::BTreeSet;

use crate::Time;

/// Ack deadlines, not-before times and dead-letter retries, soonest first.
///
/// Which of the three an entry means follows from the state of the run it names.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    /// Time, then the first offset of the run.
    entries: BTreeSet<(Time, u64)>,
}

impl Deadlines {
    /// Adds the run that begins at `first`.
    pub(crate) fn add(&mut self, time: Time, first: u64) {
        self.entries.insert((time, first));
    }

    /// Removes the run that begins at `first`.
    pub(crate) fn remove(&mut self, time: Time, first: u64) {
        self.entries.remove(&(time, first));
    }

    /// The soonest time.
    pub(crate) fn soonest(&self) -> Option<Time> {
        self.entries.first().map(|&(time, _)| time)
    }

    /// The run whose time has come at `now`, soonest first, lowest first.
    pub(crate) fn due(&self, now: Time) -> Option<u64> {
        self.entries
            .first()
            .filter(|&&(time, _)| time <= now)
            .map(|&(_, first)| first)
    }

    /// How many runs have a time.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_soonest_entry_is_due_first_and_not_before_its_time() {
        let at = |ms| Time(Duration::from_millis(ms));
        let mut table = Deadlines::default();
        table.add(at(20), 1);
        table.add(at(10), 9);
        assert_eq!(table.soonest(), Some(at(10)));
        assert_eq!(table.due(at(9)), None);
        assert_eq!(table.due(at(10)), Some(9));
        table.remove(at(10), 9);
        assert_eq!(table.due(at(10)), None);
        assert_eq!(table.due(at(20)), Some(1));
    }
}
