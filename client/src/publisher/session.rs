//! One stream of a publisher: connects, opens, and carries records one way and answers
//! the other, until it ends.
//!
//! Boundary: knows nothing of earlier or later streams; `run` does. Both halves are one
//! task, which never waits for room in one half while the other has something for it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use ackgate_proto::v1;
use futures::future;
use tokio::{
    sync::mpsc,
    time::{self, Instant},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use v1::{
    gateway_service_client::GatewayServiceClient, publish_request::Request,
    publish_response::Response,
};

use super::{
    ledger::{Ledger, Ready},
    options::PublisherBuilder,
};
use crate::{Error, dial::Dialer, options::wire_duration};

/// Messages between the ledger and the transport: few, so that records gather where they
/// can still go to another stream.
const OUTBOX: usize = 2;

/// How much longer than a record's own time the gateway may be silent while it owes
/// answers.
const SILENCE_SLACK: Duration = Duration::from_secs(10);

/// Longest time that the goodbye may ask for, as the protocol has it.
const MAX_CLOSE: Duration = Duration::from_secs(300);

/// Largest message of answers: 10,000 of them with long texts.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// What streams of one publisher share.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) options: PublisherBuilder,
    pub(super) dialer: Dialer,
    /// Whose turn it is of the gateways; the next one's after each end.
    pub(super) turn: AtomicUsize,
    pub(super) ledger: Arc<Ledger>,
}

/// How a stream ended.
#[derive(Debug)]
pub(super) enum End {
    /// Everything is answered, and nothing more comes.
    Closed,
    /// The time to close is over.
    Overdue,
    /// The gateway stops, and answered what it had taken.
    Drained,
    /// Anything else. `useful`: answers came, or it lasted.
    Failed { error: Error, useful: bool },
}

/// An open stream.
struct Session<'a> {
    context: &'a Context,
    stream: Streaming<v1::PublishResponse>,
    /// Until the last message is sent.
    requests: Option<mpsc::Sender<v1::PublishRequest>>,
    /// How long the gateway may be silent while something is awaited.
    patience: Duration,
    /// When something was last heard, or nothing was awaited.
    heard: Instant,
    draining: bool,
    useful: bool,
}

/// What to do next.
enum Step {
    Message(Result<Option<v1::PublishResponse>, tonic::Status>),
    Again,
    Silent,
    Overdue,
}

/// Runs one stream from connecting to its end; `opened` is called in between.
pub(super) async fn run(context: &Context, opened: impl FnOnce()) -> End {
    let opening = tokio::select! {
        opening = open(context) => opening,
        end = idle(&context.ledger) => return end,
    };
    let (stream, requests, told) = match opening {
        Ok(open) => open,
        Err(error) => {
            let useful = false;
            return End::Failed { error, useful };
        }
    };
    context.ledger.opened(&told);
    opened();
    let timeout = told.options.unwrap_or_default().timeout;
    let timeout = timeout.and_then(|it| Duration::try_from(it).ok());
    let session = Session {
        context,
        stream,
        requests: Some(requests),
        patience: timeout.unwrap_or_else(|| context.options.record_time()) + SILENCE_SLACK,
        heard: Instant::now(),
        draining: false,
        useful: false,
    };
    session.carry().await
}

/// Waits until there is no need of a stream any more.
pub(super) async fn idle(ledger: &Ledger) -> End {
    loop {
        let Some(closing) = ledger.closing() else {
            ledger.changed().await;
            continue;
        };
        if ledger.is_empty() {
            return End::Closed;
        }
        tokio::select! {
            () = ledger.changed() => {}
            () = time::sleep_until(closing.until) => return End::Overdue,
        }
    }
}

type Opening = (
    Streaming<v1::PublishResponse>,
    mpsc::Sender<v1::PublishRequest>,
    v1::PublishOpened,
);

async fn open(context: &Context) -> Result<Opening, Error> {
    let options = &context.options;
    // Its stream ends before the next one begins, so the turn is the next gateway's.
    let turn = context.turn.fetch_add(1, Relaxed);
    let targets = context.dialer.targets().await?;
    let at = turn.checked_rem(targets.len()).unwrap_or_default();
    let target = targets.get(at).ok_or(Error::Ended)?;
    let (channel, uri) = context.dialer.dial(target).await?;
    let mut client =
        GatewayServiceClient::with_origin(channel, uri).max_decoding_message_size(MAX_ANSWER_BYTES);
    let (requests, outbox) = mpsc::channel(OUTBOX);
    let request = Some(Request::Open(options.open()));
    // It is on its way before the headers are awaited: some gateways and proxies send
    // none before they have it.
    requests
        .send(v1::PublishRequest { request })
        .await
        .map_err(|_| Error::Ended)?;
    let timeout = options.open_time();
    let opening = async {
        let call = client.publish(context.dialer.token().on(ReceiverStream::new(outbox)));
        let mut stream = call.await?.into_inner();
        let first = stream.message().await?.ok_or(Error::Ended)?;
        match first.response {
            Some(Response::Opened(opened)) => Ok((stream, opened)),
            Some(Response::Results(_) | Response::Closed(_) | Response::Drain(_)) | None => {
                Err(Error::Protocol("the first message must be `opened`"))
            }
        }
    };
    let opened = time::timeout(timeout, opening).await;
    let (stream, opened) = opened.map_err(|_| Error::NotOpened(timeout))??;
    Ok((stream, requests, opened))
}

