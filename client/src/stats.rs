//! What a subscriber counts, and the problems that the gateway reports.

use std::{
    collections::VecDeque,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use ackgate_proto::v1;

use crate::event::{Event, Observer};

/// Most problems kept for [`Subscriber::problems`](crate::Subscriber::problems).
const KEPT_PROBLEMS: usize = 1_000;

/// Counts since the subscriber was made, over all its sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Records received, redeliveries included.
    pub records: u64,
    /// Batches received.
    pub batches: u64,
    /// Records whose acked verdict was handed to the transport.
    pub acked: u64,
    /// The same for rejected.
    pub rejected: u64,
    /// The same for failed, those of dropped deliveries included.
    pub failed: u64,
    /// The same for released.
    pub released: u64,
    /// Records whose verdict or extension came after their session had ended and that
    /// the gateway did not keep, or whose verdict did not get out before: the gateway
    /// hands them out again.
    pub stale_answers: u64,
    /// Records that were received but not handed to the program, because their
    /// session ended or the subscriber was closed.
    pub discarded: u64,
    /// Sessions opened after the first one of their gateway.
    pub reconnects: u64,
    /// Verdict messages that the gateway confirmed as applied, or durable, in full.
    pub confirmed: u64,
    /// Problems reported by the gateway, by kind in the order of [`ProblemKind::ALL`].
    pub problems: [u64; ProblemKind::ALL.len()],
    /// Problems that were pushed out of the queue unread.
    pub problems_dropped: u64,
}

impl Stats {
    /// Returns how often a problem of `kind` was reported.
    #[must_use]
    pub fn problems_of(&self, kind: ProblemKind) -> u64 {
        self.problems
            .get(kind as usize)
            .copied()
            .unwrap_or_default()
    }
}

/// What became of a verdict that changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProblemKind {
    /// The same verdict was already applied.
    Duplicate,
    /// Another verdict was applied before.
    Conflict,
    /// The delivery has been superseded by a later one.
    Stale,
    /// The lane is no longer the gateway's, or its epoch has ended.
    Fenced,
    /// The offset was not delivered to this subscriber.
    Unknown,
    /// The deadline passed and the record has been handed out again.
    Expired,
    /// The verdict is malformed.
    Invalid,
    /// A kind that this version does not know.
    Other,
    /// The delivery was not kept over a reconnect: the gateway hands the record out
    /// again, and the verdict was not sent.
    Lost,
}

impl ProblemKind {
    /// Every kind, in the order of [`Stats::problems`].
    pub const ALL: [Self; 9] = [
        Self::Duplicate,
        Self::Conflict,
        Self::Stale,
        Self::Fenced,
        Self::Unknown,
        Self::Expired,
        Self::Invalid,
        Self::Other,
        Self::Lost,
    ];
}

impl From<i32> for ProblemKind {
    fn from(wire: i32) -> Self {
        match v1::VerdictResult::try_from(wire) {
            Ok(v1::VerdictResult::Duplicate) => Self::Duplicate,
            Ok(v1::VerdictResult::Conflict) => Self::Conflict,
            Ok(v1::VerdictResult::Stale) => Self::Stale,
            Ok(v1::VerdictResult::Fenced) => Self::Fenced,
            Ok(v1::VerdictResult::Unknown) => Self::Unknown,
            Ok(v1::VerdictResult::Expired) => Self::Expired,
            Ok(v1::VerdictResult::Invalid) => Self::Invalid,
            Ok(v1::VerdictResult::Unspecified) | Err(_) => Self::Other,
        }
    }
}

/// The answer to a verdict or an extension that changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The lane's topic; empty if no batch of the lane is remembered.
    pub topic: String,
    /// The lane's partition; -1 if no batch of the lane is remembered.
    pub partition: i32,
    /// First offset concerned.
    pub first_offset: i64,
    /// Last offset concerned, included.
    pub last_offset: i64,
    /// What became of the verdict.
    pub kind: ProblemKind,
    /// For [`ProblemKind::Invalid`]: a stable reason code.
    pub detail: String,
}

/// The living counters behind [`Stats`], and the queue of problems.
///
/// Invariant: the queue holds at most [`KEPT_PROBLEMS`]; the oldest goes first.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) records: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) acked: AtomicU64,
    pub(crate) rejected: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) released: AtomicU64,
    pub(crate) stale_answers: AtomicU64,
    pub(crate) discarded: AtomicU64,
    pub(crate) sessions: AtomicU64,
    /// Those that were the first of their gateway.
    pub(crate) firsts: AtomicU64,
    pub(crate) confirmed: AtomicU64,
    by_kind: [AtomicU64; ProblemKind::ALL.len()],
    dropped: AtomicU64,
    problems: Mutex<VecDeque<Problem>>,
    observer: Option<Observer>,
}

impl Counters {
    pub(crate) fn new(observer: Option<Observer>) -> Self {
        Self {
            observer,
            ..Self::default()
        }
    }

    /// Tells the observer, if there is one.
    pub(crate) fn tell(&self, event: &Event<'_>) {
        if let Some(observer) = &self.observer {
            observer.tell(event);
        }
    }

    /// Counts and keeps a problem.
    pub(crate) fn problem(&self, problem: Problem) {
        if let Some(count) = self.by_kind.get(problem.kind as usize) {
            add(count, 1);
        }
        self.tell(&Event::Problem(&problem));
        let mut queue = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.len() >= KEPT_PROBLEMS {
            queue.pop_front();
            add(&self.dropped, 1);
        }
        queue.push_back(problem);
    }

    /// Takes the problems kept, oldest first.
    pub(crate) fn take_problems(&self) -> Vec<Problem> {
        let mut queue = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        queue.drain(..).collect()
    }

    /// Reads all counters; they are not read at one instant.
    pub(crate) fn snapshot(&self) -> Stats {
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        Stats {
            records: read(&self.records),
            batches: read(&self.batches),
            acked: read(&self.acked),
            rejected: read(&self.rejected),
            failed: read(&self.failed),
            released: read(&self.released),
            stale_answers: read(&self.stale_answers),
            discarded: read(&self.discarded),
            reconnects: read(&self.sessions).saturating_sub(read(&self.firsts)),
            confirmed: read(&self.confirmed),
            problems: self.by_kind.each_ref().map(read),
            problems_dropped: read(&self.dropped),
        }
    }
}

/// Adds `n` to a counter.
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Relaxed);
}
