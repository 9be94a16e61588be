//! When a subscription is in its consumer group: from its first subscriber until
//! `linger` after its last, and how it leaves.

use std::{sync::mpsc::SyncSender, time::Duration};

use ackgate_lane::{Generation, Time};
use tokio::sync::mpsc;

use super::{
    driver::Driver,
    handle::{DrainReason, End, Outbound, State},
};
use crate::{
    broker::{ClusterState, Commit, Consumer, Event},
    telemetry::logs::millis,
};

/// Events that wait for the driver. Chunks hold at most 128 KiB, so this bounds
/// what is on its way at 2 MiB; a full queue makes the consumer leave records
/// where they are.
const EVENTS: usize = 16;

/// Wait before the client library is asked again for a consumer it refused.
const REJOIN_AFTER: Duration = Duration::from_secs(5);

/// A lane that wants memory is looked at again after this long.
const STARVED_AGAIN: Duration = Duration::from_millis(50);

/// Without anything to do, the driver looks around this often.
const IDLE_WAKE: Duration = Duration::from_secs(3600);

/// The consumer, if there is one.
#[derive(Debug, Default)]
pub(super) struct Membership {
    joined: Option<Joined>,
    /// When to leave for want of subscribers.
    leave_at: Option<Time>,
    /// When to try again after the client library refused.
    retry_at: Option<Time>,
    /// When lanes were last assigned; `None` before the first time, and while lanes that
    /// are taken away have not been followed by another assignment.
    pub(super) assigned: Option<Time>,
}

#[derive(Debug)]
struct Joined {
    consumer: Box<dyn Consumer>,
    events: mpsc::Receiver<Event>,
    closing: bool,
}

/// Lanes on their way out, until all are drained.
#[derive(Debug)]
pub(super) struct Revoke {
    pub(super) generations: Vec<Generation>,
    pub(super) lost: bool,
    pub(super) reply: SyncSender<Vec<Commit>>,
}

impl Membership {
    /// Takes events, waiting for the first; for ever without a consumer. 0 means
    /// that the consumer is gone.
    pub(super) async fn receive(&mut self, events: &mut Vec<Event>, limit: usize) -> usize {
        match &mut self.joined {
            Some(joined) => joined.events.recv_many(events, limit).await,
            None => std::future::pending().await,
        }
    }

    pub(super) fn consumer(&self) -> Option<&dyn Consumer> {
        self.joined.as_ref().map(|joined| &*joined.consumer)
    }

    /// Whether lanes may be granted anything.
    pub(super) fn is_staying(&self) -> bool {
        self.joined.as_ref().is_some_and(|joined| !joined.closing)
    }
}

impl Driver {
    /// When something is due without any message.
    pub(super) fn next_wake(&self) -> Time {
        let now = self.now();
        [
            self.lanes.next_timeout(),
            self.membership.leave_at.filter(|_| self.stopping.is_none()),
            self.membership
                .retry_at
                .filter(|_| !self.subscribers.is_empty()),
            self.stopping.filter(|_| self.membership.is_staying()),
            self.subscribers.next_reservation_end(),
            self.starved.then(|| now.after(STARVED_AGAIN)),
            self.waits.due(),
            self.next_drained(),
            self.next_draw(now),
            self.subscribers
                .next_goodbye()
                .filter(|_| self.stopping.is_none()),
            self.fence.due().filter(|_| self.minds_fence()),
            self.subscribers.next_absence(),
            self.leases_moved.then_some(now),
            self.cohort_due(now),
            self.look.filter(|_| self.lanes.len() > 0),
        ]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or_else(|| now.after(IDLE_WAKE))
    }

    /// Joins or leaves, as subscribers come and go.
    pub(super) fn step_membership(&mut self, now: Time) {
        if self.stopping.is_some() {
            self.step_stop(now);
            return;
        }
        let wanted = !self.subscribers.is_empty();
        match &mut self.membership.joined {
            None if wanted => self.join(now),
            None => self.membership.leave_at = None,
            Some(joined) if wanted || joined.closing => self.membership.leave_at = None,
            Some(joined) => {
                let linger = self.parts.subscription.linger;
                let leave_at = *self
                    .membership
                    .leave_at
                    .get_or_insert_with(|| now.after(linger));
                if leave_at <= now {
                    tracing::info!(
                        subscription = self.parts.subscription.name,
                        linger_ms = millis(linger),
                        "no subscriber is there any more: leaving the group"
                    );
                    joined.closing = true;
                    joined.consumer.close();
                    self.membership.leave_at = None;
                }
            }
        }
    }

