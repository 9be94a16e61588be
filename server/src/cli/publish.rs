//! `ackgate pub`: writes lines or files to a topic, each with a report of its own.

use std::{
    io::{IsTerminal as _, Write as _},
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::RecvTimeoutError,
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::{
    output,
    target::{self, Target},
};
use crate::broker::{
    Error, ErrorKind,
    kafka::bulk::{Acks, Bulk, Count, Record},
};

mod input;

use input::{Handover, Item, Shape, Source};

/// Failures listed in the JSON summary; all of them are printed and counted.
const LISTED: usize = 1000;

/// Time for the cluster's first answer.
const CONNECT: Duration = Duration::from_secs(15);

/// How long input is waited for before delivery reports are looked at again.
const IDLE: Duration = Duration::from_millis(50);

/// Arguments of `ackgate pub`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 every record was written; 1 at least one was not.")]
pub struct Args {
    #[command(flatten)]
    target: Target,

    /// The topic to write to.
    topic: String,

    /// Files to read, one record per line without its newline; `-` or none: standard
    /// input.
    files: Vec<PathBuf>,

    /// Takes each file whole as one record.
    #[arg(long, conflicts_with_all = ["key_separator"])]
    file_per_record: bool,

    /// Takes what comes before the first SEPARATOR of a line as the record's key;
    /// `\t` is a tab. A line without it is not written.
    #[arg(long, short = 'K', value_name = "SEPARATOR", value_parser = separator)]
    key_separator: Option<String>,

    /// The key of every record.
    #[arg(long, short = 'k', conflicts_with = "key_separator")]
    key: Option<String>,

    /// Writes to this partition only.
    #[arg(long, short = 'p', value_parser = clap::value_parser!(i32).range(0..))]
    partition: Option<i32>,

    /// A header for every record. May be repeated.
    #[arg(long = "header", short = 'H', value_name = "NAME=VALUE", value_parser = target::pair)]
    headers: Vec<(String, String)>,

    /// Which brokers must have a record before it counts as written.
    #[arg(long, value_enum, default_value_t)]
    acks: AcksArg,

    /// Prints the summary as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum AcksArg {
    /// All in-sync replicas; a retry never writes twice.
    #[default]
    All,
    /// The partition's leader alone.
    Leader,
}

/// What became of the records.
#[derive(Debug, Serialize)]
struct Summary {
    topic: String,
    written: u64,
    failed: u64,
    /// Of keys and values read.
    bytes: u64,
    seconds: f64,
    /// Ended by Ctrl-C before the input did.
    interrupted: bool,
    /// The first thousand.
    failures: Vec<Failed>,
}

#[derive(Debug, Serialize)]
struct Failed {
    source: String,
    /// Counted from 1 within the source: the line, where lines are records.
    record: u64,
    error: String,
}

/// Runs `ackgate pub`.
///
/// # Errors
/// The arguments do not fit together, an input cannot be opened, or the topic
/// cannot be written to at all. Records that fail one by one are in the exit code.
pub async fn run(args: Args) -> Result<ExitCode> {
    let stop = Arc::new(AtomicBool::new(false));
    let interrupt = Arc::clone(&stop);
    let watch = tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            interrupt.store(true, Ordering::Relaxed);
        }
    });
    let json = args.json;
    let summary = tokio::task::spawn_blocking(move || publish(&args, &stop)).await?;
    watch.abort();
    let summary = summary?;
    if json {
        output::line(&serde_json::to_string(&summary)?)?;
    } else {
        let Summary {
            topic,
            written,
            failed,
            seconds,
            interrupted,
            ..
        } = &summary;
        let how = if *interrupted {
            "; interrupted before the input ended"
        } else {
            ""
        };
        output::line(&format!(
            "{written} written to {topic}, {failed} failed, in {seconds:.1} s{how}"
        ))?;
    }
    let complete = summary.failed == 0 && !summary.interrupted;
    Ok(if complete {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn publish(args: &Args, stop: &AtomicBool) -> Result<Summary> {
    let Some(cluster) = args.target.cluster()? else {
        bail!("no cluster: give --bootstrap HOST:PORT or --cluster kafka://HOST:PORT");
    };
    let sources = Source::all(&args.files)?;
    let acks = match args.acks {
        AcksArg::All => Acks::All,
        AcksArg::Leader => Acks::Leader,
    };
    let bulk = Bulk::new(&cluster, acks)?;
    let partitions = bulk.partitions(&args.topic, CONNECT).with_context(|| {
        format!(
            "asking {} about {}",
            cluster.bootstrap.join(","),
            args.topic
        )
    })?;
    if let Some(partition) = args
        .partition
        .filter(|p| i64::from(*p) >= i64::from(partitions))
    {
        bail!(
            "{} has {partitions} partitions, counted from 0: none is {partition}",
            args.topic
        );
    }
    let shape = Shape {
        whole: args.file_per_record,
        key_separator: args.key_separator.clone().map(String::into_bytes),
    };
    let read = input::read(sources, shape)?;
    let mut publisher = Publisher::new(bulk, args);
    while !stop.load(Ordering::Relaxed) {
        match read.recv_timeout(IDLE) {
            Ok(handover) => publisher.take(handover),
            Err(RecvTimeoutError::Timeout) => publisher.bulk.serve(Duration::ZERO),
            Err(RecvTimeoutError::Disconnected) => return Ok(publisher.finish(false)),
        }
        publisher.report();
    }
    Ok(publisher.finish(true))
}

/// The writing of one run.
struct Publisher<'a> {
    bulk: Bulk,
    args: &'a Args,
    headers: Vec<(String, Vec<u8>)>,
    /// First record number of each source, so that a failure can be traced without
    /// anything being kept per record.
    sources: Vec<(u64, String)>,
    bytes: u64,
    failures: Vec<Failed>,
    bar: ProgressBar,
    started: Instant,
}

impl<'a> Publisher<'a> {
    fn new(bulk: Bulk, args: &'a Args) -> Self {
        let headers = args.headers.iter();
        Self {
            bulk,
            args,
            headers: headers
                .map(|(name, value)| (name.clone(), value.clone().into()))
                .collect(),
            sources: Vec::new(),
            bytes: 0,
            failures: Vec::new(),
            bar: bar(),
            started: Instant::now(),
        }
    }

    fn take(&mut self, handover: Handover) {
        match handover {
            Handover::From(source) => self.sources.push((self.bulk.count().sent, source)),
            Handover::Items(items) => items.iter().for_each(|item| self.send(item)),
        }
    }

    fn send(&mut self, item: &Item) {
        match item {
            Item::Record { key, value } => {
                let key = key
                    .as_deref()
                    .or_else(|| self.args.key.as_deref().map(str::as_bytes));
                let length = value.len() + key.map_or(0, <[u8]>::len);
                self.bytes = self
                    .bytes
                    .saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
                self.bulk.send(&Record {
                    topic: &self.args.topic,
                    partition: self.args.partition,
                    key,
                    value: Some(value),
                    headers: &self.headers,
                });
            }
            Item::Bad(why) => {
                self.bulk.skip(Error {
                    kind: ErrorKind::Operator,
                    detail: why.clone(),
                });
            }
        }
    }

    /// Shows what has happened since the last call.
    fn report(&mut self) {
        for failure in self.bulk.take_failures() {
            let failed = self.trace(failure.number, failure.error.detail);
            let Failed {
                source,
                record,
                error,
            } = &failed;
            let line = format!("{source}:{record}: not written: {error}");
            // Nothing is left to tell it to if standard error is closed.
            self.bar
                .suspend(|| writeln!(std::io::stderr(), "{line}").unwrap_or_default());
            if self.failures.len() < LISTED {
                self.failures.push(failed);
            }
        }
        show(&self.bar, self.bulk.count());
    }

    fn trace(&self, number: u64, error: String) -> Failed {
        let source = self
            .sources
            .iter()
            .rev()
            .find(|(first, _)| *first <= number);
        let (first, name) = source.map_or((0, ""), |(first, name)| (*first, name.as_str()));
        Failed {
            source: name.to_owned(),
            record: number - first + 1,
            error,
        }
    }

    fn finish(mut self, interrupted: bool) -> Summary {
        let bar = self.bar.clone();
        let count = self.bulk.finish(|count| show(&bar, count));
        self.report();
        self.bar.finish_and_clear();
        Summary {
            topic: self.args.topic.clone(),
            written: count.written,
            failed: count.failed,
            bytes: self.bytes,
            seconds: self.started.elapsed().as_secs_f64(),
            interrupted,
            failures: self.failures,
        }
    }
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

fn show(bar: &ProgressBar, count: Count) {
    bar.set_position(count.written);
    if count.failed > 0 {
        bar.set_message(format!(", {} failed", count.failed));
    }
}

fn separator(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("a separator has at least one character".to_owned());
    }
    Ok(text.replace("\\t", "\t"))
}

#[cfg(test)]
mod tests;
