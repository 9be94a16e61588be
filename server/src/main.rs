//! The `ackgate` command.

use std::{process::ExitCode, time::Duration};

use ackgate::cli::{self, Cli};
use clap::Parser as _;

/// Time for calls of the Kafka client that still block after the command has ended.
const LEFTOVERS: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if std::env::var_os("TOKIO_WORKER_THREADS").is_none() {
        builder.worker_threads(workers());
    }
    let runtime = match builder.enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return cli::failed(&anyhow::Error::new(error).context("no runtime")),
    };
    let code = runtime
        .block_on(cli.run())
        .unwrap_or_else(|error| cli::failed(&error));
    runtime.shutdown_timeout(LEFTOVERS);
    code
}

/// One core is left to the consumer's own thread, which does most of the work: with
/// as many workers as cores they would take turns on them instead of running on.
/// `TOKIO_WORKER_THREADS` goes over this.
fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().saturating_sub(1).max(1))
}
