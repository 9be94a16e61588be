//! One publisher's stream from its opening to its last word.

use std::{convert::Infallible, sync::Arc, time::Duration};

use ackgate_proto::v1;
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;
use tonic::Streaming;
use v1::publish_response::Response;

use super::{
    opening::{self, Opening},
    reader, record,
    writer::{self, Signals, Transport, Written, tell},
};
use crate::{
    publish::{Desk, Feed, Ledger},
    session::{
        age::{Age, aged},
        outcome::{Outcome, shutting_down},
        status::Reason,
    },
};

/// Time for the last word to be taken by the transport.
const LAST_WORD: Duration = Duration::from_secs(1);

/// Runs a publisher's stream.
pub(in crate::session) async fn run(
    desk: &Desk,
    input: Streaming<v1::PublishRequest>,
    transport: &Transport,
    age: Option<&Age>,
) -> Outcome {
    let _entered = desk.enter();
    let (tell_drain, drain) = watch::channel(None);
    let relay = relay(desk.drain(), age, tell_drain);
    tokio::select! {
        biased;
        outcome = drained(desk, input, transport, drain) => outcome,
        never = relay => match never {},
    }
}

/// Tells when the stream's time is over: with the gateway's drain, or a grace after its
/// connection is too old.
async fn relay(
    mut stop: watch::Receiver<Option<Instant>>,
    age: Option<&Age>,
    tell: watch::Sender<Option<Instant>>,
) -> Infallible {
    let stops = async {
        let by = stop.wait_for(Option::is_some).await.map(|by| *by);
        match by {
            Ok(by) => by,
            Err(_no_desk) => std::future::pending().await,
        }
    };
    let by = tokio::select! {
        biased;
        by = stops => by,
        grace = aged(age) => Some(Instant::now() + grace),
    };
    tell.send_replace(by);
    std::future::pending().await
}

async fn drained(
    desk: &Desk,
    mut input: Streaming<v1::PublishRequest>,
    transport: &Transport,
    mut drain: watch::Receiver<Option<Instant>>,
) -> Outcome {
    let opened = async {
        let options = reader::options(&mut input).await?;
        opening::open(desk, &options, "open").await
    };
    let opened = tokio::select! {
        biased;
        opened = opened => opened,
        () = transport.closed() => return Outcome::Gone,
        _ = drain.wait_for(Option::is_some) => Err(shutting_down()),
    };
    let opening = match opened {
        Ok(opening) => opening,
        Err(status) => return Outcome::Refused(status),
    };
    if !tell(transport, Response::Opened(opening.opened())).await {
        return Outcome::Gone;
    }
    both(drain, opening, input, transport).await
}

/// Runs both halves; what was read is written also if nobody waits for it any more.
async fn both(
    drain: watch::Receiver<Option<Instant>>,
    opening: Opening,
    input: Streaming<v1::PublishRequest>,
    transport: &Transport,
) -> Outcome {
    let Opening {
        place,
        terms,
        producer,
    } = opening;
    let max_record_bytes = place.publish().max_record_bytes;
    let ledger = place.ledger(terms.timeout);
    let feed = Feed::new(place, producer, Arc::clone(&ledger), drain.clone());
    let (end, ended) = watch::channel(None);
    let signals = Signals { drain, ended };
    let halt = CancellationToken::new();
    let read = reader::run(input, feed, &halt, terms.timeout, max_record_bytes);
    let write = writer::run(&ledger, transport, signals, &halt);
    tokio::pin!(read, write);
    let (written, status) = tokio::select! {
        biased;
        ending = &mut read => {
            end.send_replace(Some(ending.by));
            (write.await, ending.status)
        }
        written = &mut write => {
            if written != Written::All {
                halt.cancel();
                ledger.abandon();
                read.await;
            }
            (written, None)
        }
    };
    match (written, status) {
        (Written::Gone, _) => Outcome::Gone,
        (Written::Stuck, _) => Outcome::Refused(Reason::NotReading.status(
            "the publisher does not read its results; read the stream in a task of its own",
        )),
        (Written::All, Some(status)) => Outcome::Refused(status),
        (Written::All, None) => last_word(&ledger, transport).await,
    }
}

async fn last_word(ledger: &Ledger, transport: &Transport) -> Outcome {
    let closed = Response::Closed(record::closed(ledger.count()));
    let told = timeout(LAST_WORD, tell(transport, closed)).await;
    match told {
        Ok(true) => Outcome::Closed,
        Ok(false) | Err(_) => Outcome::Gone,
    }
}
