//! [`Durable`]: waits until the gateway has confirmed a verdict as durable.
//!
//! Invariant: each wait ends: with the answer of the gateway, or with its session.

use std::{
    collections::HashMap,
    future::Future,
    pin::Pin,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    sync::{Notify, oneshot},
    time,
};

use crate::{ProblemKind, settler::Run};

/// Resolves once a verdict survives the loss of the gateway, or will not; made by
/// [`Delivery::ack_durably`](crate::Delivery::ack_durably). Not to wait for it is fine:
/// the verdict is on its way.
#[derive(Debug)]
pub struct Durable(Option<oneshot::Receiver<Result<(), NotDurable>>>);

/// Why a verdict is not known to be durable: the record may come again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotDurable {
    /// The subscriber was not made with [`Confirm::Durable`](crate::Confirm::Durable).
    #[error("the subscriber did not ask for durable confirmations")]
    NotAsked,
    /// The gateway says that it is not: of another kind than
    /// [`ProblemKind::Duplicate`], which confirms an equal verdict given before.
    #[error("the verdict did not become durable: {0:?}")]
    Problem(ProblemKind),
    /// The session ended before the answer came. The verdict may have become durable.
    #[error("the session ended before the verdict was confirmed")]
    SessionEnded,
}

/// Who waits for a run.
#[derive(Debug)]
pub(crate) struct Watcher {
    pub(crate) run: Run,
    tell: oneshot::Sender<Result<(), NotDurable>>,
}

/// The messages of one session that are not confirmed.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    open: Mutex<HashMap<u64, Open>>,
    idle: Notify,
}

#[derive(Debug, Default)]
struct Open {
    watchers: Vec<Watcher>,
    /// Lane, first and last offset, and what became of them.
    problems: Vec<(u64, i64, i64, ProblemKind)>,
}

impl Durable {
    /// A wait for `run`, and what ends it.
    pub(crate) fn of(run: Run) -> (Self, Watcher) {
        let (tell, told) = oneshot::channel();
        (Self(Some(told)), Watcher { run, tell })
    }

    /// One that ends at once: nobody will tell.
    pub(crate) const fn not_asked() -> Self {
        Self(None)
    }
}

impl Future for Durable {
    type Output = Result<(), NotDurable>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.get_mut().0 {
            None => Poll::Ready(Err(NotDurable::NotAsked)),
            Some(told) => Pin::new(told)
                .poll(cx)
                .map(|told| told.unwrap_or(Err(NotDurable::SessionEnded))),
        }
    }
}

impl Watcher {
    /// The same one, under the name that the run has now.
    pub(crate) fn on(self, run: Run) -> Self {
        Self { run, ..self }
    }
}

impl Waits {
    /// A message with this number is about to be sent.
    pub(crate) fn open(&self, sequence: u64, watchers: Vec<Watcher>) {
        let open = Open {
            watchers,
            problems: Vec::new(),
        };
        self.lock().insert(sequence, open);
    }

    /// A problem in the answer to a message.
    pub(crate) fn problem(&self, sequence: u64, at: (u64, i64, i64), kind: ProblemKind) {
        if let Some(open) = self.lock().get_mut(&sequence) {
            open.problems.push((at.0, at.1, at.2, kind));
        }
    }

    /// A message is answered in full.
    pub(crate) fn answered(&self, sequence: u64) {
        let mut open = self.lock();
        let Some(answered) = open.remove(&sequence) else {
            return;
        };
        let is_idle = open.is_empty();
        drop(open);
        for Watcher { run, tell } in answered.watchers {
            let hit = |(lane, first, last, _): &&(u64, i64, i64, ProblemKind)| {
                *lane == run.lane && *first <= run.last && run.first <= *last
            };
            let mut problems = answered.problems.iter().filter(hit);
            let result = match problems.find(|problem| problem.3 != ProblemKind::Duplicate) {
                Some(problem) => Err(NotDurable::Problem(problem.3)),
                None => Ok(()),
            };
            // Nobody has to wait.
            tell.send(result).ok();
        }
        if is_idle {
            self.idle.notify_one();
        }
    }

    /// Waits until every message is answered, at most this long.
    pub(crate) async fn idle(&self, at_most: Duration) {
        let idle = async {
            while !self.lock().is_empty() {
                self.idle.notified().await;
            }
        };
        // What is not confirmed by then is not.
        drop(time::timeout(at_most, idle).await);
    }

    /// The session is over: whoever waits hears that.
    pub(crate) fn end(&self) {
        self.lock().clear();
        self.idle.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(first: i64, last: i64) -> Run {
        Run {
            lane: 7,
            delivery: 1,
            first,
            last,
        }
    }

    #[tokio::test]
    async fn each_wait_ends_with_its_own_answer() {
        let waits = Waits::default();
        let (fine, a) = Durable::of(run(0, 4));
        let (fenced, b) = Durable::of(run(5, 5));
        let (repeated, c) = Durable::of(run(6, 6));
        let (later, d) = Durable::of(run(7, 7));
        waits.open(1, vec![a, b, c]);
        waits.open(2, vec![d]);
        waits.problem(1, (7, 5, 5), ProblemKind::Fenced);
        waits.problem(1, (7, 6, 6), ProblemKind::Duplicate);
        waits.problem(1, (8, 0, 9), ProblemKind::Stale);
        waits.answered(1);
        assert_eq!(fine.await, Ok(()));
        assert_eq!(fenced.await, Err(NotDurable::Problem(ProblemKind::Fenced)));
        assert_eq!(repeated.await, Ok(()));
        waits.end();
        assert_eq!(later.await, Err(NotDurable::SessionEnded));
        assert_eq!(Durable::not_asked().await, Err(NotDurable::NotAsked));
    }
}
