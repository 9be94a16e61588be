//! [`Settler`]: gathers the verdicts of one session until the writer takes them.
//!
//! Giving a verdict is a push under a short lock: it never waits and is never
//! lost while the session lives. What is gathered is bounded by what is out, and
//! so by the credit: each record is answered once.
//!
//! Invariant: acks are joined only where offsets follow each other within one lane
//! and one delivery number, so a verdict never names a record that was not handed
//! over. An offset missing from a batch may be a gap of the log, but also a record
//! that is on its way in another batch.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, time};

use crate::stats::{Counters, add};

/// Records of one lane that follow each other and have the same delivery number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Run {
    pub(crate) lane: u64,
    pub(crate) delivery: u32,
    pub(crate) first: i64,
    pub(crate) last: i64,
}

/// A verdict other than acked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Rejected {
        code: String,
        reason: String,
    },
    Failed {
        code: String,
        reason: String,
        retry_after: Option<Duration>,
    },
    Released,
}

/// What the writer takes at once.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// Acks, in the order given, joined where the next one followed.
    pub(crate) acks: Vec<Run>,
    /// Other verdicts, in the order given.
    pub(crate) answers: Vec<(Run, Answer)>,
    /// Latest extension of each run, by lane and first offset.
    pub(crate) extensions: BTreeMap<(u64, i64), (i64, Duration)>,
    /// A new credit.
    pub(crate) credit: Option<(u32, u64)>,
    /// Nothing follows: say goodbye.
    pub(crate) close: bool,
}

/// Where verdicts of one session meet.
#[derive(Debug)]
pub(crate) struct Settler {
    state: Mutex<State>,
    /// Also in `state`; here it is read without the lock, once per record.
    ended: AtomicBool,
    wake: Notify,
    counters: Arc<Counters>,
    flush_interval: Duration,
    flush_records: u64,
}

#[derive(Debug, Default)]
struct State {
    gathered: Gathered,
    /// Records answered since the writer last took.
    pending: u64,
    /// Records handed over and not answered.
    out: u64,
    /// Close as soon as nothing is out.
    draining: bool,
    /// Close now; later verdicts do not count.
    closing: bool,
    /// The stream is gone; later verdicts do not count.
    ended: bool,
}

impl Run {
    /// Number of records.
    pub(crate) const fn len(self) -> u64 {
        self.last.abs_diff(self.first).saturating_add(1)
    }

    /// The run of both, if one follows the other without a gap.
    pub(crate) const fn joined(self, next: Self) -> Option<Self> {
        if self.lane != next.lane || self.delivery != next.delivery {
            None
        } else if follows(self.last, next.first) {
            Some(Self {
                last: next.last,
                ..self
            })
        } else if follows(next.last, self.first) {
            Some(Self {
                first: next.first,
                ..self
            })
        } else {
            None
        }
    }

    /// Takes `next` in if it can be joined; returns whether it was.
    pub(crate) fn join(&mut self, next: Self) -> bool {
        let joined = self.joined(next);
        *self = joined.unwrap_or(*self);
        joined.is_some()
    }
}

const fn follows(last: i64, first: i64) -> bool {
    matches!(last.checked_add(1), Some(next) if next == first)
}

impl Settler {
    pub(crate) fn new(counters: Arc<Counters>, interval: Duration, records: u64) -> Self {
        Self {
            state: Mutex::default(),
            ended: AtomicBool::new(false),
            wake: Notify::new(),
            counters,
            flush_interval: interval,
            flush_records: records,
        }
    }

    /// Takes an ack.
    pub(crate) fn ack(&self, run: Run) {
        self.gather(run.len(), |gathered| {
            if !gathered.acks.last_mut().is_some_and(|last| last.join(run)) {
                gathered.acks.push(run);
            }
        });
    }

    /// Takes another verdict.
    pub(crate) fn answer(&self, run: Run, answer: Answer) {
        self.gather(run.len(), |gathered| {
            let last = gathered.answers.last_mut();
            if !last.is_some_and(|(last, same)| *same == answer && last.join(run)) {
                gathered.answers.push((run, answer));
            }
        });
    }

