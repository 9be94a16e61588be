//! A gateway under the control of a test: it hands every session to the test and
//! sends what the test says.

use std::{collections::BTreeMap, pin::Pin, time::Duration};

use ackgate_client::{Builder, Delivery, Stats, Subscriber};
use ackgate_proto::{
    EncodedBatch, Frame, Pulled, RECORD_TAG,
    server::gateway_service_server::{GatewayService, GatewayServiceServer},
    v1::{self, subscribe_request::Request, subscribe_response::Response},
};
use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use tokio::{
    sync::{Semaphore, mpsc},
    time::timeout,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

pub(crate) use crate::served::within;
use crate::served::{DEADLINE, Served};

/// When response headers go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Headers {
    BeforeOpen,
    AfterOpen,
}

/// Calls that pull, over all tests: none is answered.
pub(crate) static PULLS: Semaphore = Semaphore::const_new(0);

/// The gateway of one test.
pub(crate) type Gateway = Served<Session>;

/// One stream as the gateway sees it.
pub(crate) struct Session {
    pub(crate) inbound: Streaming<v1::SubscribeRequest>,
    pub(crate) outbound: mpsc::Sender<Result<Frame, Status>>,
    early: Option<v1::SubscribeRequest>,
}

pub(crate) struct Service {
    sessions: mpsc::Sender<Session>,
    headers: Headers,
}

#[tonic::async_trait]
impl GatewayService for Service {
    type SubscribeStream = Pin<Box<dyn Stream<Item = Result<Frame, Status>> + Send>>;
    type PublishStream = futures::stream::Empty<Result<v1::PublishResponse, Status>>;

    async fn publish(
        &self,
        _request: tonic::Request<Streaming<v1::PublishRequest>>,
    ) -> Result<tonic::Response<Self::PublishStream>, Status> {
        Err(Status::unimplemented("for subscribers only"))
    }

    async fn publish_batch(
        &self,
        _request: tonic::Request<v1::PublishBatchRequest>,
    ) -> Result<tonic::Response<v1::PublishBatchResponse>, Status> {
        Err(Status::unimplemented("for subscribers only"))
    }

    async fn pull(
        &self,
        _request: tonic::Request<v1::PullRequest>,
    ) -> Result<tonic::Response<Pulled>, Status> {
        PULLS.add_permits(1);
        std::future::pending().await
    }

    async fn settle(
        &self,
        _request: tonic::Request<v1::SettleRequest>,
    ) -> Result<tonic::Response<v1::SettleResponse>, Status> {
        Err(Status::unimplemented("for subscribers with streams only"))
    }

    async fn extend(
        &self,
        _request: tonic::Request<v1::ExtendRequest>,
    ) -> Result<tonic::Response<v1::ExtendResponse>, Status> {
        Err(Status::unimplemented("for subscribers with streams only"))
    }

    async fn subscribe(
        &self,
        request: tonic::Request<Streaming<v1::SubscribeRequest>>,
    ) -> Result<tonic::Response<Self::SubscribeStream>, Status> {
        let mut inbound = request.into_inner();
        let early = match self.headers {
            Headers::BeforeOpen => None,
            Headers::AfterOpen => inbound.message().await?,
        };
        let (outbound, frames) = mpsc::channel(4);
        let session = Session {
            inbound,
            outbound,
            early,
        };
        self.sessions
            .send(session)
            .await
            .map_err(|_| Status::unavailable("test is over"))?;
        Ok(tonic::Response::new(Box::pin(ReceiverStream::new(frames))))
    }
}

impl Gateway {
    pub(crate) async fn start() -> Self {
        Self::start_with(Headers::BeforeOpen).await
    }

    pub(crate) async fn start_with(headers: Headers) -> Self {
        Self::somewhere(|sessions| service(sessions, headers)).await
    }

    /// Starts again on the same port after `kill`; headers come before `Open`.
    pub(crate) async fn restart(&mut self) {
        let service = |sessions| service(sessions, Headers::BeforeOpen);
        *self = Self::at(self.address, service).await;
    }

    /// A subscriber builder with short delays.
    pub(crate) fn builder(&self) -> Builder {
        Subscriber::builder(format!("http://{}", self.address), "orders")
            .backoff(Duration::from_millis(5), Duration::from_millis(50))
    }

    /// A subscriber and its session, open.
    pub(crate) async fn subscribe(&mut self) -> (Subscriber, Session) {
        let builder = self.builder();
        self.subscribe_with(builder).await
    }

    pub(crate) async fn subscribe_with(&mut self, builder: Builder) -> (Subscriber, Session) {
        let connecting = tokio::spawn(builder.connect());
        let mut session = self.session().await;
        session.open().await;
        (
            within("connect", connecting).await.unwrap().unwrap(),
            session,
        )
    }
}

pub(crate) fn service(
    sessions: mpsc::Sender<Session>,
    headers: Headers,
) -> GatewayServiceServer<Service> {
    GatewayServiceServer::new(Service { sessions, headers }).max_decoding_message_size(4 << 20)
}

impl Session {
    /// Reads `Open` and answers it.
    pub(crate) async fn open(&mut self) -> v1::Open {
        self.open_with(v1::Settings {
            max_verdicts: 10_000,
            ..v1::Settings::default()
        })
        .await
    }

    pub(crate) async fn open_with(&mut self, settings: v1::Settings) -> v1::Open {
        let Some(Request::Open(open)) = self.request().await else {
            panic!("no Open")
        };
        self.say(Response::Opened(v1::Opened {
            session: "s1".to_owned(),
            subscriber_id: "made-up".to_owned(),
            protocol_version: 1,
            settings: Some(settings),
            ..v1::Opened::default()
        }))
        .await;
        open
    }

