//! The subscribers of a subscription: their sessions, their credit, what is out to
//! them and whose turn is next.
//!
//! **Invariant L8**: what is out never exceeds the credit when a batch is made.

mod draws;
mod leaving;
mod presence;
mod reservations;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ackgate_lane::{Generation, Subscriber, Time};
use tokio::sync::{mpsc, oneshot};

use self::{leaving::Leaving, reservations::Reservation};
use super::{
    bodies::Size,
    drained::Taking,
    draw::Drawing,
    handle::{Credit, End, Outbound},
    identity::{Identities, Token},
    mutation::{self, Mutation},
    opening::Session,
    shown::ShownSubscriber,
};
use crate::{config::Batch, filter::Filter};

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
pub(crate) const HEAD_ROOM: u64 = 300 + 30 * MAX_RUNS as u64;

/// One attached subscriber.
#[derive(Debug)]
pub(super) struct Attached {
    pub(super) name: Arc<str>,
    /// It pulls, without a stream.
    pub(super) pulls: bool,
    /// Its stream.
    pub(super) session: Session,
    /// With what it may go on after this stream; `None`: not at all.
    token: Option<Token>,
    /// The last sign of life.
    heard: Time,
    /// Room for records in one message.
    max_batch_bytes: u64,
    pub(super) ack_deadline: Duration,
    /// Broadcast: what it wants.
    pub(super) filter: Option<Filter>,
    pub(super) batch: Batch,
    pub(super) until_drained: bool,
    /// Once it has been told that it ends soon.
    leaving: Option<Leaving>,
    /// Since when it has been taking records; `None` while it is paused.
    pub(super) taking: Option<Taking>,
    credit: Credit,
    /// What it takes in place of a credit.
    drawing: Option<Drawing>,
    out: Size,
    /// What is out went out alone: nothing joins it.
    alone: bool,
    /// Takes from this lane only, until its next record fits.
    reserved: Option<Reservation>,
    /// Not to be reserved again before.
    reservable: Time,
    outbox: mpsc::Sender<Outbound>,
    cut: Option<oneshot::Sender<End>>,
}

/// All attached subscribers, and those that are away.
#[derive(Debug, Default)]
pub(super) struct Subscribers {
    attached: BTreeMap<Subscriber, Attached>,
    identities: Identities,
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
    pub(super) const fn is_eligible(&self) -> bool {
        (self.credit.is_some() || self.drawing.is_some()) && self.leaving.is_none()
    }

    /// Bytes of the records of a batch, and of what is told beside them, within `to`.
    pub(super) fn message_room(&self, to: &Allowance) -> u64 {
        match &self.drawing {
            None => self.max_batch_bytes,
            Some(_) => to.bytes,
        }
    }

