//! The gateway's side of a consumer: a handle whose calls never block.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use ackgate_lane::{Generation, Position};
use parking_lot::{Condvar, Mutex};
use rdkafka::ClientConfig;
use tokio::sync::mpsc;
use tracing::error;

use super::{
    commit::Committer,
    consumer::{DROP_TIMEOUT, LEAVE_TIMEOUT, Worker},
    core::{Core, Plan},
    error as errors,
    health::Health,
    inbox::Inbox,
    outbox::Outbox,
    past::Past,
    rebalance::LAST_COMMIT,
    settings,
    wake::Waker,
};
use crate::{
    broker::{Commit, Connect, Consumer, Error, ErrorKind, Event},
    config::{Cluster, Subscription},
    telemetry::{episode::Episode, logs::millis, traces::Sampling},
};

/// What a revoke waits beyond the subscription's own drain, for verdicts that
/// came in its last moment to be turned into positions.
const REVOKE_SLACK: Duration = Duration::from_secs(2);

/// Makes consumers of one subscription on one cluster.
pub struct KafkaConnect {
    config: ClientConfig,
    group: String,
    plan: Arc<Plan>,
    session: Duration,
}

/// librdkafka's own default.
const SESSION: Duration = Duration::from_secs(45);

impl KafkaConnect {
    /// Consumers of `subscription` on `cluster`. Opens nothing yet.
    #[must_use]
    pub fn new(cluster: &Cluster, subscription: &Subscription) -> Self {
        let config = settings::consumer(cluster, subscription);
        let session = config
            .get("session.timeout.ms")
            .and_then(|ms| ms.trim().parse().ok())
            .map_or(SESSION, Duration::from_millis);
        let mut own = cluster.properties.clone();
        own.extend_from_slice(&subscription.consumer_properties);
        Self {
            config,
            group: subscription.group.clone(),
            plan: Arc::new(Plan {
                group: subscription.group.clone(),
                topics: subscription.reads(),
                retry: subscription.retry_topic().map(str::to_owned),
                start: subscription.start,
                prefetch: u64::MAX,
                own,
                revoke_wait: subscription.revoke_drain + REVOKE_SLACK,
                atomic: settings::transactions(cluster, subscription),
                sampling: None,
            }),
            session,
        }
    }

    /// Looks for records that are traced.
    #[must_use]
    pub fn sampling(mut self, sampling: Option<Sampling>) -> Self {
        if let Some(plan) = Arc::get_mut(&mut self.plan) {
            plan.sampling = sampling;
        }
        self
    }

    /// Limits what each consumer fetches ahead to `bytes`, over all its lanes.
    #[must_use]
    pub fn within(mut self, bytes: u64) -> Self {
        if let Some(plan) = Arc::get_mut(&mut self.plan) {
            plan.prefetch = bytes;
        }
        self
    }
}

impl Connect for KafkaConnect {
    fn consume(&self, events: mpsc::Sender<Event>) -> Result<Box<dyn Consumer>, Error> {
        if let Some(topic) = self.plan.topics.iter().find(|topic| !valid(topic)) {
            let detail = format!("topic {topic:?} is not a name that Kafka takes");
            return Err(Error {
                kind: ErrorKind::Operator,
                detail,
            });
        }
        if let Some(atomic) = &self.plan.atomic {
            // Made by the thread that commits; here it is told while somebody listens.
            let made = atomic.config.create_native_config();
            made.map_err(|error| errors::mapped(&error, "settings of transactions"))?;
        }
        let waker = Arc::new(Waker::default());
        let inbox = Arc::new(Inbox::new(Arc::clone(&waker)));
        let no_thread = |error| errors::transient(format!("no thread for a consumer: {error}"));
        let core = Core {
            lanes: Vec::new(),
            outbox: Outbox::new(events.clone(), Arc::clone(&waker)),
            health: Health::new(&self.group).without(self.plan.retry.clone()),
            commits: std::collections::BTreeMap::new(),
            committer: Committer::start(Arc::clone(&waker), self.plan.atomic.as_ref())
                .map_err(no_thread)?,
            past: Past::default(),
            limits: None,
            moves: Episode::new(),
        };
        let worker = Worker {
            config: self.config.clone(),
            plan: Arc::clone(&self.plan),
            inbox: Arc::clone(&inbox),
            core: Arc::new(Mutex::new(core)),
            waker,
        };
        let built = worker
            .build()
            .map_err(|error| errors::mapped(&error, "settings of the consumer"))?;
        let ending = Arc::new(Ending::new(events));
        let last = Last(Arc::clone(&ending));
        thread::Builder::new()
            .name("kafka-consumer".to_owned())
            .spawn(move || {
                let _last = last;
                worker.run(built);
            })
            .map_err(no_thread)?;
        let limit = self.plan.revoke_wait + LAST_COMMIT + LEAVE_TIMEOUT + DROP_TIMEOUT;
        Ok(Box::new(KafkaConsumer {
            inbox,
            ending,
            limit,
            closing: AtomicBool::new(false),
        }))
    }

