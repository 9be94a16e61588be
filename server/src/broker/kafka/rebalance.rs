//! librdkafka's callbacks: lanes come and go.
//!
//! They run on the consumer's thread while it polls, so nothing is fetched while
//! one of them waits, and heartbeats go on.
//!
//! Invariant: a partition is split off before it is assigned, and let go only
//! after its last commit was answered or has run out of time.

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use ackgate_lane::{Generation, Position};
use parking_lot::Mutex;
use rdkafka::{
    ClientContext, TopicPartitionList,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, Consumer as _, ConsumerContext, RebalanceProtocol},
    error::{KafkaError, KafkaResult, RDKafkaErrorCode},
    types::RDKafkaRespErr,
};
use tracing::{debug, warn};

use super::{
    client_log::{Origin, log},
    core::{Core, Plan},
    health::Complaint,
    inbox::Inbox,
    lane::Lane,
    start::{self, Start},
    stats::Stats,
    wake::Waker,
};
use crate::{
    broker::TopicPartition,
    telemetry::troubles::{self, Trouble},
};

/// For the last commits of lanes that go, after their verdicts have been waited
/// for. A broker that answers at all answers well within it.
pub(super) const LAST_COMMIT: Duration = Duration::from_secs(5);

/// Error events kept until the thread looks at them; the oldest go first.
const COMPLAINTS: usize = 64;

/// One number per assignment, over all consumers of the process.
static GENERATIONS: AtomicU64 = AtomicU64::new(1);

/// What librdkafka's callbacks know.
pub(super) struct Context {
    pub(super) core: Arc<Mutex<Core>>,
    pub(super) plan: Arc<Plan>,
    pub(super) inbox: Arc<Inbox>,
    pub(super) waker: Arc<Waker>,
    /// The consumer that owns this context; weak, or neither would ever go.
    consumer: OnceLock<Weak<BaseConsumer<Self>>>,
    /// Counts callbacks: a poll that brings nothing may have run one.
    calls: AtomicU64,
    /// Kept apart from the core, which is locked while lanes are polled.
    complaints: Mutex<VecDeque<Complaint>>,
    /// The newest statistics that nobody has looked at.
    stats: Mutex<Option<Stats>>,
    /// Why the consumer must be built again.
    broken: Mutex<Option<String>>,
    /// The consumer is being dropped; its lanes are gone already.
    retired: AtomicBool,
}

impl Context {
    pub(super) fn new(
        core: Arc<Mutex<Core>>,
        plan: Arc<Plan>,
        inbox: Arc<Inbox>,
        waker: Arc<Waker>,
    ) -> Self {
        Self {
            core,
            plan,
            inbox,
            waker,
            consumer: OnceLock::new(),
            calls: AtomicU64::new(0),
            complaints: Mutex::default(),
            stats: Mutex::default(),
            broken: Mutex::default(),
            retired: AtomicBool::new(false),
        }
    }

    /// Says whose context this is.
    pub(super) fn belongs_to(&self, consumer: &Arc<BaseConsumer<Self>>) {
        self.consumer.get_or_init(|| Arc::downgrade(consumer));
    }

