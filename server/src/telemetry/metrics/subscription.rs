//! The series of a subscription, or of all ad hoc ones of a cluster together.

use std::{sync::Arc, time::Duration};

use ackgate_lane::{TIME_BOUNDS, Times};

use super::{
    names::{self, Spec},
    picture::{Label, Picture, Spread, Value},
};
use crate::{
    broker::{ClientStats, ClusterState},
    consumer::{
        ATTEMPT_BOUNDS, Attempts, By, Closed, HeldBy, Measured, MeasuredLane, Meter, State,
    },
};

/// One subscription, or several, in numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Whole {
    meter: Meter,
    joined: u64,
    reachable: u64,
    fenced: u64,
    lanes: u64,
    held: [u64; HeldBy::ALL.len()],
    stalled: u64,
    taking: u64,
    paused: u64,
    credit: (u64, u64),
    out: (u64, u64),
    client: ClientStats,
}

impl Whole {
    /// What was counted and is over.
    pub(super) fn past(meter: Meter) -> Self {
        Self {
            meter,
            ..Self::default()
        }
    }

    /// Adds a subscription that runs.
    pub(super) fn add(&mut self, measured: &Measured, state: &State) {
        self.meter.add(&measured.meter);
        let (joined, reachable) = match state {
            State::Joined(ClusterState::Reachable) => (1, 1),
            State::Joined(ClusterState::Unreachable { .. } | ClusterState::Rebuilding { .. }) => {
                (1, 0)
            }
            State::Away | State::Stopped => (0, 0),
        };
        self.joined += joined;
        self.reachable += reachable;
        self.fenced += u64::from(measured.fenced);
        self.taking += measured.taking;
        self.paused += measured.paused;
        self.credit.0 = self.credit.0.saturating_add(measured.credit.records);
        self.credit.1 = self.credit.1.saturating_add(measured.credit.bytes);
        self.out.0 += measured.out.records;
        self.out.1 += measured.out.bytes;
        for lane in &measured.lanes {
            self.add_lane(lane);
        }
        if let Some(client) = &measured.client {
            self.add_client(client);
        }
    }

    fn add_lane(&mut self, lane: &MeasuredLane) {
        self.lanes += 1;
        self.stalled += u64::from(lane.stalled);
        let held = lane.held.map(HeldBy::index);
        if let Some(held) = held.and_then(|at| self.held.get_mut(at)) {
            *held += 1;
        }
    }

    fn add_client(&mut self, of: &ClientStats) {
        let client = &mut self.client;
        client.up += of.up;
        client.down += of.down;
        client.in_flight += of.in_flight;
        client.rtt = client.rtt.max(of.rtt);
        client.prefetched_records += of.prefetched_records;
        client.prefetched_bytes += of.prefetched_bytes;
    }

    /// Puts all series into the picture; `names` are the subscription and its cluster.
    pub(super) fn put(&self, picture: &mut Picture, names: &[Label; 2]) {
        let mut to = Row { picture, names };
        self.put_state(&mut to);
        self.put_records(&mut to);
        self.put_log(&mut to);
        self.put_client(&mut to);
    }

    fn put_state(&self, to: &mut Row<'_>) {
        to.put(&names::JOINED, self.joined);
        to.put(&names::REACHABLE, self.reachable);
        to.put(&names::FENCED, self.fenced);
        to.put(&names::LANES, self.lanes);
        for (held, count) in HeldBy::ALL.iter().zip(self.held) {
            to.put_of(&names::LANES_HELD, held.name(), count);
        }
        to.put(&names::LANES_STALLED, self.stalled);
        to.put_of(&names::SUBSCRIBERS, "taking", self.taking);
        to.put_of(&names::SUBSCRIBERS, "paused", self.paused);
        to.put(&names::CREDIT_RECORDS, self.credit.0);
        to.put(&names::CREDIT_BYTES, self.credit.1);
        to.put(&names::OUT_RECORDS, self.out.0);
        to.put(&names::OUT_BYTES, self.out.1);
    }

