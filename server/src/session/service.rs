//! The gRPC service: finds the subscription, opens a session, answers at once.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use ackgate_proto::{Frame, Pulled, server::gateway_service_server::GatewayService, v1};
use futures::Stream;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tonic::{Request, Response, Status, Streaming};
use tracing::Instrument as _;

use super::{
    convert,
    handshake::{self, Opening, resume},
    outcome::{Outcome, shutting_down},
    publish, reader, writer,
};
use crate::{
    access,
    consumer::{Accepted, Attach, Handle, Input, OUTBOX, Session},
    publish::Desk,
    registry::{Lease, Registry},
};

/// Version of the protocol within v1.
const PROTOCOL_VERSION: u32 = 1;

/// Messages handed to the transport and not taken by it yet. One: what waits here
/// has its deadlines running.
const TRANSPORT: usize = 1;

/// Time for a subscriber that said goodbye to read what waits for it.
const CLOSE_WITHIN: Duration = Duration::from_secs(10);

/// A subscriber that takes nothing for less than this is slow, not stuck.
const LEAST_STALL: Duration = Duration::from_secs(30);

/// Lets new streams in, or refuses them while the gateway stops. Clones are one.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    closed: Arc<AtomicBool>,
}

impl Gate {
    /// From now on new streams are refused.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

/// What subscribers call.
#[derive(Clone, Debug)]
pub struct Service {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    registry: Registry,
    desk: Desk,
    gate: Gate,
    ping_interval: Duration,
    sessions: AtomicU64,
}

impl Service {
    /// Serves these subscriptions, and takes records at this desk.
    #[must_use]
    pub fn new(registry: Registry, desk: Desk, gate: Gate, ping_interval: Duration) -> Self {
        let sessions = AtomicU64::new(0);
        Self {
            shared: Arc::new(Shared {
                registry,
                desk,
                gate,
                ping_interval,
                sessions,
            }),
        }
    }
}

/// A session's messages, then its status.
#[derive(Debug)]
pub struct SessionStream<T = Frame> {
    messages: mpsc::Receiver<Result<T, Status>>,
    /// Set before `messages` ends, so that the status arrives even if the
    /// transport took nothing for a while.
    last: Arc<Mutex<Option<Status>>>,
}

impl<T> SessionStream<T> {
    /// A stream, where its messages go, and where its status goes before they end.
    #[allow(clippy::type_complexity, reason = "three ends of one thing")]
    fn new() -> (
        Self,
        mpsc::Sender<Result<T, Status>>,
        Arc<Mutex<Option<Status>>>,
    ) {
        let (transport, messages) = mpsc::channel(TRANSPORT);
        let last = Arc::new(Mutex::new(None));
        let stream = Self {
            messages,
            last: Arc::clone(&last),
        };
        (stream, transport, last)
    }
}

impl<T> Stream for SessionStream<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.messages.poll_recv(cx) {
            Poll::Ready(None) => Poll::Ready(self.last.lock().take().map(Err)),
            Poll::Ready(Some(message)) => Poll::Ready(Some(message)),
            Poll::Pending => Poll::Pending,
        }
    }
}

#[tonic::async_trait]
impl GatewayService for Service {
    type SubscribeStream = SessionStream;
    type PublishStream = SessionStream<v1::PublishResponse>;

    async fn publish(
        &self,
        request: Request<Streaming<v1::PublishRequest>>,
    ) -> Result<Response<Self::PublishStream>, Status> {
        if self.shared.gate.is_closed() {
            return Err(shutting_down());
        }
        let (stream, transport, last) = SessionStream::new();
        let shared = Arc::clone(&self.shared);
        let span = access::span(&request);
        let stream_of = async move {
            let outcome = publish::run(&shared.desk, request.into_inner(), &transport).await;
            tracing::debug!(?outcome, "a publisher's stream ends");
            *last.lock() = outcome.into_status();
            drop(transport);
        };
        tokio::spawn(stream_of.instrument(span));
        Ok(Response::new(stream))
    }

