//! One session: connects, opens the stream, and reads it to its end.
//!
//! Boundary: knows nothing of earlier or later sessions; `reconnect` does.

use std::{sync::Arc, time::Duration};

use ackgate_proto::v1;
use futures::future;
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{self, Instant},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming, transport::Endpoint};
use v1::{gateway_service_client::GatewayServiceClient, subscribe_response::Response};

use crate::{
    Batch, Error, Order, Problem, ProblemKind,
    event::{DrainReason, Event},
    lane_event,
    options::{Builder, Confirm},
    settler::{Given, Settler},
    stats::{Counters, add},
    subscriber::Current,
    token::Token,
    writer,
};

/// Messages between the gathering of verdicts and the transport.
const OUTBOX: usize = 8;

/// How long the writing half may take to notice that the session is over.
const WRITER_GRACE: Duration = Duration::from_secs(1);

/// What sessions of one subscriber share.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) options: Builder,
    pub(crate) endpoint: Endpoint,
    pub(crate) token: Token,
    pub(crate) counters: Arc<Counters>,
    pub(crate) current: Arc<Current>,
    /// What is in hand, over all sessions.
    pub(crate) settler: Arc<Settler>,
    /// Where batches go; bounded, the reader waits.
    pub(crate) queue: mpsc::Sender<Result<Batch, Error>>,
    /// True, or without a sender: say goodbye and stop.
    pub(crate) closing: watch::Receiver<bool>,
}

/// How a session ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The subscriber said goodbye, or there is nothing left for it.
    Closed(Result<(), Error>),
    /// The gateway drained it, and everything was answered.
    Drained,
    /// Anything else. `useful`: records came, or it lasted.
    Failed { error: Error, useful: bool },
}

/// An open stream.
struct Session<'a> {
    context: &'a Context,
    /// The settler's number of it.
    number: u64,
    stream: Streaming<v1::SubscribeResponse>,
    /// Longest silence; `None`: no limit.
    silence: Option<Duration>,
    /// Until when the end of the stream is awaited after the goodbye.
    closing_until: Option<Instant>,
    draining: bool,
    useful: bool,
}

/// Runs one session from connecting to its end; `opened` is called in between.
pub(crate) async fn run(context: &Context, opened: impl FnOnce()) -> End {
    let mut closing = context.closing.clone();
    let (mut stream, requests) = tokio::select! {
        () = closed(&mut closing) => return End::Closed(Ok(())),
        result = connect(context) => match result {
            Ok(open) => open,
            Err(error) => return End::Failed { error, useful: false },
        },
    };
    let mut opened_as = tokio::select! {
        () = closed(&mut closing) => return End::Closed(Ok(())),
        result = first(context, &mut stream) => match result {
            Ok(opened) => opened,
            Err(error) => return End::Failed { error, useful: false },
        },
    };
    let settings = opened_as.settings.take().unwrap_or_default();
    let settler = &context.settler;
    let resumed = kept(&opened_as);
    let number = settler.begin(opened_as.resumed, given(&settings));
    context.current.begin(settler);
    add(&context.counters.sessions, 1);
    opened();
    context.counters.tell(&Event::Opened {
        gateway: &context.options.address,
        session: &opened_as.session,
        subscriber_id: &opened_as.subscriber_id,
        resumed,
    });
    let max_verdicts = usize::try_from(settings.max_verdicts).unwrap_or(writer::MAX_VERDICTS);
    let terms = writer::Terms {
        session: number,
        max_verdicts: if max_verdicts == 0 {
            writer::MAX_VERDICTS
        } else {
            max_verdicts
        },
        close_timeout: context.options.close_timeout,
        beat: settings.lease_beat.and_then(interval),
    };
    let writing = tokio::spawn(writer::write(Arc::clone(settler), requests, terms));
    let session = Session {
        context,
        number,
        stream,
        silence: settings.ping_interval.and_then(silence),
        closing_until: None,
        draining: false,
        useful: false,
    };
    let end = session.read(&mut closing).await;
    let broken = match &end {
        End::Failed { error, .. } => error.is_retryable() && context.current.is_resumable(),
        End::Closed(_) | End::Drained => false,
    };
    if !broken {
        context.current.forget();
    }
    settler.end(broken);
    if let Some(waits) = settler.waits() {
        waits.end();
    }
    finish(writing).await;
    end
}

/// How many runs the gateway kept.
fn kept(opened: &v1::Opened) -> usize {
    let kept = v1::ResumeResult::Kept;
    let kept = opened.resumed.iter().filter(|it| it.result() == kept);
    kept.count()
}

