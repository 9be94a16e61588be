//! The gateway's settings as valid values.
//!
//! **Boundary**: where they come from (a TOML file, the environment, files of
//! secrets) is known only to this folder; the rest of the gateway gets the types
//! below. **Invariants**: a [`Config`] has passed every rule; everything that is
//! wrong is reported at once, with file, line, key, value and what is expected;
//! nothing secret is in a [`Problem`], in a `Debug` or in [`Config::effective`].
//!
//! ```text
//! file ─► tree ─► layers (flat properties, environment over it, secrets) ─► reader
//!          with lines            │ overlay, secret                            │
//!                                ▼                                            ▼
//!                       options (the one table) ─────────────► parse, checks ─► Config
//! ```
//!
//! The `toml` crate's spanned tree is walked here rather than deserialized with
//! serde: a serde visitor ends at its first error, so layering crates built on it
//! (figment, config) can name one mistake per run, have no lines for it, and bring
//! a second copy of a TOML parser.

use std::{
    io::Read,
    path::{Path, PathBuf},
};

mod access_parse;
mod ad_hoc;
mod ad_hoc_parse;
mod address;
mod admin;
mod checks;
mod copying;
mod dead_letter_parse;
mod effective;
mod intake;
mod intake_parse;
mod kafka;
mod layers;
mod listen;
mod log_filter;
mod options;
mod otlp;
mod otlp_parse;
mod overlay;
mod parse;
mod policy_parse;
mod problem;
mod properties;
mod publish;
mod publish_parse;
mod reader;
mod reference;
mod secret;
mod start_parse;
mod subscription;
mod subscription_parse;
#[cfg(test)]
mod tests;
mod traces;
mod tree;
mod unwritten_parse;
mod value;
mod web_parse;
mod wish;

pub use self::{
    ad_hoc::{AdHoc, Denied, Refusal, is_group, is_topic},
    admin::Admin,
    copying::{Alias, Copying, Creation, LetterPartition},
    intake::{Check, Content, Intake, MaxAge, OnFailure},
    kafka::Cluster,
    listen::{Health, Listen, Log, Shutdown},
    otlp::{Otlp, Telemetry},
    problem::{Problem, Problems},
    publish::{Acks, Publish},
    reference::reference,
    subscription::{Batch, DeadLetter, Delivery, ExactlyOnce, Lease, StartAt, Subscription},
    traces::Traces,
    wish::{Contradiction, Wish, Wishes},
};

/// A file above this size is not a configuration.
const FILE_BYTES: u64 = 16 << 20;

/// Everything that a gateway is built from.
#[derive(Clone, Debug)]
pub struct Config {
    /// The gRPC listener.
    pub listen: Listen,
    /// The listener for operators' tools; `None`: there is none.
    pub admin: Option<Admin>,
    /// Kafka connections, by name.
    pub clusters: Vec<Cluster>,
    /// What may be written through the gateway: one entry for each cluster that takes
    /// records.
    pub publish: Vec<Publish>,
    /// What subscribers can attach to, by name.
    pub subscriptions: Vec<Subscription>,
    /// What subscribers can open without one of those; `None`: nothing.
    pub ad_hoc: Option<AdHoc>,
    /// How a graceful stop goes.
    pub shutdown: Shutdown,
    /// Log settings.
    pub log: Log,
    /// Which records are traced.
    pub traces: Traces,
    /// When lanes are told as stalled.
    pub health: Health,
    /// What telemetry says of the gateway, and where it goes.
    pub telemetry: Telemetry,
    /// Memory for records that are fetched and not settled, in bytes, over all lanes.
    pub memory_bytes: u64,
}

/// Loads a configuration file with the environment's overrides.
///
/// # Errors
/// Everything that is wrong with it. No socket is opened, so that a mistake is
/// known before anything has begun.
pub fn load(
    path: &Path,
    environment: impl IntoIterator<Item = (String, String)>,
) -> Result<Config, Problems> {
    match read(path) {
        Ok(text) => parse(&text, path, environment),
        Err(error) => Err(Problems::new(vec![whole(
            path,
            format!("cannot be read: {error}"),
        )])),
    }
}

/// As [`load`], from text that is not in a file; `path` stands in messages, and
/// its folder is where relative paths of secrets start.
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse(
    text: &str,
    path: &Path,
    environment: impl IntoIterator<Item = (String, String)>,
) -> Result<Config, Problems> {
    let file = path.display().to_string();
    let mut root = tree::parse(text, &file).map_err(Problems::new)?;
    let variables = environment.into_iter().collect();
    let folder = path.parent().map_or_else(PathBuf::new, Path::to_path_buf);
    let mut problems = Vec::new();
    layers::Sources {
        file: &file,
        folder: folder.clone(),
        variables: &variables,
    }
    .apply(&mut root, &mut problems);
    let mut reader = reader::Reader {
        file: &file,
        folder: &folder,
        root: &root,
        problems,
    };
    let config = parse::config(&mut reader);
    match config {
        Some(config) if reader.problems.is_empty() => Ok(config),
        Some(_) | None => {
            if reader.problems.is_empty() {
                // A rule that gives up owes a reason.
                reader
                    .problems
                    .push(whole(path, "is refused without a reason".to_owned()));
            }
            Err(Problems::new(reader.problems))
        }
    }
}

/// The environment of this process, for [`load`]. What is not UTF-8 in it is kept
/// with replacement characters, so that it is refused rather than overlooked.
#[must_use]
pub fn environment() -> Vec<(String, String)> {
    std::env::vars_os()
        .map(|(name, value)| {
            (
                name.to_string_lossy().into_owned(),
                value.to_string_lossy().into_owned(),
            )
        })
        .collect()
}

fn read(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?
        .take(FILE_BYTES)
        .read_to_string(&mut text)?;
    Ok(text)
}

fn whole(path: &Path, expected: String) -> Problem {
    Problem {
        file: path.display().to_string(),
        variable: None,
        line: None,
        key: String::new(),
        found: None,
        expected,
    }
}
