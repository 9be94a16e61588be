//! Events on their way to the runtime, in order, without ever blocking the thread
//! that fetches.
//!
//! Invariant: records are fetched only when there is room for their chunk. Other
//! events wait here; they are few, because each lane has at most one commit and
//! one seek unanswered.

use std::{
    collections::VecDeque,
    fmt,
    sync::Arc,
    task::{Context, Poll},
    thread,
    time::Instant,
};

use tokio::sync::mpsc;
use tokio_util::sync::PollSender;
use tracing::error;

use super::wake::Waker;
use crate::broker::Event;

/// Events that may wait while nobody takes any. Reaching it takes thousands of
/// rebalances with a receiver that never looks; it then counts as gone.
const LIMIT: usize = 65_536;

/// Sends events of one consumer.
pub(super) struct Outbox {
    sender: PollSender<Event>,
    waiting: VecDeque<Event>,
    waker: std::task::Waker,
    closed: bool,
}

impl Outbox {
    /// Wakes `waker` when there is room again.
    pub(super) fn new(events: mpsc::Sender<Event>, waker: Arc<Waker>) -> Self {
        Self {
            sender: PollSender::new(events),
            waiting: VecDeque::new(),
            waker: std::task::Waker::from(waker),
            closed: false,
        }
    }

    /// Whether nobody listens any more.
    pub(super) fn closed(&self) -> bool {
        self.closed
    }

    /// Sends `event` now or as soon as there is room.
    pub(super) fn send(&mut self, event: Event) {
        if self.closed {
            return;
        }
        if self.waiting.len() >= LIMIT {
            error!(
                events = LIMIT,
                "nobody takes the events of a consumer: it is closed"
            );
            self.end();
            return;
        }
        self.waiting.push_back(event);
        self.flush();
    }

    /// Sends what waits. Whether there is room for one more event after that;
    /// if not, the waker is called when there may be.
    pub(super) fn flush(&mut self) -> bool {
        loop {
            if self.closed {
                return false;
            }
            let mut context = Context::from_waker(&self.waker);
            match self.sender.poll_reserve(&mut context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => {
                    self.end();
                    return false;
                }
                Poll::Pending => return false,
            }
            let Some(event) = self.waiting.pop_front() else {
                return true;
            };
            if self.sender.send_item(event).is_err() {
                self.end();
            }
        }
    }

    /// Waits until everything is sent, nobody listens, or `deadline` has passed.
    /// Only for the thread that the waker wakes.
    pub(super) fn drain(&mut self, deadline: Instant) {
        while !self.flush() && !self.closed {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            thread::park_timeout(left);
        }
    }

    fn end(&mut self) {
        self.closed = true;
        self.waiting.clear();
    }
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox")
            .field("waiting", &self.waiting.len())
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use ackgate_lane::Generation;

    use super::*;

    fn revoked(number: u64) -> Event {
        Event::Revoked(vec![Generation(number)])
    }

    fn number(event: &Event) -> u64 {
        if let Event::Revoked(lanes) = event {
            lanes[0].0
        } else {
            panic!("{event:?}")
        }
    }

    #[test]
    fn events_keep_their_order_when_the_queue_is_full() {
        let (sender, mut receiver) = mpsc::channel(1);
        let mut outbox = Outbox::new(sender, Arc::default());
        for event in 0..3 {
            outbox.send(revoked(event));
        }
        assert!(!outbox.flush(), "the queue holds one");
        for event in 0..3 {
            assert_eq!(number(&receiver.try_recv().unwrap()), event);
            outbox.flush();
        }
        assert!(outbox.flush(), "there is room again");
    }

    #[test]
    fn receiver_that_is_gone_closes_the_outbox() {
        let (sender, receiver) = mpsc::channel(1);
        let mut outbox = Outbox::new(sender, Arc::default());
        drop(receiver);
        outbox.send(revoked(1));
        assert!(outbox.closed());
    }
}
