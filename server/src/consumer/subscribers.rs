//! The sessions attached to a subscription: their credit, what is out to them and
//! whose turn is next.
//!
//! **Invariant L8**: what is out never exceeds the credit when a batch is made.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ackgate_lane::Subscriber;
use tokio::sync::{mpsc, oneshot};

use super::{
    bodies::Size,
    handle::{Attach, Credit, End, Outbound},
};

/// Messages of a session whose answers it has not read. The next one waits.
pub(crate) const ANSWERS: usize = 256;

/// Places in an outbox that batches leave to answers, each of which has a ticket, to
/// the goodbye and to some notices.
const RESERVED: usize = ANSWERS + 64;

/// Places that notices leave.
const FOR_ANSWERS: usize = ANSWERS + 8;

/// Messages that wait for a session's writer: batches take 64 at most.
pub(crate) const OUTBOX: usize = RESERVED + 64;

/// Runs in one batch: each may need a redelivery entry.
pub(super) const MAX_RUNS: usize = 32;

/// Bytes of a message that are not records: a topic of 249 bytes and the numbers
/// of the lane (300), [`MAX_RUNS`] redelivery entries of at most 30 bytes.
const HEAD_ROOM: u64 = 300 + 30 * MAX_RUNS as u64;

/// One attached session.
#[derive(Debug)]
pub(super) struct Attached {
    pub(super) name: Arc<str>,
    /// Room for records in one message.
    max_batch_bytes: u64,
    pub(super) ack_deadline: Duration,
    credit: Credit,
    out: Size,
    /// What is out went out alone: nothing joins it.
    alone: bool,
    outbox: mpsc::Sender<Outbound>,
    cut: Option<oneshot::Sender<End>>,
}

/// All attached sessions.
#[derive(Debug, Default)]
pub(super) struct Subscribers {
    attached: BTreeMap<Subscriber, Attached>,
    /// In the order of their turns: who got a batch goes to the end.
    turns: Vec<Subscriber>,
}

/// What a subscriber may be given now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allowance {
    pub(super) subscriber: Subscriber,
    pub(super) records: u64,
    pub(super) bytes: u64,
}

impl Attached {
    /// Whether it takes part at all: paused subscribers do not.
    const fn is_eligible(&self) -> bool {
        self.credit.records > 0 && self.credit.bytes > 0
    }

    fn allowance(&self, subscriber: Subscriber, first_record: u64) -> Option<Allowance> {
        let records = self.credit.records.saturating_sub(self.out.records);
        let bytes = self.credit.bytes.saturating_sub(self.out.bytes);
        // A record larger than the whole credit goes out alone.
        let fits = first_record <= bytes || self.out.records == 0;
        let may = self.is_eligible()
            && !(self.alone && self.out.records > 0)
            && records > 0
            && fits
            && first_record <= self.max_batch_bytes
            && self.outbox.capacity() > RESERVED;
        may.then_some(Allowance {
            subscriber,
            records,
            bytes: bytes.min(self.max_batch_bytes),
        })
    }
}

impl Subscribers {
    pub(super) fn attach(&mut self, attach: Attach) {
        self.turns.push(attach.subscriber);
        self.attached.insert(
            attach.subscriber,
            Attached {
                name: attach.name,
                max_batch_bytes: attach.max_message_bytes.saturating_sub(HEAD_ROOM),
                ack_deadline: attach.ack_deadline,
                credit: attach.credit,
                out: Size::default(),
                alone: false,
                outbox: attach.outbox,
                cut: Some(attach.cut),
            },
        );
    }

    pub(super) fn detach(&mut self, subscriber: Subscriber) -> Option<Attached> {
        self.turns.retain(|turn| *turn != subscriber);
        self.attached.remove(&subscriber)
    }

    pub(super) fn get(&self, subscriber: Subscriber) -> Option<&Attached> {
        self.attached.get(&subscriber)
    }

