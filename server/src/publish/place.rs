//! One cluster that takes records: what it takes, its bytes, its producers.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::{
    desk::{Make, Patience},
    feed::TURN_BYTES,
    ledger::Ledger,
    published::Published,
};
use crate::{
    broker::{self, ErrorKind, Unwritten, Why, Write},
    config::{Acks, Publish},
};

/// Different topics that may be written to. Each one takes memory in the client library
/// for as long as the gateway runs, also if it does not exist.
const TOPICS: usize = 10_000;

/// One stream may have one in so many of the bytes that may be under way, or a turn.
const SHARES: u64 = 4;

/// How records are to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// What counts as written.
    pub acks: Acks,
    /// Whether a retry can never write a record twice.
    pub is_idempotent: bool,
    /// Time for each record.
    pub timeout: Duration,
}

/// One producer for each choice.
type Producers = BTreeMap<(Acks, bool, Patience), Arc<dyn Write>>;

/// A cluster that takes records.
pub struct Place {
    publish: Publish,
    /// Bytes that may be under way, over all streams. First come, first served.
    bytes: Arc<Semaphore>,
    /// Topics that were written to.
    topics: Mutex<BTreeSet<String>>,
    /// Held while one is made, so that nobody makes it twice.
    producers: tokio::sync::Mutex<Producers>,
    make: Arc<dyn Make>,
    /// What is counted of its records.
    published: Arc<Published>,
}

impl Place {
    pub(super) fn new(publish: Publish, make: Arc<dyn Make>) -> Self {
        let bytes = usize::try_from(publish.max_in_flight_bytes).unwrap_or(usize::MAX);
        Self {
            publish,
            bytes: Arc::new(Semaphore::new(bytes.min(Semaphore::MAX_PERMITS))),
            topics: Mutex::default(),
            producers: tokio::sync::Mutex::default(),
            make,
            published: Arc::default(),
        }
    }

    /// What it takes.
    #[must_use]
    pub const fn publish(&self) -> &Publish {
        &self.publish
    }

    /// The producer for these terms, made if there is none. On a thread for blocking
    /// work, which goes on if this is cancelled; the producer is then dropped.
    ///
    /// # Errors
    /// The client library refuses the settings.
    pub async fn producer(&self, terms: Terms) -> Result<Arc<dyn Write>, broker::Error> {
        let patience = Patience::of(terms.timeout);
        let key = (terms.acks, terms.is_idempotent, patience);
        let mut producers = self.producers.lock().await;
        if let Some(producer) = producers.get(&key) {
            return Ok(Arc::clone(producer));
        }
        let (make, publish) = (Arc::clone(&self.make), self.publish.clone());
        let made = tokio::task::spawn_blocking(move || make.make(&publish, terms));
        let made = made.await.map_err(|_ended| broker::Error {
            kind: ErrorKind::Transient,
            detail: "the producer could not be made: the gateway stops".to_owned(),
        })?;
        let producer = made?;
        producers.insert(key, Arc::clone(&producer));
        Ok(producer)
    }

    /// A ledger for a stream whose records have that time.
    #[must_use]
    pub fn ledger(&self, timeout: Duration) -> Arc<Ledger> {
        let Publish {
            max_in_flight_records,
            max_in_flight_bytes,
            ..
        } = self.publish;
        let share = (max_in_flight_bytes / SHARES).max(TURN_BYTES);
        let share = u32::try_from(share).unwrap_or(u32::MAX);
        let bytes = Arc::clone(&self.bytes);
        let published = Arc::clone(&self.published);
        Ledger::new(max_in_flight_records, share, bytes, timeout, published)
    }

    /// Bytes that may still be under way.
    #[cfg(test)]
    pub(super) fn bytes_left(&self) -> u64 {
        self.bytes.available_permits() as u64
    }

    /// Bytes that are under way.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        let left = self.bytes.available_permits() as u64;
        self.publish.max_in_flight_bytes.saturating_sub(left)
    }

    /// What is counted of its records.
    #[must_use]
    pub fn published(&self) -> &Published {
        &self.published
    }

    /// All producers that were made.
    pub(super) async fn made(&self) -> Vec<Arc<dyn Write>> {
        self.producers.lock().await.values().cloned().collect()
    }

    /// Lets a topic in.
    pub(super) fn admit(&self, topic: &str) -> Result<(), Unwritten> {
        if !self.publish.allows(topic) {
            return Err(Unwritten {
                why: Why::NotAllowed,
                detail: "the gateway's configuration does not allow this topic".to_owned(),
            });
        }
        let mut topics = self.topics.lock();
        if topics.contains(topic) {
            return Ok(());
        }
        if topics.len() >= TOPICS {
            return Err(Unwritten {
                why: Why::NotAllowed,
                detail: format!("more than {TOPICS} different topics since the gateway started"),
            });
        }
        topics.insert(topic.to_owned());
        Ok(())
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place")
            .field("publish", &self.publish)
            .field("bytes_left", &self.bytes.available_permits())
            .finish_non_exhaustive()
    }
}
