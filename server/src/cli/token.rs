//! `ackgate token`: tokens, and the lines by which a gateway knows them.

use std::{
    io::{IsTerminal as _, Read as _, stdin},
    process::ExitCode,
};

use anyhow::{Context as _, Result};

use super::{Usage, output};
use crate::access;

/// Larger than any token.
const INPUT_BYTES: u64 = 64 * 1024;

/// Arguments of `ackgate token`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The gateway's listen.tokens_file has one line per token. It holds no secret: the \
    token cannot be told from its line.\n\nExit codes: 0 done, 1 failed, 2 wrong usage."
)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Make a token: prints it, and below it its line for the gateway's tokens file.
    New {
        /// Whose token it is, as the gateway's log has it.
        name: String,
    },
    /// Print the line for a token that is read from standard input.
    Hash {
        /// Whose token it is, as the gateway's log has it.
        name: String,
    },
}

/// Makes or reads a token.
///
/// # Errors
/// The name or the token cannot be one, or standard output cannot be written.
#[allow(clippy::unused_async, reason = "as every command")]
pub async fn run(args: Args) -> Result<ExitCode> {
    match args.what {
        What::New { name } => {
            let token = access::token().context("the system gives no random bytes")?;
            let line = access::written(&name, &token).map_err(Usage)?;
            output::line(&token)?;
            output::line(&line)?;
        }
        What::Hash { name } => {
            if stdin().is_terminal() {
                output::complain("token, then end of input:");
            }
            let mut token = String::new();
            stdin()
                .take(INPUT_BYTES)
                .read_to_string(&mut token)
                .context("the token cannot be read")?;
            output::line(&access::written(&name, token.trim()).map_err(Usage)?)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
