//! [`Answered`]: how many records verdicts were applied to, and how long they took.
//!
//! **Boundary**: counts for whoever watches; no decision looks at them.

use std::time::Duration;

use crate::Verdict;

/// Upper bounds of the classes of [`Times`], each included; what is longer is in one more.
pub const TIME_BOUNDS: [Duration; 17] = [
    Duration::from_micros(1_000),
    Duration::from_micros(2_500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_millis(2_500),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
    Duration::from_secs(300),
    Duration::from_secs(1_800),
];

/// How long things took, by classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// How many there are in the class of each bound, and one class above all of them.
    pub counts: [u64; TIME_BOUNDS.len() + 1],
    /// All of them together.
    pub total: Duration,
}

impl Times {
    /// `many` things took `time` each.
    pub fn note(&mut self, time: Duration, many: u64) {
        let class = TIME_BOUNDS.partition_point(|bound| *bound < time);
        if let Some(count) = self.counts.get_mut(class) {
            *count = count.saturating_add(many);
        }
        let factor = u32::try_from(many).unwrap_or(u32::MAX);
        self.total = self.total.saturating_add(time.saturating_mul(factor));
    }

    /// Adds what `other` has counted.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count = count.saturating_add(more);
        }
        self.total = self.total.saturating_add(other.total);
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts
            .iter()
            .fold(0, |sum, count| sum.saturating_add(*count))
    }
}

/// Records that verdicts were applied to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answered {
    /// With acked.
    pub acked: u64,
    /// With rejected.
    pub rejected: u64,
    /// With failed.
    pub failed: u64,
    /// With released.
    pub released: u64,
    /// From the hand-over to the transport until the verdict. A verdict that came before
    /// the notice of the hand-over took no time; late ones, whose delivery had expired,
    /// are not in it.
    pub times: Times,
}

impl Answered {
    /// `verdict` was applied to so many records, `after` their hand-over.
    pub(crate) fn note(&mut self, verdict: Verdict, records: u64, after: Option<Duration>) {
        let count = match verdict {
            Verdict::Acked => &mut self.acked,
            Verdict::Rejected => &mut self.rejected,
            Verdict::Failed { .. } => &mut self.failed,
            Verdict::Released => &mut self.released,
        };
        *count = count.saturating_add(records);
        if let Some(after) = after {
            self.times.note(after, records);
        }
    }

    /// Adds what `other` has counted.
    pub fn add(&mut self, other: &Self) {
        self.acked = self.acked.saturating_add(other.acked);
        self.rejected = self.rejected.saturating_add(other.rejected);
        self.failed = self.failed.saturating_add(other.failed);
        self.released = self.released.saturating_add(other.released);
        self.times.add(&other.times);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_class_and_what_is_longer_to_the_last() {
        let mut times = Times::default();
        times.note(Duration::from_millis(1), 2);
        times.note(Duration::from_micros(1_001), 3);
        times.note(Duration::from_secs(1_801), 1);
        assert_eq!(times.counts.first(), Some(&2));
        assert_eq!(times.counts.get(1), Some(&3));
        assert_eq!(times.counts.last(), Some(&1));
        assert_eq!(times.count(), 6);
        assert_eq!(times.total, Duration::from_micros(1_801_005_003));
    }

    #[test]
    fn bounds_ascend() {
        assert!(TIME_BOUNDS.is_sorted());
    }
}
