//! The gateway's half of a publisher's stream: results out, in the order the records
//! were sent, and at the end the whole truth.

use std::time::Duration;

use ackgate_proto::v1;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use v1::publish_response::Response;

use super::record;
use crate::publish::Ledger;

/// Where messages go to the transport.
pub(super) type Transport = mpsc::Sender<Result<v1::PublishResponse, Status>>;

/// A publisher that is told of a drain has so long to end its stream by itself, once
/// all that it sent is answered.
const QUIET: Duration = Duration::from_secs(1);

/// Time for a publisher to read what waits for it once its time with Kafka is over.
const READ_WITHIN: Duration = Duration::from_secs(10);

/// The same when the gateway stops, which waits no longer.
const READ_WITHIN_STOP: Duration = Duration::from_millis(800);

/// How a writer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// Every result has been told.
    All,
    /// There is nobody to tell.
    Gone,
    /// The publisher does not read.
    Stuck,
}

/// What a writer goes by.
#[derive(Clone, Debug)]
pub(super) struct Signals {
    /// When the gateway's drain is over, once there is one.
    pub(super) drain: watch::Receiver<Option<Instant>>,
    /// Until when Kafka is waited for, once the reader has ended.
    pub(super) ended: watch::Receiver<Option<Instant>>,
}

/// Writes results until all are told after the end of the input, or of a drain; then
/// `halt` has told the reader to read no further.
pub(super) async fn run(
    ledger: &Ledger,
    transport: &Transport,
    signals: Signals,
    halt: &CancellationToken,
) -> Written {
    let late = too_late(signals.clone());
    tokio::select! {
        biased;
        written = write(ledger, transport, signals, halt) => written,
        () = late => Written::Stuck,
    }
}

async fn write(
    ledger: &Ledger,
    transport: &Transport,
    mut signals: Signals,
    halt: &CancellationToken,
) -> Written {
    let (mut drain, mut ended) = (None, None);
    let mut quiet_since = Instant::now();
    loop {
        let is_done = ledger.is_empty();
        if is_done && (ended.is_some() || halt.is_cancelled()) {
            return Written::All;
        }
        let until = [drain, ended].into_iter().flatten().min();
        let until = until.filter(|_| !halt.is_cancelled());
        let quiet = drain.filter(|_| is_done).map(|_| quiet_since + QUIET);
        tokio::select! {
            biased;
            by = some(&mut signals.drain), if drain.is_none() => {
                drain = Some(by);
                quiet_since = Instant::now();
                let told = Response::Drain(v1::PublishDrain {});
                if !tell(transport, told).await {
                    return Written::Gone;
                }
            }
            by = some(&mut signals.ended), if ended.is_none() => ended = Some(by),
            () = transport.closed() => return Written::Gone,
            () = at(until) => {
                halt.cancel();
                ledger.give_up();
            }
            () = at(quiet) => return Written::All,
            run = ledger.next() => {
                let results = run.results.len();
                if !tell(transport, Response::Results(record::results(run))).await {
                    return Written::Gone;
                }
                ledger.told(results);
                quiet_since = Instant::now();
            }
        }
    }
}

/// Whether somebody is there to be told.
pub(super) async fn tell(transport: &Transport, response: Response) -> bool {
    let response = Some(response);
    transport
        .send(Ok(v1::PublishResponse { response }))
        .await
        .is_ok()
}

/// Resolves when a publisher that does not read has had its time.
async fn too_late(mut signals: Signals) {
    let stop = async { some(&mut signals.drain).await + READ_WITHIN_STOP };
    let close = async { some(&mut signals.ended).await + READ_WITHIN };
    tokio::pin!(stop, close);
    let (first, other) = tokio::select! {
        biased;
        first = &mut stop => (first, futures::future::Either::Left(close)),
        first = &mut close => (first, futures::future::Either::Right(stop)),
    };
    tokio::select! {
        () = sleep_until(first) => {}
        () = async { sleep_until(other.await).await } => {}
    }
}

/// Resolves when there is a time; never once nobody can tell one any more.
async fn some(time: &mut watch::Receiver<Option<Instant>>) -> Instant {
    let told = time.wait_for(Option::is_some).await;
    let told = told.ok().and_then(|told| *told);
    match told {
        Some(told) => told,
        None => std::future::pending().await,
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
