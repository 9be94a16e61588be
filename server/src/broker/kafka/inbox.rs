//! What the runtime asks of a consumer's thread.
//!
//! Invariant: putting something in never blocks and never grows beyond one order
//! and one position per lane, because later ones merge into earlier ones.

use std::{
    collections::BTreeMap,
    mem,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use ackgate_lane::{Generation, Position};
use parking_lot::Mutex;

use super::wake::Waker;
use crate::broker::Commit;

/// The inbox of one consumer.
#[derive(Debug)]
pub(super) struct Inbox {
    letters: Mutex<Letters>,
    /// Spares the thread a lock when nothing has come.
    waiting: AtomicBool,
    closing: AtomicBool,
    waker: Arc<Waker>,
}

#[derive(Debug, Default)]
struct Letters {
    orders: BTreeMap<Generation, Order>,
    commits: BTreeMap<Generation, Commit>,
}

/// What is asked of one lane, in this sequence: void, seek, grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Order {
    /// What was granted before is void.
    pub(super) void: bool,
    /// Where to move, and the seek's number.
    pub(super) seek: Option<(Position, u64)>,
    /// Records granted on top.
    pub(super) records: u64,
    /// Bytes granted on top.
    pub(super) bytes: u64,
}

impl Inbox {
    pub(super) fn new(waker: Arc<Waker>) -> Self {
        Self {
            letters: Mutex::default(),
            waiting: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            waker,
        }
    }

    pub(super) fn grant(&self, generation: Generation, records: u32, bytes: u64) {
        self.put(|letters| {
            let order = letters.orders.entry(generation).or_default();
            order.records = order.records.saturating_add(u64::from(records));
            order.bytes = order.bytes.saturating_add(bytes);
        });
    }

    pub(super) fn withdraw(&self, generation: Generation) {
        self.put(|letters| {
            let order = letters.orders.entry(generation).or_default();
            *order = Order {
                void: true,
                seek: order.seek,
                records: 0,
                bytes: 0,
            };
        });
    }

    pub(super) fn seek(&self, generation: Generation, to: Position, seek: u64) {
        self.put(|letters| {
            let order = Order {
                void: true,
                seek: Some((to, seek)),
                records: 0,
                bytes: 0,
            };
            letters.orders.insert(generation, order);
        });
    }

    /// Later positions replace earlier ones that have not been taken.
    pub(super) fn commit(&self, commits: Vec<Commit>) {
        self.put(|letters| {
            letters
                .commits
                .extend(commits.into_iter().map(|c| (c.generation, c)));
        });
    }

    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.waker.notify();
    }

    pub(super) fn closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Takes all orders and commits.
    pub(super) fn take(&self) -> Option<(BTreeMap<Generation, Order>, Vec<Commit>)> {
        if !self.waiting.swap(false, Ordering::AcqRel) {
            return None;
        }
        let letters = mem::take(&mut *self.letters.lock());
        let commits = letters.commits.into_values().collect();
        Some((letters.orders, commits))
    }

    fn put(&self, write: impl FnOnce(&mut Letters)) {
        write(&mut self.letters.lock());
        self.waiting.store(true, Ordering::Release);
        self.waker.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LANE: Generation = Generation(7);

    fn order(ask: impl FnOnce(&Inbox)) -> Order {
        let inbox = Inbox::new(Arc::default());
        ask(&inbox);
        inbox.take().unwrap().0[&LANE]
    }

    #[test]
    fn grants_add_up() {
        let order = order(|inbox| {
            inbox.grant(LANE, 1, 10);
            inbox.grant(LANE, u32::MAX, u64::MAX);
        });
        assert_eq!(order.records, u64::from(u32::MAX) + 1);
        assert_eq!(order.bytes, u64::MAX);
    }

    #[test]
    fn withdrawal_takes_back_earlier_grants_and_leaves_later_ones() {
        let order = order(|inbox| {
            inbox.grant(LANE, 5, 50);
            inbox.withdraw(LANE);
            inbox.grant(LANE, 2, 20);
        });
        assert_eq!(
            order,
            Order {
                void: true,
                seek: None,
                records: 2,
                bytes: 20
            }
        );
    }

    #[test]
    fn seek_voids_what_was_granted_before_it() {
        let order = order(|inbox| {
            inbox.grant(LANE, 5, 50);
            inbox.seek(LANE, Position::new(3), 1);
            inbox.grant(LANE, 1, 10);
        });
        let seek = Some((Position::new(3), 1));
        assert_eq!(
            order,
            Order {
                void: true,
                seek,
                records: 1,
                bytes: 10
            }
        );
    }

    #[test]
    fn newest_position_of_a_lane_is_committed() {
        let inbox = Inbox::new(Arc::default());
        for position in [3, 4] {
            inbox.commit(vec![Commit {
                generation: LANE,
                position: Position::new(position),
                serial: position,
                metadata: None,
                letters: Vec::new(),
            }]);
        }
        let commits = inbox.take().unwrap().1;
        assert_eq!(
            commits,
            [Commit {
                generation: LANE,
                position: Position::new(4),
                serial: 4,
                metadata: None,
                letters: Vec::new(),
            }]
        );
        assert!(inbox.take().is_none(), "nothing is taken twice");
    }
}
