//! [`Flood`]: of lines that come from outside the gateway's own code, as librdkafka's do, so
//! many of a kind are passed on in half a minute; the others are counted, and the count is
//! told.
//!
//! Invariant: at most [`KINDS`] kinds are remembered; what comes beyond shares one.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// How long lines of a kind are counted together.
const WINDOW: Duration = Duration::from_secs(30);

/// Kinds that are remembered.
const KINDS: usize = 64;

/// What becomes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// It is told, and so many before it were not.
    Told { left_out: u64 },
    /// It is counted only.
    LeftOut,
}

/// Counts lines by kind.
#[derive(Debug)]
pub(crate) struct Flood<K> {
    windows: BTreeMap<K, Window>,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    since: Instant,
    told: u32,
    left_out: u64,
}

impl<K: Ord + Clone> Flood<K> {
    /// Nothing has come yet.
    pub(crate) const fn new() -> Self {
        Self {
            windows: BTreeMap::new(),
        }
    }

    /// One more line of `kind`, of which `most` are told in a window. Where there are too
    /// many kinds it counts for `other`.
    pub(crate) fn take(&mut self, kind: K, other: K, most: u32, now: Instant) -> Line {
        if self.windows.len() >= KINDS && !self.windows.contains_key(&kind) {
            self.windows
                .retain(|_, window| window.left_out > 0 || !window.is_over(now));
        }
        let is_known = self.windows.len() < KINDS || self.windows.contains_key(&kind);
        let kind = if is_known { kind } else { other };
        let window = self.windows.entry(kind).or_insert_with(|| Window::new(now));
        let mut left_out = 0;
        if window.is_over(now) {
            left_out = window.left_out;
            *window = Window::new(now);
        }
        if window.told < most {
            window.told += 1;
            Line::Told { left_out }
        } else {
            window.left_out += 1;
            Line::LeftOut
        }
    }

    /// What was left out in windows that are over and has not been told.
    pub(crate) fn left_out(&mut self, now: Instant) -> Vec<(K, u64)> {
        let mut found = Vec::new();
        self.windows.retain(|kind, window| {
            if !window.is_over(now) {
                return true;
            }
            if window.left_out > 0 {
                found.push((kind.clone(), window.left_out));
            }
            false
        });
        found
    }
}

impl Window {
    const fn new(since: Instant) -> Self {
        Self {
            since,
            told: 0,
            left_out: 0,
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= WINDOW
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLD: Line = Line::Told { left_out: 0 };

    #[test]
    fn so_many_of_a_kind_are_told_and_the_others_counted() {
        let begin = Instant::now();
        let mut flood = Flood::new();
        let lines: Vec<Line> = (0..5).map(|_| flood.take("a", "", 3, begin)).collect();
        assert_eq!(lines, [TOLD, TOLD, TOLD, Line::LeftOut, Line::LeftOut]);
        assert_eq!(flood.take("b", "", 3, begin), TOLD, "another kind");
        assert!(flood.left_out(begin + WINDOW / 2).is_empty());
        let told = flood.take("a", "", 3, begin + WINDOW);
        assert_eq!(told, Line::Told { left_out: 2 });
    }

    #[test]
    fn what_was_left_out_is_told_once_also_if_nothing_follows() {
        let begin = Instant::now();
        let mut flood = Flood::new();
        for _ in 0..9 {
            flood.take("a", "", 1, begin);
        }
        assert_eq!(flood.left_out(begin + WINDOW), [("a", 8)]);
        assert!(flood.left_out(begin + 2 * WINDOW).is_empty());
        assert_eq!(flood.take("a", "", 1, begin + 2 * WINDOW), TOLD);
    }

    #[test]
    fn kinds_are_bounded_whatever_comes() {
        let begin = Instant::now();
        let mut flood = Flood::new();
        for kind in 1..10_000 {
            flood.take(kind, 0, 1, begin);
        }
        assert!(flood.windows.len() <= KINDS + 1, "{}", flood.windows.len());
        assert_eq!(flood.take(99_999, 0, 1, begin), Line::LeftOut);
        // Those that are over make room.
        assert_eq!(flood.take(100_000, 0, 1, begin + WINDOW), TOLD);
        assert!(flood.windows.len() <= KINDS + 1, "{}", flood.windows.len());
    }
}
