//! [`Pace`]: not more than so many records a second.

use std::{
    str::FromStr,
    time::{Duration, Instant},
};

/// Records a second, above 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rate(f64);

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_suffix("/s").unwrap_or(text).trim();
        let rate = number.parse::<f64>().ok();
        rate.filter(|rate| (0.001..=1e9).contains(rate))
            .map(Self)
            .ok_or_else(|| {
                "expected records a second, 0.001 to 1,000,000,000, as 100 or 100/s".to_owned()
            })
    }
}

/// When the next record is due.
#[derive(Debug)]
pub(super) struct Pace {
    interval: Duration,
    next: Option<Instant>,
}

impl Pace {
    pub(super) fn new(rate: Option<Rate>) -> Self {
        let interval = rate.map(|Rate(rate)| Duration::from_secs_f64(1.0 / rate));
        Self {
            interval: interval.unwrap_or_default(),
            next: None,
        }
    }

    /// How long the next record has to wait; zero: it may go now, and counts as gone.
    /// What was not used is not saved up.
    pub(super) fn take(&mut self, now: Instant) -> Duration {
        let due = self.next.unwrap_or(now);
        if due > now {
            return due - now;
        }
        let on_time = now.saturating_duration_since(due) < Duration::from_secs(1);
        let from = if on_time { due } else { now };
        self.next = from.checked_add(self.interval);
        Duration::ZERO
    }
}
