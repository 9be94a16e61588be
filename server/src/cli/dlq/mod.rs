//! `ackgate dlq`: what is in a dead-letter topic, and putting it back.
//!
//! **Boundary**: speaks to Kafka by itself, not to a gateway. It reads by assignment, so
//! no group is joined or made and nothing is committed, and only up to where the topic
//! ended when it began; only `redrive` writes, and only into a retry topic.

use std::process::ExitCode;

use anyhow::Result;

mod letter;
mod list;
mod place;
mod print;
mod reading;
mod redrive;
mod select;
mod show;
mod summary;
#[cfg(test)]
mod tests;
mod time;

/// Arguments of `ackgate dlq`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "These commands speak to Kafka itself, with the address and the properties (TLS \
    among them) of the configuration or of --bootstrap, --cluster and --property; no gateway is \
    called.\n\nExit codes: 0 done, 1 failed, 2 wrong usage or configuration, 130 interrupted."
)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

/// What to do with dead letters.
#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List dead letters, or count them by what they were given up for.
    List(list::Args),
    /// Show one dead letter whole.
    Show(show::Args),
    /// Put dead letters back, into the subscription's retry topic.
    Redrive(redrive::Args),
}

/// Runs `ackgate dlq`.
///
/// # Errors
/// The arguments or the configuration are wrong, or the topic cannot be read or written.
pub async fn run(args: Args) -> Result<ExitCode> {
    match args.command {
        Command::List(args) => list::run(args).await,
        Command::Show(args) => show::run(args).await,
        Command::Redrive(args) => redrive::run(args).await,
    }
}
