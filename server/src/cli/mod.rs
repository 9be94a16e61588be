//! The commands of `ackgate`, one file each.
//!
//! Boundary: a command's `run` returns its exit code or an error; only
//! [`failed`] turns errors into words and codes.

use std::process::ExitCode;

use crate::{
    config::{Log, Problems},
    telemetry::logs,
};

mod access;
pub mod admin;
pub mod bench;
mod bounds;
pub mod check;
pub mod demo;
pub mod dlq;
mod output;
pub mod publish;
pub mod pull;
pub mod serve;
mod stop;
pub mod sub;
pub mod target;
pub mod token;

/// Something went wrong.
const FAILED: u8 = 1;
/// The command line or the configuration is wrong; nothing was begun.
const USAGE: u8 = 2;

/// A gRPC gateway in front of Apache Kafka whose subscribers' verdicts decide the
/// commits.
#[derive(Debug, clap::Parser)]
#[command(
    version,
    propagate_version = true,
    after_help = "Exit codes: 0 done, 1 failed, 2 wrong usage or configuration."
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What to do.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Run the gateway until SIGTERM or SIGINT.
    Serve(serve::Args),
    /// Check a configuration, and whether Kafka has what it needs.
    Check(check::Args),
    /// Receive records of a subscription and answer them.
    Sub(sub::Args),
    /// Take some records of a subscription without a stream.
    Pull(pull::Args),
    /// Write lines, JSON or files to a topic.
    Pub(publish::Args),
    /// Show the lanes of a running gateway.
    Lanes(admin::LanesArgs),
    /// Tell whether a running gateway can serve, and what keeps it from that.
    Ready(admin::ReadyArgs),
    /// Close dead-letter breakers of a running gateway.
    Breaker(admin::BreakerArgs),
    /// List, show and put back dead letters.
    Dlq(dlq::Args),
    /// Make tokens for subscribers and publishers.
    Token(token::Args),
    /// Show everything at work on an embedded broker.
    Demo(demo::Args),
    /// Measure the gateway against a direct consumer.
    Bench(bench::Args),
}

impl Cli {
    /// Runs the command to its exit code.
    ///
    /// # Errors
    /// Whatever stopped the command; [`failed`] puts it into words.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        // `serve` sets up the log that its configuration asks for.
        if !matches!(self.command, Command::Serve(_)) {
            // The commands put Kafka's refusals into words of their own.
            let mut filter = "warn,librdkafka=off,rdkafka=off".to_owned();
            if matches!(self.command, Command::Demo(_)) {
                // Its broker is to lose everything, and knows no settings to look at.
                filter.push_str(",ackgate::readiness=error");
            }
            logs::init(&Log {
                filter,
                json: false,
            })?;
        }
        // Boxed: one command's state must not be the size of the largest.
        match self.command {
            Command::Serve(args) => Box::pin(serve::run(args)).await,
            Command::Check(args) => Box::pin(check::run(args)).await,
            Command::Sub(args) => Box::pin(sub::run(args)).await,
            Command::Pull(args) => Box::pin(pull::run(args)).await,
            Command::Pub(args) => Box::pin(publish::run(args)).await,
            Command::Lanes(args) => Box::pin(admin::lanes(args)).await,
            Command::Ready(args) => Box::pin(admin::ready(args)).await,
            Command::Breaker(args) => Box::pin(admin::breaker(args)).await,
            Command::Dlq(args) => Box::pin(dlq::run(args)).await,
            Command::Token(args) => Box::pin(token::run(args)).await,
            Command::Demo(args) => Box::pin(demo::run(args)).await,
            Command::Bench(args) => Box::pin(bench::run(args)).await,
        }
    }
}

/// Arguments that do not fit together, in words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Usage(String);

/// Says on standard error what went wrong, and with which code to end.
#[must_use]
pub fn failed(error: &anyhow::Error) -> ExitCode {
    let (code, text) = match error.downcast_ref::<Problems>() {
        Some(problems) => (USAGE, output::problems(problems)),
        None if is_usage(error) => (USAGE, format!("error: {}", in_full(error))),
        None => (FAILED, format!("error: {}", in_full(error))),
    };
    output::complain(&text);
    ExitCode::from(code)
}

/// Whether what was asked for could never have been begun.
fn is_usage(error: &anyhow::Error) -> bool {
    let mut causes = error.chain();
    causes.any(|it| {
        it.is::<Usage>()
            || matches!(
                it.downcast_ref(),
                Some(ackgate_client::Error::Option { .. })
            )
    })
}

/// The error and its causes in one line. Many an error ends with its cause already.
fn in_full(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.ends_with(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_cause_is_told_once() {
        let address = ([127, 0, 0, 1], 1).into();
        let source = std::io::Error::other("in use");
        let error = anyhow::Error::new(crate::gateway::Error::Listen {
            option: "listen.address",
            address,
            source,
        });
        assert_eq!(in_full(&error), "listen.address = 127.0.0.1:1: in use");
        let error = anyhow::Error::msg("in use").context("cannot serve");
        assert_eq!(in_full(&error), "cannot serve: in use");
    }

    #[test]
    fn the_help_tells_the_exit_codes() {
        let help = Cli::command().render_long_help().to_string();
        assert!(help.contains("Exit codes: 0 done, 1 failed, 2 wrong usage or configuration."));
    }

    #[test]
    fn a_wrong_configuration_ends_with_another_code_than_a_failure() {
        let problems = crate::config::parse("x = 1", "f.toml".as_ref(), []).unwrap_err();
        // Also under the context that a command adds to it.
        let wrong = anyhow::Error::new(problems).context("while loading");
        assert_eq!(failed(&wrong), ExitCode::from(2));
        assert_eq!(failed(&anyhow::anyhow!("no")), ExitCode::from(1));
    }
}
