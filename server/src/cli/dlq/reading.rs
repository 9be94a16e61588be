//! Goes through a topic on a thread that may wait, with progress for people and an end
//! at Ctrl-C.

use std::{
    io::IsTerminal as _,
    ops::ControlFlow,
    process::exit,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ackgate_proto::v1;
use anyhow::Result;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use tokio::task::JoinHandle;

use crate::{
    broker::{
        Error, ErrorKind,
        kafka::{
            Probe,
            scan::{Log, Scan},
        },
    },
    cli::output,
    config::Cluster,
};

/// Time for the cluster's first answers.
pub(super) const CONNECT: Duration = Duration::from_secs(20);

/// As shells tell it.
pub(super) const INTERRUPTED: u8 = 130;

/// Whether somebody wants the command to end.
#[derive(Clone, Debug, Default)]
pub(super) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(super) fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Listens for Ctrl-C; a second one ends the process at once.
    fn listen(&self) -> JoinHandle<()> {
        let asked = Arc::clone(&self.0);
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_err() {
                return;
            }
            asked.store(true, Ordering::Relaxed);
            if tokio::signal::ctrl_c().await.is_ok() {
                output::complain("interrupted twice: ended at once");
                exit(INTERRUPTED.into());
            }
        })
    }
}

/// Runs `work` where it may block, until its end or until Ctrl-C asks it to end.
///
/// # Errors
/// Those of the work.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce(Stop) -> Result<T> + Send + 'static,
) -> Result<T> {
    let stop = Stop::default();
    let listening = stop.listen();
    let done = tokio::task::spawn_blocking(move || work(stop)).await;
    listening.abort();
    done?
}

/// Goes through one topic.
pub(super) struct Reading<'a> {
    scan: Scan,
    stop: &'a Stop,
    bar: ProgressBar,
    /// Offsets of the partitions that have been read.
    passed: u64,
}

impl<'a> Reading<'a> {
    /// Looks where the topic ends. `what` is said in front of the progress.
    ///
    /// # Errors
    /// There is no such topic, or the cluster does not answer in time.
    pub(super) fn new(
        cluster: &Cluster,
        topic: &str,
        what: &str,
        stop: &'a Stop,
    ) -> Result<Self, Error> {
        let scan =
            Scan::new(cluster, topic, CONNECT).map_err(|error| in_words(error, cluster, topic))?;
        let bar = bar(scan.span(), what);
        Ok(Self {
            scan,
            stop,
            bar,
            passed: 0,
        })
    }

    /// The partitions, in order.
    pub(super) fn logs(&self) -> Vec<Log> {
        self.scan.logs().to_vec()
    }

    /// The progress shown to people.
    pub(super) fn bar(&self) -> &ProgressBar {
        &self.bar
    }

    /// Gives the records of one partition to `each`, in order; `None` when nothing has
    /// come for a moment. Whether its end was reached.
    ///
    /// # Errors
    /// The partition cannot be read.
    pub(super) fn read(
        &mut self,
        log: Log,
        mut each: impl FnMut(Option<v1::Record>) -> ControlFlow<()>,
    ) -> Result<bool, Error> {
        let (bar, passed) = (&self.bar, self.passed);
        let complete = self.scan.read(log, |record| {
            if self.stop.is_asked() {
                return ControlFlow::Break(());
            }
            if let Some(record) = &record {
                bar.set_position(passed + distance(log.start, record.offset + 1));
            }
            each(record)
        })?;
        if complete {
            self.passed += distance(log.start, log.end);
            self.bar.set_position(self.passed);
        }
        Ok(complete)
    }

    /// Gives every record with its partition to `each`, partition after partition.
    /// Whether the ends of all were reached.
    ///
    /// # Errors
    /// A partition cannot be read.
    pub(super) fn all(
        &mut self,
        mut each: impl FnMut(i32, v1::Record) -> ControlFlow<()>,
    ) -> Result<bool, Error> {
        for log in self.logs() {
            let complete = self.read(log, |record| match record {
                Some(record) => each(log.partition, record),
                None => ControlFlow::Continue(()),
            })?;
            if !complete {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Says so where the topic does not exist: Kafka has a code for it, people have words.
fn in_words(error: Error, cluster: &Cluster, topic: &str) -> Error {
    // A cluster that did not answer would not answer this either.
    let is_refused = error.kind == ErrorKind::Operator;
    let found = || Probe::new(cluster, CONNECT)?.topic(topic);
    if !(is_refused && matches!(found(), Ok(None))) {
        return error;
    }
    Error {
        detail: format!("topic {topic} does not exist"),
        ..error
    }
}

/// In whole records.
fn rate(state: &ProgressState, out: &mut dyn std::fmt::Write) {
    write!(out, "{:.0}/s", state.per_sec()).unwrap_or_default();
}

fn distance(from: i64, to: i64) -> u64 {
    u64::try_from(to.saturating_sub(from)).unwrap_or(0)
}

fn bar(length: u64, what: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let template = "{prefix} [{bar:28}] {percent}% {human_pos}/{human_len} ({rate}, {eta}){msg}";
    let style = ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .with_key("rate", rate)
        .progress_chars("=> ");
    let bar = ProgressBar::new(length)
        .with_style(style)
        .with_prefix(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