    fn put_records(&self, to: &mut Row<'_>) {
        let meter = &self.meter;
        to.put(&names::FETCHED_RECORDS, meter.fetched.records);
        to.put(&names::FETCHED_BYTES, meter.fetched.bytes);
        to.put(&names::DELIVERED_RECORDS, meter.delivered.records);
        to.put(&names::DELIVERED_BYTES, meter.delivered.bytes);
        to.put(&names::REDELIVERED, meter.redelivered);
        to.put(&names::ATTEMPTS, of_attempts(&meter.attempts));
        let answered = &meter.answered;
        for (kind, count) in [
            ("acked", answered.acked),
            ("rejected", answered.rejected),
            ("failed", answered.failed),
            ("released", answered.released),
        ] {
            to.put_of(&names::VERDICTS, kind, count);
        }
        to.put_each(&names::VERDICT_PROBLEMS, &meter.problems);
        to.put(&names::VERDICT_TIMES, of_times(&answered.times));
        to.put_each(&names::ENDED, &meter.ended);
        for (cause, outcome, count) in meter.letters() {
            let mut labels = to.labels();
            labels.extend([cause.name().into(), outcome.name().into()]);
            to.picture.put(&names::DEAD_LETTERS, labels, count);
        }
        let counts = &meter.counts;
        to.put(&names::FILTERED, counts.filtered);
        to.put(&names::UNWANTED, counts.unwanted);
        to.put(&names::FILTER_FAILURES, counts.filter_failures);
        to.put(&names::EXPIRED, counts.expired);
        for (outcome, count) in [
            ("rejected", counts.content_rejected),
            ("skipped", counts.content_skipped),
            ("delivered", counts.content_delivered),
        ] {
            to.put_of(&names::UNFIT, outcome, count);
        }
        to.put(&names::VANISHED, counts.lost);
        to.put(&names::TRIPS, meter.trips);
    }

    fn put_log(&self, to: &mut Row<'_>) {
        let meter = &self.meter;
        to.put_each(&names::SEEKS, &meter.seeks);
        to.put(&names::SEEK_FAILURES, meter.seek_failures);
        to.put_each(&names::COMMITS, &meter.commits);
        to.put(&names::COMMIT_TIMES, of_times(&meter.commit_times));
        to.put(&names::COMMIT_BATCHES, meter.commit_batches);
        to.put(&names::COMMITTED, meter.committed_offsets);
        to.put_each(&names::REBALANCES, &meter.rebalances);
    }

    fn put_client(&self, to: &mut Row<'_>) {
        let client = &self.client;
        to.put_of(&names::KAFKA_BROKERS, "up", client.up);
        to.put_of(&names::KAFKA_BROKERS, "down", client.down);
        to.put(&names::KAFKA_IN_FLIGHT, client.in_flight);
        to.put(&names::KAFKA_RTT, client.rtt.as_secs_f64());
        to.put(&names::KAFKA_PREFETCHED_RECORDS, client.prefetched_records);
        to.put(&names::KAFKA_PREFETCHED_BYTES, client.prefetched_bytes);
        let counted = &self.meter.client;
        to.put(&names::KAFKA_RECEIVED, counted.received);
        to.put(&names::KAFKA_SENT, counted.sent);
        to.put(&names::KAFKA_CONNECTS, counted.connects);
        to.put(&names::KAFKA_DISCONNECTS, counted.disconnects);
        to.put(&names::KAFKA_TIMEOUTS, counted.timeouts);
        to.put(&names::KAFKA_ERRORS, counted.errors);
    }
}

/// Where the series of one subscription go.
struct Row<'a> {
    picture: &'a mut Picture,
    names: &'a [Label; 2],
}

impl Row<'_> {
    fn labels(&self) -> Vec<Label> {
        self.names.to_vec()
    }

    fn put(&mut self, spec: &Spec, value: impl Into<Value>) {
        let labels = self.labels();
        self.picture.put(spec, labels, value);
    }

    fn put_of(&mut self, spec: &Spec, of: &'static str, value: u64) {
        let mut labels = self.labels();
        labels.push(of.into());
        self.picture.put(spec, labels, value);
    }

    fn put_each<S: Closed>(&mut self, spec: &Spec, counts: &By<S>) {
        for (of, count) in counts.each() {
            self.put_of(spec, of.name(), count);
        }
    }
}

fn of_times(times: &Times) -> Spread {
    let bounds = TIME_BOUNDS.iter().map(Duration::as_secs_f64);
    Spread {
        classes: bounds.zip(times.counts).collect(),
        above: times.counts.last().copied().unwrap_or_default(),
        sum: times.total.as_secs_f64(),
    }
}

fn of_attempts(attempts: &Attempts) -> Spread {
    let bounds = ATTEMPT_BOUNDS.iter().map(|bound| f64::from(*bound));
    Spread {
        classes: bounds.zip(attempts.counts).collect(),
        above: attempts.counts.last().copied().unwrap_or_default(),
        sum: real(attempts.total),
    }
}

/// A count as a real number; exact up to 2^53.
#[allow(
    clippy::cast_precision_loss,
    reason = "counts of more than 2^53 need no last digit"
)]
pub(super) const fn real(count: u64) -> f64 {
    count as f64
}

/// The labels of what belongs to a subscription.
pub(super) fn names_of(subscription: &Arc<str>, cluster: &Arc<str>) -> [Label; 2] {
    [subscription.into(), cluster.into()]
}