fn given(settings: &v1::Settings) -> Given {
    Given {
        ack_deadline: settings.ack_deadline.and_then(interval),
        order: Order::of(settings.order()),
    }
}

/// Waits for the wish to close.
pub(crate) async fn closed(closing: &mut watch::Receiver<bool>) {
    // An error means that nobody is left to wish anything else.
    drop(closing.wait_for(|closing| *closing).await);
}

type Open = (
    Streaming<v1::SubscribeResponse>,
    mpsc::Sender<v1::SubscribeRequest>,
);

async fn connect(context: &Context) -> Result<Open, Error> {
    let options = &context.options;
    let unreachable = |error| Error::unreachable(&options.address, &error);
    let channel = context.endpoint.connect().await.map_err(unreachable)?;
    let limit = usize::try_from(options.max_message_bytes).unwrap_or(usize::MAX);
    let mut client = GatewayServiceClient::new(channel).max_decoding_message_size(limit);
    let (requests, outbox) = mpsc::channel(OUTBOX);
    let open = v1::subscribe_request::Request::Open(open(context));
    // `Open` is on its way before the headers are awaited: some gateways and
    // proxies send none before they have it.
    requests
        .send(v1::SubscribeRequest {
            request: Some(open),
        })
        .await
        .map_err(|_| Error::Ended)?;
    let call = client.subscribe(context.token.on(ReceiverStream::new(outbox)));
    let timeout = options.open_timeout;
    let response = time::timeout(timeout, call)
        .await
        .map_err(|_| Error::NotOpened(timeout))??;
    Ok((response.into_inner(), requests))
}

/// What to begin with: anew, or where the last session broke.
fn open(context: &Context) -> v1::Open {
    let mut open = context.options.open();
    open.takeover = context.options.takeover && !context.current.has_begun();
    if let Some((subscriber_id, token)) = context.current.resume() {
        let held = context.settler.manifest();
        open.subscriber_id = subscriber_id;
        open.resume = Some(v1::Resume { token, held });
    }
    open
}

async fn first(
    context: &Context,
    stream: &mut Streaming<v1::SubscribeResponse>,
) -> Result<v1::Opened, Error> {
    let timeout = context.options.open_timeout;
    let message = time::timeout(timeout, stream.message())
        .await
        .map_err(|_| Error::NotOpened(timeout))??
        .ok_or(Error::Ended)?;
    let Some(Response::Opened(opened)) = message.response else {
        return Err(Error::Protocol("the first message is not Opened"));
    };
    tracing::info!(
        session = opened.session,
        subscriber = opened.subscriber_id,
        subscription = context.options.source.name(),
        "subscribed"
    );
    context.current.opened(&opened);
    Ok(opened)
}

/// Twice the ping interval; none if the gateway promises no pings.
fn silence(ping_interval: prost_types::Duration) -> Option<Duration> {
    interval(ping_interval)?.checked_mul(2)
}

/// An interval above zero.
fn interval(duration: prost_types::Duration) -> Option<Duration> {
    Duration::try_from(duration).ok().filter(|it| !it.is_zero())
}

async fn finish(mut writing: JoinHandle<()>) {
    if time::timeout(WRITER_GRACE, &mut writing).await.is_err() {
        writing.abort();
    }
}

