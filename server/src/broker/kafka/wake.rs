//! Wakes a consumer's thread out of its wait.

use std::{
    sync::{Arc, OnceLock},
    task::Wake,
    thread::{self, Thread},
};

/// The way to a thread that may be parked. Calls never block, so librdkafka may
/// call it while it holds a queue's lock.
#[derive(Debug, Default)]
pub(super) struct Waker(OnceLock<Thread>);

impl Waker {
    /// Makes the calling thread the one that is woken. The first call counts.
    pub(super) fn watch(&self) {
        self.0.get_or_init(thread::current);
    }

    /// Ends the thread's current or next wait.
    pub(super) fn notify(&self) {
        if let Some(thread) = self.0.get() {
            thread.unpark();
        }
    }
}

impl Wake for Waker {
    fn wake(self: Arc<Self>) {
        self.notify();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.notify();
    }
}
