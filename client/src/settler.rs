//! [`Settler`]: knows what the program has in hand, and gathers its verdicts until the
//! writer of the session takes them. One for all sessions of a subscriber, so that
//! deliveries outlive a broken stream where the gateway keeps them.
//!
//! Giving a verdict is a push under a short lock: it never waits and is never
//! lost while the session lives. What is gathered is bounded by what is out, and
//! so by the credit: each record is answered once.
//!
//! Invariant: acks are joined only where offsets follow each other within one lane
//! and one delivery number, so a verdict never names a record that was not handed
//! over. An offset missing from a batch may be a gap of the log, but also a record
//! that is on its way in another batch.

mod sessions;

use std::{
    collections::{BTreeMap, HashMap, btree_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicU64},
    time::Duration,
};

use futures::task::AtomicWaker;
use tokio::{sync::Notify, time};

use crate::{
    Durable, Order, Problem, ProblemKind,
    durable::{Waits, Watcher},
    held::Held,
    resume::LaneName,
    stats::{Counters, add},
};

/// Most that an extension may ask for.
pub(crate) const MAX_EXTENSION: Duration = Duration::from_secs(600);

/// How often everything is extended at most.
const SHORTEST_BEAT: Duration = Duration::from_millis(10);

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
    /// Who waits for what is in it to be durable.
    pub(crate) watchers: Vec<Watcher>,
    /// A new credit.
    pub(crate) credit: Option<(u32, u64)>,
    /// Nothing follows: say goodbye.
    pub(crate) close: bool,
}

/// Where the verdicts of a subscriber meet.
#[derive(Debug)]
pub(crate) struct Settler {
    state: Mutex<State>,
    /// Number of the open session, 0 while there is none. Also in `state`; here it is
    /// read without the lock, once per record.
    open: AtomicU64,
    wake: Notify,
    /// The subscriber, while it waits for the next session.
    waiting: AtomicWaker,
    counters: Arc<Counters>,
    flush_interval: Duration,
    flush_records: u64,
    /// Messages of the session that are not confirmed, where durable confirmations were
    /// asked for.
    waits: Option<Waits>,
}

#[derive(Debug, Default)]
struct State {
    /// Number of the latest session.
    session: u64,
    /// Whether it is open, to be gone on with, or over.
    phase: Phase,
    gathered: Gathered,
    /// Records answered since the writer last took.
    pending: u64,
    /// Records handed over and not answered.
    out: u64,
    /// What they are, but those that were left without a verdict.
    held: Held,
    /// Lanes that records came in.
    lanes: HashMap<u64, LaneName>,
    /// Lanes whose number has changed over a reconnect.
    renamed: HashMap<u64, u64>,
    /// Close as soon as nothing is out.
    draining: bool,
    /// Close now; later verdicts do not count.
    closing: bool,
    /// What the gateway said of the session.
    given: Given,
}

/// What holds for the deliveries of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Given {
    /// Time for a verdict; `None`: the gateway did not say.
    pub(crate) ack_deadline: Option<Duration>,
    /// How its records may overtake each other; `None`: the gateway did not say.
    pub(crate) order: Option<Order>,
}

