//! What became of the records of one stream, in the order they were sent.
//!
//! Invariant: numbers are given in order and each is answered once; a result leaves
//! only after all before it. Bytes are given back when the client library lets go of a
//! record, which may be after its time ran out here; places when its result was taken
//! by the transport, so a publisher that reads nothing is soon not read from.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, Semaphore},
    time::{Instant, sleep_until},
};

use super::published::Published;
use crate::broker::{Answers, Placed, Unwritten, Why};

/// Results in one run; with [`RUN_BYTES`] far below what every gRPC library takes.
const RUN_RESULTS: usize = 4096;

/// Bytes of topics and details in one run.
const RUN_BYTES: usize = 256 * 1024;

/// What a result takes beside its topic and its detail.
const RESULT_BYTES: usize = 32;

/// More places than the largest message has records.
const ABANDONED: usize = 10_000;

/// What became of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Its topic.
    pub topic: Arc<str>,
    /// The partition it asked for.
    pub partition: Option<i32>,
    /// Where it is, or why it is not.
    pub outcome: Result<Placed, Unwritten>,
}

/// Results without a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Number of the first.
    pub first: u64,
    /// In order, at least one.
    pub results: Vec<Answered>,
}

/// What became of all records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Taken: the others together once all are answered.
    pub records: u64,
    /// Confirmed by Kafka.
    pub written: u64,
    /// Answered with an error.
    pub failed: u64,
}

/// A record as it enters: what is remembered of it.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) topic: Arc<str>,
    pub(crate) partition: Option<i32>,
    /// Bytes it counts until its answer.
    pub(crate) weight: u32,
    /// Set if it is not even tried.
    pub(crate) refused: Option<Unwritten>,
}

/// The records of one stream that are taken and not answered, or answered and not told.
#[derive(Debug)]
pub struct Ledger {
    state: Mutex<State>,
    /// The first result may be told now.
    told: Notify,
    /// Places for records.
    room: Semaphore,
    /// Bytes of the cluster that the stream may have: none has all, for the records of one
    /// may go nowhere until their time runs out.
    share: Semaphore,
    /// All of the share.
    most: u32,
    /// Bytes of the cluster.
    bytes: Arc<Semaphore>,
    timeout: Duration,
    /// Where results are counted once they leave.
    published: Arc<Published>,
}

#[derive(Debug, Default)]
struct State {
    /// Number of the first slot.
    first: u64,
    slots: VecDeque<Slot>,
    count: Count,
    /// Weights of records that were answered here before the client library let go.
    late: BTreeMap<u64, u32>,
}

#[derive(Debug)]
struct Slot {
    topic: Arc<str>,
    partition: Option<i32>,
    weight: u32,
    until: Instant,
    outcome: Option<Result<Placed, Unwritten>>,
}

impl Ledger {
    /// A ledger with room for so many records, which may have `share` of `bytes` and are
    /// answered `timeout` after they were taken, whatever the broker does.
    #[must_use]
    pub(crate) fn new(
        room: u32,
        share: u32,
        bytes: Arc<Semaphore>,
        timeout: Duration,
        published: Arc<Published>,
    ) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            told: Notify::new(),
            room: Semaphore::new(usize::try_from(room).unwrap_or(usize::MAX)),
            share: Semaphore::new(usize::try_from(share).unwrap_or(usize::MAX)),
            most: share,
            bytes,
            timeout,
            published,
        })
    }

    /// Waits for room for so many records. Cancel safe.
    pub(super) async fn reserve(&self, records: u32) {
        // It is never closed.
        if let Ok(places) = self.room.acquire_many(records).await {
            places.forget();
        }
    }

    /// Waits for bytes: of the stream's share, then of the cluster. What is larger than
    /// the share goes by itself. Cancel safe.
    pub(super) async fn pay(&self, bytes: u32) {
        // Neither is ever closed.
        if let Ok(own) = self.share.acquire_many(bytes.min(self.most)).await
            && let Ok(all) = self.bytes.acquire_many(bytes).await
        {
            own.forget();
            all.forget();
        }
    }

    /// Takes records for which there is room and whose bytes are paid; gives the number of
    /// the first.
    pub(crate) fn take(&self, entries: Vec<Entry>) -> u64 {
        let until = Instant::now() + self.timeout;
        let mut state = self.state.lock();
        let number = state.next();
        for entry in entries {
            state.count.records += 1;
            state.count.failed += u64::from(entry.refused.is_some());
            state.slots.push_back(Slot {
                topic: entry.topic,
                partition: entry.partition,
                weight: entry.weight,
                until,
                outcome: entry.refused.map(Err),
            });
        }
        drop(state);
        self.told.notify_one();
        number
    }

    /// When a record that is taken now must be answered.
    pub(super) fn until(&self) -> Instant {
        Instant::now() + self.timeout
    }

    /// The next results, as soon as there are some. Cancel safe. The places of these
    /// records are theirs until [`Self::told`].
    pub async fn next(&self) -> Run {
        loop {
            let until = {
                let mut state = self.state.lock();
                state.expire(Instant::now());
                if let Some(run) = state.run() {
                    drop(state);
                    self.published.answered(&run.results);
                    return run;
                }
                state.slots.front().map(|slot| slot.until)
            };
            match until {
                None => self.told.notified().await,
                Some(until) => {
                    tokio::select! {
                        () = self.told.notified() => {}
                        () = sleep_until(until) => {}
                    }
                }
            }
        }
    }

    /// The transport has taken results: their places are free.
    pub fn told(&self, results: usize) {
        self.room.add_permits(results);
    }

    /// Answers all that have no answer yet: their time is over.
    pub fn give_up(&self) {
        self.state.lock().give_up(None);
        self.told.notify_one();
    }

    /// Nobody reads results any more: what was read already is written without waiting
    /// for that.
    pub fn abandon(&self) {
        self.room.add_permits(ABANDONED);
    }

    /// Whether all results have been given out.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.state.lock().slots.is_empty()
    }

    /// What became of all records so far.
    #[must_use]
    pub fn count(&self) -> Count {
        self.state.lock().count
    }
}

