//! How a consumer ends, and how the next one is made.

use std::{
    sync::{Arc, mpsc::sync_channel},
    thread,
    time::{Duration, Instant},
};

use backon::{BackoffBuilder as _, ExponentialBuilder};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use tracing::{error, warn};

use super::{
    super::{
        commit::Committer,
        rebalance::{Context, LAST_COMMIT},
    },
    Built, DROP_TIMEOUT, LEAVE_TIMEOUT, SEEK_RETRY, Worker,
};
use crate::telemetry::episode::Episode;

/// The longest pause before a consumer is built again.
const MAX_PAUSE: Duration = Duration::from_secs(30);

impl Worker {
    /// Leaves the group, with the last commits of its lanes.
    pub(super) fn leave(&self, built: &Built) {
        let Built { consumer, .. } = built;
        consumer.unsubscribe();
        let deadline = Instant::now() + LEAVE_TIMEOUT;
        while Instant::now() < deadline {
            self.poll_main(built);
            let gone = consumer.assignment().is_ok_and(|list| list.count() == 0);
            let mut core = self.core.lock();
            core.outbox.flush();
            if gone && core.lanes.is_empty() {
                return;
            }
            drop(core);
            thread::park_timeout(SEEK_RETRY);
        }
        warn!(group = self.plan.group, "the group was not left in time");
    }

    /// Ends a consumer: its lanes, what it commits, and itself, all within bounds.
    pub(super) fn dispose(&self, consumer: Arc<BaseConsumer<Context>>) {
        consumer.context().retire();
        let mut core = self.core.lock();
        let answers = core.committer.wait(Instant::now() + LAST_COMMIT);
        core.answer(answers);
        core.committer.give_up();
        core.accept(&self.inbox);
        core.abandon();
        drop(core);
        let (done, wait) = sync_channel(1);
        let dropped = thread::Builder::new()
            .name("kafka-drop".to_owned())
            .spawn(move || {
                drop(consumer);
                // The receiver may have given up.
                done.send(()).ok();
            });
        if dropped.is_err() || wait.recv_timeout(DROP_TIMEOUT).is_err() {
            error!(
                group = self.plan.group,
                "a consumer does not close and is abandoned"
            );
        }
    }

    /// Makes the next consumer after a pause; `None` if it is no longer wanted.
    pub(super) fn rebuild(&self, backoff: &mut impl Iterator<Item = Duration>) -> Option<Built> {
        let mut failures = Episode::new();
        loop {
            let until = Instant::now() + backoff.next().unwrap_or(MAX_PAUSE);
            loop {
                let mut core = self.core.lock();
                core.outbox.flush();
                if self.inbox.closing() || core.outbox.closed() {
                    return None;
                }
                core.accept(&self.inbox);
                core.fence();
                drop(core);
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                thread::park_timeout(left);
            }
            // A committer that hangs in the former consumer is left to itself.
            let built = Committer::start(Arc::clone(&self.waker), self.plan.atomic.as_ref())
                .map_err(|error| error.to_string())
                .map(|committer| self.core.lock().committer = committer)
                .and_then(|()| self.build().map_err(|error| error.to_string()));
            match built {
                Ok(built) => return Some(built),
                Err(error) => {
                    if let Some(count) = failures.again(Instant::now()) {
                        warn!(
                            group = self.plan.group, %error, count,
                            "consumer cannot be built"
                        );
                    }
                }
            }
        }
    }
}

pub(super) fn pauses() -> impl Iterator<Item = Duration> {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_secs(1))
        .with_max_delay(MAX_PAUSE)
        .with_factor(2.0)
        .without_max_times()
        .with_jitter()
        .build()
}
