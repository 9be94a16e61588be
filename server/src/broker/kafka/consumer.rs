//! The thread of one consumer: it polls, obeys and tells.
//!
//! Invariant: the main queue is polled whatever the runtime does, so that the
//! group's heartbeats and rebalances never wait for a subscriber.

mod rebuild;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rdkafka::{
    ClientConfig, Message as _,
    consumer::{BaseConsumer, Consumer as _},
    error::{KafkaError, RDKafkaErrorCode},
};
use tracing::{debug, warn};

use self::rebuild::pauses;
use super::{
    core::{Core, Plan},
    fetch::Fetcher,
    inbox::Inbox,
    lane::Lane,
    prefetch::Prefetch,
    rebalance::Context,
    relocate,
    wake::Waker,
};
use crate::broker::Event;

/// Longest wait when nothing is to be done. Whatever should have woken the thread
/// and did not costs no more than this.
const TICK: Duration = Duration::from_millis(100);

/// Between tries of a seek on a lane whose fetcher has not started.
const SEEK_RETRY: Duration = Duration::from_millis(20);

/// Events of the main queue served before lanes have their turn again.
const MAIN_QUEUE_TURN: usize = 256;

/// For counting partitions before the group is joined.
const COUNT_TIMEOUT: Duration = Duration::from_secs(2);

/// For leaving the group: until librdkafka has revoked every lane.
pub(super) const LEAVE_TIMEOUT: Duration = Duration::from_secs(10);

/// For the drop of a consumer, which librdkafka may never finish.
pub(super) const DROP_TIMEOUT: Duration = Duration::from_secs(5);

/// The thread's own state.
pub(super) struct Worker {
    pub(super) config: ClientConfig,
    pub(super) plan: Arc<Plan>,
    pub(super) inbox: Arc<Inbox>,
    pub(super) core: Arc<Mutex<Core>>,
    pub(super) waker: Arc<Waker>,
}

/// A consumer and the flag that says whether its main queue has something.
pub(super) struct Built {
    consumer: Arc<BaseConsumer<Context>>,
    ready: Arc<AtomicBool>,
}

/// Why a consumer is no longer served.
enum End {
    Close,
    Broken(String),
    /// There are so many lanes that less must be fetched ahead for each.
    Crowded(u32),
}

impl Worker {
    /// Makes a consumer. Takes milliseconds and asks no broker.
    ///
    /// # Errors
    /// librdkafka refuses the settings.
    pub(super) fn build(&self) -> Result<Built, KafkaError> {
        let context = Context::new(
            Arc::clone(&self.core),
            Arc::clone(&self.plan),
            Arc::clone(&self.inbox),
            Arc::clone(&self.waker),
        );
        let mut config = self.config.clone();
        if let Some(limits) = self.core.lock().limits {
            limits.apply(&mut config, &self.plan.own);
        }
        let mut consumer: BaseConsumer<Context> = config.create_with_context(context)?;
        let ready = Arc::new(AtomicBool::new(true));
        consumer.set_nonempty_callback({
            let (ready, waker) = (Arc::clone(&ready), Arc::clone(&self.waker));
            move || {
                ready.store(true, Ordering::Release);
                waker.notify();
            }
        });
        let consumer = Arc::new(consumer);
        consumer.context().belongs_to(&consumer);
        Ok(Built { consumer, ready })
    }

    /// Works until the inbox is closed or nobody takes the events.
    pub(super) fn run(self, mut built: Built) {
        self.waker.watch();
        let mut backoff = pauses();
        loop {
            let since = Instant::now();
            match self.serve(&built) {
                End::Close => {
                    self.leave(&built);
                    self.dispose(built.consumer);
                    break;
                }
                End::Crowded(lanes) => {
                    self.leave(&built);
                    self.dispose(built.consumer);
                    self.plan_for(lanes);
                    // Nothing is wrong: at once.
                    backoff = pauses();
                    match self.build() {
                        Ok(next) => {
                            built = next;
                            continue;
                        }
                        Err(error) => warn!(
                            group = self.plan.group, %error,
                            "consumer cannot be built"
                        ),
                    }
                }
                End::Broken(detail) => {
                    if since.elapsed() > Duration::from_secs(60) {
                        backoff = pauses();
                    }
                    let mut core = self.core.lock();
                    if let Some(state) = core.health.rebuilding(detail) {
                        core.outbox.send(Event::Cluster(state));
                    }
                    drop(core);
                    self.dispose(built.consumer);
                }
            }
            let Some(next) = self.rebuild(&mut backoff) else {
                break;
            };
            built = next;
        }
        let mut core = self.core.lock();
        core.abandon();
        core.outbox.drain(Instant::now() + DROP_TIMEOUT);
    }

