//! One session: connects, opens the stream, and reads it to its end.
//!
//! Boundary: knows nothing of earlier or later sessions; `link` does.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use ackgate_proto::v1;
use futures::future;
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{self, Instant},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};
use v1::{gateway_service_client::GatewayServiceClient, subscribe_response::Response};

use crate::{
    Batch, Error, Order, Problem, ProblemKind,
    event::{DrainReason, Event},
    lane_event,
    link::Link,
    options::Confirm,
    roll::Leg,
    settler::Given,
    stats::add,
    writer,
};

/// Messages between the gathering of verdicts and the transport.
const OUTBOX: usize = 8;

/// How long the writing half may take to notice that the session is over.
const WRITER_GRACE: Duration = Duration::from_secs(1);

/// How a session ended.
pub(crate) enum End {
    /// The subscriber said goodbye, or there is nothing left for it.
    Closed(Result<(), Error>),
    /// The gateway asked to leave. What is in hand is still answered here.
    Leaves(Box<Session>),
    /// The gateway asked to leave, and everything was answered.
    Drained,
    /// Anything else. `useful`: records came, or it lasted.
    Failed { error: Error, useful: bool },
}

/// An open stream.
pub(crate) struct Session {
    link: Arc<Link>,
    leg: Arc<Leg>,
    /// The settler's number of it.
    number: u64,
    stream: Streaming<v1::SubscribeResponse>,
    writing: JoinHandle<()>,
    /// Longest silence; `None`: no limit.
    silence: Option<Duration>,
    /// Until when the end of the stream is awaited after the goodbye.
    closing_until: Option<Instant>,
    draining: bool,
    begun: Instant,
    useful: bool,
}

