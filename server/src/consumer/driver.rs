//! The loop of one subscription: broker events and sessions' messages go to the
//! lanes, their effects are carried out, what is ready is handed out.
//!
//! **Invariant**: the driver never waits for a session or for the broker; both
//! have bounded queues towards it, and what it tells them never blocks.

use std::{sync::Arc, time::Duration};

use ackgate_lane::{Cause, Fence, Generation, Offset, Time};
use futures::{
    future::BoxFuture,
    stream::{FuturesUnordered, StreamExt as _},
};
use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

use super::{
    budget::Budget,
    cohort::Cohort,
    counts::Counts,
    durable::Durable,
    handle::{End, Handle, Input, Outbound, State},
    intake::{Tally, Wall},
    lanes::Lanes,
    membership::{Membership, Revoke},
    meter::Meter,
    mutation,
    shape::Waits,
    subscribers::Subscribers,
    traces::Spans,
};
use crate::{
    broker::{self, ClientStats, Commit, Connect, Placed, Producer},
    config,
    telemetry::{episode::Episode, traces::Tracer},
};

/// Messages from sessions that wait for the driver; a full queue makes them wait.
const INPUTS: usize = 1024;

/// Messages taken from a queue before effects are carried out.
const PER_TURN: usize = 64;

/// What a driver is made of.
#[derive(Debug)]
pub struct Parts {
    /// The subscription's settings.
    pub subscription: Arc<config::Subscription>,
    /// Makes its consumers.
    pub connect: Arc<dyn Connect>,
    /// Writes its dead letters; `None` if the policy needs none.
    pub producer: Option<Arc<dyn Producer>>,
    /// Shared by the gateway's drivers.
    pub budget: Budget,
    /// Time zero of all lanes.
    pub origin: Instant,
    /// Judges the age of records.
    pub wall: Wall,
    /// Where its spans go.
    pub tracer: Tracer,
    /// How long a record may be out without a verdict, and a lane hand nothing out that
    /// could, before the lane is told as stalled.
    pub stalled_after: Duration,
}

/// A dead letter on its way.
pub(super) type Letter =
    BoxFuture<'static, (Generation, (Offset, Cause), Result<Placed, broker::Error>)>;

/// One subscription at work.
pub(super) struct Driver {
    pub(super) parts: Parts,
    pub(super) inputs: mpsc::Receiver<Input>,
    pub(super) state: watch::Sender<State>,
    pub(super) lanes: Lanes,
    pub(super) subscribers: Subscribers,
    pub(super) membership: Membership,
    pub(super) waits: Waits,
    /// How often the end of a lane was reached.
    pub(super) looks: u64,
    pub(super) cohort: Cohort,
    pub(super) letters: FuturesUnordered<Letter>,
    /// Gathered over a turn, so that one request serves all lanes.
    pub(super) commits: Vec<Commit>,
    pub(super) revokes: Vec<Revoke>,
    /// The graceful stop's deadline.
    pub(super) stopping: Option<Time>,
    /// Whether somebody took records when the lanes were last told.
    pub(super) eligible: bool,
    /// A lane could not be granted anything for want of memory.
    pub(super) starved: bool,
    pub(super) durable: Durable,
    /// Something happened that may move leases.
    pub(super) leases_moved: bool,
    pub(super) letter_failures: Episode<Time>,
    pub(super) commit_failures: Episode<Time>,
    /// Whether the group may have given the lanes away.
    pub(super) fence: Fence,
    /// Bytes counted in the gateway's budget for what is fetched ahead.
    pub(super) prefetch: u64,
    pub(super) tally: Tally,
    pub(super) spans: Spans,
    /// What is counted for whoever scrapes it.
    pub(super) meter: Meter,
    /// What Kafka's client last told of itself.
    pub(super) client: Option<ClientStats>,
    /// Where the last counts are left.
    last: Arc<Mutex<Option<Meter>>>,
    /// When the lanes' progress is looked at next, if there is any to watch.
    pub(super) look: Option<Time>,
    counts: watch::Sender<Counts>,
}