    fn join(&mut self, now: Time) {
        if self.membership.retry_at.is_some_and(|at| at > now) {
            return;
        }
        self.membership.retry_at = None;
        let (sender, events) = mpsc::channel(EVENTS);
        match self.parts.connect.consume(sender) {
            Ok(consumer) => {
                self.membership.joined = Some(Joined {
                    consumer,
                    events,
                    closing: false,
                });
                if let Some(count) = self.tally.join_failures.over() {
                    tracing::info!(
                        subscription = self.parts.subscription.name,
                        count,
                        "the consumer could be made"
                    );
                }
                self.begin_cohort(now);
                self.state
                    .send_replace(State::Joined(ClusterState::Reachable));
            }
            Err(error) => {
                if let Some(count) = self.tally.join_failures.again(now) {
                    tracing::error!(
                        subscription = self.parts.subscription.name,
                        %error,
                        count,
                        retry_ms = millis(REJOIN_AFTER),
                        "the consumer could not be made and is tried again"
                    );
                }
                self.membership.retry_at = Some(now.after(REJOIN_AFTER));
            }
        }
    }

    /// Begins the graceful stop.
    pub(super) fn stop(&mut self, drain: Duration) {
        let now = self.now();
        let asked = now.after(drain);
        // Of several stops the earliest deadline holds.
        let deadline = self.stopping.map_or(asked, |before| before.min(asked));
        self.stopping = Some(deadline);
        // Nobody comes back to a gateway that stops: what is out to them is not awaited.
        self.end_absences(now, true);
        for subscriber in self.subscribers.ids() {
            let told = Outbound::Drain(drain, DrainReason::GatewayStops);
            let _missed = self.subscribers.inform(subscriber, told);
        }
        for generation in self.lanes.generations() {
            if let Some(entry) = self.lanes.touch(generation) {
                entry.lane.begin_drain(now, deadline);
            }
        }
    }

    /// Once everything is drained: sessions end, and the consumer makes the last
    /// commits while it leaves the group.
    fn step_stop(&mut self, now: Time) {
        let over = self.stopping.is_some_and(|deadline| deadline <= now);
        if !self.lanes.all_drained() && !over {
            return;
        }
        for subscriber in self.subscribers.ids() {
            // Who waits for the last commits to be durable hears of them first.
            if over || !self.durable.owes(subscriber) {
                self.end(subscriber, End::ShuttingDown);
            }
        }
        if let Some(joined) = &mut self.membership.joined
            && !joined.closing
        {
            joined.closing = true;
            joined.consumer.close();
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        self.stopping.is_some() && self.membership.joined.is_none()
    }

    /// The consumer has gone: whatever lanes it had are gone with it.
    pub(super) fn consumer_closed(&mut self) {
        self.membership.joined = None;
        self.membership.assigned = None;
        // The next one counts from 0.
        self.client = None;
        let now = self.now();
        self.forget_group(now);
        self.count_prefetch(0);
        let left = self.lanes.generations();
        self.lanes_gone(&left);
        self.state.send_replace(State::Away);
    }

    /// Answers revokes whose lanes are all drained.
    pub(super) fn answer_revokes(&mut self) {
        let lanes = &self.lanes;
        let (done, waiting): (Vec<Revoke>, Vec<Revoke>) = std::mem::take(&mut self.revokes)
            .into_iter()
            .partition(|revoke| {
                revoke
                    .generations
                    .iter()
                    .all(|g| lanes.get(*g).is_none_or(|entry| entry.drained))
            });
        self.revokes = waiting;
        for revoke in done {
            let commits: Vec<Commit> = if revoke.lost {
                Vec::new()
            } else {
                let lanes = revoke.generations.iter().filter_map(|g| self.lanes.get(*g));
                lanes
                    .filter_map(|entry| entry.last_commit.clone())
                    .collect()
            };
            self.meter.commit_batches += u64::from(!commits.is_empty());
            // The consumer stops waiting at its own deadline; then nobody listens.
            let _late = revoke.reply.try_send(commits);
        }
    }
}
