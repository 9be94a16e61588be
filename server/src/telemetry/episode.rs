//! [`Episode`]: a condition that repeats is told when it begins, then at most every 30 s
//! with its count, and once when it is over.

use std::time::{Duration, Instant};

/// Silence between two tellings of one episode.
const SUMMARY_EVERY: Duration = Duration::from_secs(30);

/// A point in time, of whatever clock an episode runs by.
pub(crate) trait Moment: Copy {
    /// How long ago `earlier` was; nothing if it is later.
    fn after(self, earlier: Self) -> Duration;
}

impl Moment for Instant {
    fn after(self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

impl Moment for ackgate_lane::Time {
    fn after(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

/// One repeating condition.
#[derive(Debug)]
pub(crate) struct Episode<T = Instant> {
    told: Option<T>,
    count: u64,
}

impl<T> Episode<T> {
    /// Nothing has happened yet.
    pub(crate) const fn new() -> Self {
        Self {
            told: None,
            count: 0,
        }
    }

    /// Ends the episode; returns its count if there was one.
    pub(crate) fn over(&mut self) -> Option<u64> {
        self.told.take().map(|_| std::mem::take(&mut self.count))
    }
}

impl<T: Moment> Episode<T> {
    /// Counts one more; returns the count if it is time to tell.
    pub(crate) fn again(&mut self, now: T) -> Option<u64> {
        self.count += 1;
        let due = self
            .told
            .is_none_or(|told| now.after(told) >= SUMMARY_EVERY);
        due.then(|| {
            self.told = Some(now);
            self.count
        })
    }
}

impl<T> Default for Episode<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use ackgate_lane::Time;

    use super::*;

    fn at(seconds: u64) -> Time {
        Time(Duration::from_secs(seconds))
    }

    #[test]
    fn the_first_is_told_then_a_sum_every_half_minute_then_the_end() {
        let mut episode = Episode::new();
        assert_eq!(episode.over(), None);
        assert_eq!(episode.again(at(100)), Some(1));
        for second in 101..130 {
            assert_eq!(episode.again(at(second)), None);
        }
        assert_eq!(episode.again(at(130)), Some(31));
        assert_eq!(episode.again(at(131)), None);
        assert_eq!(episode.over(), Some(32));
        assert_eq!(episode.over(), None);
        assert_eq!(episode.again(at(132)), Some(1), "another one");
    }
}
