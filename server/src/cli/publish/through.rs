//! Through a gateway: a publisher, and a task that hears what became of each record.

use std::time::Duration;

use ackgate_client::{PublishStats, Publisher, Receipt};
use anyhow::{Context as _, Result, bail};
use tokio::{sync::mpsc, task::JoinHandle, time};

use super::{
    args::Args,
    draft::Record,
    tally::{Place, Tally},
};
use crate::cli::{access::Access, output, stop::Stop, target};

/// Receipts that may wait for the task, about as many as records may be under way.
const RECEIPTS: usize = 10_000;

/// After this long without the gateway the command says what it waits for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Longest time for answers once the command is to stop.
const STOPPING: Duration = Duration::from_secs(5);

/// The way through a gateway.
#[derive(Debug)]
pub(super) struct Through {
    publisher: Publisher,
    receipts: mpsc::Sender<(Place, Receipt)>,
    hearing: JoinHandle<()>,
    wait: Duration,
    access: Access,
}

impl Through {
    /// Connects; `None`: it was told to stop before.
    ///
    /// # Errors
    /// The gateway refuses, or there is none in time.
    pub(super) async fn connect(
        args: &Args,
        tally: Tally,
        stop: &mut Stop,
    ) -> Result<Option<Self>> {
        let address = target::gateway(&args.address);
        let publisher = tokio::select! {
            publisher = connect(args, &address) => publisher?,
            () = stop.asked() => return Ok(None),
        };
        let (receipts, mut heard) = mpsc::channel::<(Place, Receipt)>(RECEIPTS);
        let hearing = tokio::spawn(async move {
            while let Some((place, receipt)) = heard.recv().await {
                match receipt.await {
                    Ok(_) => tally.written(),
                    Err(error) => {
                        let unknown = error.may_be_written();
                        let what = match &error.detail {
                            detail if detail.is_empty() => error.kind.to_string(),
                            detail => detail.clone(),
                        };
                        let why = match error.partition {
                            Some(partition) => format!("{}/{partition}: {what}", error.topic),
                            None => format!("{}: {what}", error.topic),
                        };
                        tally.failed(place, unknown, why);
                    }
                }
            }
        });
        Ok(Some(Self {
            publisher,
            receipts,
            hearing,
            wait: args.wait,
            access: args.access.clone(),
        }))
    }

    /// Hands a record over, once there is room. Cancel safe: it is written only if this
    /// returns, or is answered.
    pub(super) async fn send(&self, place: Place, record: Record) {
        // The task ends only when this is dropped.
        if let Ok(room) = self.receipts.reserve().await {
            let receipt = self.publisher.send(record.outgoing()).await;
            room.send((place, receipt));
        }
    }

    /// What ended the publisher for good, if something has.
    pub(super) fn error(&self) -> Option<String> {
        let error = self.publisher.error()?;
        Some(match self.access.hint(&error) {
            Some(hint) => format!("{error}; {hint}"),
            None => error.to_string(),
        })
    }

    /// Waits for the answers, less long if it is to stop or is told to; returns whether it
    /// was told while it waited.
    pub(super) async fn finish(self, stopping: bool, stop: &mut Stop) -> Result<bool> {
        let Self {
            publisher,
            receipts,
            hearing,
            wait,
            access: _,
        } = self;
        drop(receipts);
        let most = if stopping { wait.min(STOPPING) } else { wait };
        let impatient = tokio::select! {
            _ = publisher.close(most) => false,
            () = stop.asked() => true,
        };
        if impatient {
            let _: PublishStats = publisher.close(Duration::ZERO).await;
        }
        hearing.await?;
        Ok(impatient)
    }
}

async fn connect(args: &Args, address: &str) -> Result<Publisher> {
    let mut connecting = std::pin::pin!(args.builder(address)?.connect());
    let waiting = async {
        if let Ok(connected) = time::timeout(PATIENCE, &mut connecting).await {
            return connected;
        }
        output::complain(&format!("waiting for a gateway at {address}"));
        connecting.await
    };
    match time::timeout(args.wait, waiting).await {
        Ok(connected) => connected.with_context(|| format!("cannot publish at {address}")),
        Err(_) => bail!(
            "no gateway at {address} within {}: start one with `ackgate serve`, name another \
             with --address, or write to Kafka itself with --bootstrap HOST:PORT",
            humantime::format_duration(args.wait)
        ),
    }
}
