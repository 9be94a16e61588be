//! What a subscription shows of itself: the state of its lanes and subscribers and the
//! memory they take against what they may take.
//!
//! Boundary: a picture of one moment, for operators; nothing is decided by it.

use std::sync::Arc;

use ackgate_lane::{Position, Snapshot, Subscriber};
use tokio::sync::oneshot;

use super::{
    driver::Driver, effects::LEAST_GRANT, handle::LaneLabel, lanes::Entry, reason::Reason,
    standstill::Standstill, subscribers,
};

/// A subscription at one moment.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Its lanes, by topic and partition.
    pub lanes: Vec<ShownLane>,
    /// Its subscribers, by number.
    pub subscribers: Vec<ShownSubscriber>,
    /// Bytes that all lanes of the gateway hold or have been granted.
    pub gateway_used: u64,
    /// The most they may, after a minimum for each lane.
    pub gateway_limit: u64,
    /// What keeps all lanes, because the group does not answer, or why there are none.
    pub group: Option<Reason>,
}

/// One lane.
#[derive(Clone, Debug)]
pub struct ShownLane {
    /// Which.
    pub label: LaneLabel,
    /// Its position, its counts and what it waits for.
    pub lane: Snapshot,
    /// Bytes of records that are held.
    pub retained: u64,
    /// Bytes that may come on top without being asked again.
    pub granted: u64,
    /// The most that both may be: `window.bytes`, or 256 KiB if that is more. The last
    /// record of a grant may reach beyond it.
    pub limit: u64,
    /// Whether nothing is fetched for want of memory.
    pub wants_memory: bool,
    /// Records that are fetched and not `min_age` old yet; the lane has not heard of
    /// them, and goes on by itself.
    pub too_young: u64,
    /// Whether it cannot be read until an operator acts.
    pub unreadable: bool,
    /// Why it hands nothing out.
    pub standstill: Option<Standstill>,
    /// Why it makes no progress, if it does not: the weightiest reason, in words.
    pub why: Option<Reason>,
    /// The end of its log, as last heard, and no less than what was read.
    pub head: Option<Position>,
}

/// One subscriber.
#[derive(Clone, Debug)]
pub struct ShownSubscriber {
    /// Its number.
    pub subscriber: Subscriber,
    /// Its name.
    pub name: Arc<str>,
    /// Records out to it.
    pub out_records: u64,
    /// Bytes out to it: what it can make the gateway keep.
    pub out_bytes: u64,
    /// The most records that may be out.
    pub credit_records: u64,
    /// The most bytes that may be out, or one larger record.
    pub credit_bytes: u64,
    /// Messages that wait for its transport.
    pub outbox: usize,
    /// The most of them there may be.
    pub outbox_limit: usize,
    /// Whether it takes from one lane only for now, to make room for a large record.
    pub reserved: bool,
}

impl Driver {
    /// Answers with the picture of now.
    pub(super) fn show(&self, answer: oneshot::Sender<Shown>) {
        // Whoever asked may have gone, or go meanwhile.
        if !answer.is_closed() {
            drop(answer.send(self.shown()));
        }
    }

    /// One lane as it is now.
    pub(super) fn shown_lane(&self, entry: &Entry) -> ShownLane {
        let lane = entry.lane.snapshot();
        ShownLane {
            why: self.reason(self.now(), entry, &lane),
            label: entry.label(),
            lane,
            retained: entry.retained(),
            granted: entry.granted.bytes,
            limit: self.parts.subscription.window_bytes.max(LEAST_GRANT),
            wants_memory: entry.starved,
            too_young: entry.gate.records(),
            unreadable: entry.failed,
            standstill: entry.standstill.clone(),
            head: entry.log_end(),
        }
    }

    fn shown(&self) -> Shown {
        let mut lanes: Vec<ShownLane> = self
            .lanes
            .all()
            .map(|entry| self.shown_lane(entry))
            .collect();
        in_order(&mut lanes);
        Shown {
            lanes,
            subscribers: self.subscribers.shown(),
            gateway_used: self.parts.budget.used(),
            gateway_limit: self.parts.budget.limit(),
            group: self.group(self.now()).or_else(|| self.laneless()),
        }
    }
}

/// By topic and partition.
pub(super) fn in_order(lanes: &mut [ShownLane]) {
    lanes.sort_by(|a, b| {
        let place = |lane: &ShownLane| (Arc::clone(&lane.label.topic), lane.label.partition);
        place(a).cmp(&place(b))
    });
}

impl subscribers::Subscribers {
    fn shown(&self) -> Vec<ShownSubscriber> {
        let mut ids = self.ids();
        ids.sort_unstable();
        ids.into_iter()
            .filter_map(|id| self.get(id).map(|attached| attached.shown(id)))
            .collect()
    }
}
