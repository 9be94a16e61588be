//! `ackgate serve`: configuration, log and signals around a running gateway.

use std::{future::Future, path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
};
use tracing::{info, warn};

use crate::{
    Gateway,
    config::{self, Config},
    fail,
    telemetry::{logs, panics, troubles},
};

/// Arguments of `ackgate serve`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "SIGTERM or SIGINT stops gracefully: subscribers are told to drain, what was \
                  answered is committed, the groups are left. A second signal stops at once, with \
                  exit code 143 or 130.\n\nExit codes: 0 stopped gracefully, 1 failed, 2 wrong \
                  usage or configuration."
)]
pub struct Args {
    /// The configuration file.
    #[arg(long, value_name = "FILE", env = "ACKGATE_CONFIG")]
    config: PathBuf,
}

/// Runs the gateway until it is told to stop.
///
/// # Errors
/// The configuration is wrong, or the gateway could not be built or run.
pub async fn run(args: Args) -> Result<ExitCode> {
    let config = config::load(&args.config, config::environment())?;
    logs::init(&config.log)?;
    panics::to_log();
    let is_json = config.log.json;
    info!(version = env!("CARGO_PKG_VERSION"), config = %args.config.display(), "starting");
    fail::arm();
    for (part, settings) in config.effective() {
        info!(part, settings, "effective configuration");
    }
    // Before anything is built: a signal during the start must not be lost.
    let stop = stop().context("signals cannot be received")?;
    match serve(config, stop).await {
        Ok(()) => Ok(ExitCode::SUCCESS),
        // Every line of such a log is an object, the last one too.
        Err(error) if is_json => {
            tracing::error!(error = format!("{error:#}"), "the gateway cannot run");
            Ok(ExitCode::FAILURE)
        }
        Err(error) => Err(error),
    }
}

/// Builds the gateway and runs it until `stop` resolves.
async fn serve(config: Config, stop: impl Future<Output = ()>) -> Result<()> {
    let gateway = Box::pin(Gateway::build(config)).await?;
    let run = Box::pin(gateway.run(stop));
    tokio::select! {
        ended = run => Ok(ended?),
        never = troubles::watch() => match never {},
    }
}

/// Resolves at the first signal to stop; the second ends the process.
fn stop() -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (first, told) = oneshot::channel();
    tokio::spawn(async move {
        let (name, _) = next(&mut terminate, &mut interrupt).await;
        info!(signal = name, "stopping; a second signal stops at once");
        if first.send(()).is_err() {
            // The gateway has ended by itself.
            return;
        }
        let (name, code) = next(&mut terminate, &mut interrupt).await;
        warn!(signal = name, "stopping at once");
        std::process::exit(code);
    });
    Ok(async move {
        // A task that is gone cannot tell any more; the gateway then runs on until
        // the process is ended from outside.
        if told.await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}

/// The next signal's name and the exit code that a shell would give it.
async fn next(terminate: &mut Signal, interrupt: &mut Signal) -> (&'static str, i32) {
    tokio::select! {
        _ = terminate.recv() => ("SIGTERM", 128 + 15),
        _ = interrupt.recv() => ("SIGINT", 128 + 2),
    }
}
