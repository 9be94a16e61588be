//! Subscribers that take some records at a time, and nothing in between.
//!
//! **Invariant**: a draw never gets more than it asked for (L8), whatever is answered while
//! it lasts; it ends by itself, and its session is told so after its last batch; who draws
//! nothing counts as paused (L13). A draw that ends with nothing says whether that means
//! that nothing was there: what was not looked at is not nothing.

use std::time::Duration;

use ackgate_lane::{Subscriber, Time};

use super::{
    drained::{LOOKS_AGAIN, Taking},
    driver::Driver,
    handle::{Credit, Departure, End, Outbound, OutboundBatch},
    lanes::Entry,
    opening::Session,
    traces,
};

/// What a session wants to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// At most so much. A first record that is larger comes alone.
    pub most: Credit,
    /// How long to wait for a first record. Without any, what is there now.
    pub wait: Duration,
    /// How long to wait for others once there is one.
    pub linger: Duration,
    /// After this long it ends in any case, also if it has not been seen whether there is
    /// anything.
    pub give_up: Duration,
}

/// How a draw ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawn {
    /// It got what there was, or some of it, or nothing was there.
    Done,
    /// It got nothing, and whether there is anything has not been seen.
    NotSeen,
}

/// A draw under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drawing {
    asked: Draw,
    pub(super) left: Credit,
    /// Nothing has been handed out yet.
    pub(super) is_fresh: bool,
    begun: Taking,
    /// When the first record was handed out.
    first: Option<Time>,
}

impl Drawing {
    pub(super) const fn new(asked: Draw, begun: Taking) -> Self {
        Self {
            asked,
            left: asked.most,
            is_fresh: true,
            begun,
            first: None,
        }
    }

    /// Takes a batch off what is left.
    pub(super) const fn take(&mut self, records: u64, bytes: u64) {
        self.left.records = self.left.records.saturating_sub(records);
        self.left.bytes = self.left.bytes.saturating_sub(bytes);
        self.is_fresh = false;
    }

    /// Notes when the first record was handed out.
    pub(super) const fn see(&mut self, now: Time) {
        if !self.is_fresh && self.first.is_none() {
            self.first = Some(now);
        }
    }

    const fn is_full(&self) -> bool {
        !self.left.is_some()
    }

    fn gives_up(&self) -> Time {
        self.begun.since.after(self.asked.give_up)
    }

    fn waits_until(&self) -> Time {
        self.begun.since.after(self.asked.wait).min(self.gives_up())
    }
}

/// The most that a batch takes of a message beside its records.
pub(super) fn head_bytes(batch: &OutboundBatch) -> u64 {
    let topic = batch.lane.topic.len() as u64;
    let traces: u64 = batch.traces.iter().map(traces::bytes_of).sum();
    50 + topic + 30 * batch.redelivered.len() as u64 + traces
}

impl Driver {
    /// The subscriber takes part until its draw ends.
    pub(super) fn begin_draw(&mut self, session: Session, draw: Draw) {
        let taking = self.taking();
        if let Some(subscriber) = self.speaks(session) {
            self.subscribers.set_draw(subscriber, draw, taking);
            self.leases_moved = true;
        }
    }

    /// The session wants no more.
    pub(super) fn stop_draw(&mut self, session: Session) {
        if let Some(subscriber) = self.speaks(session) {
            self.end_draw(subscriber, Drawn::Done);
        }
    }

    /// Ends the session unless anything is out to it.
    pub(super) fn retire(&mut self, session: Session, how: Departure) {
        // What it has said counts.
        self.carry_out(self.now());
        let subscriber = self.subscribers.of(session);
        if subscriber.is_some_and(|it| !self.subscribers.has_out(it)) {
            self.depart(session, how);
        }
    }

    fn end_draw(&mut self, subscriber: Subscriber, how: Drawn) {
        let now = self.now();
        if !self.subscribers.end_draw(subscriber) {
            return;
        }
        // It takes nothing any more: others may go on with its keys.
        self.give_up_keys(now, subscriber);
        self.leases_moved = true;
        if !self.subscribers.tell(subscriber, Outbound::Drawn(how)) {
            self.cut_off(subscriber, End::NotReading);
        }
    }

    /// Ends the draws that are over. What can be handed out has been.
    pub(super) fn step_draws(&mut self, now: Time) {
        let mut ended = false;
        for (subscriber, drawing) in self.subscribers.draws(now) {
            if let Some(how) = self.is_over(now, subscriber, &drawing) {
                self.end_draw(subscriber, how);
                ended = true;
            }
        }
        if ended {
            // L13: it may have been the last.
            self.follow_eligibility(now);
        }
    }

    fn is_over(&self, now: Time, subscriber: Subscriber, drawing: &Drawing) -> Option<Drawn> {
        if let Some(first) = drawing.first {
            let linger = drawing.asked.linger;
            let is_over = self.stopping.is_some()
                || drawing.is_full()
                || first.after(linger) <= now
                || drawing.gives_up() <= now;
            return is_over.then_some(Drawn::Done);
        }
        if self.stopping.is_some() {
            return Some(Drawn::Done);
        }
        if drawing.waits_until() > now {
            return None;
        }
        if self.has_looked(now, subscriber, drawing.begun) {
            Some(Drawn::Done)
        } else {
            (drawing.gives_up() <= now).then_some(Drawn::NotSeen)
        }
    }

    /// Whether every lane has been looked at since then, as far as it may be.
    fn has_looked(&self, now: Time, subscriber: Subscriber, begun: Taking) -> bool {
        let again = begun.since.after(LOOKS_AGAIN) <= now;
        self.is_assignment_settled(now)
            && self.eligible
            && self
                .lanes
                .all()
                .all(|entry| has_seen(entry, subscriber, begun, again))
    }

    /// When a draw may end without anything happening before.
    pub(super) fn next_draw(&self, now: Time) -> Option<Time> {
        let draws = self.subscribers.drawing();
        let due = draws.flat_map(|drawing| {
            let lingers = drawing.first.map(|first| first.after(drawing.asked.linger));
            let looks = drawing.begun.since.after(LOOKS_AGAIN);
            let empty = self.empty_counts_at();
            let times = [lingers, Some(drawing.waits_until()), Some(looks), empty];
            times.into_iter().flatten().chain([drawing.gives_up()])
        });
        due.filter(|at| *at > now).min()
    }
}

/// Whether there is nothing in the lane that could be handed out now: it has been read to
/// its end, or nothing more of it can be read, or would be the subscriber's, before
/// something else happens.
fn has_seen(entry: &Entry, subscriber: Subscriber, begun: Taking, again: bool) -> bool {
    let is_read = entry.at_end.is_some_and(|look| look > begun.look || again);
    is_read
        || entry.failed
        || entry.full
        || entry.lane.is_draining()
        || entry.lane.stop().is_some()
        || entry.gate.room(entry.lane.room()) == 0
        || !entry.may_take(subscriber)
}