    pub(crate) async fn say(&self, response: Response) {
        within("room to send", self.outbound.send(Ok(response.into())))
            .await
            .unwrap();
    }

    /// Sends records with these offsets on `lane`.
    pub(crate) async fn batch(&self, lane: u64, offsets: impl IntoIterator<Item = i64>) {
        self.batch_with(lane, offsets, Vec::new()).await;
    }

    pub(crate) async fn batch_with(
        &self,
        lane: u64,
        offsets: impl IntoIterator<Item = i64>,
        redeliveries: Vec<v1::Redelivery>,
    ) {
        let records = offsets
            .into_iter()
            .map(|offset| encoded(&record(offset)))
            .collect();
        let head = v1::Batch {
            redeliveries,
            ..head(lane)
        };
        let frame = Frame::Batch(EncodedBatch { head, records });
        within("room to send", self.outbound.send(Ok(frame)))
            .await
            .unwrap();
    }

    /// The next request; `None` at the end of input, or if the connection is lost.
    pub(crate) async fn request(&mut self) -> Option<Request> {
        if let Some(early) = self.early.take() {
            return early.request;
        }
        let message = within("a request", self.inbound.message()).await;
        message.ok().flatten().and_then(|message| message.request)
    }

    pub(crate) async fn settle(&mut self) -> v1::Settle {
        match self.request().await {
            Some(Request::Settle(settle)) => settle,
            other => panic!("no Settle but {other:?}"),
        }
    }

    /// Reads `Settle`s until `records` are answered.
    pub(crate) async fn verdicts(&mut self, records: i64) -> Vec<v1::Verdict> {
        let mut verdicts: Vec<v1::Verdict> = Vec::new();
        while verdicts
            .iter()
            .map(|verdict| last(verdict) - verdict.first_offset + 1)
            .sum::<i64>()
            < records
        {
            verdicts.extend(self.settle().await.verdicts);
        }
        verdicts
    }

    /// Reads verdicts until the goodbye, then ends the stream with OK.
    pub(crate) async fn goodbye(mut self) -> Vec<v1::Verdict> {
        let mut verdicts = Vec::new();
        loop {
            match self.request().await {
                Some(Request::Settle(settle)) => verdicts.extend(settle.verdicts),
                Some(Request::Close(_)) => return verdicts,
                other => panic!("no goodbye but {other:?}"),
            }
        }
    }

    /// Ends the stream with `status`.
    pub(crate) async fn fail(self, status: Status) {
        within("room to send", self.outbound.send(Err(status)))
            .await
            .unwrap();
    }
}

pub(crate) fn head(lane: u64) -> v1::Batch {
    v1::Batch {
        lane,
        topic: "orders".to_owned(),
        partition: 3,
        epoch: 7,
        ..v1::Batch::default()
    }
}

pub(crate) fn record(offset: i64) -> v1::Record {
    v1::Record {
        offset,
        timestamp_ms: 1_700_000_000_000 + offset,
        timestamp_type: v1::TimestampType::CreateTime.into(),
        key: (offset % 2 == 0).then(|| Bytes::from(format!("key-{offset}"))),
        value: Some(Bytes::from(format!("value-{offset}"))),
        headers: Vec::new(),
    }
}

pub(crate) fn encoded(record: &v1::Record) -> Bytes {
    let mut bytes = Vec::new();
    prost::encoding::message::encode(RECORD_TAG, record, &mut bytes);
    bytes.into()
}

pub(crate) fn last(verdict: &v1::Verdict) -> i64 {
    verdict.last_offset.unwrap_or(verdict.first_offset)
}

/// The offsets each verdict names, by (lane, offset): outcome and delivery. Panics
/// if one is named twice.
pub(crate) fn by_offset(
    verdicts: &[v1::Verdict],
) -> BTreeMap<(u64, i64), (v1::Outcome, Option<u32>)> {
    let mut named = BTreeMap::new();
    for verdict in verdicts {
        for offset in verdict.first_offset..=last(verdict) {
            let before = named.insert(
                (verdict.lane, offset),
                (verdict.outcome(), verdict.delivery),
            );
            assert_eq!(before, None, "offset {offset} is answered twice");
        }
    }
    named
}

/// The offsets that verdicts name, lowest first.
pub(crate) fn ranges(verdicts: &[v1::Verdict]) -> Vec<(i64, i64)> {
    let mut ranges: Vec<_> = verdicts
        .iter()
        .map(|it| (it.first_offset, last(it)))
        .collect();
    ranges.sort_unstable();
    ranges
}

pub(crate) async fn delivery(subscriber: &mut Subscriber) -> Delivery {
    within("a delivery", subscriber.next())
        .await
        .expect("the stream has ended")
        .unwrap()
}

pub(crate) async fn deliveries(subscriber: &mut Subscriber, count: usize) -> Vec<Delivery> {
    let mut taken = Vec::new();
    while taken.len() < count {
        taken.push(delivery(subscriber).await);
    }
    taken
}

/// Waits until the subscriber's counts are as wanted.
pub(crate) async fn until(subscriber: &Subscriber, what: &str, holds: impl Fn(Stats) -> bool) {
    let looking = async {
        while !holds(subscriber.stats()) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    if timeout(DEADLINE, looking).await.is_err() {
        panic!("not in time: {what}; {:?}", subscriber.stats());
    }
}