    fn allowance(&self, subscriber: Subscriber, first_record: u64) -> Option<Allowance> {
        let more = u64::from(mutation::is_on(Mutation::ExceedCredit));
        let records = (self.credit.records + more).saturating_sub(self.out.records);
        let bytes = if mutation::is_on(Mutation::ExceedBytes) {
            self.max_batch_bytes
        } else {
            self.credit.bytes.saturating_sub(self.out.bytes)
        };
        let (records, bytes) = match &self.drawing {
            None => (records, bytes),
            Some(drawing) => {
                let more = u64::from(mutation::is_on(Mutation::ExceedDraw));
                let left = drawing.left.records;
                (left + if left > 0 { more } else { 0 }, drawing.left.bytes)
            }
        };
        // A record larger than the whole credit goes out alone.
        let is_first = match &self.drawing {
            None => self.out.records == 0,
            Some(drawing) => drawing.is_fresh,
        };
        let fits = first_record <= bytes || is_first;
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
    /// How many are attached.
    pub(super) fn len(&self) -> usize {
        self.attached.len()
    }

    pub(super) fn get(&self, subscriber: Subscriber) -> Option<&Attached> {
        self.attached.get(&subscriber)
    }

    pub(super) fn ids(&self) -> Vec<Subscriber> {
        self.turns.clone()
    }

    /// Whether nobody is attached or awaited.
    pub(super) fn is_empty(&self) -> bool {
        self.attached.is_empty() && self.identities.held().next().is_none()
    }

    /// Whether anybody would take a record: **L13**, otherwise nothing is fetched.
    pub(super) fn any_eligible(&self) -> bool {
        self.attached.values().any(Attached::is_eligible)
    }

    /// Whether anybody has credit left for a record, however small.
    pub(super) fn any_has_room(&self) -> bool {
        self.turns
            .iter()
            .any(|id| self.allowance(*id, 0, false).is_some())
    }

    /// Changes the credit; whether that pauses a subscriber that took records.
    #[must_use]
    pub(super) fn set_credit(
        &mut self,
        now: Taking,
        subscriber: Subscriber,
        credit: Credit,
    ) -> bool {
        self.attached.get_mut(&subscriber).is_some_and(|attached| {
            let took = attached.is_eligible();
            attached.credit = credit;
            let taking = attached.taking.unwrap_or(now);
            attached.taking = credit.is_some().then_some(taking);
            took && !attached.is_eligible()
        })
    }

    /// Those that end once nothing is left for them.
    pub(super) fn until_drained(&self) -> Vec<Subscriber> {
        let bounded = self.attached.iter().filter(|(_, it)| it.until_drained);
        bounded.map(|(id, _)| *id).collect()
    }

    pub(super) fn any_until_drained(&self) -> bool {
        self.attached.values().any(|it| it.until_drained)
    }

    /// Who has credit left for a record of `lane`, however small, in the order of their
    /// turns.
    pub(super) fn with_room(&self, lane: Generation) -> Vec<Subscriber> {
        let has_room = |id: &&Subscriber| {
            let free = self.attached.get(id).is_some_and(|a| a.is_free_for(lane));
            free && self.allowance(**id, 0, false).is_some()
        };
        self.turns.iter().filter(has_room).copied().collect()
    }

    /// What `subscriber` may take of a batch that begins with a record of
    /// `first_record` bytes, if it may.
    pub(super) fn allowance(
        &self,
        subscriber: Subscriber,
        first_record: u64,
        alone: bool,
    ) -> Option<Allowance> {
        self.attached
            .get(&subscriber)
            .filter(|a| !alone || a.out.records == 0)
            .and_then(|a| a.allowance(subscriber, first_record))
    }

    /// Whether `subscriber` never accepts a record of `bytes`.
    pub(super) fn refuses(&self, subscriber: Subscriber, bytes: u64) -> bool {
        let attached = self.attached.get(&subscriber);
        attached.is_some_and(|a| a.max_batch_bytes < bytes)
    }

    /// Whether somebody is attached and nobody accepts a record of `bytes`.
    pub(super) fn all_refuse(&self, bytes: u64) -> bool {
        !self.attached.is_empty() && self.attached.values().all(|a| a.max_batch_bytes < bytes)
    }

    /// Whether `subscriber` accepts a record of `bytes` at all, once it has room.
    pub(super) fn accepts(&self, subscriber: Subscriber, bytes: u64) -> bool {
        let attached = self.attached.get(&subscriber);
        attached.is_some_and(|a| bytes <= a.max_batch_bytes)
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
        let out = match self.attached.get_mut(&subscriber) {
            Some(attached) => Some(&mut attached.out),
            None => self
                .identities
                .away_mut(subscriber)
                .map(|away| &mut away.out),
        };
        if let Some(out) = out {
            out.records = out.records.saturating_sub(size.records);
            out.bytes = out.bytes.saturating_sub(size.bytes);
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
    /// The subscriber as operators see it.
    pub(super) fn shown(&self, subscriber: Subscriber) -> ShownSubscriber {
        ShownSubscriber {
            subscriber,
            name: Arc::clone(&self.name),
            out_records: self.out.records,
            out_bytes: self.out.bytes,
            credit_records: self.credit.records,
            credit_bytes: self.credit.bytes,
            outbox: self.outbox.max_capacity() - self.outbox.capacity(),
            outbox_limit: self.outbox.max_capacity(),
            reserved: self.reserved.is_some(),
        }
    }

    /// Its credit, and what is out to it.
    pub(super) const fn volumes(&self) -> (Credit, Size) {
        (self.credit, self.out)
    }

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