impl Session<'_> {
    async fn carry(mut self) -> End {
        let begun = Instant::now();
        loop {
            let error = match self.step().await {
                Step::Message(Ok(Some(message))) => match self.take(message) {
                    Ok(Some(end)) => return end,
                    Ok(None) => continue,
                    Err(error) => error,
                },
                // It has nothing more to say, and nothing more was to be said.
                Step::Message(Ok(None))
                    if self.requests.is_none() && !self.context.ledger.is_owed() =>
                {
                    return End::Drained;
                }
                Step::Message(Ok(None)) => Error::Ended,
                Step::Message(Err(status)) => status.into(),
                Step::Again => continue,
                Step::Silent if self.draining && !self.context.ledger.is_owed() => {
                    return End::Drained;
                }
                Step::Silent => Error::Silent(self.patience),
                Step::Overdue => return End::Overdue,
            };
            let lasted = begun.elapsed() > self.context.options.retry().max;
            return End::Failed {
                error,
                useful: self.useful || lasted,
            };
        }
    }

    /// Waits for the next thing to do, and sends what can be sent.
    async fn step(&mut self) -> Step {
        let ledger = &self.context.ledger;
        let now = Instant::now();
        let ready = match self.requests {
            Some(_) => ledger.ready(now),
            None => Ready::Nothing,
        };
        let awaited = ledger.is_owed() || self.requests.is_none();
        if !awaited {
            self.heard = now;
        }
        let silent_at = awaited.then(|| self.heard + self.patience);
        let linger_until = match ready {
            Ready::At(due) => Some(due),
            Ready::Records | Ready::Goodbye | Ready::Nothing => None,
        };
        let sends = matches!(ready, Ready::Records | Ready::Goodbye);
        let requests = self.requests.clone().filter(|_| sends);
        let room = async {
            match requests {
                Some(requests) => requests.reserve_owned().await.ok(),
                None => future::pending().await,
            }
        };
        tokio::select! {
            biased;
            message = self.stream.message() => Step::Message(message),
            () = at(ledger.closing().map(|closing| closing.until)) => Step::Overdue,
            permit = room => {
                let goodbye = ready == Ready::Goodbye;
                let last = goodbye || permit.is_none();
                if let Some(permit) = permit {
                    let request = if goodbye {
                        Request::Close(goodbye_of(ledger))
                    } else {
                        Request::Records(v1::PublishRecords { records: ledger.take() })
                    };
                    drop(permit.send(v1::PublishRequest { request: Some(request) }));
                }
                // Without a permit the transport is gone: its side of the stream says why.
                if last {
                    self.requests = None;
                }
                Step::Again
            }
            () = ledger.changed() => Step::Again,
            () = at(linger_until) => Step::Again,
            () = at(silent_at) => Step::Silent,
        }
    }

    fn take(&mut self, message: v1::PublishResponse) -> Result<Option<End>, Error> {
        self.heard = Instant::now();
        let ledger = &self.context.ledger;
        match message.response {
            Some(Response::Results(results)) => {
                self.useful |= !results.results.is_empty();
                ledger.results(results, self.draining)?;
                Ok(None)
            }
            Some(Response::Drain(_)) => {
                tracing::info!("the gateway stops: records go to the next stream");
                self.draining = true;
                // End of input: what is under way is answered, then the stream ends.
                self.requests = None;
                Ok(None)
            }
            Some(Response::Closed(closed)) => {
                tracing::debug!(?closed, "stream closed");
                if ledger.is_owed() {
                    return Err(Error::Ended);
                }
                let all = ledger.closing().is_some() && ledger.is_empty();
                Ok(Some(if all { End::Closed } else { End::Drained }))
            }
            Some(Response::Opened(_)) => Err(Error::Protocol("a second `opened`")),
            // A newer gateway's message that this version does not know.
            None => Ok(None),
        }
    }
}

fn goodbye_of(ledger: &Ledger) -> v1::PublishClose {
    let left = ledger
        .closing()
        .map(|closing| closing.until.saturating_duration_since(Instant::now()));
    v1::PublishClose {
        timeout: left.map(|left| wire_duration(left.min(MAX_CLOSE))),
    }
}

/// Waits until a time, or for ever.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => time::sleep_until(time).await,
        None => future::pending().await,
    }
}
