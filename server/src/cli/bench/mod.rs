//! `ackgate bench`: how fast records come through the gateway, against an ordinary
//! consumer on the same topic in the same run.
//!
//! Each of the three that take part (consumer, gateway, subscriber) is a process of
//! its own, so that none lends another its CPU caches, allocator or threads; the
//! first and the last are this command again, with a hidden role. What counts is
//! the time from the first record to the last one answered, and a run counts only
//! if the committed positions then reach the log ends.
//!
//! With `--telemetry` the parties are gateways that tell more and less of themselves.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context as _, Result, bail};
use tokio::signal::unix::{SignalKind, signal};

use super::{bounds, output, target::Target};

mod child;
mod cost;
mod cpu;
mod job;
mod plan;
mod progress;
mod report;
mod role;
mod run;
mod telemetry;

use job::Job;
use plan::Plan;

/// Arguments of `ackgate bench`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "It calls no gateway that runs already: it starts one of its own, on loopback and \
    without TLS, which reads from the cluster that is named here.\n\n\
    Without a cluster, a broker in memory inside this process is \
    used: it keeps 5 MiB per partition, so there are fewer records, and it takes CPU \
    time from all parties.\n\n\
    The topics it writes have names of their own and are deleted at the end.\n\n\
    With --telemetry three gateways take turns. `off`: telemetry.traces.sample and \
    telemetry.traces.keep are 0, and there is no admin address. `default`: default settings \
    and an admin address, whose /metrics is read once a second. `sample 0.01`: the same with \
    telemetry.traces.sample = 0.01. A ratio is the rate over that of `off` in the same turn. \
    Runs should take some seconds; choose --records so.\n\n\
    Exit codes: 0 all runs were measured; 1 something went wrong; 2 wrong usage; \
    130 or 143 interrupted."
)]
pub struct Args {
    #[command(flatten)]
    target: Target,

    /// Records to write and read.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    records: u64,

    /// Bytes of each record's value.
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=900_000))]
    size: u32,

    /// Partitions of the topic.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1000))]
    partitions: u16,

    /// Runs of each party, in turn; medians are shown.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,

    /// Records that may be out to the subscriber at a time.
    #[arg(long, default_value_t = 8_192,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    credit: u32,

    /// Measures what telemetry costs, in place of the gateway against a consumer.
    #[arg(long)]
    telemetry: bool,

    /// Time for each run, 1 s to 1 day.
    #[arg(long, value_name = "DURATION", default_value = "5m",
        value_parser = bounds::duration(Duration::from_secs(1), bounds::DAY))]
    deadline: Duration,

    /// Prints one JSON object.
    #[arg(long)]
    json: bool,

    /// What this process is in another one's run.
    #[arg(long, hide = true, requires = "job")]
    role: Option<role::Role>,

    /// What to do in that role.
    #[arg(long, hide = true)]
    job: Option<PathBuf>,
}

/// Runs `ackgate bench`.
///
/// # Errors
/// A party failed, or the commits did not reach the log ends.
pub async fn run(args: Args) -> Result<ExitCode> {
    if let (Some(role), Some(job)) = (args.role, &args.job) {
        role.play(Job::load(job)?).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let plan = Plan::new(&args)?;
    // Before there is anything to clear up: no signal may leave it behind.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let stage = run::Stage::set(plan).await?;
    // Whatever happens, children end and topics go.
    let outcome = tokio::select! {
        outcome = stage.measure() => Ok(outcome),
        _ = interrupt.recv() => Err(130),
        _ = terminate.recv() => Err(143),
    };
    let cleaned = stage.clear().await;
    let report = match outcome {
        Ok(outcome) => outcome?,
        Err(code) => return Ok(ExitCode::from(code)),
    };
    cleaned.context("the topics of this run could not be deleted")?;
    if args.json {
        output::line(&serde_json::to_string(&report)?)?;
    } else {
        output::line(&report.table())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// This program, to be started again.
fn program() -> Result<PathBuf> {
    let program = std::env::current_exe().context("this program cannot find itself")?;
    if !program.exists() {
        bail!(
            "{} has been replaced or removed while it runs",
            program.display()
        );
    }
    Ok(program)
}

#[cfg(test)]
mod tests;
