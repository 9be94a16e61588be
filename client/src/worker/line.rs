//! Deliveries that wait for their turn: behind the one of their key or lane that is worked
//! on, or behind a lane's failure that the gateway has not gone back to yet.
//!
//! Invariant: of one slot at most one is out of here; what waits is within the credit.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use tokio::time::Instant;

use crate::{Delivery, Order};

/// What only one handler at a time works on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Slot {
    topic: String,
    partition: i32,
    /// `None`: the whole lane.
    key: Option<Bytes>,
}

#[derive(Debug, Default)]
struct Line {
    busy: bool,
    /// After a failure: its offset, and until when what is above it waits for the gateway
    /// to void it.
    failed: Option<(i64, Instant)>,
    waiting: VecDeque<Delivery>,
}

/// All lines.
#[derive(Debug)]
pub(super) struct Lines {
    order: Order,
    lines: HashMap<Slot, Line>,
    waiting: usize,
}

impl Lines {
    pub(super) fn new(order: Order) -> Self {
        Self {
            order,
            lines: HashMap::new(),
            waiting: 0,
        }
    }

    /// How many wait.
    pub(super) const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Gives the delivery back if it may be worked on now; else it waits.
    pub(super) fn enter(&mut self, delivery: Delivery) -> Option<(Delivery, Option<Slot>)> {
        let Some(slot) = self.slot(&delivery) else {
            return Some((delivery, None));
        };
        let line = self.lines.entry(slot.clone()).or_default();
        if let Some((offset, _)) = line.failed
            && delivery.offset() <= offset
        {
            // The gateway has gone back: what waited from before is void.
            line.failed = None;
            self.waiting -= line.waiting.len();
            line.waiting.drain(..).for_each(Delivery::leave);
        }
        if line.busy || line.failed.is_some() || !line.waiting.is_empty() {
            line.waiting.push_back(delivery);
            self.waiting += 1;
            return None;
        }
        line.busy = true;
        Some((delivery, Some(slot)))
    }

    /// One of the slot is done; the next may follow.
    pub(super) fn leave(&mut self, slot: Slot) -> Option<(Delivery, Option<Slot>)> {
        self.lines.get_mut(&slot)?.busy = false;
        self.next(slot)
    }

    /// One of the slot, a lane, failed at `offset`: what is above it waits until `until` for
    /// the gateway to void it, or for the failed one to come again.
    pub(super) fn pause(&mut self, slot: &Slot, offset: i64, until: Instant) {
        if let Some(line) = self.lines.get_mut(slot) {
            (line.busy, line.failed) = (false, Some((offset, until)));
        }
    }

    /// When the next pause ends.
    pub(super) fn due(&self) -> Option<Instant> {
        let pauses = self.lines.values().filter_map(|line| line.failed);
        pauses.map(|(_, until)| until).min()
    }

    /// Ends pauses; gives back what may be worked on then.
    pub(super) fn resume(&mut self, now: Instant) -> Vec<(Delivery, Option<Slot>)> {
        let over = |line: &Line| line.failed.is_some_and(|(_, until)| until <= now);
        let slots = self.lines.iter().filter(|(_, line)| over(line));
        let slots: Vec<Slot> = slots.map(|(slot, _)| slot.clone()).collect();
        let mut ready = Vec::new();
        for slot in slots {
            if let Some(line) = self.lines.get_mut(&slot) {
                line.failed = None;
            }
            ready.extend(self.next(slot));
        }
        ready
    }

    /// Releases everything that waits. Returns how much that was.
    pub(super) fn release(&mut self) -> u64 {
        let mut released = 0;
        for line in self.lines.values_mut() {
            for delivery in line.waiting.drain(..) {
                delivery.release();
                released += 1;
            }
        }
        self.waiting = 0;
        released
    }

    fn next(&mut self, slot: Slot) -> Option<(Delivery, Option<Slot>)> {
        let line = self.lines.get_mut(&slot)?;
        while let Some(delivery) = line.waiting.pop_front() {
            self.waiting -= 1;
            // A lane that went back, or a lost stream, has taken it meanwhile.
            if delivery.is_current() {
                line.busy = true;
                return Some((delivery, Some(slot)));
            }
            delivery.leave();
        }
        self.lines.remove(&slot);
        None
    }

    fn slot(&self, delivery: &Delivery) -> Option<Slot> {
        let key = match self.order {
            Order::None => return None,
            // Null keys have no order among each other.
            Order::Key => Some(delivery.record().key_bytes()?),
            Order::Lane => None,
        };
        Some(Slot {
            topic: delivery.topic().to_owned(),
            partition: delivery.partition(),
            key,
        })
    }
}