    fn serve(&self, built: &Built) -> End {
        let Built { consumer, ready } = built;
        if let Some(lanes) = self.count_lanes(consumer) {
            if self.is_crowded(lanes) {
                return End::Crowded(lanes);
            }
            self.plan_for(lanes);
        }
        let topics: Vec<&str> = self.plan.topics.iter().map(String::as_str).collect();
        if let Err(error) = consumer.subscribe(&topics) {
            return End::Broken(format!("subscription failed: {error}"));
        }
        let mut fetcher = Fetcher::new(self.plan.sampling.clone());
        let uncommitted = self.config.get("isolation.level") == Some("read_uncommitted");
        let mut ticked = Instant::now();
        loop {
            if self.inbox.closing() || self.core.lock().outbox.closed() {
                return End::Close;
            }
            if let Some(detail) = consumer.context().broken() {
                return End::Broken(detail);
            }
            let tick = ticked.elapsed() >= TICK;
            if tick {
                ticked = Instant::now();
            }
            let mut progress = false;
            if ready.swap(false, Ordering::AcqRel) || tick {
                progress |= self.poll_main(built);
            }
            let mut core = self.core.lock();
            self.review(&mut core, consumer);
            if let Some(stats) = consumer.context().stats() {
                core.observe(&stats, uncommitted);
                let lanes = stats.partitions(&self.plan.topics);
                if core
                    .limits
                    .is_some_and(|limits| !limits.fits(self.plan.prefetch, lanes))
                {
                    return End::Crowded(lanes);
                }
            }
            if tick {
                core.lanes.iter().for_each(Lane::suspect);
            }
            progress |= core.accept(&self.inbox);
            progress |= core.seek(consumer);
            progress |= core.commit(consumer);
            core.outbox.flush();
            progress |= fetcher.fetch(&mut core, consumer.context());
            progress |= relocate::relocate(&mut core, consumer);
            let seeking = core.lanes.iter().any(Lane::seeking);
            drop(core);
            if !progress {
                let left = TICK.saturating_sub(ticked.elapsed());
                thread::park_timeout(if seeking { left.min(SEEK_RETRY) } else { left });
            }
        }
    }

    /// How many partitions the topics have; `None` if nobody says so in time, and then
    /// statistics will.
    fn count_lanes(&self, consumer: &BaseConsumer<Context>) -> Option<u32> {
        let until = Instant::now() + COUNT_TIMEOUT;
        let mut count = 0;
        for topic in &self.plan.topics {
            let left = until.saturating_duration_since(Instant::now());
            if self.inbox.closing() || left.is_zero() {
                return None;
            }
            let metadata = consumer.fetch_metadata(Some(topic), left).ok()?;
            let topics = metadata.topics().iter();
            count += topics.map(|topic| topic.partitions().len()).sum::<usize>();
        }
        u32::try_from(count).ok()
    }

    fn is_crowded(&self, lanes: u32) -> bool {
        // Before the first plan the settings are those for few lanes.
        let few = Prefetch::plan(u64::MAX, 1);
        let limits = self.core.lock().limits.unwrap_or(few);
        !limits.fits(self.plan.prefetch, lanes)
    }

    /// Plans what may be fetched ahead for so many lanes, and says how much it is.
    fn plan_for(&self, lanes: u32) {
        let mut core = self.core.lock();
        let mut unused = ClientConfig::new();
        let limits = match core.limits {
            Some(limits) if limits.fits(self.plan.prefetch, lanes) => limits,
            Some(_) | None => Prefetch::plan(self.plan.prefetch, lanes),
        };
        core.limits = Some(limits);
        let bytes = limits.apply(&mut unused, &self.plan.own).cost(lanes);
        debug!(lanes, bytes, "planned what is fetched ahead");
        core.outbox.send(Event::Prefetch { bytes });
    }

    /// Serves the main queue, where callbacks run. Whether there was anything.
    fn poll_main(&self, built: &Built) -> bool {
        let Built { consumer, ready } = built;
        let context = consumer.context();
        for turn in 0..MAIN_QUEUE_TURN {
            let calls = context.calls();
            match consumer.poll(Duration::ZERO) {
                None if context.calls() == calls => return turn > 0,
                None => {}
                Some(Ok(message)) => self.stray(consumer, message.topic(), &message),
                Some(Err(KafkaError::MessageConsumptionFatal(code))) => {
                    let reason = consumer.client().fatal_error().map(|(_, reason)| reason);
                    context.give_up(reason.unwrap_or_else(|| code.to_string()));
                }
                // Noted by the context, with a text.
                Some(Err(_)) => {}
            }
        }
        ready.store(true, Ordering::Release);
        true
    }

    /// A record on the main queue: splitting before assigning leaves no way for
    /// one, and if there is one all the same the lane is put back before it.
    fn stray(
        &self,
        consumer: &BaseConsumer<Context>,
        topic: &str,
        message: &rdkafka::message::BorrowedMessage<'_>,
    ) {
        let mut core = self.core.lock();
        let lane = core.lanes.iter_mut().find(|lane| {
            lane.partition.partition == message.partition() && &*lane.partition.topic == topic
        });
        if let (Some(lane), Ok(offset)) = (lane, u64::try_from(message.offset())) {
            warn!(
                group = self.plan.group,
                topic,
                partition = message.partition(),
                "a record came astray and is read again"
            );
            lane.restore(consumer, offset);
        }
    }

    /// Looks at error events.
    fn review(&self, core: &mut Core, consumer: &BaseConsumer<Context>) {
        let context = consumer.context();
        for complaint in context.complaints() {
            if complaint.code == RDKafkaErrorCode::Fatal {
                context.give_up(complaint.reason);
            } else if let Some(state) = core.health.complain(complaint) {
                core.outbox.send(Event::Cluster(state));
            }
        }
        if let Some(state) = core.health.ask(consumer, &self.plan.topics) {
            core.outbox.send(Event::Cluster(state));
        }
    }
}
