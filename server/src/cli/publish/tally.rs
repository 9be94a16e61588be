//! What became of the records, and where they came from.
//!
//! Invariant: every record is counted once; failures are told as they come, and at most
//! [`LISTED`] are kept.

use std::{
    io::{IsTerminal as _, Write as _},
    sync::Arc,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;
use serde::Serialize;

/// Failures listed in the JSON summary; all of them are printed and counted.
const LISTED: usize = 1000;

/// Bits of a [`Place`] as a number that are for the record: more than can be read.
const RECORD_BITS: u32 = 44;

/// Where a record came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Which of the sources.
    pub(super) source: u32,
    /// Counted from 1: the line, where lines are records.
    pub(super) record: u64,
}

impl Place {
    /// As one number.
    pub(super) const fn tag(self) -> u64 {
        (self.source as u64) << RECORD_BITS | self.record
    }

    /// Back from it.
    pub(super) fn of(tag: u64) -> Self {
        Self {
            source: u32::try_from(tag >> RECORD_BITS).unwrap_or(u32::MAX),
            record: tag & ((1 << RECORD_BITS) - 1),
        }
    }
}

/// The counts, shared by who sends and who hears of it.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    state: Arc<Mutex<State>>,
    sources: Arc<[String]>,
    bar: ProgressBar,
    started: Instant,
}

#[derive(Debug, Default)]
struct State {
    written: u64,
    failed: u64,
    unknown: u64,
    bytes: u64,
    failures: Vec<Failed>,
}

/// What became of the records.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    /// Null if each record had its own.
    pub(super) topic: Option<String>,
    pub(super) written: u64,
    pub(super) failed: u64,
    /// May or may not be written.
    pub(super) unknown: u64,
    /// Of keys and values read.
    pub(super) bytes: u64,
    pub(super) seconds: f64,
    /// Stopped before the input ended.
    pub(super) interrupted: bool,
    /// What ended the writing before the input did.
    pub(super) error: Option<String>,
    /// The first thousand.
    pub(super) failures: Vec<Failed>,
}

/// A record that was not written, or of which nobody knows.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Failed {
    pub(super) source: String,
    /// Counted from 1 within the source: the line, where lines are records.
    pub(super) record: u64,
    /// Whether it may be written all the same.
    pub(super) unknown: bool,
    pub(super) error: String,
}

impl Tally {
    pub(super) fn new(sources: Vec<String>) -> Self {
        Self {
            state: Arc::default(),
            sources: sources.into(),
            bar: bar(),
            started: Instant::now(),
        }
    }

    /// A record of this many bytes was read.
    pub(super) fn read(&self, bytes: u64) {
        let mut state = self.state.lock();
        state.bytes = state.bytes.saturating_add(bytes);
    }

    /// One more was written.
    pub(super) fn written(&self) {
        let written = {
            let mut state = self.state.lock();
            state.written += 1;
            state.written
        };
        self.bar.set_position(written);
    }

    /// So many were written so far.
    pub(super) fn written_so_far(&self, count: u64) {
        self.state.lock().written = count;
        self.bar.set_position(count);
    }

    /// The record from there was not written; `unknown`: or was.
    pub(super) fn failed(&self, place: Place, unknown: bool, error: String) {
        let source = usize::try_from(place.source).ok();
        let source = source.and_then(|source| self.sources.get(source));
        let failed = Failed {
            source: source.cloned().unwrap_or_default(),
            record: place.record,
            unknown,
            error,
        };
        let Failed {
            source,
            record,
            error,
            ..
        } = &failed;
        let what = if unknown {
            "may or may not be written"
        } else {
            "not written"
        };
        let line = format!("{source}:{record}: {what}: {error}");
        // Nothing is left to tell it to if standard error is closed.
        self.bar
            .suspend(|| writeln!(std::io::stderr(), "{line}").unwrap_or_default());
        let mut state = self.state.lock();
        if unknown {
            state.unknown += 1;
        } else {
            state.failed += 1;
        }
        if state.failures.len() < LISTED {
            state.failures.push(failed);
        }
        let message = counted(", ", [(state.failed, "failed"), (state.unknown, "unknown")]);
        self.bar.set_message(message);
    }

    /// The whole truth, once nothing more happens.
    pub(super) fn finish(&self, topic: Option<&str>) -> Summary {
        self.bar.finish_and_clear();
        let state = self.state.lock();
        Summary {
            topic: topic.map(str::to_owned),
            written: state.written,
            failed: state.failed,
            unknown: state.unknown,
            bytes: state.bytes,
            seconds: self.started.elapsed().as_secs_f64(),
            interrupted: false,
            error: None,
            failures: state.failures.clone(),
        }
    }
}

impl Summary {
    /// Whether everything that there was to write was written.
    pub(super) const fn is_complete(&self) -> bool {
        self.failed == 0 && self.unknown == 0 && !self.interrupted && self.error.is_none()
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} written", self.written)?;
        if let Some(topic) = &self.topic {
            write!(f, " to {topic}")?;
        }
        write!(f, ", {} failed", self.failed)?;
        if self.unknown > 0 {
            write!(f, ", {} may or may not be written", self.unknown)?;
        }
        write!(f, ", in {:.1} s", self.seconds)?;
        if self.interrupted {
            write!(f, "; stopped before the input ended")?;
        }
        Ok(())
    }
}

fn counted<const N: usize>(before: &str, counts: [(u64, &str); N]) -> String {
    let some = counts.into_iter().filter(|(count, _)| *count > 0);
    some.map(|(count, what)| format!("{before}{count} {what}"))
        .collect()
}

fn bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {human_pos} written ({per_sec}){msg}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner());
    let bar = ProgressBar::new_spinner().with_style(style);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_comes_back_from_its_number() {
        for place in [(0, 1), (3, 1 << 40), (1 << 19, 7)] {
            let place = Place {
                source: place.0,
                record: place.1,
            };
            assert_eq!(Place::of(place.tag()), place);
        }
    }

    #[test]
    fn summary_tells_every_count_and_is_complete_only_if_all_is_written() {
        let tally = Tally::new(vec!["a".to_owned()]);
        tally.written();
        let good = tally.finish(Some("t"));
        assert!(good.is_complete());
        assert!(
            good.to_string()
                .starts_with("1 written to t, 0 failed, in ")
        );
        let place = Place {
            source: 0,
            record: 2,
        };
        tally.failed(place, true, "no answer".to_owned());
        let bad = tally.finish(None);
        assert!(!bad.is_complete());
        assert!(
            bad.to_string()
                .starts_with("1 written, 0 failed, 1 may or may not")
        );
        assert!(bad.failures[0].unknown && bad.failures[0].source == "a");
        let interrupted = Summary {
            interrupted: true,
            ..good
        };
        assert!(!interrupted.is_complete());
    }
}
