//! [`Measured`]: a subscription in numbers at one moment, for metrics.
//!
//! **Boundary**: a picture; nothing is decided by it. It names lanes, and neither
//! subscribers nor records.

use std::{sync::Arc, time::Duration};

use ackgate_lane::{Hold, Position};
use tokio::sync::oneshot;

use super::{
    driver::Driver,
    lanes::Entry,
    meter::{Meter, Volume, closed},
    reason::Weight,
    standstill::Why,
    subscribers::Subscribers,
    watched::Lag,
};
use crate::broker::ClientStats;

/// A subscription in numbers.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// What was counted since the driver began.
    pub meter: Meter,
    /// Its lanes, by topic and partition.
    pub lanes: Vec<MeasuredLane>,
    /// Attached subscribers that take records.
    pub taking: u64,
    /// Attached subscribers that do not, for want of credit or because they leave.
    pub paused: u64,
    /// The credit of attached subscribers.
    pub credit: Volume,
    /// What is out to them.
    pub out: Volume,
    /// Whether nothing is handed out, since the group may have given the lanes away.
    pub fenced: bool,
    /// How Kafka's client is doing; `None` while there is none, or it has not said.
    pub client: Option<ClientStats>,
}

/// A lane in numbers.
#[derive(Clone, Debug, Default)]
pub struct MeasuredLane {
    /// Its topic.
    pub topic: Arc<str>,
    /// Its partition.
    pub partition: i32,
    /// The lowest unsettled offset.
    pub floor: Option<u64>,
    /// What Kafka has confirmed.
    pub committed: Option<u64>,
    /// The end of its log, as last heard, and no less than what was read.
    pub head: Option<u64>,
    /// Records that are not settled, those that are not fetched included.
    pub lag_records: u64,
    /// The age of the oldest of them.
    pub lag: Duration,
    /// For how long the floor has stood.
    pub stood: Duration,
    /// Records received and not settled.
    pub unsettled: u64,
    /// The most of them that the window lets in.
    pub window: u64,
    /// Records out.
    pub out: u64,
    /// Records waiting for their backoff.
    pub delayed: u64,
    /// Records waiting for an earlier one of their key.
    pub behind: u64,
    /// Records given up and waiting for their dead letters.
    pub dead_lettering: u64,
    /// Records set aside.
    pub parked: u64,
    /// Bytes of records that are held.
    pub retained: u64,
    /// Why it hands nothing out until somebody acts.
    pub held: Option<HeldBy>,
    /// Whether it has made no progress for too long.
    pub stalled: bool,
}

closed! {
    /// Why a lane stands, as a label.
    HeldBy {
        /// A dead letter cannot be written.
        DeadLetter = "dead_letter",
        /// Its breaker is open.
        Breaker = "breaker",
        /// It cannot be read.
        Unreadable = "unreadable",
        /// A record was given up, and `on_reject` is hold.
        Rejected = "rejected",
    }
}

impl Driver {
    /// Answers with the numbers of now.
    pub(super) fn measure(&self, answer: oneshot::Sender<Measured>) {
        // Whoever asked may have gone, or go meanwhile.
        if !answer.is_closed() {
            drop(answer.send(self.measured()));
        }
    }

    /// What was counted so far.
    pub(super) fn counted(&self) -> Meter {
        Meter {
            counts: self.tally.counts,
            ..self.meter.clone()
        }
    }

    fn measured(&self) -> Measured {
        let mut lanes: Vec<MeasuredLane> = self
            .lanes
            .all()
            .map(|entry| self.measured_lane(entry))
            .collect();
        lanes.sort_by(|a, b| (&a.topic, a.partition).cmp(&(&b.topic, b.partition)));
        let mut measured = Measured {
            meter: self.counted(),
            lanes,
            // As readiness tells it.
            fenced: self.group(self.now()).is_some(),
            client: self.client,
            ..Measured::default()
        };
        self.subscribers.measure(&mut measured);
        measured
    }

    fn measured_lane(&self, entry: &Entry) -> MeasuredLane {
        let lane = entry.lane.snapshot();
        let Lag {
            records,
            age,
            stood,
        } = entry.lag(&lane, self.now(), self.parts.wall.now_ms());
        let held = match (&entry.standstill, lane.hold) {
            (Some(standstill), _) => Some(match standstill.why {
                Why::DeadLetter => HeldBy::DeadLetter,
                Why::Breaker => HeldBy::Breaker,
                Why::Unreadable => HeldBy::Unreadable,
            }),
            (None, Some(Hold::Operator { .. })) => Some(HeldBy::Rejected),
            (None, _) => None,
        };
        let stalled = self
            .reason(self.now(), entry, &lane)
            .is_some_and(|reason| reason.kind.weight() == Weight::Stalled);
        MeasuredLane {
            topic: Arc::clone(&entry.partition.topic),
            partition: entry.partition.partition,
            floor: lane.floor.map(Position::get),
            committed: lane.committed.map(Position::get),
            head: entry.log_end().map(Position::get),
            lag_records: records,
            lag: age,
            stood,
            unsettled: lane.unsettled,
            window: self.parts.subscription.policy.window.records.into(),
            out: lane.in_flight,
            delayed: lane.delayed,
            behind: lane.behind,
            dead_lettering: lane.dead_lettering,
            parked: lane.parked,
            retained: entry.retained(),
            held,
            stalled,
        }
    }
}

impl Subscribers {
    fn measure(&self, into: &mut Measured) {
        for shown in self.ids().into_iter().filter_map(|id| self.get(id)) {
            if shown.is_eligible() {
                into.taking += 1;
            } else {
                into.paused += 1;
            }
            let (credit, out) = shown.volumes();
            into.credit.note(credit.records, credit.bytes);
            into.out.note(out.records, out.bytes);
        }
    }
}