/// Opens a session of a leg. One that leaves takes no records.
pub(crate) async fn open(link: &Arc<Link>, leg: &Arc<Leg>) -> Result<Box<Session>, Error> {
    let shared = &link.shared;
    let (mut stream, requests) = connect(link, leg).await?;
    let mut opened = first(link, &mut stream).await?;
    let settings = opened.settings.take().unwrap_or_default();
    shared.roll.opened(leg, &opened);
    let resumed = kept(&opened);
    let resumption = std::mem::take(&mut opened.resumed);
    let number = leg.settler.begin(resumption, given(&settings));
    if !link.begun.swap(true, Relaxed) {
        add(&shared.counters.firsts, 1);
    }
    add(&shared.counters.sessions, 1);
    shared.counters.tell(&Event::Opened {
        gateway: &leg.gateway,
        session: &opened.session,
        subscriber_id: &opened.subscriber_id,
        resumed,
    });
    if leg.is_leaving() {
        leg.settler.drain();
    }
    let max_verdicts = usize::try_from(settings.max_verdicts).unwrap_or(writer::MAX_VERDICTS);
    let terms = writer::Terms {
        session: number,
        max_verdicts: if max_verdicts == 0 {
            writer::MAX_VERDICTS
        } else {
            max_verdicts
        },
        close_timeout: shared.options.close_timeout,
        beat: settings.lease_beat.and_then(interval),
    };
    let settler = Arc::clone(&leg.settler);
    Ok(Box::new(Session {
        link: Arc::clone(link),
        leg: Arc::clone(leg),
        number,
        stream,
        writing: tokio::spawn(writer::write(settler, requests, terms)),
        silence: settings.ping_interval.and_then(silence),
        closing_until: None,
        draining: leg.is_leaving(),
        begun: Instant::now(),
        useful: false,
    }))
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

async fn connect(link: &Link, leg: &Leg) -> Result<Open, Error> {
    let options = &link.shared.options;
    let (channel, uri) = link.shared.dialer.dial(&link.target).await?;
    let limit = usize::try_from(options.max_message_bytes).unwrap_or(usize::MAX);
    let mut client =
        GatewayServiceClient::with_origin(channel, uri).max_decoding_message_size(limit);
    let (requests, outbox) = mpsc::channel(OUTBOX);
    let open = v1::subscribe_request::Request::Open(opening(link, leg));
    // `Open` is on its way before the headers are awaited: some gateways and
    // proxies send none before they have it.
    requests
        .send(v1::SubscribeRequest {
            request: Some(open),
        })
        .await
        .map_err(|_| Error::Ended)?;
    let call = client.subscribe(link.shared.dialer.token().on(ReceiverStream::new(outbox)));
    let timeout = options.open_timeout;
    let response = time::timeout(timeout, call)
        .await
        .map_err(|_| Error::NotOpened(timeout))??;
    Ok((response.into_inner(), requests))
}

/// What to begin with: anew, or where the leg's last session broke.
fn opening(link: &Link, leg: &Leg) -> v1::Open {
    let (records, bytes) = match leg.is_leaving() {
        true => (0, 0),
        false => link.shared.roll.share(),
    };
    let mut open = link.shared.options.open(records, bytes);
    open.takeover = link.shared.options.takeover && !link.begun.load(Relaxed);
    if let Some((subscriber_id, token)) = leg.resume() {
        let held = leg.settler.manifest();
        open.subscriber_id = subscriber_id;
        open.resume = Some(v1::Resume { token, held });
    }
    open
}

async fn first(
    link: &Link,
    stream: &mut Streaming<v1::SubscribeResponse>,
) -> Result<v1::Opened, Error> {
    let options = &link.shared.options;
    let timeout = options.open_timeout;
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
        subscription = options.source.name(),
        gateway = link.name,
        "subscribed"
    );
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

async fn finish(writing: &mut JoinHandle<()>) {
    if time::timeout(WRITER_GRACE, &mut *writing).await.is_err() {
        writing.abort();
    }
}

impl Session {
    /// Reads to the end of the stream, or until the gateway asks to leave.
    pub(crate) async fn carry(mut self: Box<Self>) -> End {
        match self.read(true).await {
            Some(end) => self.over(end).await,
            None => {
                self.leg.set_leaving(true);
                self.leg.settler.drain();
                End::Leaves(self)
            }
        }
    }

    /// Reads to the end of the stream, asked to leave or not.
    pub(crate) async fn finish(mut self: Box<Self>) -> End {
        match self.read(false).await {
            Some(end) => self.over(end).await,
            None => End::Drained,
        }
    }

    async fn over(mut self: Box<Self>, end: End) -> End {
        let broken = match &end {
            End::Failed { error, .. } => error.is_retryable() && self.leg.resume().is_some(),
            End::Closed(_) | End::Drained | End::Leaves(_) => false,
        };
        if !broken {
            self.leg.forget();
        }
        let settler = &self.leg.settler;
        settler.end(broken);
        if let Some(waits) = settler.waits() {
            waits.end();
        }
        finish(&mut self.writing).await;
        end
    }

    /// `None`: the gateway asks to leave, and `leaves` says that the caller sees to it.
    async fn read(&mut self, leaves: bool) -> Option<End> {
        let mut closing = self.link.shared.closing.clone();
        let closing = &mut closing;
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
                Next::Silent(silence) => return Some(self.end(Error::Silent(silence))),
                Next::Overdue => {
                    let timeout = self.link.shared.options.close_timeout;
                    return Some(End::Closed(Err(Error::NotClosed(timeout))));
                }
                Next::Failed(status) => return Some(self.end(Error::from(status))),
                Next::End if self.closing_until.is_some() => return Some(End::Closed(Ok(()))),
                Next::End if self.draining => return Some(End::Drained),
                // With OK, and only so: an end without a status is an error.
                Next::End if self.link.shared.options.until_drained => {
                    return Some(End::Closed(Ok(())));
                }
                Next::End => return Some(self.end(Error::Ended)),
            };
            match response {
                Some(Response::Batch(batch)) => self.batch(batch, closing).await,
                Some(Response::Drain(drain)) => {
                    self.drain(&drain);
                    if leaves && self.closing_until.is_none() {
                        return None;
                    }
                }
                Some(other) => self.note(other),
                // A kind that this version does not know.
                None => {}
            }
        }
    }

    async fn batch(&mut self, batch: v1::Batch, closing: &mut watch::Receiver<bool>) {
        self.useful = true;
        let records = u64::try_from(batch.records.len()).unwrap_or(u64::MAX);
        let counters = &self.link.shared.counters;
        add(&counters.batches, 1);
        add(&counters.records, records);
        let batch = Batch::new(Arc::clone(&self.leg.settler), self.number, batch);
        if self.closing_until.is_some() {
            return batch.discard();
        }
        // The queue fills only if the gateway exceeds the credit, or after the
        // credit was raised; HTTP/2 then holds the gateway back.
        tokio::select! {
            biased;
            permit = self.link.shared.queue.reserve() => match permit {
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
                    self.leg.settler.void(event.lane, first);
                }
            }
            // `Opened` comes first and once; batches are handled elsewhere.
            Response::Ping(_) | Response::Opened(_) | Response::Batch(_) | Response::Drain(_) => {}
        }
    }

    fn drain(&mut self, drain: &v1::Drain) {
        tracing::info!(deadline = ?drain.deadline, gateway = self.leg.gateway, "gateway drains");
        self.link.shared.counters.tell(&Event::Drain {
            gateway: &self.leg.gateway,
            reason: DrainReason::of(drain),
            deadline: drain.deadline.and_then(|it| it.try_into().ok()),
        });
        self.draining = true;
        self.leg.settler.drain();
    }

    fn settled(&self, settled: v1::Settled) {
        let counters = &self.link.shared.counters;
        let confirms = match self.link.shared.options.confirm {
            Confirm::Problems => false,
            Confirm::Applied | Confirm::Durable => true,
        };
        if settled.answers.is_empty() && confirms {
            add(&counters.confirmed, 1);
        }
        let waits = self.leg.settler.waits();
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
            self.leg.settler.name_lane(answer.lane, &mut problem);
            tracing::debug!(?problem, "verdict changed nothing");
            counters.problem(problem);
        }
        if let Some(waits) = waits.filter(|_| !settled.more) {
            waits.answered(settled.sequence);
        }
    }

    fn begin_close(&mut self) {
        self.leg.settler.close();
        self.closing_until = Some(Instant::now() + self.link.shared.options.close_timeout);
    }

    fn end(&self, error: Error) -> End {
        if self.closing_until.is_some() {
            return End::Closed(Err(error));
        }
        let lasted = self.begun.elapsed() > self.link.shared.options.retry.max;
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
