//! So many records in a second, and no more.

use std::time::Duration;

use tokio::time::{self, Instant};

/// How far a pace may fall behind and still catch up: what is lost beyond is not made
/// good. It also bounds what goes at once.
const SLACK: Duration = Duration::from_millis(100);

/// Spaces records out evenly.
#[derive(Debug)]
pub(super) struct Pace {
    every: Duration,
    next: Option<Instant>,
}

impl Pace {
    /// `rate` records a second, if there is one.
    pub(super) fn new(rate: Option<f64>) -> Self {
        let every = rate.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(1.0 / rate));
        Self { every, next: None }
    }

    /// Waits for the next record's turn. Cancel safe: the turn is not used up.
    pub(super) async fn turn(&mut self) {
        if self.every.is_zero() {
            return;
        }
        if let Some(next) = self.next {
            time::sleep_until(next).await;
        }
        let now = Instant::now();
        let earliest = now.checked_sub(SLACK).unwrap_or(now);
        self.next = Some(self.next.unwrap_or(now).max(earliest) + self.every);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn records_are_spaced_out_and_lost_time_is_not_made_good() {
        let mut pace = Pace::new(Some(10.0));
        let begun = Instant::now();
        for _ in 0..11 {
            pace.turn().await;
        }
        assert_eq!(begun.elapsed(), Duration::from_secs(1));
        time::sleep(Duration::from_secs(60)).await;
        let late = Instant::now();
        for _ in 0..11 {
            pace.turn().await;
        }
        assert!(
            late.elapsed() >= Duration::from_millis(800),
            "{:?}",
            late.elapsed()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn fast_pace_is_not_slowed_by_the_clocks_grain() {
        let mut pace = Pace::new(Some(20_000.0));
        let begun = Instant::now();
        for _ in 0..20_000 {
            pace.turn().await;
        }
        let took = begun.elapsed();
        assert!(
            took >= Duration::from_millis(890) && took <= Duration::from_millis(1_010),
            "{took:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_rate_nobody_waits() {
        let mut pace = Pace::new(None);
        let begun = Instant::now();
        for _ in 0..1_000 {
            pace.turn().await;
        }
        assert!(begun.elapsed().is_zero());
    }
}
