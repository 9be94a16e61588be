//! Lanes that hand nothing out whoever is there, and what operators do about it.
//!
//! **Boundary**: whether a lane stands still is the lane's affair; here it is put into
//! words, told once when it begins and once when it is over, and shown.

use ackgate_lane::{Generation, OffsetRange, Stop, Trip};
use tokio::sync::oneshot;

use super::{
    driver::Driver,
    handle::{NoticeKind, Outbound},
    inputs::notice,
    lanes::Entry,
    shown::{ShownLane, in_order},
    tell::tell,
};

/// Why a lane hands nothing out, as it was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standstill {
    /// The kind of reason.
    pub why: Why,
    /// Since when, in milliseconds since the Unix epoch.
    pub since_ms: i64,
    /// In words.
    pub detail: String,
}

/// What keeps a lane from handing out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A dead letter cannot be written.
    DeadLetter,
    /// Its breaker is open.
    Breaker,
    /// It cannot be read until an operator acts.
    Unreadable,
}

/// Which lanes of a subscription.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lanes {
    /// Of this topic only.
    pub topic: Option<String>,
    /// Of this partition only.
    pub partition: Option<i32>,
}

/// What became of a reset.
#[derive(Clone, Debug)]
pub struct Reset {
    /// Lanes that are here and were meant.
    pub meant: usize,
    /// Those of them whose breaker was open, as they were before, by topic and
    /// partition. It is closed now.
    pub closed: Vec<ShownLane>,
}

impl Lanes {
    fn has(&self, entry: &Entry) -> bool {
        let partition = &entry.partition;
        self.topic
            .as_deref()
            .is_none_or(|topic| topic == &*partition.topic)
            && self.partition.is_none_or(|of| of == partition.partition)
    }
}

impl Driver {
    /// Tells subscribers and the log when a lane begins to stand still, and when it
    /// goes on.
    pub(super) fn watch_stop(&mut self, generation: Generation) {
        let Some(entry) = self.lanes.get_mut(generation) else {
            return;
        };
        if entry.failed {
            return;
        }
        let stop = entry.lane.stop();
        let why = stop.map(why);
        if entry.standstill.as_ref().map(|told| told.why) == why {
            return;
        }
        let Some((stop, why)) = stop.zip(why) else {
            let told = entry.standstill.take();
            let since_ms = told.map(|told| told.since_ms);
            let now_ms = self.parts.wall.now_ms();
            tell!(info, self, entry;
                age_ms = since_ms.map(|since_ms| now_ms.saturating_sub(since_ms)),
                "lane goes on"
            );
            let news = notice(entry.label(), NoticeKind::Recovered, None, "");
            self.subscribers.announce(&Outbound::Lane(news));
            return;
        };
        let (detail, at) = match stop {
            Stop::DeadLetter { offset } => {
                // Those that travel with a commit fail with it.
                let error = entry.letter_error.as_deref();
                let error = error.unwrap_or("the commit that it travels with failed");
                let detail = format!("dead letter not written: {error}");
                (detail, Some(OffsetRange::one(offset)))
            }
            Stop::Breaker { trip } => (in_words(trip), None),
        };
        tell!(warn, self, entry;
            detail,
            "lane hands nothing out"
        );
        let news = notice(entry.label(), NoticeKind::Held, at, &detail);
        entry.standstill = Some(Standstill {
            why,
            since_ms: self.parts.wall.now_ms(),
            detail,
        });
        self.subscribers.announce(&Outbound::Lane(news));
    }

    pub(super) fn tripped(&mut self, generation: Generation, trip: Trip) {
        self.meter.trips += 1;
        let Some(entry) = self.lanes.get(generation) else {
            return;
        };
        tell!(error, self, entry;
            detail = in_words(trip),
            "the breaker has opened: ackgate breaker reset closes it"
        );
    }

    /// Closes the breakers of the lanes that are meant.
    pub(super) fn reset_breakers(&mut self, of: &Lanes, answer: oneshot::Sender<Reset>) {
        let now = self.now();
        let mut reset = Reset {
            meant: 0,
            closed: Vec::new(),
        };
        for generation in self.lanes.generations() {
            let Some(entry) = self.lanes.get(generation).filter(|entry| of.has(entry)) else {
                continue;
            };
            reset.meant += 1;
            let before = self.shown_lane(entry);
            if let Some(entry) = self.lanes.touch(generation)
                && entry.lane.reset_breaker(now)
            {
                reset.closed.push(before);
            }
        }
        in_order(&mut reset.closed);
        // Whoever asked may have gone.
        drop(answer.send(reset));
    }
}

const fn why(stop: Stop) -> Why {
    match stop {
        Stop::DeadLetter { .. } => Why::DeadLetter,
        Stop::Breaker { .. } => Why::Breaker,
    }
}

fn in_words(trip: Trip) -> String {
    match trip {
        Trip::Run { records } => {
            format!("breaker open: {records} records given up one after another")
        }
        Trip::Ratio { given_up, of } => {
            format!("breaker open: {given_up} of the last {of} records given up")
        }
    }
}
