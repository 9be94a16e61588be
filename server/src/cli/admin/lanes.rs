//! `ackgate lanes`: the lanes that a gateway owns, as they are now.

use std::process::ExitCode;

use ackgate_proto::v1::ListLanesRequest;
use anyhow::Result;

use super::{
    connect::{Place, refused},
    shown::print,
};

/// Arguments of `ackgate lanes`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = super::EXIT_CODES)]
pub struct Args {
    /// Shows the lanes of this subscription only.
    subscription: Option<String>,

    #[command(flatten)]
    place: Place,

    /// Prints the lanes as a JSON array.
    #[arg(long)]
    json: bool,
}

/// Runs `ackgate lanes`.
///
/// # Errors
/// The gateway cannot be reached, or refuses.
pub async fn run(args: Args) -> Result<ExitCode> {
    let mut gateway = args.place.connect().await?;
    let request = ListLanesRequest {
        subscription: args.subscription.unwrap_or_default(),
    };
    let answer = gateway.list_lanes(request).await;
    let lanes = answer
        .map_err(|status| refused(&status))?
        .into_inner()
        .lanes;
    print(lanes, args.json, "this gateway owns no lanes now", "")?;
    Ok(ExitCode::SUCCESS)
}