/// Starts a driver. It ends when it is told to stop, or with its last handle.
#[must_use]
pub fn spawn(parts: Parts) -> Handle {
    let (sender, inputs) = mpsc::channel(INPUTS);
    let (state, states) = watch::channel(State::Away);
    let (counts, counted) = watch::channel(Counts::default());
    let last = Arc::default();
    let subscription = Arc::clone(&parts.subscription);
    let tally = Tally::of(&subscription.name);
    let fence = Fence::new(Time::default(), parts.connect.session());
    let spans = Spans::new(&parts.tracer);
    let driver = Driver {
        parts,
        inputs,
        state,
        lanes: Lanes::default(),
        subscribers: Subscribers::default(),
        membership: Membership::default(),
        waits: Waits::default(),
        looks: 0,
        cohort: Cohort::default(),
        letters: FuturesUnordered::new(),
        commits: Vec::new(),
        revokes: Vec::new(),
        stopping: None,
        eligible: false,
        starved: false,
        durable: Durable::default(),
        leases_moved: false,
        letter_failures: Episode::default(),
        commit_failures: Episode::default(),
        fence,
        prefetch: 0,
        tally,
        spans,
        meter: Meter::default(),
        client: None,
        last: Arc::clone(&last),
        look: None,
        counts,
    };
    tokio::spawn(driver.run());
    Handle {
        subscription,
        inputs: sender,
        state: states,
        counts: counted,
        last,
    }
}

impl Driver {
    async fn run(mut self) {
        let mut inputs = Vec::with_capacity(PER_TURN);
        let mut events = Vec::with_capacity(PER_TURN);
        let mut orphaned = false;
        loop {
            let wake = mutation::wake(self.next_wake(), self.subscribers.is_empty());
            let wake = self.parts.origin + wake.0;
            // In this order, so that a run can be repeated exactly. Nobody starves: what
            // comes before the sessions follows from what they said, and is bounded by it.
            tokio::select! {
                biased;
                count = self.membership.receive(&mut events, PER_TURN) => {
                    if count == 0 {
                        self.consumer_closed();
                    }
                    for event in events.drain(..) {
                        self.handle_event(event);
                    }
                }
                Some((generation, of, result)) = self.letters.next(),
                    if !self.letters.is_empty() =>
                {
                    self.letter_answered(generation, of, &result);
                }
                // Without a handle left nobody speaks again: asking would spin.
                count = self.inputs.recv_many(&mut inputs, PER_TURN), if !orphaned => {
                    if count == 0 {
                        orphaned = true;
                        self.stop(Duration::ZERO);
                    }
                    for input in inputs.drain(..) {
                        self.handle_input(input);
                    }
                }
                () = tokio::time::sleep_until(wake) => {}
            }
            self.turn();
            if self.is_finished() {
                break;
            }
        }
        for subscriber in self.subscribers.ids() {
            self.end(subscriber, End::ShuttingDown);
        }
        *self.last.lock() = Some(self.counted());
        self.state.send_replace(State::Stopped);
    }

    pub(super) fn now(&self) -> Time {
        Time(self.parts.origin.elapsed())
    }

    /// Everything that follows from what was received.
    fn turn(&mut self) {
        let now = self.now();
        mutation::turn();
        for generation in self.lanes.due(now) {
            self.lapse_lease(now, generation);
            if let Some(entry) = self.lanes.touch(generation) {
                entry.lane.handle_timeout(now);
            }
            self.open_gate(now, generation);
        }
        self.step_fence(now);
        self.end_absences(now, false);
        self.follow_eligibility(now);
        self.carry_out(now);
        self.spread_leases(now);
        self.carry_out(now);
        self.dispatch(now);
        self.step_draws(now);
        self.end_drained(now);
        self.end_leaving(now);
        self.carry_out(now);
        self.send_commits();
        self.answer_revokes();
        self.step_membership(now);
        self.watch_progress(now);
        self.publish_counts();
    }

    fn publish_counts(&self) {
        let counts = self.tally.counts;
        self.counts
            .send_if_modified(|published| std::mem::replace(published, counts) != counts);
    }

    fn send_commits(&mut self) {
        if self.commits.is_empty() {
            return;
        }
        let commits = std::mem::take(&mut self.commits);
        self.meter.commit_batches += 1;
        if let Some(consumer) = self.membership.consumer() {
            consumer.commit(commits);
        }
    }

    /// Ends a session in order: after what waits in its outbox.
    pub(super) fn end(&mut self, subscriber: ackgate_lane::Subscriber, end: End) {
        if let Some(mut attached) = self.subscribers.detach(subscriber)
            && !attached.send(Outbound::End(end))
        {
            attached.cut(end);
        }
    }
}
