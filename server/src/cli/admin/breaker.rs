//! `ackgate breaker reset`: lets lanes go on that stopped because too many records
//! were given up.

use std::process::ExitCode;

use ackgate_proto::v1::ResetBreakersRequest;
use anyhow::Result;

use super::{
    connect::{Place, refused},
    shown::print,
};

/// Arguments of `ackgate breaker`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = super::EXIT_CODES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Command {
    /// Close the open dead-letter breakers of a subscription's lanes.
    ///
    /// What was rejected while a breaker was open is dead-lettered then.
    Reset(Reset),
}

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = super::EXIT_CODES)]
struct Reset {
    /// The subscription.
    subscription: String,

    /// Of this topic only.
    #[arg(long)]
    topic: Option<String>,

    /// Of this partition only.
    #[arg(long, requires = "topic", value_parser = clap::value_parser!(i32).range(0..))]
    partition: Option<i32>,

    #[command(flatten)]
    place: Place,

    /// Prints the lanes whose breakers were open as a JSON array.
    #[arg(long)]
    json: bool,
}

/// Runs `ackgate breaker`.
///
/// # Errors
/// The gateway cannot be reached, or refuses.
pub async fn run(args: Args) -> Result<ExitCode> {
    let Command::Reset(args) = args.command;
    let mut gateway = args.place.connect().await?;
    let request = ResetBreakersRequest {
        subscription: args.subscription,
        topic: args.topic.unwrap_or_default(),
        partition: args.partition,
    };
    let answer = gateway.reset_breakers(request).await;
    let lanes = answer
        .map_err(|status| refused(&status))?
        .into_inner()
        .lanes;
    let above = format!("{} closed; before:\n", lanes.len());
    print(lanes, args.json, "no breaker was open", &above)?;
    Ok(ExitCode::SUCCESS)
}