impl Session<'_> {
    async fn read(mut self, closing: &mut watch::Receiver<bool>) -> End {
        let begun = Instant::now();
        loop {
            let message = tokio::select! {
                () = closed(closing), if self.closing_until.is_none() => {
                    self.begin_close();
                    continue;
                }
                message = next(&mut self.stream, self.silence, self.closing_until) => message,
            };
            let response = match message {
                Next::Message(message) => message.response,
                Next::Silent(silence) => return self.end(Error::Silent(silence), begun),
                Next::Overdue => {
                    let timeout = self.context.options.close_timeout;
                    return End::Closed(Err(Error::NotClosed(timeout)));
                }
                Next::Failed(status) => return self.end(Error::from(status), begun),
                Next::End if self.closing_until.is_some() => return End::Closed(Ok(())),
                Next::End if self.draining => return End::Drained,
                // With OK, and only so: an end without a status is an error.
                Next::End if self.context.options.until_drained => return End::Closed(Ok(())),
                Next::End => return self.end(Error::Ended, begun),
            };
            match response {
                Some(Response::Batch(batch)) => self.batch(batch, closing).await,
                Some(other) => self.note(other),
                // A kind that this version does not know.
                None => {}
            }
        }
    }

    async fn batch(&mut self, batch: v1::Batch, closing: &mut watch::Receiver<bool>) {
        self.useful = true;
        let records = u64::try_from(batch.records.len()).unwrap_or(u64::MAX);
        let counters = &self.context.counters;
        add(&counters.batches, 1);
        add(&counters.records, records);
        let batch = Batch::new(Arc::clone(&self.context.settler), self.number, batch);
        if self.closing_until.is_some() {
            return batch.discard();
        }
        // The queue fills only if the gateway exceeds the credit, or after the
        // credit was raised; HTTP/2 then holds the gateway back.
        tokio::select! {
            biased;
            permit = self.context.queue.reserve() => match permit {
                Ok(permit) => permit.send(Ok(batch)),
                // The subscriber has been dropped; the wish to close follows.
                Err(_) => batch.discard(),
            },
            () = closed(closing) => batch.discard(),
        }
    }

    fn note(&mut self, response: Response) {
        match response {
            Response::Settled(settled) => self.settled(settled),
            Response::LaneEvent(event) => {
                lane_event::tell(&event);
                if event.kind() == v1::LaneEventKind::Rewound
                    && let Some(first) = event.first_offset
                {
                    self.context.settler.void(event.lane, first);
                }
            }
            Response::Drain(drain) => {
                self.context.counters.tell(&Event::Drain {
                    gateway: &self.context.options.address,
                    reason: DrainReason::of(&drain),
                    deadline: drain.deadline.and_then(|it| it.try_into().ok()),
                });
                tracing::info!(deadline = ?drain.deadline, "gateway drains");
                self.draining = true;
                self.context.settler.drain();
            }
            // `Opened` comes first and once; batches are handled elsewhere.
            Response::Ping(_) | Response::Opened(_) | Response::Batch(_) => {}
        }
    }

    fn settled(&self, settled: v1::Settled) {
        let counters = &self.context.counters;
        let confirms = match self.context.options.confirm {
            Confirm::Problems => false,
            Confirm::Applied | Confirm::Durable => true,
        };
        if settled.answers.is_empty() && confirms {
            add(&counters.confirmed, 1);
        }
        let waits = self.context.settler.waits();
        for answer in settled.answers {
            if let Some(waits) = waits {
                let at = (answer.lane, answer.first_offset, answer.last_offset);
                waits.problem(settled.sequence, at, ProblemKind::from(answer.result));
            }
            let mut problem = Problem {
                topic: String::new(),
                partition: -1,
                first_offset: answer.first_offset,
                last_offset: answer.last_offset,
                kind: ProblemKind::from(answer.result),
                detail: answer.detail,
            };
            self.context.settler.name_lane(answer.lane, &mut problem);
            tracing::debug!(?problem, "verdict changed nothing");
            counters.problem(problem);
        }
        if let Some(waits) = waits.filter(|_| !settled.more) {
            waits.answered(settled.sequence);
        }
    }

    fn begin_close(&mut self) {
        self.context.settler.close();
        self.closing_until = Some(Instant::now() + self.context.options.close_timeout);
    }

    fn end(&self, error: Error, begun: Instant) -> End {
        if self.closing_until.is_some() {
            return End::Closed(Err(error));
        }
        let lasted = begun.elapsed() > self.context.options.retry.max;
        End::Failed {
            error,
            useful: self.useful || lasted,
        }
    }
}

#[allow(
    clippy::large_enum_variant,
    reason = "it is taken apart at once; a box would cost each message an allocation"
)]
enum Next {
    Message(v1::SubscribeResponse),
    End,
    Failed(Status),
    Silent(Duration),
    Overdue,
}

/// Waits for the next message, up to the longest silence and the deadline.
async fn next(
    stream: &mut Streaming<v1::SubscribeResponse>,
    silence: Option<Duration>,
    deadline: Option<Instant>,
) -> Next {
    let overdue = async {
        match deadline {
            Some(deadline) => time::sleep_until(deadline).await,
            None => future::pending().await,
        }
    };
    let silent = async {
        match silence {
            Some(silence) => {
                time::sleep(silence).await;
                silence
            }
            None => future::pending().await,
        }
    };
    tokio::select! {
        biased;
        message = stream.message() => match message {
            Ok(Some(message)) => Next::Message(message),
            Ok(None) => Next::End,
            Err(status) => Next::Failed(status),
        },
        () = overdue => Next::Overdue,
        silence = silent => Next::Silent(silence),
    }
}
