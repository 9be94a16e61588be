//! The way of one stream's records to the producer, in the order they were sent.
//!
//! Back-pressure: a feed waits for room in its stream's ledger, then for bytes of its
//! share and of the cluster, and takes a small part of a message at a time, so that
//! streams take turns.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::{
    HEADER_BYTES, RECORD_BYTES,
    ledger::{Entry, Ledger},
    place::Place,
};
use crate::broker::{Outgoing, Receipt, Unwritten, Why, Write};

/// Records that a stream may hand over before it is another's turn.
const TURN_RECORDS: usize = 256;

/// Bytes that a stream may hand over before it is another's turn, or one record.
pub(super) const TURN_BYTES: u64 = 256 * 1024;

/// How often a client library without room is asked again. Its queue is made to have
/// room for all that is under way, so that is rare.
const ASK_AGAIN: Duration = Duration::from_millis(5);

const STOPS: &str = "the gateway stops and takes no more records";

/// A record as a publisher sent it: sound by itself, or refused already.
#[derive(Debug)]
pub struct Draft {
    /// The record; if it is refused, topic and partition count alone.
    pub record: Outgoing,
    /// Why it cannot be written.
    pub refused: Option<Unwritten>,
}

/// Takes the records of one stream.
#[derive(Debug)]
pub struct Feed {
    place: Arc<Place>,
    producer: Arc<dyn Write>,
    ledger: Arc<Ledger>,
    drain: watch::Receiver<Option<Instant>>,
    /// The topic of the record before, which was let in.
    topic: Option<Arc<str>>,
    /// Most records in one turn.
    turn: usize,
}

impl Feed {
    /// A feed of a ledger.
    #[must_use]
    pub fn new(
        place: Arc<Place>,
        producer: Arc<dyn Write>,
        ledger: Arc<Ledger>,
        drain: watch::Receiver<Option<Instant>>,
    ) -> Self {
        let room = usize::try_from(place.publish().max_in_flight_records).unwrap_or(usize::MAX);
        Self {
            place,
            producer,
            ledger,
            drain,
            topic: None,
            turn: room.clamp(1, TURN_RECORDS),
        }
    }

    /// Takes records, as soon as there is room for them. Returns when all have been
    /// handed over or answered. If it is dropped before, those that were not taken are
    /// forgotten and those that were are answered.
    pub async fn take(&mut self, drafts: impl Iterator<Item = Draft>) {
        let mut drafts = drafts.peekable();
        while drafts.peek().is_some() {
            let mut turn = Vec::new();
            let mut bytes = 0;
            while turn.len() < self.turn {
                let weight = |draft: &Draft| self.weight(draft);
                let Some(weight) = drafts.peek().map(weight) else {
                    break;
                };
                if bytes > 0 && bytes + weight > TURN_BYTES {
                    break;
                }
                bytes += weight;
                turn.extend(drafts.next().map(|draft| (draft, weight)));
            }
            self.take_turn(turn).await;
        }
    }

    async fn take_turn(&mut self, mut turn: Vec<(Draft, u64)>) {
        let records = u32::try_from(turn.len()).unwrap_or(u32::MAX);
        self.ledger.reserve(records).await;
        for (draft, _) in &mut turn {
            self.admit(draft);
        }
        let bytes: u64 = turn.iter().filter_map(paid).sum();
        if !self.pay(bytes).await {
            for (draft, _) in &mut turn {
                draft.refused.get_or_insert_with(|| Unwritten {
                    why: Why::Unavailable,
                    detail: STOPS.to_owned(),
                });
            }
        }
        let sizes = turn.iter().filter(|it| paid(it).is_some());
        let sizes = sizes.map(|(draft, _)| size(&draft.record));
        self.place.published().took(sizes.sum());
        let until = self.ledger.until();
        let entry = |(draft, weight): &mut (Draft, u64)| Entry {
            topic: self.topic(&draft.record.topic),
            partition: draft.record.partition,
            weight: u32::try_from(*weight).unwrap_or(u32::MAX),
            refused: draft.refused.clone(),
        };
        let first = self.ledger.take(turn.iter_mut().map(entry).collect());
        let mut waiting = Waiting::default();
        for (number, (draft, _)) in (first..).zip(turn) {
            if draft.refused.is_none() {
                let ledger = Arc::clone(&self.ledger);
                waiting
                    .records
                    .push_back((draft.record, Receipt::new(ledger, number)));
            }
        }
        while let Some((record, receipt)) = waiting.records.pop_front() {
            if let Err(receipt) = self.producer.enqueue(&record, receipt) {
                waiting.records.push_front((record, receipt));
                if Instant::now() >= until {
                    waiting.refuse(Why::TimedOut, "the client library had no room in time");
                    return;
                }
                if self.drain.borrow().is_some() {
                    waiting.refuse(Why::Unavailable, STOPS);
                    return;
                }
                sleep(ASK_AGAIN).await;
            }
        }
    }

    /// Waits for bytes; false if the gateway stops instead.
    async fn pay(&mut self, bytes: u64) -> bool {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        tokio::select! {
            biased;
            // The sender lives as long as the gateway.
            _ = self.drain.wait_for(Option::is_some) => false,
            () = self.ledger.pay(bytes) => true,
        }
    }

    /// Refuses a record whose topic is not let in.
    fn admit(&mut self, draft: &mut Draft) {
        let topic = &draft.record.topic;
        if draft.refused.is_some() || self.topic.as_deref() == Some(topic) {
            return;
        }
        match self.place.admit(topic) {
            Ok(()) => self.topic = Some(Arc::from(topic.as_str())),
            Err(refused) => draft.refused = Some(refused),
        }
    }

    fn topic(&self, name: &str) -> Arc<str> {
        let same = self.topic.as_ref().filter(|topic| &***topic == name);
        same.map_or_else(|| Arc::from(name), Arc::clone)
    }

    /// What a record counts: never more than all that there is.
    fn weight(&self, draft: &Draft) -> u64 {
        let headers = draft.record.headers.len() as u64 * HEADER_BYTES;
        let weight = size(&draft.record) + headers + RECORD_BYTES;
        weight.min(self.place.publish().max_in_flight_bytes)
    }
}

/// Bytes of key, value and headers.
fn size(record: &Outgoing) -> u64 {
    let length = |bytes: &Option<bytes::Bytes>| bytes.as_ref().map_or(0, bytes::Bytes::len);
    let headers = record.headers.iter();
    let headers: usize = headers
        .map(|(name, value)| name.len() + length(value))
        .sum();
    (length(&record.key) + length(&record.value) + headers) as u64
}

fn paid((draft, weight): &(Draft, u64)) -> Option<u64> {
    draft.refused.is_none().then_some(*weight)
}

/// Records that are taken and not handed over.
#[derive(Debug, Default)]
struct Waiting {
    records: VecDeque<(Outgoing, Receipt)>,
}

impl Waiting {
    fn refuse(&mut self, why: Why, detail: &str) {
        for (_, receipt) in self.records.drain(..) {
            receipt.answer(Err(Unwritten {
                why,
                detail: detail.to_owned(),
            }));
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.refuse(Why::Unavailable, "the stream ended before it was written");
    }
}
