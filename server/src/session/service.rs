//! The gRPC service: finds the subscription, opens a session, answers at once.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use ackgate_proto::{
    Frame, PROTOCOL_VERSION, Pulled, server::gateway_service_server::GatewayService, v1,
};
use futures::Stream;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tonic::{Request, Response, Status, Streaming};
use tracing::Instrument as _;

use super::{
    age::{Age, aged},
    convert,
    goodbye::{self, Attached},
    handshake::{self, Opening, resume},
    outcome::{Outcome, shutting_down},
    publish,
    pull::{self, Limits, Pulls},
    reader, web, writer,
};
use crate::{
    access,
    access::Principal,
    consumer::{Accepted, Handle, Input, Session},
    publish::Desk,
    registry::Registry,
};

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
    open: Arc<Open>,
}

/// Sessions that are attached: each holds one of these, and so counts.
#[derive(Debug, Default)]
struct Open {
    streams: Arc<()>,
    pulls: Arc<()>,
}

/// A session that counts until this is dropped.
#[derive(Debug)]
pub(super) struct Counts(#[allow(dead_code, reason = "held for its drop")] Arc<()>);

impl Gate {
    /// From now on new streams are refused.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Counts a stream.
    pub(super) fn stream(&self) -> Counts {
        Counts(Arc::clone(&self.open.streams))
    }

    /// Counts a session without one.
    pub(super) fn pull(&self) -> Counts {
        Counts(Arc::clone(&self.open.pulls))
    }

    /// How many streams there are, and sessions without one.
    #[must_use]
    pub fn sessions(&self) -> (usize, usize) {
        let count = |of: &Arc<()>| Arc::strong_count(of).saturating_sub(1);
        (count(&self.open.streams), count(&self.open.pulls))
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
    sessions: Arc<AtomicU64>,
    pulls: Pulls,
}

impl Service {
    /// Serves these subscriptions, and takes records at this desk.
    #[must_use]
    pub fn new(
        registry: Registry,
        desk: Desk,
        gate: Gate,
        ping_interval: Duration,
        limits: Limits,
    ) -> Self {
        let sessions = Arc::new(AtomicU64::new(0));
        let pulls = Pulls::new(
            registry.clone(),
            gate.clone(),
            Arc::clone(&sessions),
            limits,
        );
        Self {
            shared: Arc::new(Shared {
                registry,
                desk,
                gate,
                ping_interval,
                sessions,
                pulls,
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

/// Who calls, where the gateway asks for tokens.
fn caller<T>(request: &Request<T>) -> Option<Principal> {
    request.extensions().get().cloned()
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
        web::refuse_stream(request.extensions(), "PublishBatch")?;
        let age = Age::of(request.extensions());
        let (stream, transport, last) = SessionStream::new();
        let shared = Arc::clone(&self.shared);
        let span = access::span(&request);
        let stream_of = async move {
            let input = request.into_inner();
            let outcome = publish::run(&shared.desk, input, &transport, age.as_ref()).await;
            tracing::debug!(outcome = outcome.word(), "a publisher's stream ends");
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

    async fn pull(&self, request: Request<v1::PullRequest>) -> Result<Response<Pulled>, Status> {
        let left = pull::time_left(request.metadata());
        let (caller, age) = (caller(&request), Age::of(request.extensions()));
        let wants = pull::Wants { left, age };
        let pulled = self.shared.pulls.pull(request.into_inner(), caller, wants);
        pulled.await
    }

    async fn settle(
        &self,
        request: Request<v1::SettleRequest>,
    ) -> Result<Response<v1::SettleResponse>, Status> {
        let caller = caller(&request);
        let settled = self.shared.pulls.settle(request.into_inner(), caller);
        settled.await.map(Response::new)
    }

    async fn extend(
        &self,
        request: Request<v1::ExtendRequest>,
    ) -> Result<Response<v1::ExtendResponse>, Status> {
        let caller = caller(&request);
        let extended = self.shared.pulls.extend(request.into_inner(), caller);
        extended.await.map(Response::new)
    }

    async fn subscribe(
        &self,
        request: Request<Streaming<v1::SubscribeRequest>>,
    ) -> Result<Response<Self::SubscribeStream>, Status> {
        if self.shared.gate.is_closed() {
            return Err(shutting_down());
        }
        web::refuse_stream(request.extensions(), "Pull and Settle")?;
        let age = Age::of(request.extensions());
        let (stream, transport, last) = SessionStream::new();
        let shared = Arc::clone(&self.shared);
        let span = access::span(&request);
        // Headers go out now; the first message is awaited by the session.
        let session = async move {
            let outcome = shared.session(request.into_inner(), &transport, age).await;
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
        age: Option<Age>,
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
        self.attached(opening, session, input, transport, age).await
    }

    /// Attaches, answers, and runs both halves; the first to end ends the session.
    async fn attached(
        &self,
        mut opening: Opening,
        session: Session,
        input: Streaming<v1::SubscribeRequest>,
        transport: &writer::Transport,
        age: Option<Age>,
    ) -> Outcome {
        let handle = opening.handle.clone();
        let limits = writer::Limits {
            ping_interval: self.ping_interval,
            stall: opening.ack_deadline.max(LEAST_STALL),
            max_message_bytes: opening.max_message_bytes,
        };
        let attached = tokio::select! {
            biased;
            attached = goodbye::attach(&mut opening, session) => attached,
            () = transport.closed() => return Outcome::Gone,
        };
        let Attached {
            accepted,
            messages,
            cut,
            mut goodbye,
        } = match attached {
            Ok(attached) => attached,
            Err(status) => return Outcome::Refused(status),
        };
        let _counts = self.gate.stream();
        let opened = self.opened(&opening, session, accepted);
        if transport.send(Ok(opened)).await.is_err() {
            return Outcome::Gone;
        }
        let write = writer::run(messages, cut, transport, &handle, session, limits);
        let read = reader::run(input, &handle, session, opening.confirm, limits.stall);
        tokio::pin!(write);
        let (outcome, is_writing) = tokio::select! {
            // What it said last counts, also if it went right after.
            biased;
            outcome = read => (outcome, true),
            outcome = &mut write => (outcome, false),
            never = drain_when_aged(&handle, session, age.as_ref()) => match never {},
        };
        goodbye.tell(outcome.departure()).await;
        tracing::debug!(
            session = session.0,
            outcome = outcome.word(),
            "session ends"
        );
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

/// Tells the driver once the connection is too old.
async fn drain_when_aged(handle: &Handle, session: Session, age: Option<&Age>) -> Infallible {
    let grace = aged(age).await;
    // A stopped driver ends the session by itself.
    let _stopped = handle.send(Input::Drain(session, grace)).await;
    std::future::pending().await
}
