//! librdkafka's own log, as lines of the gateway's.
//!
//! The level says who must act, which librdkafka's does not: its errors are about
//! connections that it makes again by itself. What it tells as an event too (lost
//! connections) is told from there, once per episode, and here at `debug`. Its dump of the
//! configuration never passes: the gateway logs its own, with more of it masked.

use std::time::Instant;

use parking_lot::Mutex;
use rdkafka::config::RDKafkaLogLevel;
use tracing::{Level, debug, error, info, warn};

use crate::telemetry::flood::{Flood, Line};

/// Lines of one facility and level in half a minute.
const MOST: u32 = 10;

/// The same for levels that are heard only where somebody asked for them.
const MOST_ASKED_FOR: u32 = 1000;

/// The facility of what comes beyond all that are counted by themselves.
const OTHER: &str = "other";

/// Of this process: the facilities and levels of all its clients.
static FLOOD: Mutex<Flood<(Level, String)>> = Mutex::new(Flood::new());

/// Which of the gateway's clients speaks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Origin<'a> {
    /// The member of this consumer group.
    Consumer(&'a str),
    /// Writes records and dead letters.
    Producer,
    /// Reads without a group.
    Reader,
    /// Asks about topics and brokers.
    Probe,
}

impl<'a> Origin<'a> {
    const fn client(self) -> &'static str {
        match self {
            Self::Consumer(_) => "consumer",
            Self::Producer => "producer",
            Self::Reader => "reader",
            Self::Probe => "probe",
        }
    }

    const fn group(self) -> Option<&'a str> {
        match self {
            Self::Consumer(group) => Some(group),
            Self::Producer | Self::Reader | Self::Probe => None,
        }
    }
}

/// Passes a line on, unless there are too many like it.
pub(super) fn log(origin: Origin<'_>, level: RDKafkaLogLevel, facility: &str, line: &str) {
    let Some(level) = level_of(level, facility) else {
        return;
    };
    let most = if level <= Level::WARN {
        MOST
    } else {
        MOST_ASKED_FOR
    };
    let (kind, other) = ((level, facility.to_owned()), (level, OTHER.to_owned()));
    let line_is = FLOOD.lock().take(kind, other, most, Instant::now());
    match line_is {
        Line::LeftOut => return,
        Line::Told { left_out: 0 } => {}
        Line::Told { left_out } => tell_left_out(level, facility, left_out),
    }
    let (client, group) = (origin.client(), origin.group());
    let (thread, text) = split(line);
    match level {
        Level::ERROR => error!(target: "librdkafka", client, group, facility, thread, "{text}"),
        Level::WARN => warn!(target: "librdkafka", client, group, facility, thread, "{text}"),
        Level::INFO => info!(target: "librdkafka", client, group, facility, thread, "{text}"),
        _ => debug!(target: "librdkafka", client, group, facility, thread, "{text}"),
    }
}

/// Tells what was left out although nothing of its kind has come since.
pub(crate) fn tell_rest() {
    let rest = FLOOD.lock().left_out(Instant::now());
    for ((level, facility), left_out) in rest {
        tell_left_out(level, &facility, left_out);
    }
}

fn tell_left_out(level: Level, facility: &str, left_out: u64) {
    let count = left_out;
    match level {
        Level::ERROR | Level::WARN => {
            warn!(target: "librdkafka", facility, count, "lines of this facility were left out");
        }
        Level::INFO => {
            info!(target: "librdkafka", facility, count, "lines of this facility were left out");
        }
        _ => debug!(target: "librdkafka", facility, count, "lines of this facility were left out"),
    }
}

/// `None` for what must not be seen.
fn level_of(level: RDKafkaLogLevel, facility: &str) -> Option<Level> {
    match (facility, level) {
        // The values of all properties.
        ("CONF", _) => None,
        ("FAIL" | "ERROR", _) | (_, RDKafkaLogLevel::Debug) => Some(Level::DEBUG),
        (_, RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical) => {
            Some(Level::ERROR)
        }
        (_, RDKafkaLogLevel::Error | RDKafkaLogLevel::Warning) => Some(Level::WARN),
        (_, RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info) => Some(Level::INFO),
    }
}

/// The thread that a line begins with, as `[thrd:localhost:9092/1]: `, and the rest.
fn split(line: &str) -> (Option<&str>, &str) {
    let parts = line
        .strip_prefix("[thrd:")
        .and_then(|rest| rest.split_once("]: "));
    match parts {
        Some((thread, text)) => (Some(thread), text),
        None => (None, line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_say_who_must_act() {
        use RDKafkaLogLevel as Theirs;
        let cases = [
            (Theirs::Emerg, Some(Level::ERROR)),
            (Theirs::Alert, Some(Level::ERROR)),
            (Theirs::Critical, Some(Level::ERROR)),
            (Theirs::Error, Some(Level::WARN)),
            (Theirs::Warning, Some(Level::WARN)),
            (Theirs::Notice, Some(Level::INFO)),
            (Theirs::Info, Some(Level::INFO)),
            (Theirs::Debug, Some(Level::DEBUG)),
        ];
        for (theirs, ours) in cases {
            assert_eq!(level_of(theirs, "CONFWARN"), ours, "{theirs:?}");
            assert_eq!(level_of(theirs, "CONF"), None, "{theirs:?}");
            assert_eq!(level_of(theirs, "FAIL"), Some(Level::DEBUG), "{theirs:?}");
        }
    }

    #[test]
    fn the_thread_is_a_field_of_its_own() {
        let line = "[thrd:sasl_ssl://localhost:9092/1]: 3 requests timed out";
        let thread = "sasl_ssl://localhost:9092/1";
        assert_eq!(split(line), (Some(thread), "3 requests timed out"));
        for whole in ["", "[thrd:main", "no thread"] {
            assert_eq!(split(whole), (None, whole));
        }
    }
}