/// What there is of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// None that anything came from.
    #[default]
    Over,
    /// One is open.
    Open,
    /// It broke and may be gone on with: verdicts are kept for the next one.
    Broken,
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
    pub(crate) fn new(
        counters: Arc<Counters>,
        interval: Duration,
        records: u64,
        durable: bool,
    ) -> Self {
        Self {
            state: Mutex::default(),
            open: AtomicU64::new(0),
            wake: Notify::new(),
            waiting: AtomicWaker::new(),
            counters,
            flush_interval: interval,
            flush_records: records,
            waits: durable.then(Waits::default),
        }
    }

    /// Takes an ack.
    pub(crate) fn ack(&self, run: Run) {
        self.gather(run, |gathered, run| {
            if !gathered.acks.last_mut().is_some_and(|last| last.join(run)) {
                gathered.acks.push(run);
            }
        });
    }

    /// Takes an ack and says when it is durable.
    pub(crate) fn ack_durably(&self, run: Run) -> Durable {
        self.watched(run, |gathered, run| gathered.acks.push(run))
    }

    /// Takes another verdict and says when it is durable.
    pub(crate) fn answer_durably(&self, run: Run, answer: &Answer) -> Durable {
        self.watched(run, |gathered, run| {
            gathered.answers.push((run, answer.clone()))
        })
    }

    fn watched(&self, run: Run, mut push: impl FnMut(&mut Gathered, Run)) -> Durable {
        let Some(_) = &self.waits else {
            self.gather(run, push);
            return Durable::not_asked();
        };
        let (durable, watcher) = Durable::of(run);
        // Of what came too late nothing is gathered, and the wait ends with this.
        let mut watcher = Some(watcher);
        self.gather(run, |gathered, part| {
            push(gathered, part);
            let watcher = watcher.take().map(|of| of.on(part));
            gathered.watchers.extend(watcher);
        });
        durable
    }

    /// The messages that are not confirmed, where that was asked for.
    pub(crate) const fn waits(&self) -> Option<&Waits> {
        self.waits.as_ref()
    }

    /// Takes another verdict.
    pub(crate) fn answer(&self, run: Run, answer: &Answer) {
        self.gather(run, |gathered, run| {
            let last = gathered.answers.last_mut();
            if !last.is_some_and(|(last, same)| same == answer && last.join(run)) {
                gathered.answers.push((run, answer.clone()));
            }
        });
    }

    /// The program gives no verdict: to the gateway it is as if it had forgotten.
    pub(crate) fn leave(&self, run: Run) {
        let mut state = self.lock();
        let run = state.named_now(run);
        state.held.take(run, |_| {});
    }

    /// Asks for more time; a later call for the same run replaces an unsent one.
    pub(crate) fn extend(&self, run: Run, by: Duration) {
        let mut state = self.lock();
        let run = state.named_now(run);
        if state.closing || !state.held.has(run.lane, run.delivery, run.first) {
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

    /// Asks for more time for everything in hand: until one deadline from now. Returns how
    /// soon to ask again; `None` while there is nothing to move.
    pub(crate) fn extend_all(&self) -> Option<Duration> {
        let mut state = self.lock();
        let deadline = state.given.ack_deadline?.min(MAX_EXTENSION);
        let every = (deadline / 3).max(SHORTEST_BEAT);
        if state.phase != Phase::Open || state.closing {
            return Some(every);
        }
        let State { held, gathered, .. } = &mut *state;
        let mut any = false;
        for run in held.runs() {
            let key = (run.lane, run.first);
            let longest = gathered.extensions.get(&key).map_or(run.last, |it| it.0);
            let extension = (longest.max(run.last), deadline);
            gathered.extensions.insert(key, extension);
            any = true;
        }
        drop(state);
        if any {
            self.wake.notify_one();
        }
        Some(every)
    }

    /// Asks for a new credit.
    pub(crate) fn credit(&self, records: u32, bytes: u64) {
        self.lock().gathered.credit = Some((records, bytes));
        self.wake.notify_one();
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

    /// How many records are handed over and not answered.
    pub(crate) fn out(&self) -> u64 {
        self.lock().out
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Waits until there is something to send, and for the time that verdicts are
    /// gathered. Returns `None` when `session` has ended. Called by one task.
    ///
    /// Cancel safe: nothing is taken before it is returned.
    pub(crate) async fn take(&self, session: u64) -> Option<Gathered> {
        let mut until = None;
        loop {
            match self.readiness(session) {
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

    fn readiness(&self, session: u64) -> Readiness {
        let state = self.lock();
        if state.phase != Phase::Open || state.session != session {
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

    fn gather(&self, run: Run, mut push: impl FnMut(&mut Gathered, Run)) {
        let mut state = self.lock();
        let run = state.named_now(run);
        if state.closing {
            drop(state);
            add(&self.counters.stale_answers, run.len());
            return;
        }
        let State { held, gathered, .. } = &mut *state;
        let records = held.take(run, |part| push(gathered, part));
        let before = state.pending;
        state.pending = before.saturating_add(records);
        state.out = state.out.saturating_sub(records);
        let wake = (before == 0 && records > 0)
            || (before < self.flush_records && state.pending >= self.flush_records)
            || (state.draining && state.out == 0);
        let lost = (records < run.len()).then(|| state.lanes.get(&run.lane).cloned());
        drop(state);
        if let Some(name) = lost {
            self.came_too_late(run, run.len() - records, name);
        }
        if wake {
            self.wake.notify_one();
        }
    }

    /// A verdict, or a part of it, on what is not the program's any more.
    fn came_too_late(&self, run: Run, records: u64, name: Option<LaneName>) {
        add(&self.counters.stale_answers, records);
        let (topic, partition) =
            name.map_or_else(|| (String::new(), -1), |name| (name.topic, name.partition));
        self.counters.problem(Problem {
            topic,
            partition,
            first_offset: run.first,
            last_offset: run.last,
            kind: ProblemKind::Lost,
            detail: String::new(),
        });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The run under its lane's number of now.
    fn named_now(&self, run: Run) -> Run {
        let lane = self.renamed.get(&run.lane).copied().unwrap_or(run.lane);
        Run { lane, ..run }
    }
}

enum Readiness {
    Empty,
    Soon,
    Now,
    Ended,
}
