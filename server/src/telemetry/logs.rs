//! The process's log: one subscriber, to standard error, text or JSON.
//!
//! Boundary: what is logged is decided where it happens; here is only where it
//! goes and how much of it.

use std::io::{self, IsTerminal as _};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::{EnvFilter, fmt::MakeWriter, util::SubscriberInitExt as _};

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
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter(&log.filter)?)
        .with_ansi(colours)
        // Told on standard error, a failed write there would be a panic: whoever read the
        // log may have gone, and that must not cost a thread.
        .log_internal_errors(false)
        .with_writer(writer);
    Ok(if log.json {
        Box::new(builder.json().flatten_event(true).finish())
    } else {
        Box::new(builder.finish())
    })
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
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing::{debug, error, info, subscriber::with_default, warn};

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(filter: &str, json: bool, events: impl FnOnce()) -> String {
        let written = Written::default();
        let log = Log {
            filter: filter.to_owned(),
            json,
        };
        let writer = written.clone();
        let subscriber = subscriber(&log, false, move || writer.clone()).unwrap();
        with_default(subscriber, events);
        let bytes = written.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    fn everything() {
        info!("own info");
        debug!("own debug");
        error!(target: "librdkafka", "library error");
        warn!(target: "librdkafka", "library warning");
        info!(target: "librdkafka", "library info");
        debug!(target: "h2::codec", "frames");
    }

    fn lines(filter: &str) -> Vec<&'static str> {
        let text = logged(filter, false, everything);
        [
            "own info",
            "own debug",
            "library error",
            "library warning",
            "library info",
            "frames",
        ]
        .into_iter()
        .filter(|line| text.contains(line))
        .collect()
    }

    #[test]
    fn libraries_are_heard_from_warnings_on_unless_named() {
        assert_eq!(
            lines("info"),
            ["own info", "library error", "library warning"]
        );
        assert_eq!(
            lines("debug"),
            ["own info", "own debug", "library error", "library warning"]
        );
        assert_eq!(
            lines("info,librdkafka=info,h2=debug"),
            [
                "own info",
                "library error",
                "library warning",
                "library info",
                "frames"
            ]
        );
    }

    #[test]
    fn a_filter_that_wants_less_gets_less() {
        assert_eq!(lines("error"), ["library error"]);
        assert!(lines("off").is_empty());
    }

    #[test]
    fn json_is_one_object_per_line_with_its_fields() {
        let text = logged("info", true, || {
            info!(topic = "orders", offset = 7, "a \"word\"\nmore")
        });
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1, "{text}");
        let object: serde_json::Value = serde_json::from_str(lines[0]).unwrap();
        assert_eq!(object["topic"], "orders");
        assert_eq!(object["offset"], 7);
        assert_eq!(object["message"], "a \"word\"\nmore");
        assert_eq!(object["level"], "INFO");
    }

    #[test]
    fn a_filter_that_is_none_is_an_error() {
        assert!(filter("ackgate=loud").is_err());
    }
}
