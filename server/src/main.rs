//! The `ackgate` command.

use std::{process::ExitCode, time::Duration};

use ackgate::cli::{self, Cli};
use clap::Parser as _;

/// Time for calls of the Kafka client that still block after the command has ended.
const LEFTOVERS: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return cli::failed(&anyhow::Error::new(error).context("no runtime")),
    };
    let code = runtime
        .block_on(cli.run())
        .unwrap_or_else(|error| cli::failed(&error));
    runtime.shutdown_timeout(LEFTOVERS);
    code
}
