//! Publishing without gRPC and Kafka: a producer that answers when a test says so, on
//! tokio's paused clock.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;

use super::{Answered, Desk, Draft, Feed, Ledger, Make, Place, Terms};
use crate::{
    broker::{Error, ErrorKind, Flushed, Outgoing, Placed, Receipt, Unwritten, Why, Write},
    config::{Acks, Publish},
};

mod desk;
mod feed;
mod ledger;

const TIMEOUT: Duration = Duration::from_secs(30);

/// What a record of [`draft`] with a value of no bytes weighs.
const LIGHT: u64 = super::RECORD_BYTES;

/// A producer whose queue a test empties.
#[derive(Debug, Default)]
struct Fake {
    queue: Mutex<VecDeque<(Outgoing, Receipt)>>,
    /// Everything that was enqueued, by value.
    values: Mutex<Vec<String>>,
    /// Its queue takes nothing.
    is_full: Mutex<bool>,
}

impl Fake {
    fn waiting(&self) -> usize {
        self.queue.lock().len()
    }

    fn values(&self) -> Vec<String> {
        self.values.lock().clone()
    }

    /// Confirms the record that has waited at this place of the queue: at the offset that
    /// is its value.
    fn confirm(&self, at: usize) {
        let (record, receipt) = self.queue.lock().remove(at).expect("a record waits there");
        receipt.answer(Ok(Placed {
            partition: 0,
            offset: value_of(&record).parse().unwrap_or(-1),
        }));
    }

    fn confirm_all(&self) {
        while self.waiting() > 0 {
            self.confirm(0);
        }
    }
}

impl Write for Fake {
    fn enqueue(&self, record: &Outgoing, receipt: Receipt) -> Result<(), Receipt> {
        if *self.is_full.lock() {
            return Err(receipt);
        }
        self.values.lock().push(value_of(record));
        self.queue.lock().push_back((record.clone(), receipt));
        Ok(())
    }

    fn flushed(&self, _: Duration) -> Flushed {
        Box::pin(std::future::ready(Ok(())))
    }
}

fn value_of(record: &Outgoing) -> String {
    let value = record.value.as_deref().unwrap_or_default();
    String::from_utf8_lossy(value).trim().to_owned()
}

/// Makes the one producer that a test has.
#[derive(Debug, Default)]
struct Maker {
    fake: Arc<Fake>,
    made: AtomicUsize,
    fails: Mutex<bool>,
}

impl Make for Maker {
    fn make(&self, _: &Publish, _: Terms) -> Result<Arc<dyn Write>, Error> {
        if *self.fails.lock() {
            return Err(Error {
                kind: ErrorKind::Operator,
                detail: "as the test wants".to_owned(),
            });
        }
        self.made.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::clone(&self.fake) as _)
    }
}

fn publish() -> Publish {
    Publish {
        cluster: "main".to_owned(),
        topics: vec!["t*".to_owned()],
        reserved: Vec::new(),
        acks: Acks::All,
        idempotence: None,
        max_record_bytes: 1 << 20,
        max_in_flight_records: 10,
        max_in_flight_bytes: 1 << 20,
        producer_properties: Vec::new(),
    }
}

/// A cluster and what writes to it.
struct Stage {
    desk: Desk,
    place: Arc<Place>,
    fake: Arc<Fake>,
    maker: Arc<Maker>,
}

impl Stage {
    fn new(publish: Publish) -> Self {
        let maker = Arc::new(Maker::default());
        let make = Arc::clone(&maker) as Arc<dyn Make>;
        let desk = Desk::new(vec!["main".to_owned()], vec![publish], &make);
        Self {
            place: desk.place("main").expect("it is there"),
            desk,
            fake: Arc::clone(&maker.fake),
            maker,
        }
    }

    /// A stream's feed and ledger.
    fn stream(&self) -> (Feed, Arc<Ledger>) {
        let ledger = self.place.ledger(TIMEOUT);
        let feed = Feed::new(
            Arc::clone(&self.place),
            Arc::clone(&self.fake) as _,
            Arc::clone(&ledger),
            self.desk.drain(),
        );
        (feed, ledger)
    }

    fn bytes_left(&self) -> u64 {
        self.place.bytes_left()
    }
}

fn draft(value: &str) -> Draft {
    Draft {
        record: Outgoing {
            topic: "topic".to_owned(),
            partition: None,
            key: None,
            value: Some(value.to_owned().into()),
            headers: Vec::new(),
            timestamp_ms: None,
        },
        refused: None,
    }
}

/// A record of so many bytes.
fn sized(value: u32, bytes: usize) -> Draft {
    let value = value.to_string();
    draft(&(" ".repeat(bytes - value.len()) + &value))
}

fn drafts(values: std::ops::Range<u32>) -> Vec<Draft> {
    values.map(|value| draft(&value.to_string())).collect()
}

fn why(answered: &Answered) -> Option<Why> {
    answered.outcome.as_ref().err().map(|it| it.why)
}

/// Lets everything run that can without time passing.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}
