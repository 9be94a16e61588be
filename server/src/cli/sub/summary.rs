//! What `ackgate sub` says at its end, on standard error.

#![allow(
    clippy::print_stderr,
    reason = "the summary of a command goes to standard error"
)]

use ackgate_client::Stats;
use serde::Serialize;

/// Counts of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Summary {
    /// Records printed, or counted with `--quiet`.
    records: u64,
    /// Of their keys and values.
    bytes: u64,
    acked: u64,
    rejected: u64,
    failed: u64,
    released: u64,
    /// Verdicts that came too late for their session.
    stale: u64,
    /// Verdicts that the gateway said changed nothing.
    problems: u64,
    reconnects: u64,
    /// From the first batch to the last.
    seconds: f64,
    /// `None`: there was one batch at most, which has no rate.
    records_per_s: Option<f64>,
}

impl Summary {
    #[allow(clippy::cast_precision_loss, reason = "a rate for people")]
    pub(super) fn new(records: u64, bytes: u64, seconds: f64, stats: &Stats) -> Self {
        Self {
            records,
            bytes,
            acked: stats.acked,
            rejected: stats.rejected,
            failed: stats.failed,
            released: stats.released,
            stale: stats.stale_answers,
            problems: stats.problems.iter().sum(),
            reconnects: stats.reconnects,
            seconds,
            records_per_s: (seconds > 0.0).then(|| records as f64 / seconds),
        }
    }

    /// Prints it as a line of text or of JSON.
    pub(super) fn print(&self, json: bool) {
        match (json, serde_json::to_string(self)) {
            (true, Ok(line)) => eprintln!("{line}"),
            (true, Err(_)) | (false, _) => eprintln!("{self}"),
        }
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            records,
            acked,
            seconds,
            records_per_s,
            ..
        } = self;
        let noun = if *records == 1 { "record" } else { "records" };
        write!(f, "{records} {noun} in {seconds:.1} s")?;
        if let Some(rate) = records_per_s {
            write!(f, " ({rate:.0}/s)")?;
        }
        write!(f, ": {acked} acked")?;
        let others = [
            (self.rejected, "rejected"),
            (self.failed, "failed"),
            (self.released, "released"),
            (self.stale, "too late"),
            (self.problems, "without effect"),
            (self.reconnects, "reconnects"),
        ];
        for (count, name) in others.into_iter().filter(|(count, _)| *count > 0) {
            write!(f, ", {count} {name}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_is_short_when_all_went_well() {
        let summary = Summary::new(100, 1_000, 2.0, &Stats::default());
        assert_eq!(summary.to_string(), "100 records in 2.0 s (50/s): 0 acked");
    }

    #[test]
    fn one_batch_has_no_rate() {
        let summary = Summary::new(1, 10, 0.0, &Stats::default());
        assert_eq!(summary.to_string(), "1 record in 0.0 s: 0 acked");
        let json = serde_json::to_value(&summary).unwrap();
        assert!(json["records_per_s"].is_null());
    }
}
