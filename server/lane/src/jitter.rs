//! Delays that differ between lanes and are the same for the same seed.

use std::time::Duration;

use crate::Backoff;

/// A small generator (splitmix64); good enough to spread retries, nothing else.
#[derive(Debug)]
pub(crate) struct Jitter(u64);

impl Jitter {
    /// Begins at `seed`.
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A delay of full jitter before try `n` + 1, `n` counted from 1: uniform from
    /// zero to the bound of `backoff`.
    pub(crate) fn delay(&mut self, backoff: &Backoff, n: u32) -> Duration {
        let bound = u64::try_from(backoff.bound(n).as_nanos()).unwrap_or(u64::MAX);
        let scaled = (u128::from(self.next()) * (u128::from(bound) + 1)) >> 64;
        Duration::from_nanos(u64::try_from(scaled).unwrap_or(bound))
    }

    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

impl Backoff {
    /// The upper bound of the delay after try `n`, `n` counted from 1.
    #[must_use]
    pub fn bound(&self, n: u32) -> Duration {
        let max = self.max.as_secs_f64();
        let mut seconds = self.initial.as_secs_f64();
        // Multiplied step by step, so that the result is the same on every machine;
        // the cap on steps bounds the work where the factor is 1.
        for _ in 1..n.min(1000) {
            if seconds >= max {
                break;
            }
            seconds *= self.factor;
        }
        Duration::try_from_secs_f64(seconds)
            .unwrap_or(self.max)
            .min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff {
        initial: Duration::from_millis(500),
        factor: 2.0,
        max: Duration::from_secs(2),
    };

    #[test]
    fn bounds_grow_by_the_factor_up_to_the_maximum() {
        let bounds = [1, 2, 3, 4, u32::MAX].map(|n| BACKOFF.bound(n).as_millis());
        assert_eq!(bounds, [500, 1000, 2000, 2000, 2000]);
    }

    #[test]
    fn odd_settings_give_the_maximum_and_no_panic() {
        for factor in [f64::NAN, f64::INFINITY, -1.0, f64::MAX] {
            assert!(Backoff { factor, ..BACKOFF }.bound(9) <= BACKOFF.max);
        }
        assert_eq!(
            Backoff {
                initial: Duration::MAX,
                factor: 2.0,
                max: Duration::MAX
            }
            .bound(9),
            Duration::MAX
        );
    }

    #[test]
    fn delays_stay_within_the_bound_spread_and_repeat_with_the_seed() {
        let delays = |seed| {
            let mut jitter = Jitter::new(seed);
            (0..1000)
                .map(|_| jitter.delay(&BACKOFF, 2))
                .collect::<Vec<_>>()
        };
        let one = delays(1);
        assert_eq!(one, delays(1));
        assert_ne!(one, delays(2));
        assert!(one.iter().all(|delay| *delay <= Duration::from_secs(1)));
        assert!(one.iter().any(|delay| *delay < Duration::from_millis(50)));
        assert!(one.iter().any(|delay| *delay > Duration::from_millis(950)));
    }
}
