//! What is known of each record between `send` and its receipt.
//!
//! Boundary: knows nothing of streams. Here is what senders do, who only add records;
//! `driver` alone moves them, and `state` is what both look at.

use std::{
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use super::{Outgoing, PublishStats, Receipt};
use crate::Error;

mod driver;
mod state;

pub(super) use driver::Ready;
use state::State;
pub(super) use state::{Amount, Closing};

/// A time beyond every deadline that can be reckoned.
const DAY: Duration = Duration::from_hours(24);

/// The records of a publisher, and what has become of them.
#[derive(Debug)]
pub(super) struct Ledger {
    state: Mutex<State>,
    linger: Duration,
    /// What the program allows itself.
    own_limit: Amount,
    /// Tells the driver, who is the only one to wait.
    changed: Notify,
    /// Tells those who wait for room, for answers, or for the end.
    answered: Notify,
}

impl Ledger {
    pub(super) fn new(own_limit: Amount, linger: Duration) -> Self {
        Self {
            state: Mutex::new(State::new(own_limit)),
            linger,
            own_limit,
            changed: Notify::new(),
            answered: Notify::new(),
        }
    }

    /// Takes a record as soon as there is room. To be called for one record at a time:
    /// who waits is not overtaken.
    pub(super) async fn accept(&self, record: Outgoing) -> Receipt {
        let bytes = record.size();
        let mut record = Some(record.0);
        self.until(|state| {
            let taken = state.accept(&mut record, bytes, self.linger);
            self.changed.notify_one();
            taken
        })
        .await
    }

    /// Waits until every record accepted so far is answered; none of them waits for others
    /// to be sent with.
    pub(super) async fn flush(&self) {
        let all = {
            let mut state = self.lock();
            state.urgent = state.next;
            state.next
        };
        self.changed.notify_one();
        self.until(|state| {
            state
                .oldest()
                .is_none_or(|oldest| oldest >= all)
                .then_some(())
        })
        .await;
    }

    /// Takes no more records; those that there are have until `until`. The first call
    /// counts, unless a later one is more impatient.
    pub(super) fn close(&self, timeout: Duration) {
        let mut state = self.lock();
        let now = Instant::now();
        let until = now.checked_add(timeout).unwrap_or_else(|| now + DAY);
        if state.closing.is_none_or(|closing| until < closing.until) {
            state.closing = Some(Closing { until, timeout });
        }
        state.urgent = state.next;
        drop(state);
        self.changed.notify_one();
        // Who waits for room is turned away.
        self.answered.notify_waiters();
    }

    /// Waits until nothing more happens.
    pub(super) async fn over(&self) {
        self.until(|state| state.over.is_some().then_some(())).await;
    }

    /// What ended it, if it ended before it was closed.
    pub(super) fn error(&self) -> Option<Arc<Error>> {
        self.lock().over.clone().flatten()
    }

    pub(super) fn stats(&self) -> PublishStats {
        self.lock().stats
    }

    async fn until<T>(&self, mut holds: impl FnMut(&mut State) -> Option<T>) -> T {
        loop {
            let mut answered = pin!(self.answered.notified());
            // Before the look, so that nothing is missed in between.
            answered.as_mut().enable();
            if let Some(found) = holds(&mut self.lock()) {
                return found;
            }
            answered.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