    async fn publish_batch(
        &self,
        request: Request<v1::PublishBatchRequest>,
    ) -> Result<Response<v1::PublishBatchResponse>, Status> {
        if self.shared.gate.is_closed() {
            return Err(shutting_down());
        }
        let span = access::span(&request);
        let batch = publish::batch(&self.shared.desk, request.into_inner());
        batch.instrument(span).await.map(Response::new)
    }

    async fn pull(&self, _request: Request<v1::PullRequest>) -> Result<Response<Pulled>, Status> {
        Err(Status::unimplemented("this gateway serves streams only"))
    }

    async fn settle(
        &self,
        _request: Request<v1::SettleRequest>,
    ) -> Result<Response<v1::SettleResponse>, Status> {
        Err(Status::unimplemented("this gateway serves streams only"))
    }

    async fn extend(
        &self,
        _request: Request<v1::ExtendRequest>,
    ) -> Result<Response<v1::ExtendResponse>, Status> {
        Err(Status::unimplemented("this gateway serves streams only"))
    }

    async fn subscribe(
        &self,
        request: Request<Streaming<v1::SubscribeRequest>>,
    ) -> Result<Response<Self::SubscribeStream>, Status> {
        if self.shared.gate.is_closed() {
            return Err(shutting_down());
        }
        let (stream, transport, last) = SessionStream::new();
        let shared = Arc::clone(&self.shared);
        let span = access::span(&request);
        // Headers go out now; the first message is awaited by the session.
        let session = async move {
            let outcome = shared.session(request.into_inner(), &transport).await;
            *last.lock() = outcome.into_status();
            drop(transport);
        };
        tokio::spawn(session.instrument(span));
        Ok(Response::new(stream))
    }
}

impl Shared {
    async fn session(
        &self,
        mut input: Streaming<v1::SubscribeRequest>,
        transport: &writer::Transport,
    ) -> Outcome {
        let opening = tokio::select! {
            biased;
            opening = handshake::receive(&mut input, &self.registry) => opening,
            () = transport.closed() => return Outcome::Gone,
        };
        let opening = match opening {
            Ok(_) if self.gate.is_closed() => return Outcome::Refused(shutting_down()),
            Ok(opening) => opening,
            Err(status) => return Outcome::Refused(status),
        };
        let session = Session(self.sessions.fetch_add(1, Ordering::Relaxed) + 1);
        self.attached(opening, session, input, transport).await
    }