    /// Asks for more time; a later call for the same run replaces an unsent one.
    pub(crate) fn extend(&self, run: Run, by: Duration) {
        let mut state = self.lock();
        if state.closing || state.ended {
            add(&self.counters.stale_answers, run.len());
            return;
        }
        match state.gathered.extensions.entry((run.lane, run.first)) {
            Entry::Occupied(mut entry) => {
                let last = entry.get().0.max(run.last);
                entry.insert((last, by));
            }
            Entry::Vacant(entry) => {
                entry.insert((run.last, by));
            }
        }
        drop(state);
        self.wake.notify_one();
    }

    /// Asks for a new credit.
    pub(crate) fn credit(&self, records: u32, bytes: u64) {
        self.lock().gathered.credit = Some((records, bytes));
        self.wake.notify_one();
    }

    /// Records were handed over.
    pub(crate) fn handed(&self, records: u64) {
        let mut state = self.lock();
        state.out = state.out.saturating_add(records);
    }

    /// Says goodbye once everything out is answered.
    pub(crate) fn drain(&self) {
        self.lock().draining = true;
        self.wake.notify_one();
    }

    /// Says goodbye after what is gathered; later verdicts do not count.
    pub(crate) fn close(&self) {
        self.lock().closing = true;
        self.wake.notify_one();
    }

    /// The stream is gone. What was gathered is counted as stale.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        let mut state = self.lock();
        state.ended = true;
        state.gathered = Gathered::default();
        let lost = std::mem::take(&mut state.pending);
        drop(state);
        add(&self.counters.stale_answers, lost);
        self.wake.notify_one();
    }

    /// Whether the stream is gone.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Waits until there is something to send, and for the time that verdicts are
    /// gathered. Returns `None` when the session has ended. Called by one task.
    pub(crate) async fn take(&self) -> Option<Gathered> {
        let mut until = None;
        loop {
            match self.readiness() {
                Readiness::Ended => return None,
                Readiness::Now => return Some(self.take_now()),
                Readiness::Soon if self.flush_interval.is_zero() => return Some(self.take_now()),
                Readiness::Soon => {
                    let at =
                        *until.get_or_insert_with(|| time::Instant::now() + self.flush_interval);
                    if time::timeout_at(at, self.wake.notified()).await.is_err() {
                        return Some(self.take_now());
                    }
                }
                Readiness::Empty => self.wake.notified().await,
            }
        }
    }

    fn readiness(&self) -> Readiness {
        let state = self.lock();
        if state.ended {
            Readiness::Ended
        } else if state.closing
            || (state.draining && state.out == 0)
            || state.pending >= self.flush_records
            || state.gathered.credit.is_some()
            || !state.gathered.extensions.is_empty()
        {
            Readiness::Now
        } else if state.pending > 0 {
            Readiness::Soon
        } else {
            Readiness::Empty
        }
    }

    fn take_now(&self) -> Gathered {
        let mut state = self.lock();
        state.pending = 0;
        // Nothing counts after the goodbye, which releases what is still out.
        state.closing |= state.draining && state.out == 0;
        let close = state.closing;
        let gathered = std::mem::take(&mut state.gathered);
        Gathered { close, ..gathered }
    }

    fn gather(&self, records: u64, push: impl FnOnce(&mut Gathered)) {
        let mut state = self.lock();
        if state.closing || state.ended {
            drop(state);
            add(&self.counters.stale_answers, records);
            return;
        }
        push(&mut state.gathered);
        let before = state.pending;
        state.pending = before.saturating_add(records);
        state.out = state.out.saturating_sub(records);
        let wake = before == 0
            || (before < self.flush_records && state.pending >= self.flush_records)
            || (state.draining && state.out == 0);
        drop(state);
        if wake {
            self.wake.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Readiness {
    Empty,
    Soon,
    Now,
    Ended,
}
