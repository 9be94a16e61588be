//! Where publishers turn to: every cluster that takes records, and the end of it all
//! when the gateway stops.

use std::{fmt, sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    time::{Instant, timeout, timeout_at},
};
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};

use super::place::{Place, Terms};
use crate::{
    broker::{self, Write},
    config::Publish,
};

/// What streams may take beyond the end of a drain, to tell their last results.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(1);

/// Makes producers. Called on a thread that may block.
pub trait Make: Send + Sync + fmt::Debug {
    /// A producer for what is published on these terms.
    ///
    /// # Errors
    /// The client library refuses the settings.
    fn make(&self, publish: &Publish, terms: Terms) -> Result<Arc<dyn Write>, broker::Error>;
}

/// How long a producer tries to write a record. The client library has one time for all
/// records of a producer, so those who want to wait longer than usual share a second
/// one: their records must not be in the way of others during an outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Patience {
    /// 30 s: the default.
    Usual,
    /// 5 min: the longest time that a publisher can ask for.
    Long,
}

impl Patience {
    /// What a publisher's time for a record needs.
    #[must_use]
    pub fn of(timeout: Duration) -> Self {
        if timeout <= Self::Usual.time() {
            Self::Usual
        } else {
            Self::Long
        }
    }

    /// The time.
    #[must_use]
    pub const fn time(self) -> Duration {
        match self {
            Self::Usual => Duration::from_secs(30),
            Self::Long => Duration::from_secs(300),
        }
    }
}

/// Why there is no place for a publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPlace {
    /// There is no such cluster.
    Unknown,
    /// The cluster, or none of them, takes records.
    Off,
    /// Several clusters take records and none was named.
    Ambiguous,
}

/// All clusters that take records. Clones are one.
#[derive(Clone, Debug)]
pub struct Desk {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Names of all clusters.
    clusters: Vec<String>,
    places: Vec<Arc<Place>>,
    /// When the drain is over, once there is one.
    drain: watch::Sender<Option<Instant>>,
    /// Streams and calls that run.
    open: TaskTracker,
}

impl Desk {
    /// A desk for what the configuration allows; `clusters` are the names of all.
    #[must_use]
    pub fn new(clusters: Vec<String>, publish: Vec<Publish>, make: &Arc<dyn Make>) -> Self {
        let place = |publish| Arc::new(Place::new(publish, Arc::clone(make)));
        Self::of(clusters, publish.into_iter().map(place).collect())
    }

    /// A desk where nothing is taken.
    #[must_use]
    pub fn closed() -> Self {
        Self::of(Vec::new(), Vec::new())
    }

    fn of(clusters: Vec<String>, places: Vec<Arc<Place>>) -> Self {
        Self {
            shared: Arc::new(Shared {
                clusters,
                places,
                drain: watch::Sender::new(None),
                open: TaskTracker::new(),
            }),
        }
    }

    /// The place for this cluster; the only one there is if no name is given.
    ///
    /// # Errors
    /// There is none.
    pub fn place(&self, cluster: &str) -> Result<Arc<Place>, NoPlace> {
        let mut places = self.shared.places.iter();
        if cluster.is_empty() {
            return match (places.next(), places.next()) {
                (None, _) => Err(NoPlace::Off),
                (Some(only), None) => Ok(Arc::clone(only)),
                (Some(_), Some(_)) => Err(NoPlace::Ambiguous),
            };
        }
        let place = places.find(|place| place.publish().cluster == cluster);
        place.cloned().ok_or_else(|| {
            if self.shared.clusters.iter().any(|known| known == cluster) {
                NoPlace::Off
            } else {
                NoPlace::Unknown
            }
        })
    }

    /// Every cluster that takes records.
    #[must_use]
    pub fn places(&self) -> &[Arc<Place>] {
        &self.shared.places
    }

    /// How many streams and calls run.
    #[must_use]
    pub fn open(&self) -> usize {
        self.shared.open.len()
    }

    /// A stop waits for whoever holds one.
    pub fn enter(&self) -> TaskTrackerToken {
        self.shared.open.token()
    }

    /// Tells when the drain is over, as soon as there is one.
    #[must_use]
    pub fn drain(&self) -> watch::Receiver<Option<Instant>> {
        self.shared.drain.subscribe()
    }

    /// Takes no more records, and waits until all streams have ended: within that time,
    /// and one second for their last words.
    pub async fn stop(&self, within: Duration) {
        let until = Instant::now() + within;
        self.shared.drain.send_replace(Some(until));
        self.shared.open.close();
        let ended = timeout_at(until + LAST_WORDS, self.shared.open.wait()).await;
        if ended.is_err() {
            let left = self.shared.open.len();
            tracing::warn!(
                streams = left,
                "publishers that do not read their results are cut off"
            );
        }
    }

    /// Waits until the client library has written what it has, `within` that time.
    pub async fn flush(&self, within: Duration) {
        let places = self.shared.places.iter().map(|place| place.made());
        // One that is being made, for a call that was cut off, may take its time.
        let Ok(made) = timeout(within, futures::future::join_all(places)).await else {
            tracing::error!("published records are given up: a producer is still being made");
            return;
        };
        let flushes = made.iter().flatten().map(|it| it.flushed(within));
        for flushed in futures::future::join_all(flushes).await {
            if let Err(error) = flushed {
                tracing::error!(%error, "published records are given up");
            }
        }
    }
}
