//! [`Episode`]: a condition that repeats is told when it begins, then at most
//! every 30 s with its count, and once when it is over.

use std::time::Duration;

use ackgate_lane::Time;

/// Silence between two tellings of one episode.
const SUMMARY_EVERY: Duration = Duration::from_secs(30);

/// One repeating condition.
#[derive(Debug, Default)]
pub(super) struct Episode {
    told: Option<Time>,
    count: u64,
}

impl Episode {
    /// Counts one more; returns the count if it is time to tell.
    pub(super) fn again(&mut self, now: Time) -> Option<u64> {
        self.count += 1;
        let due = self
            .told
            .is_none_or(|told| now.since(told) >= SUMMARY_EVERY);
        due.then(|| {
            self.told = Some(now);
            self.count
        })
    }

    /// Ends the episode; returns its count if there was one.
    pub(super) fn over(&mut self) -> Option<u64> {
        self.told.take().map(|_| std::mem::take(&mut self.count))
    }
}