    /// How many callbacks have run.
    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// From now on callbacks touch nothing but librdkafka.
    pub(super) fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }

    pub(super) fn complaints(&self) -> VecDeque<Complaint> {
        std::mem::take(&mut *self.complaints.lock())
    }

    /// Statistics that have come since the last call.
    pub(super) fn stats(&self) -> Option<Stats> {
        self.stats.lock().take()
    }

    /// The newest error event, which tells more than the code that a poll returns.
    pub(super) fn last_complaint(&self, code: RDKafkaErrorCode) -> Option<String> {
        let complaints = self.complaints.lock();
        complaints
            .iter()
            .rev()
            .find(|c| c.code == code)
            .map(|c| c.reason.clone())
    }

    pub(super) fn broken(&self) -> Option<String> {
        self.broken.lock().take()
    }

    pub(super) fn give_up(&self, detail: String) {
        self.broken.lock().get_or_insert(detail);
    }

    fn call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    fn assigned(&self, consumer: &BaseConsumer<Self>, list: &TopicPartitionList) {
        let owner = self.consumer.get().and_then(Weak::upgrade);
        let Some(owner) = owner.filter(|_| !self.idle()) else {
            // About to leave: librdkafka waits for an answer all the same.
            self.assign(consumer, list);
            return;
        };
        let lanes = named(list);
        debug!(lanes = lanes.len(), "lanes are assigned");
        let starts = if lanes.is_empty() {
            Ok(Vec::new())
        } else {
            let past = &self.core.lock().past;
            start::resolve(consumer, &lanes, self.plan.begins(), past, &self.inbox)
        };
        let starts = match starts {
            Ok(starts) => starts,
            Err(error) => {
                // Starting would be a guess. Leave the lanes to others or to a
                // later try.
                self.assign(consumer, &TopicPartitionList::new());
                self.give_up(error.detail);
                return;
            }
        };
        let mut core = self.core.lock();
        let arrivals = self.split(&owner, lanes.into_iter().zip(starts));
        let mut positioned = TopicPartitionList::with_capacity(arrivals.len());
        for (lane, start) in &arrivals {
            let TopicPartition { topic, partition } = &lane.partition;
            // Only negative plain offsets are refused, and a start has none.
            positioned
                .add_partition_offset(topic, *partition, start.offset())
                .ok();
        }
        if self.assign(consumer, &positioned) {
            core.arrive(arrivals);
        }
    }

    fn split(
        &self,
        owner: &Arc<BaseConsumer<Self>>,
        lanes: impl Iterator<Item = ((Arc<str>, i32), Start)>,
    ) -> Vec<(Lane, Start)> {
        lanes
            .filter_map(|((topic, partition), start)| {
                let partition = TopicPartition { topic, partition };
                Some((self.split_one(owner, partition, &start)?, start))
            })
            .collect()
    }

    /// A lane of a number of its own.
    pub(super) fn split_one(
        &self,
        owner: &Arc<BaseConsumer<Self>>,
        partition: TopicPartition,
        start: &Start,
    ) -> Option<Lane> {
        let generation = Generation(GENERATIONS.fetch_add(1, Ordering::Relaxed));
        let begin = start.position().map(Position::get);
        let lane = Lane::split(owner, partition, generation, begin, &self.waker);
        if lane.is_none() {
            self.give_up("librdkafka does not know a partition it assigned".to_owned());
        }
        lane
    }

    fn revoked(&self, consumer: &BaseConsumer<Self>, list: &TopicPartitionList) {
        if self.retired.load(Ordering::Acquire) {
            self.unassign(consumer, list);
            return;
        }
        let lost = consumer.assignment_lost();
        let names = named(list);
        debug!(lanes = names.len(), lost, "lanes are revoked");
        let mut core = self.core.lock();
        let generations: Vec<Generation> = core
            .lanes
            .iter()
            .filter(|lane| {
                names.iter().any(|(topic, partition)| {
                    *partition == lane.partition.partition && *topic == lane.partition.topic
                })
            })
            .map(|lane| lane.generation)
            .collect();
        if generations.is_empty() {
            drop(core);
            self.unassign(consumer, list);
            return;
        }
        if lost {
            core.lose(&generations);
        } else {
            let owner = self.consumer.get().and_then(Weak::upgrade);
            let wait = self.plan.revoke_wait;
            let last = core.last_words(owner.as_ref(), &self.inbox, &generations, wait);
            core.accept(&self.inbox);
            if let Some(owner) = owner {
                core.commit_last(&owner, &generations, last, Instant::now() + LAST_COMMIT);
            }
        }
        self.unassign(consumer, list);
        core.depart(&generations);
    }

    fn idle(&self) -> bool {
        self.retired.load(Ordering::Acquire) || self.inbox.closing()
    }

    fn assign(&self, consumer: &BaseConsumer<Self>, list: &TopicPartitionList) -> bool {
        let result = match consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => consumer.incremental_assign(list),
            RebalanceProtocol::Eager | RebalanceProtocol::None => consumer.assign(list),
        };
        self.check("assignment", result)
    }

    fn unassign(&self, consumer: &BaseConsumer<Self>, list: &TopicPartitionList) {
        let result = match consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => consumer.incremental_unassign(list),
            RebalanceProtocol::Eager | RebalanceProtocol::None => consumer.unassign(),
        };
        self.check("revocation", result);
    }

    fn check(&self, what: &str, result: KafkaResult<()>) -> bool {
        if let Err(error) = &result {
            self.give_up(format!("{what} failed: {error}"));
        }
        result.is_ok()
    }
}

/// The partitions of a list. Commit metadata is not looked at here: rdkafka panics
/// where another program has written bytes that are not UTF-8.
fn named(list: &TopicPartitionList) -> Vec<(Arc<str>, i32)> {
    let mut topics: Vec<Arc<str>> = Vec::new();
    list.elements()
        .iter()
        .map(|element| {
            let topic = topics
                .iter()
                .find(|topic| &***topic == element.topic())
                .cloned();
            let topic = topic.unwrap_or_else(|| {
                let topic: Arc<str> = element.topic().into();
                topics.push(Arc::clone(&topic));
                topic
            });
            (topic, element.partition())
        })
        .collect()
}

impl ConsumerContext for Context {
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        event: RDKafkaRespErr,
        list: &mut TopicPartitionList,
    ) {
        self.call();
        if event == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            self.assigned(consumer, list);
        } else {
            self.revoked(consumer, list);
        }
    }

    fn commit_callback(&self, _: KafkaResult<()>, _: &TopicPartitionList) {
        self.call();
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        self.call();
        log(Origin::Consumer(&self.plan.group), level, facility, line);
    }

    fn stats_raw(&self, json: &[u8]) {
        self.call();
        match Stats::parse(json) {
            Some(stats) => *self.stats.lock() = Some(stats),
            None => {
                if let Some(count) = troubles::again(Trouble::Statistics) {
                    warn!(count, "librdkafka's statistics are not understood");
                }
            }
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.call();
        let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail);
        // The end of a log is told as an error, and is none.
        if code == RDKafkaErrorCode::PartitionEOF {
            return;
        }
        let mut complaints = self.complaints.lock();
        if complaints.len() >= COMPLAINTS {
            complaints.pop_front();
        }
        complaints.push_back(Complaint {
            code,
            reason: reason.to_owned(),
        });
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}
