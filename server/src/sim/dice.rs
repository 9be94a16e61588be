//! [`Dice`]: every choice of a run, from its seed.

use std::time::Duration;

/// A source of choices. Each actor has its own, so that what one does does not
/// change what the others would choose.
#[derive(Debug)]
pub(super) struct Dice(fastrand::Rng);

impl Dice {
    /// The choices of `seed`.
    pub(super) fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// Dice of an actor.
    pub(super) fn fork(&mut self) -> Self {
        Self(self.0.fork())
    }

    /// Whether something with this chance, in percent, takes place.
    pub(super) fn chance(&mut self, percent: u32) -> bool {
        self.0.u32(0..100) < percent
    }

    /// A number from `least` to `most`, both included.
    pub(super) fn between(&mut self, least: u64, most: u64) -> u64 {
        self.0.u64(least..=most.max(least))
    }

    /// A span from `least` to `most` milliseconds.
    pub(super) fn ms(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(self.between(least, most))
    }

    /// A number from `least` to `most` as a count.
    pub(super) fn count(&mut self, least: u32, most: u32) -> u32 {
        self.0.u32(least..=most.max(least))
    }

    /// One of `choices`, of which there is at least one.
    pub(super) fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.0.usize(0..choices.len())].clone()
    }

    /// An index below `weights.len()`, as likely as its weight says.
    pub(super) fn weighted(&mut self, weights: &[u32]) -> usize {
        let mut left = self.0.u32(0..weights.iter().sum::<u32>().max(1));
        for (index, weight) in weights.iter().enumerate() {
            match left.checked_sub(*weight) {
                Some(rest) => left = rest,
                None => return index,
            }
        }
        0
    }
}
