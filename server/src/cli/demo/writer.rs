//! Writes the demo's orders, on a thread that may block.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Result, bail};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio_util::sync::CancellationToken;

use super::{ORDERS, orders::Orders};
use crate::{
    broker::kafka::bulk::{Acks, Bulk, Record},
    config::Cluster,
};

/// Orders at a time once the first ones are written.
const TRICKLE: usize = 2;

/// Between two trickles.
const PAUSE: Duration = Duration::from_millis(100);

/// What is written so far.
#[derive(Debug, Default)]
pub(super) struct Written {
    records: AtomicU64,
    poison: AtomicU64,
    /// The orders to begin with are all written.
    begun: CancellationToken,
}

impl Written {
    pub(super) fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    /// Broken ones among them.
    pub(super) fn poison(&self) -> u64 {
        self.poison.load(Ordering::Relaxed)
    }

    /// Whether the orders to begin with are all written.
    pub(super) fn has_begun(&self) -> bool {
        self.begun.is_cancelled()
    }
}

/// Starts to write `first` orders, and then some now and then until `stop` unless
/// it is to be done `once`.
pub(super) fn start(
    cluster: Cluster,
    orders: Orders,
    first: u64,
    once: bool,
    stop: CancellationToken,
) -> (Arc<Written>, JoinHandle<Result<()>>) {
    let written = Arc::new(Written::default());
    let shared = Arc::clone(&written);
    let task = spawn_blocking(move || {
        let mut bulk = Bulk::new(&cluster, Acks::All)?;
        let mut orders = orders;
        let first = usize::try_from(first).unwrap_or(usize::MAX);
        write(&mut bulk, orders.by_ref().take(first), &shared)?;
        shared.begun.cancel();
        while !once && !stop.is_cancelled() {
            write(&mut bulk, orders.by_ref().take(TRICKLE), &shared)?;
            bulk.serve(PAUSE);
        }
        Ok(())
    });
    (written, task)
}

fn write(
    bulk: &mut Bulk,
    orders: impl Iterator<Item = super::orders::Sample>,
    written: &Written,
) -> Result<()> {
    let headers = [(
        "content-type".to_owned(),
        Some(b"application/json".to_vec()),
    )];
    let mut poison = 0;
    for sample in orders {
        bulk.send(&Record {
            topic: ORDERS,
            key: Some(sample.key.as_bytes()),
            value: Some(&sample.value),
            headers: &headers,
            ..Record::default()
        });
        poison += u64::from(sample.poison);
    }
    let count = bulk.finish(|_| {});
    if let Some(failure) = bulk.take_failures().into_iter().next() {
        bail!(
            "{} orders could not be written: {}",
            count.failed,
            failure.error
        );
    }
    written.poison.fetch_add(poison, Ordering::Relaxed);
    written.records.store(count.written, Ordering::Relaxed);
    Ok(())
}
