//! The parties of a benchmark that are this program: the direct consumer and the
//! gateway's subscriber.

use std::time::{Duration, Instant};

use ackgate_client::Subscriber;
use anyhow::{Context as _, Result, anyhow, bail};
use tokio::time::timeout_at;

use super::{
    cpu,
    job::{Event, Job, Measured, Teller, tell},
};
use crate::{
    broker::kafka::direct::{self, Reading},
    config,
};

/// Bytes that may be out to the subscriber at a time: what the records credit
/// allows is never cut by this one at ordinary sizes.
const CREDIT_BYTES: u64 = 64 << 20;

/// Name of the subscription that is measured.
pub(super) const SUBSCRIPTION: &str = "bench";

/// What this process is in another one's run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Role {
    /// An ordinary consumer.
    Direct,
    /// A subscriber that acks everything.
    Subscriber,
}

impl Role {
    /// Does its job and tells how it went.
    ///
    /// # Errors
    /// It could not be done.
    pub(super) async fn play(self, job: Job) -> Result<()> {
        let mut measured = match self {
            Self::Direct => tokio::task::spawn_blocking(move || consume(&job)).await??,
            Self::Subscriber => subscribe(&job).await?,
        };
        measured.cpu_seconds = cpu::seconds(std::process::id());
        tell(&Event::Done(measured))
    }

    /// Its name among the arguments.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Subscriber => "subscriber",
        }
    }
}

fn consume(job: &Job) -> Result<Measured> {
    let config = config::load(&job.config, [])?;
    let parts = config.clusters.first().zip(config.subscriptions.first());
    let (cluster, subscription) = parts.context("the configuration names no subscription")?;
    let mut teller = Teller::default();
    let reading = direct::read(cluster, subscription, job.deadline, |records| {
        // If nobody listens, nobody needs to know.
        teller.progress(records).unwrap_or_default();
    })?;
    let Reading {
        records,
        bytes,
        read,
        committed,
    } = reading;
    Ok(Measured {
        records,
        bytes,
        seconds: read.as_secs_f64(),
        committed_seconds: Some(committed.as_secs_f64()),
        cpu_seconds: None,
    })
}

async fn subscribe(job: &Job) -> Result<Measured> {
    let deadline = tokio::time::Instant::now() + job.deadline;
    let connect = Subscriber::builder(&job.address, SUBSCRIPTION)
        .credit(job.credit, CREDIT_BYTES)
        .close_timeout(Duration::from_secs(30))
        .connect();
    let mut subscriber = timeout_at(deadline, connect)
        .await
        .context("connecting")??;
    let mut teller = Teller::default();
    let (mut records, mut bytes, mut first) = (0_u64, 0_u64, None);
    while records < job.records {
        let batch = timeout_at(deadline, subscriber.next_batch())
            .await
            .with_context(|| format!("{records} of {} records came in time", job.records))??
            .ok_or_else(|| anyhow!("the stream ended after {records} records"))?;
        first.get_or_insert_with(Instant::now);
        // Every record is looked at, as the direct consumer does.
        for record in batch.records() {
            let length =
                record.key().map_or(0, <[u8]>::len) + record.value().map_or(0, <[u8]>::len);
            records += 1;
            bytes += u64::try_from(length).unwrap_or_default();
        }
        batch.ack_all();
        teller.progress(records)?;
    }
    // The stream ends once every verdict before the goodbye was applied.
    let stats = subscriber.close().await.context("saying goodbye")?;
    let seconds = first
        .map(|first| first.elapsed())
        .unwrap_or_default()
        .as_secs_f64();
    if stats.reconnects > 0 {
        bail!(
            "the connection was lost {} times: the figures would mean nothing",
            stats.reconnects
        );
    }
    Ok(Measured {
        records,
        bytes,
        seconds,
        committed_seconds: None,
        cpu_seconds: None,
    })
}
