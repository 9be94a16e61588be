//! `ackgate ready`: what `/readyz` says, for people and for probes that run a program.

use std::{process::ExitCode, time::Duration};

use anyhow::{Context as _, Result, bail};
use axum::body::to_bytes;
use tonic::{
    Status,
    body::Body,
    codegen::http::{Request, StatusCode, header},
};
use tower::ServiceExt as _;

use super::connect::{Place, refused};
use crate::cli::{bounds, output};

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

    /// Time for the whole answer, 100 ms to 1 minute. The gateway takes no more than 10 s.
    #[arg(long, value_name = "DURATION", default_value = "12s",
        value_parser = bounds::duration(Duration::from_millis(100), Duration::from_secs(60)))]
    timeout: Duration,
}

/// Runs `ackgate ready`.
///
/// # Errors
/// The gateway cannot be reached, or answers with something else.
pub async fn run(args: Args) -> Result<ExitCode> {
    let limit = args.timeout;
    let Ok(code) = tokio::time::timeout(limit, ask(args)).await else {
        let limit = humantime::format_duration(limit);
        bail!(
            "there was no whole answer within {limit}: is it a gateway's admin.address, and does \
             that gateway make progress?"
        );
    };
    code
}

async fn ask(args: Args) -> Result<ExitCode> {
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
    let answer = channel.oneshot(request).await;
    // Whatever is in the way, it is told as the other commands tell it.
    let answer = answer.map_err(|error| refused(&Status::from_error(Box::new(error))))?;
    let status = answer.status();
    let content = answer.headers().get(header::CONTENT_TYPE);
    let is_page = content.is_some_and(|it| it.as_bytes().starts_with(wanted.as_bytes()));
    let code = match status {
        StatusCode::OK if is_page => ExitCode::SUCCESS,
        StatusCode::SERVICE_UNAVAILABLE if is_page => ExitCode::FAILURE,
        // What the listener for subscribers says is none.
        StatusCode::OK => bail!(
            "nobody tells there whether a gateway is ready: --address is the gateway's \
             admin.address, not its listen.address"
        ),
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

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[tokio::test]
    async fn a_peer_that_says_nothing_is_given_up() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let line = ["ready", "--address", &address, "--timeout", "100ms"];
        let line = Line::parse_from(line);
        let error = run(line.args).await.expect_err("nobody answers there");
        let text = format!("{error:#}");
        assert!(text.contains("no whole answer within 100ms"), "{text}");
        assert!(Line::try_parse_from(["ready", "--timeout", "2m"]).is_err());
    }

    #[tokio::test]
    async fn a_port_that_speaks_tls_is_told_in_words() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let serving = tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                // The alert of those who expect a greeting, twice: more than a frame's head.
                let alert = [0x15, 3, 3, 0, 2, 2, 0x46].repeat(2);
                drop(stream.write_all(&alert).await);
                open.push(stream);
            }
        });
        let line = Line::parse_from(["ready", "--address", &address]);
        let error = run(line.args).await.expect_err("nobody is ready there");
        let text = format!("{error:#}");
        assert!(
            text.contains("does not speak HTTP/2 in plain text"),
            "{text}"
        );
        assert!(text.contains("admin.address"), "{text}");
        serving.abort();
    }
}