/// What nobody has been told is counted all the same.
impl Drop for Ledger {
    fn drop(&mut self) {
        while let Some(run) = self.state.get_mut().run() {
            self.published.answered(&run.results);
        }
    }
}

impl Answers for Ledger {
    fn answer(&self, number: u64, answer: Result<Placed, Unwritten>) {
        let mut state = self.state.lock();
        let (weight, is_first) = state.answer(number, answer);
        drop(state);
        if weight > 0 {
            let free = |semaphore: &Semaphore, bytes: u32| {
                semaphore.add_permits(usize::try_from(bytes).unwrap_or(0));
            };
            free(&self.share, weight.min(self.most));
            free(&self.bytes, weight);
        }
        if is_first {
            self.told.notify_one();
        }
    }
}

impl State {
    fn next(&self) -> u64 {
        self.first + self.slots.len() as u64
    }

    /// Puts an answer in its place. Gives the bytes that are free now, and whether a
    /// result can be told.
    fn answer(&mut self, number: u64, answer: Result<Placed, Unwritten>) -> (u32, bool) {
        if let Some(weight) = self.late.remove(&number) {
            return (weight, false);
        }
        let index = number.checked_sub(self.first);
        let index = index.and_then(|index| usize::try_from(index).ok());
        let slot = index.and_then(|index| self.slots.get_mut(index));
        let Some(slot) = slot.filter(|slot| slot.outcome.is_none()) else {
            return (0, false);
        };
        match answer {
            Ok(_) => self.count.written += 1,
            Err(_) => self.count.failed += 1,
        }
        slot.outcome = Some(answer);
        (slot.weight, index == Some(0))
    }

    /// Answers what has run out of time.
    fn expire(&mut self, now: Instant) {
        self.give_up(Some(now));
    }

    /// Answers what has no answer, as far as its time is up.
    fn give_up(&mut self, now: Option<Instant>) {
        for (number, slot) in (self.first..).zip(&mut self.slots) {
            // All have the same time from when they were taken, so the others have more.
            if now.is_some_and(|now| slot.until > now) {
                return;
            }
            if slot.outcome.is_none() {
                slot.outcome = Some(Err(Unwritten {
                    why: Why::TimedOut,
                    detail: "Kafka has not answered in time; it may have the record, or get it yet"
                        .to_owned(),
                }));
                self.count.failed += 1;
                self.late.insert(number, slot.weight);
            }
        }
    }

    /// Takes what can be told out.
    fn run(&mut self) -> Option<Run> {
        let first = self.first;
        let mut results = Vec::new();
        let mut bytes = 0;
        while results.len() < RUN_RESULTS && bytes < RUN_BYTES {
            let Some(slot) = self.slots.pop_front_if(|slot| slot.outcome.is_some()) else {
                break;
            };
            let Some(outcome) = slot.outcome else { break };
            let detail = outcome.as_ref().err().map_or(0, |it| it.detail.len());
            bytes += RESULT_BYTES + slot.topic.len() + detail;
            self.first += 1;
            results.push(Answered {
                topic: slot.topic,
                partition: slot.partition,
                outcome,
            });
        }
        (!results.is_empty()).then_some(Run { first, results })
    }
}