    pub(super) fn ids(&self) -> Vec<Subscriber> {
        self.turns.clone()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.attached.is_empty()
    }

    /// Whether anybody would take a record: **L13**, otherwise nothing is fetched.
    pub(super) fn any_eligible(&self) -> bool {
        self.attached.values().any(Attached::is_eligible)
    }

    /// Whether anybody has credit left for a record, however small.
    pub(super) fn any_has_room(&self) -> bool {
        self.next(None, 0, false).is_some()
    }

    pub(super) fn set_credit(&mut self, subscriber: Subscriber, credit: Credit) {
        if let Some(attached) = self.attached.get_mut(&subscriber) {
            attached.credit = credit;
        }
    }

    /// Whose turn it is for a batch that begins with a record of `first_record` bytes.
    pub(super) fn next(
        &self,
        owner: Option<Subscriber>,
        first_record: u64,
        alone: bool,
    ) -> Option<Allowance> {
        let allowance = |id: &Subscriber| {
            self.attached
                .get(id)
                .filter(|a| !alone || a.out.records == 0)
                .and_then(|a| a.allowance(*id, first_record))
        };
        match owner {
            Some(owner) => allowance(&owner),
            None => self.turns.iter().find_map(allowance),
        }
    }

    /// Whether somebody is attached and nobody accepts a record of `bytes`.
    pub(super) fn all_refuse(&self, bytes: u64) -> bool {
        !self.attached.is_empty() && self.attached.values().all(|a| a.max_batch_bytes < bytes)
    }

    /// Counts a batch as out and moves the turn on.
    pub(super) fn take(&mut self, subscriber: Subscriber, size: Size, alone: bool) {
        if let Some(attached) = self.attached.get_mut(&subscriber) {
            attached.alone = alone;
            attached.out.records += size.records;
            attached.out.bytes += size.bytes;
        }
        if let Some(at) = self.turns.iter().position(|turn| *turn == subscriber) {
            self.turns.get_mut(at..).unwrap_or_default().rotate_left(1);
        }
    }

    /// Counts a part of a batch as no longer out.
    pub(super) fn give_back(&mut self, subscriber: Subscriber, size: Size) {
        if let Some(attached) = self.attached.get_mut(&subscriber) {
            attached.out.records = attached.out.records.saturating_sub(size.records);
            attached.out.bytes = attached.out.bytes.saturating_sub(size.bytes);
        }
    }

    /// Puts a message into the session's outbox; `false` if it does not read.
    #[must_use]
    pub(super) fn tell(&self, subscriber: Subscriber, message: Outbound) -> bool {
        self.attached
            .get(&subscriber)
            .is_none_or(|a| a.send(message))
    }

    /// Puts news into an outbox that has room beyond what answers need.
    pub(super) fn inform(&self, subscriber: Subscriber, message: Outbound) -> bool {
        self.attached
            .get(&subscriber)
            .is_some_and(|a| a.outbox.capacity() > FOR_ANSWERS && a.send(message))
    }

    /// Puts news into every outbox that has room beyond what answers need; news are
    /// informative, so a subscriber that does not read misses them.
    pub(super) fn announce(&self, message: &Outbound) {
        for attached in self.attached.values() {
            if attached.outbox.capacity() > FOR_ANSWERS {
                let _told = attached.send(message.clone());
            }
        }
    }
}

impl Attached {
    /// Puts a message into the outbox; `false` if it is full.
    #[must_use]
    pub(super) fn send(&self, message: Outbound) -> bool {
        // A closed outbox is a session that is ending: its loss will be told.
        !matches!(
            self.outbox.try_send(message),
            Err(mpsc::error::TrySendError::Full(_))
        )
    }

    /// Ends the session at once.
    pub(super) fn cut(&mut self, end: End) {
        if let Some(cut) = self.cut.take() {
            // A session that has ended already does not listen.
            let _unheard = cut.send(end);
        }
    }
}
