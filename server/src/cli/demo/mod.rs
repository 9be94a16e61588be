//! `ackgate demo`: everything at work in one process, with nothing to install.
//!
//! A broker in memory, a gateway, and a subscriber that talks to it over a real
//! socket: it acks orders, fails some once, and rejects those that are no JSON. What
//! the summary says of positions and dead letters is read from the broker.

use std::process::ExitCode;

use anyhow::Result;

use super::output;

mod gateway;
mod ledger;
mod orders;
mod play;
mod subscriber;
mod summary;
mod view;
mod watch;
mod writer;

/// The topic with orders, and the subscription's name.
const ORDERS: &str = "orders";

/// Where rejected orders go.
const DEAD_LETTERS: &str = "orders.dead-letter";

/// Partitions of [`ORDERS`].
const PARTITIONS: u16 = 4;

/// The consumer group.
const GROUP: &str = "ackgate-demo";

/// Where the other commands look for a gateway if they are not told otherwise.
const PORT: u16 = 7654;

/// Arguments of `ackgate demo`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "The broker keeps its records in memory, inside this process: all \
    is gone at the end.\n\n\
    Exit codes: 0 every record was acked or is a dead letter, and every committed \
    position is the log end; 1 not so, or it could not start, as where the port is taken; \
    2 wrong usage; 130 interrupted with --once."
)]
pub struct Args {
    /// Ends by itself once every record is accounted for, or after a minute. Without
    /// it, orders keep coming until Ctrl-C, or until nobody reads what it says any more.
    #[arg(long)]
    once: bool,

    /// Where the gateway listens on 127.0.0.1; 0: where there is room. By default 7654,
    /// where `ackgate sub` looks, with operators at 7655; with --once where there is room.
    /// Operators are where there is room then, too.
    #[arg(long)]
    port: Option<u16>,

    /// Orders to begin with.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=20_000))]
    records: u64,

    /// Makes other orders, the same ones for the same number.
    #[arg(long, default_value_t = 7)]
    seed: u64,

    /// Prints the summary as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs `ackgate demo`.
///
/// # Errors
/// A part could not be started, or failed.
pub async fn run(args: Args) -> Result<ExitCode> {
    let ended = play::run(&args).await?;
    if args.json {
        output::line(&serde_json::to_string(&ended.summary)?)?;
    } else {
        output::line(&ended.summary.table())?;
    }
    Ok(
        match (ended.interrupted && args.once, ended.summary.complete) {
            (true, _) => ExitCode::from(130),
            (false, true) => ExitCode::SUCCESS,
            (false, false) => ExitCode::FAILURE,
        },
    )
}

#[cfg(test)]
mod tests;