    fn session(&self) -> Duration {
        self.session
    }
}

/// Names are checked when the configuration is read; this keeps rdkafka from
/// panicking on a NUL and from taking a name for a pattern.
fn valid(topic: &str) -> bool {
    !topic.is_empty()
        && topic.len() <= 249
        && topic
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

impl fmt::Debug for KafkaConnect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The settings hold secrets.
        f.debug_struct("KafkaConnect")
            .field("group", &self.group)
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

/// One member of the group. Dropping it closes it.
#[derive(Debug)]
pub struct KafkaConsumer {
    inbox: Arc<Inbox>,
    ending: Arc<Ending>,
    /// For everything that closing may wait for, one after the other.
    limit: Duration,
    closing: AtomicBool,
}

impl Consumer for KafkaConsumer {
    fn grant(&self, generation: Generation, records: u32, bytes: u64) {
        self.inbox.grant(generation, records, bytes);
    }

    fn withdraw(&self, generation: Generation) {
        self.inbox.withdraw(generation);
    }

    fn commit(&self, commits: Vec<Commit>) {
        self.inbox.commit(commits);
    }

    fn seek(&self, generation: Generation, to: Position, seek: u64) {
        self.inbox.seek(generation, to, seek);
    }

    fn close(&self) {
        if self.closing.swap(true, Ordering::AcqRel) {
            return;
        }
        self.inbox.close();
        let (ending, limit) = (Arc::clone(&self.ending), self.limit);
        let watch = thread::Builder::new()
            .name("kafka-close".to_owned())
            .spawn(move || {
                if !ending.wait(limit) {
                    error!(
                        limit_ms = millis(limit),
                        "a consumer's thread hangs and is abandoned"
                    );
                    ending.tell();
                }
            });
        if let Err(error) = watch {
            error!(%error, "closing is not watched: there is no thread for it");
        }
    }
}

impl Drop for KafkaConsumer {
    fn drop(&mut self) {
        self.close();
    }
}

/// Sees to it that [`Event::Closed`] is sent, once and last.
#[derive(Debug)]
struct Ending {
    /// Taken by whoever tells, so that the queue ends after the last event.
    events: Mutex<Option<mpsc::Sender<Event>>>,
    over: Mutex<bool>,
    end: Condvar,
}

impl Ending {
    fn new(events: mpsc::Sender<Event>) -> Self {
        Self {
            events: Mutex::new(Some(events)),
            over: Mutex::new(false),
            end: Condvar::new(),
        }
    }

    /// Waits for the thread's end; false if it has not come within `limit`.
    fn wait(&self, limit: Duration) -> bool {
        let mut over = self.over.lock();
        self.end.wait_while_for(&mut over, |over| !*over, limit);
        *over
    }

    fn tell(&self) {
        let events = self.events.lock().take();
        if let Some(events) = events {
            // Nobody may listen any more, and then nobody misses it.
            events.blocking_send(Event::Closed).ok();
        }
    }
}

/// Held by the thread, so that its end is told however it comes.
struct Last(Arc<Ending>);

impl Drop for Last {
    fn drop(&mut self) {
        self.0.tell();
        *self.0.over.lock() = true;
        self.0.end.notify_all();
    }
}