    /// Attaches, answers, and runs both halves; the first to end ends the session.
    async fn attached(
        &self,
        mut opening: Opening,
        session: Session,
        input: Streaming<v1::SubscribeRequest>,
        transport: &writer::Transport,
    ) -> Outcome {
        let handle = opening.handle.clone();
        let limits = writer::Limits {
            ping_interval: self.ping_interval,
            stall: opening.ack_deadline.max(LEAST_STALL),
            max_message_bytes: opening.max_message_bytes,
        };
        let (outbox, messages) = mpsc::channel(OUTBOX);
        let (cut, cut_heard) = oneshot::channel();
        let attach = Attach {
            session,
            name: Arc::clone(&opening.name),
            resumable: opening.resumable,
            takeover: opening.takeover,
            resume: opening.resume.take(),
            credit: opening.credit,
            max_message_bytes: opening.max_message_bytes,
            ack_deadline: opening.ack_deadline,
            filter: opening.filter.take(),
            batch: opening.batch,
            until_drained: opening.until_drained,
            outbox,
            cut,
        };
        let (opened, heard) = oneshot::channel();
        // Told on every path, also if this task is dropped.
        let mut goodbye = Goodbye {
            handle: handle.clone(),
            session,
            lease: opening.lease.take(),
            told: false,
        };
        if handle.send(Input::Attach(attach, opened)).await.is_err() {
            goodbye.told = true;
            return Outcome::Refused(shutting_down());
        }
        let accepted = tokio::select! {
            biased;
            accepted = heard => accepted,
            () = transport.closed() => return Outcome::Gone,
        };
        let accepted = match accepted {
            Ok(Ok(accepted)) => accepted,
            Ok(Err(refusal)) => {
                goodbye.told = true;
                return Outcome::Refused(refusal.into());
            }
            Err(_stopped) => return Outcome::Refused(shutting_down()),
        };
        let opened = self.opened(&opening, session, accepted);
        if transport.send(Ok(opened)).await.is_err() {
            return Outcome::Gone;
        }
        let write = writer::run(messages, cut_heard, transport, &handle, session, limits);
        let read = reader::run(input, &handle, session, opening.confirm, limits.stall);
        tokio::pin!(write);
        let (outcome, is_writing) = tokio::select! {
            // What it said last counts, also if it went right after.
            biased;
            outcome = read => (outcome, true),
            outcome = &mut write => (outcome, false),
        };
        goodbye.tell(outcome.departure()).await;
        tracing::debug!(session = session.0, ?outcome, "session ends");
        if is_writing && matches!(outcome, Outcome::Closed) {
            // The driver answers the goodbye through the outbox, after what waits there.
            tokio::time::timeout(CLOSE_WITHIN, write)
                .await
                .unwrap_or(Outcome::Gone)
        } else {
            outcome
        }
    }

    fn opened(&self, opening: &Opening, session: Session, accepted: Accepted) -> Frame {
        let subscription = opening.handle.subscription();
        let policy = &subscription.policy;
        let lease = subscription.lane_lease();
        v1::subscribe_response::Response::Opened(v1::Opened {
            session: session.0.to_string(),
            subscriber_id: opening.name.to_string(),
            protocol_version: PROTOCOL_VERSION,
            settings: Some(v1::Settings {
                ack_deadline: convert::duration(opening.ack_deadline),
                max_attempts: policy.max_attempts,
                max_deliveries: policy.max_deliveries,
                max_message_bytes: opening.max_message_bytes,
                max_verdicts: u32::try_from(convert::MAX_VERDICTS).unwrap_or(u32::MAX),
                credit: Some(v1::Credit {
                    records: u32::try_from(opening.credit.records).unwrap_or(u32::MAX),
                    bytes: opening.credit.bytes,
                }),
                ping_interval: convert::duration(self.ping_interval),
                delivery: convert::delivery(subscription.delivery).into(),
                order: convert::order(policy.order).into(),
                batch: Some(convert::batch_options(&opening.batch)),
                lease_beat: lease.and_then(|lease| convert::duration(lease.beat)),
                lease_duration: lease.and_then(|lease| convert::duration(lease.duration)),
                resume_grace: convert::duration(subscription.resume_grace),
            }),
            resumed: accepted.resumed.into_iter().map(resume::answer).collect(),
            resume_token: accepted.token.unwrap_or_default(),
        })
        .into()
    }
}

/// Tells the driver that the session has ended, exactly once.
#[derive(Debug)]
struct Goodbye {
    handle: Handle,
    session: Session,
    /// Let go of once the driver has been told.
    lease: Option<Lease>,
    told: bool,
}

impl Goodbye {
    async fn tell(&mut self, departure: crate::consumer::Departure) {
        self.told = true;
        // A stopped driver holds nothing for the session any more.
        let _stopped = self
            .handle
            .send(Input::Detach(self.session, departure))
            .await;
    }
}

impl Drop for Goodbye {
    fn drop(&mut self) {
        if self.told {
            return;
        }
        let handle = self.handle.clone();
        let lease = self.lease.take();
        let detach = Input::Detach(self.session, crate::consumer::Departure::Lost);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _stopped = handle.send(detach).await;
                drop(lease);
            });
        }
    }
}
