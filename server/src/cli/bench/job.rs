//! What the processes of a benchmark tell each other: a job in a file that only
//! this user can read, and one line of JSON for each event on standard output.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

/// Between two signs of progress.
const PROGRESS: Duration = Duration::from_millis(200);

/// What a party is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Job {
    /// A configuration with one subscription: the direct consumer reads its topic in
    /// its group, the gateway serves it.
    pub(super) config: PathBuf,
    /// The gateway's address.
    pub(super) address: String,
    pub(super) records: u64,
    pub(super) credit: u32,
    pub(super) deadline: Duration,
}

/// What a party tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Event {
    /// It has come so far; the first one is the first record.
    Progress {
        /// Records so far.
        records: u64,
    },
    /// It is done.
    Done(Measured),
}

/// What a party has measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) records: u64,
    /// Bytes of keys and values.
    pub(super) bytes: u64,
    /// From the first record until the last one was answered.
    pub(super) seconds: f64,
    /// From the first record until Kafka had the commit of the log ends, if this
    /// party can tell.
    pub(super) committed_seconds: Option<f64>,
    /// Used by the party's process since its start, if this system can tell.
    pub(super) cpu_seconds: Option<f64>,
}

impl Job {
    /// # Errors
    /// The file cannot be read or is no job.
    pub(super) fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        Ok(serde_json::from_slice(&text)?)
    }
}

/// Tells progress, but not too often.
#[derive(Debug, Default)]
pub(super) struct Teller {
    last: Option<(Instant, u64)>,
}

impl Teller {
    /// Tells the first record at once and later ones now and then.
    ///
    /// # Errors
    /// Nobody listens any more.
    pub(super) fn progress(&mut self, records: u64) -> Result<()> {
        let now = Instant::now();
        let due = match self.last {
            None => records > 0,
            Some((at, told)) => records > told && now >= at + PROGRESS,
        };
        if due {
            self.last = Some((now, records));
            tell(&Event::Progress { records })?;
        }
        Ok(())
    }
}

/// Tells one event.
///
/// # Errors
/// Nobody listens any more.
pub(super) fn tell(event: &Event) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(event)?)?;
    Ok(out.flush()?)
}
