//! `ackgate token`: tokens, and the lines by which a gateway knows them.

use std::{
    fs::OpenOptions,
    io::{self, IsTerminal as _, Read as _, Write as _, stdin},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, Result, anyhow};

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
    ///
    /// With --out the token goes into a file that only you can read, and nothing but the line
    /// is printed. To redirect what is printed into a file instead, say `umask 077` first.
    New {
        /// Whose token it is, as the gateway's log has it.
        name: String,
        /// Writes the token to this file, which must not exist yet, with mode 0600.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
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
        What::New { name, out } => {
            let token = access::token().context("the system gives no random bytes")?;
            let line = access::written(&name, &token).map_err(Usage)?;
            match out {
                Some(path) => keep(&path, &token)?,
                None => output::line(&token)?,
            }
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

/// Writes a token where only this user can read it.
///
/// # Errors
/// There is something already, or it cannot be written; nothing is left behind then.
fn keep(path: &Path, token: &str) -> Result<()> {
    let shown = path.display();
    let mut options = OpenOptions::new();
    // Never through a link to another file, either.
    options.write(true).create_new(true).mode(0o600);
    let mut file =
        options
            .open(path)
            .map_err(|error| match error.kind() == io::ErrorKind::AlreadyExists {
                true => {
                    anyhow!("--out {shown} exists already: it is left as it is")
                }
                false => anyhow!("--out {shown} cannot be made: {error}"),
            })?;
    let written = writeln!(file, "{token}").and_then(|()| file.sync_all());
    if let Err(error) = written {
        // Half a token is of no use; it may not even be gone.
        std::fs::remove_file(path).unwrap_or_default();
        return Err(anyhow!("--out {shown} cannot be written: {error}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    #[test]
    fn token_is_kept_in_a_new_file_of_this_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("billing.token");
        keep(&path, "secret").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "secret\n");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);

        let error = keep(&path, "another").unwrap_err().to_string();
        assert!(error.contains("exists already"), "{error}");
        assert!(!error.contains("another"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "secret\n");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path().join("elsewhere"), &link).unwrap();
        keep(&link, "secret").unwrap_err();
        let none = keep(&folder.path().join("no/such"), "secret").unwrap_err();
        assert!(none.to_string().contains("cannot be made"), "{none}");
    }
}
