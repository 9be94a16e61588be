//! The process's log: one subscriber, to standard error, text or JSON.
//!
//! Boundary: what is logged is decided where it happens; here is only where it
//! goes, how much of it, and that nothing in it can pass for something else.

mod clean;
mod event;
pub mod fields;
mod layer;
mod line;

use std::{
    io::{self, IsTerminal as _},
    time::Duration,
};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    EnvFilter, Registry, fmt::MakeWriter, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

use self::layer::{Form, Lines};
use crate::config::Log;

/// Libraries that log their daily work at a level that means more here. They are
/// heard from `warn` on, unless the filter names them.
const QUIET: [&str; 7] = [
    "librdkafka",
    "rdkafka",
    "h2",
    "hyper",
    "hyper_util",
    "tonic",
    "tower",
];

/// The log could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The filter is not one.
    #[error("the log filter is not valid: {0}")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// The process has a log already.
    #[error("the log is already set up: {0}")]
    Twice(#[from] tracing_subscriber::util::TryInitError),
}

/// A duration as a field has it: in whole milliseconds, under a name that ends in `_ms`.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Sets up the log of this process.
///
/// # Errors
/// The filter is not valid, or there is a log already.
pub fn init(log: &Log) -> Result<(), Error> {
    let colours = !log.json && io::stderr().is_terminal();
    subscriber(log, colours, io::stderr)?.try_init()?;
    Ok(())
}

fn subscriber<W>(
    log: &Log,
    colours: bool,
    writer: W,
) -> Result<Box<dyn tracing::Subscriber + Send + Sync>, Error>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let form = if log.json {
        Form::Json
    } else {
        Form::Text { colours }
    };
    let lines = Lines { form, writer };
    let subscriber = Registry::default().with(filter(&log.filter)?).with(lines);
    Ok(Box::new(subscriber))
}

/// The filter with the quiet libraries before it: of two directives for one target
/// the later counts.
fn filter(text: &str) -> Result<EnvFilter, Error> {
    let asked = EnvFilter::try_new(text)?;
    // Quieter must stay quieter: with "error", a library's warnings are not wanted.
    let most = asked.max_level_hint().unwrap_or(LevelFilter::TRACE);
    let level = most.min(LevelFilter::WARN);
    let quiet: Vec<String> = QUIET
        .iter()
        .map(|target| format!("{target}={level}"))
        .collect();
    Ok(EnvFilter::try_new(format!("{},{text}", quiet.join(",")))?)
}

#[cfg(test)]
mod tests;
