//! Looks at the broker while the demo runs: committed positions, log ends and dead
//! letters, as Kafka has them.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use anyhow::Result;
use tokio::task::spawn_blocking;

use super::{DEAD_LETTERS, GROUP, ORDERS};
use crate::{
    broker::kafka::witness::{Progress, Seen, Witness},
    config::Cluster,
};

/// Time for each look.
const LOOK: Duration = Duration::from_secs(10);

/// Headers by which a dead letter names the record it is of.
const SOURCE: [&str; 2] = [
    "ackgate.dead-letter.partition",
    "ackgate.dead-letter.offset",
];

/// What the broker has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Look {
    /// The lanes of the orders.
    pub(super) lanes: Vec<Progress>,
    /// Dead letters written.
    pub(super) dead_letters: u64,
}

/// Asks the broker.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    witness: Arc<Witness>,
}

impl Watch {
    /// # Errors
    /// The client library refuses its settings.
    pub(super) async fn new(cluster: Cluster) -> Result<Self> {
        let witness = spawn_blocking(move || Witness::new(&cluster, GROUP)).await??;
        Ok(Self {
            witness: Arc::new(witness),
        })
    }

    /// # Errors
    /// The broker does not answer.
    pub(super) async fn look(&self) -> Result<Look> {
        let witness = Arc::clone(&self.witness);
        spawn_blocking(move || {
            let lanes = witness.progress(ORDERS, LOOK)?;
            let dead = witness.progress(DEAD_LETTERS, LOOK)?;
            let dead_letters = dead.iter().map(|lane| lane.end.unsigned_abs()).sum();
            Ok(Look {
                lanes,
                dead_letters,
            })
        })
        .await?
    }

    /// Reads the dead letters back and counts the records they are of. Those that
    /// the broker has already dropped for want of memory count as they are.
    ///
    /// # Errors
    /// The broker does not answer, or the end was not reached in time.
    pub(super) async fn dead_letters(&self) -> Result<u64> {
        let witness = Arc::clone(&self.witness);
        spawn_blocking(move || {
            let dropped: u64 = witness
                .progress(DEAD_LETTERS, LOOK)?
                .iter()
                .map(|lane| lane.start.unsigned_abs())
                .sum();
            let mut sources = BTreeSet::new();
            witness.read(DEAD_LETTERS, LOOK, |letter| {
                sources.insert(source(&letter));
            })?;
            Ok(dropped + u64::try_from(sources.len()).unwrap_or(u64::MAX))
        })
        .await?
    }
}

impl Look {
    /// Whether every committed position is the log end.
    pub(super) fn all_committed(&self) -> bool {
        let committed = |lane: &Progress| lane.committed == Some(lane.end) || lane.end == 0;
        !self.lanes.is_empty() && self.lanes.iter().all(committed)
    }
}

/// Which record a dead letter is of: two letters of one record are one.
fn source(letter: &Seen) -> [Option<Vec<u8>>; 2] {
    SOURCE.map(|name| {
        let mut headers = letter.headers.iter().rev();
        // The last one: the record may have had a header of that name itself.
        headers
            .find(|(key, _)| key == name)
            .and_then(|(_, value)| value.clone())
    })
}
