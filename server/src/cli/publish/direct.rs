//! Straight to Kafka: a thread that owns the producer, and a short queue before it.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::{runtime::Handle, sync::mpsc, task::JoinHandle, time};

use super::{
    args::Args,
    draft::Record,
    tally::{Place, Tally},
};
use crate::{broker::kafka::bulk, config::Cluster};

/// Time for the cluster's first answer.
const CONNECT: Duration = Duration::from_secs(15);

/// How long records are waited for before delivery reports are looked at again.
const IDLE: Duration = Duration::from_millis(50);

/// Records before the producer's own queue, which is bounded too.
const QUEUE: usize = 64;

/// The way to the thread.
#[derive(Debug)]
pub(super) struct Direct {
    records: mpsc::Sender<(Place, Record)>,
    thread: JoinHandle<()>,
}

impl Direct {
    /// Connects, and asks about the topic if all records have the same.
    ///
    /// # Errors
    /// The cluster does not answer, or has no such topic or partition.
    pub(super) async fn connect(args: &Args, cluster: Cluster, tally: Tally) -> Result<Self> {
        let acks = args.direct_acks()?;
        let (topic, partition) = (args.topic().map(str::to_owned), args.partition);
        let (records, queue) = mpsc::channel(QUEUE);
        let asked = tokio::task::spawn_blocking(move || {
            let bulk = bulk::Bulk::new(&cluster, acks)?;
            if let Some(topic) = &topic {
                exists(&bulk, &cluster, topic, partition)?;
            }
            anyhow::Ok(bulk)
        });
        let bulk = asked.await??;
        let runtime = Handle::current();
        let thread = tokio::task::spawn_blocking(move || write(bulk, queue, &tally, &runtime));
        Ok(Self { records, thread })
    }

    /// Hands a record over, once there is room. Cancel safe: it is written only if this
    /// returns.
    pub(super) async fn send(&self, place: Place, record: Record) {
        // The thread ends only when this is dropped.
        drop(self.records.send((place, record)).await);
    }

    /// Waits until every record is written or failed, which has a bound of its own.
    pub(super) async fn finish(self) -> Result<()> {
        drop(self.records);
        Ok(self.thread.await?)
    }
}

fn exists(bulk: &bulk::Bulk, cluster: &Cluster, topic: &str, partition: Option<i32>) -> Result<()> {
    let partitions = bulk
        .partitions(topic, CONNECT)
        .with_context(|| format!("asking {} about {topic}", cluster.bootstrap.join(",")))?;
    if let Some(partition) = partition.filter(|it| i64::from(*it) >= i64::from(partitions)) {
        bail!("{topic} has {partitions} partitions, counted from 0: none is {partition}");
    }
    Ok(())
}

fn write(
    mut bulk: bulk::Bulk,
    mut queue: mpsc::Receiver<(Place, Record)>,
    tally: &Tally,
    runtime: &Handle,
) {
    loop {
        match runtime.block_on(time::timeout(IDLE, queue.recv())) {
            Ok(Some((place, record))) => bulk.send_as(
                place.tag(),
                &bulk::Record {
                    topic: &record.topic,
                    partition: record.partition,
                    key: record.key.as_deref(),
                    value: record.value.as_deref(),
                    headers: &record.headers,
                    timestamp_ms: record.timestamp_ms,
                },
            ),
            Ok(None) => break,
            Err(_) => bulk.serve(Duration::ZERO),
        }
        report(&mut bulk, tally);
    }
    bulk.finish(|count| tally.written_so_far(count.written));
    report(&mut bulk, tally);
}

fn report(bulk: &mut bulk::Bulk, tally: &Tally) {
    for failure in bulk.take_failures() {
        let place = Place::of(failure.number);
        tally.failed(place, failure.is_unknown, failure.error.detail);
    }
    tally.written_so_far(bulk.count().written);
}
