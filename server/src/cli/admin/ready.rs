//! `ackgate ready`: what `/readyz` says, for people and for probes that run a program.

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use axum::body::to_bytes;
use tonic::{
    body::Body,
    codegen::http::{Request, StatusCode, header},
};
use tower::ServiceExt as _;

use super::connect::Place;
use crate::cli::output;

/// The page lists a bounded number of reasons.
const MOST_BYTES: usize = 8 << 20;

/// Arguments of `ackgate ready`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 ready or degraded, 1 not ready or cannot be reached, 2 wrong usage."
)]
pub struct Args {
    #[command(flatten)]
    place: Place,

    /// Also tells what waits in the ordinary way.
    #[arg(long)]
    verbose: bool,

    /// Prints the answer as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs `ackgate ready`.
///
/// # Errors
/// The gateway cannot be reached, or answers with something else.
pub async fn run(args: Args) -> Result<ExitCode> {
    let channel = args.place.channel().await?;
    let path = match args.verbose {
        true => "/readyz?verbose",
        false => "/readyz",
    };
    let wanted = match args.json {
        true => "application/json",
        false => "text/plain",
    };
    let request = Request::get(path)
        .header(header::ACCEPT, wanted)
        .body(Body::empty())
        .context("the request")?;
    let answer = channel.oneshot(request).await.context("no answer")?;
    let status = answer.status();
    let content = answer.headers().get(header::CONTENT_TYPE);
    let is_page = content.is_some_and(|it| it.as_bytes().starts_with(wanted.as_bytes()));
    let code = match status {
        StatusCode::OK if is_page => ExitCode::SUCCESS,
        StatusCode::SERVICE_UNAVAILABLE if is_page => ExitCode::FAILURE,
        // What the listener for subscribers says is none.
        _ => bail!(
            "nobody tells there whether a gateway is ready ({status}): --address is the gateway's \
             admin.address, not its listen.address"
        ),
    };
    let body = to_bytes(axum::body::Body::new(answer.into_body()), MOST_BYTES).await;
    let body = body.context("the answer is not whole")?;
    output::line(String::from_utf8_lossy(&body).trim_end())?;
    Ok(code)
}
