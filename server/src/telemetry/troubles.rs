//! Troubles that peers cause and nobody says are over: each kind is one episode of the whole
//! process, whoever the peer is, and has ended when it has not happened for a minute.
//!
//! Invariant: there are as many episodes as kinds, so peers cannot make them grow.

use std::{
    convert::Infallible,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::episode::Episode;
use crate::broker::kafka::client_log;

/// An episode is over after this long without another occurrence.
const QUIET: Duration = Duration::from_secs(60);

/// Between two looks whether something is over.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// A TLS handshake failed or took too long.
    Handshake,
    /// A call came without a token that is known.
    Token,
    /// A connection was closed at once, because as many are open as may be.
    Connections,
    /// The system had no means for a connection.
    Means,
    /// An ad hoc subscription could not be made with the gateway's configuration.
    AdHoc,
    /// A producer of published records could not be made with the gateway's configuration.
    Publishing,
    /// A producer failed for good and was replaced, or could not be.
    Producer,
    /// librdkafka's statistics could not be read.
    Statistics,
    /// A dead letter was written without its value.
    Shortened,
}

const KINDS: usize = 9;

/// The episodes of this process.
static TABLE: Mutex<Table> = Mutex::new(Table::new());

/// One more occurrence; returns how many there were if it is time to tell.
pub(crate) fn again(trouble: Trouble) -> Option<u64> {
    TABLE.lock().again(trouble, Instant::now())
}

/// Looks every few seconds what is over, and tells it. Never ends; cancel safe.
pub(crate) async fn watch() -> Infallible {
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let over = TABLE.lock().over(Instant::now());
        for (trouble, count) in over {
            tell(trouble, count);
        }
        client_log::tell_rest();
    }
}

fn tell(trouble: Trouble, count: u64) {
    match trouble {
        Trouble::Handshake => tracing::info!(count, "no TLS handshake has failed for a minute"),
        Trouble::Token => tracing::info!(count, "no call was without a token for a minute"),
        Trouble::Connections => tracing::info!(count, "connections are taken again"),
        Trouble::Means => tracing::info!(count, "the system has means for connections again"),
        Trouble::AdHoc => tracing::info!(count, "no ad hoc subscription has failed for a minute"),
        Trouble::Publishing => tracing::info!(count, "no publisher was refused for a minute"),
        Trouble::Producer => tracing::info!(count, "no producer has failed for a minute"),
        Trouble::Statistics => tracing::info!(count, "statistics are understood again"),
        Trouble::Shortened => tracing::info!(count, "no dead letter was shortened for a minute"),
    }
}

#[derive(Debug)]
struct Table([Entry; KINDS]);

#[derive(Debug)]
struct Entry {
    episode: Episode,
    last: Option<Instant>,
}

impl Table {
    const fn new() -> Self {
        const NONE: Entry = Entry {
            episode: Episode::new(),
            last: None,
        };
        Self([NONE; KINDS])
    }

    fn again(&mut self, trouble: Trouble, now: Instant) -> Option<u64> {
        let entry = self.0.get_mut(trouble as usize)?;
        entry.last = Some(now);
        entry.episode.again(now)
    }

    /// What has ended, with its counts.
    fn over(&mut self, now: Instant) -> Vec<(Trouble, u64)> {
        let mut over = Vec::new();
        for (trouble, entry) in TROUBLES.into_iter().zip(&mut self.0) {
            let is_quiet = entry
                .last
                .is_some_and(|last| now.saturating_duration_since(last) >= QUIET);
            if is_quiet {
                entry.last = None;
                over.extend(entry.episode.over().map(|count| (trouble, count)));
            }
        }
        over
    }
}

/// In the order of their numbers.
const TROUBLES: [Trouble; KINDS] = [
    Trouble::Handshake,
    Trouble::Token,
    Trouble::Connections,
    Trouble::Means,
    Trouble::AdHoc,
    Trouble::Publishing,
    Trouble::Producer,
    Trouble::Statistics,
    Trouble::Shortened,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trouble_is_over_after_a_quiet_minute_and_told_once() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut table = Table::new();
        for second in 0..=59 {
            let told = table.again(Trouble::Token, at(second));
            let expected = [(0, 1), (30, 31)].into_iter().find(|it| it.0 == second);
            assert_eq!(told, expected.map(|it| it.1), "{second}");
            assert!(table.over(at(second)).is_empty());
        }
        assert_eq!(table.again(Trouble::Handshake, at(100)), Some(1));
        assert!(table.over(at(118)).is_empty());
        assert_eq!(table.over(at(119)), [(Trouble::Token, 60)]);
        assert!(table.over(at(120)).is_empty());
        assert_eq!(table.over(at(160)), [(Trouble::Handshake, 1)]);
        assert_eq!(table.again(Trouble::Token, at(161)), Some(1), "anew");
    }

    #[test]
    fn every_kind_has_its_place() {
        for (index, trouble) in TROUBLES.into_iter().enumerate() {
            assert_eq!(trouble as usize, index);
        }
    }
}
