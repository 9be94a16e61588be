//! A gateway under the control of a test: it hands every stream of a publisher to the
//! test and sends what the test says.

use std::{pin::Pin, time::Duration};

use ackgate_client::{NotWritten, Outgoing, Publisher, PublisherBuilder, Receipt, Written};
use ackgate_proto::{
    Frame, Pulled,
    server::gateway_service_server::{GatewayService, GatewayServiceServer},
    v1::{self, publish_request::Request, publish_response::Response},
};
use futures::Stream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::served::Served;
pub(crate) use crate::served::within;

/// The gateway of one test.
pub(crate) type Gateway = Served<Session>;

/// One stream as the gateway sees it.
pub(crate) struct Session {
    pub(crate) inbound: Streaming<v1::PublishRequest>,
    outbound: mpsc::Sender<Result<v1::PublishResponse, Status>>,
    /// Records read, which is the number of the next.
    pub(crate) read: u64,
    answered: u64,
}

struct Service {
    sessions: mpsc::Sender<Session>,
}

#[tonic::async_trait]
impl GatewayService for Service {
    type SubscribeStream = futures::stream::Empty<Result<Frame, Status>>;
    type PublishStream = Pin<Box<dyn Stream<Item = Result<v1::PublishResponse, Status>> + Send>>;

    async fn subscribe(
        &self,
        _request: tonic::Request<Streaming<v1::SubscribeRequest>>,
    ) -> Result<tonic::Response<Self::SubscribeStream>, Status> {
        Err(Status::unimplemented("for publishers only"))
    }

    async fn publish(
        &self,
        request: tonic::Request<Streaming<v1::PublishRequest>>,
    ) -> Result<tonic::Response<Self::PublishStream>, Status> {
        let (outbound, responses) = mpsc::channel(4);
        let session = Session {
            inbound: request.into_inner(),
            outbound,
            read: 0,
            answered: 0,
        };
        self.sessions
            .send(session)
            .await
            .map_err(|_| Status::unavailable("test is over"))?;
        Ok(tonic::Response::new(Box::pin(ReceiverStream::new(
            responses,
        ))))
    }

    async fn publish_batch(
        &self,
        _request: tonic::Request<v1::PublishBatchRequest>,
    ) -> Result<tonic::Response<v1::PublishBatchResponse>, Status> {
        Err(Status::unimplemented("streams only"))
    }

    async fn pull(
        &self,
        _request: tonic::Request<v1::PullRequest>,
    ) -> Result<tonic::Response<Pulled>, Status> {
        Err(Status::unimplemented("for publishers only"))
    }

    async fn settle(
        &self,
        _request: tonic::Request<v1::SettleRequest>,
    ) -> Result<tonic::Response<v1::SettleResponse>, Status> {
        Err(Status::unimplemented("for publishers only"))
    }

    async fn extend(
        &self,
        _request: tonic::Request<v1::ExtendRequest>,
    ) -> Result<tonic::Response<v1::ExtendResponse>, Status> {
        Err(Status::unimplemented("for publishers only"))
    }
}

impl Gateway {
    pub(crate) async fn start() -> Self {
        Self::somewhere(service).await
    }

    /// Starts again on the same port after `kill`.
    pub(crate) async fn restart(&mut self) {
        *self = Self::at(self.address, service).await;
    }

    /// The next stream, open.
    pub(crate) async fn opened(&mut self) -> Session {
        let mut session = self.session().await;
        session.open().await;
        session
    }

    /// A publisher builder with short delays.
    pub(crate) fn builder(&self) -> PublisherBuilder {
        Publisher::builder(format!("http://{}", self.address))
            .backoff(Duration::from_millis(5), Duration::from_millis(50))
    }

    /// A publisher and its stream, open.
    pub(crate) async fn publish(&mut self) -> (Publisher, Session) {
        let builder = self.builder();
        self.publish_with(builder).await
    }

    pub(crate) async fn publish_with(&mut self, builder: PublisherBuilder) -> (Publisher, Session) {
        let connecting = tokio::spawn(builder.connect());
        let session = self.opened().await;
        let publisher = within("connect", connecting).await.unwrap().unwrap();
        (publisher, session)
    }
}

fn service(sessions: mpsc::Sender<Session>) -> GatewayServiceServer<Service> {
    GatewayServiceServer::new(Service { sessions })
}

/// Limits that no test reaches by accident.
pub(crate) fn roomy() -> v1::PublishOpened {
    v1::PublishOpened {
        options: None,
        max_record_bytes: 1 << 20,
        max_in_flight_records: 10_000,
        max_in_flight_bytes: 32 << 20,
    }
}

impl Session {
    /// Reads `open` and answers it.
    pub(crate) async fn open(&mut self) -> v1::PublishOptions {
        self.open_with(roomy()).await
    }

    pub(crate) async fn open_with(&mut self, opened: v1::PublishOpened) -> v1::PublishOptions {
        let Some(Request::Open(open)) = self.request().await else {
            panic!("no open")
        };
        self.say(Response::Opened(opened)).await;
        open
    }

    pub(crate) async fn say(&self, response: Response) {
        assert!(self.offer(response).await, "the stream has ended");
    }

    /// Says something, if anybody is left to hear it.
    pub(crate) async fn offer(&self, response: Response) -> bool {
        let message = v1::PublishResponse {
            response: Some(response),
        };
        within("room to send", self.outbound.send(Ok(message)))
            .await
            .is_ok()
    }

    /// The next request; `None` at the end of input, or if the connection is lost.
    pub(crate) async fn request(&mut self) -> Option<Request> {
        let message = within("a request", self.inbound.message()).await;
        message.ok().flatten().and_then(|message| message.request)
    }

    /// Reads exactly this many records.
    pub(crate) async fn records(&mut self, count: usize) -> Vec<v1::OutgoingRecord> {
        let mut records = Vec::new();
        while records.len() < count {
            match self.request().await {
                Some(Request::Records(more)) => records.extend(more.records),
                other => panic!("no records but {other:?}"),
            }
        }
        assert_eq!(records.len(), count);
        self.read += records.len() as u64;
        records
    }

    /// The values of the next `count` records.
    pub(crate) async fn values(&mut self, count: usize) -> Vec<String> {
        let records = self.records(count).await;
        let value = |record: v1::OutgoingRecord| {
            String::from_utf8(record.value.unwrap_or_default().to_vec()).unwrap()
        };
        records.into_iter().map(value).collect()
    }

    /// Answers the next `count` records as written, at offsets that are their numbers.
    pub(crate) async fn write(&mut self, count: u64) {
        let results = (self.answered..self.answered + count)
            .map(written)
            .collect();
        self.answer(results).await;
    }

    /// Answers the next records.
    pub(crate) async fn answer(&mut self, results: Vec<v1::PublishResult>) {
        let first = self.answered;
        self.answered += results.len() as u64;
        self.say(Response::Results(v1::PublishResults { first, results }))
            .await;
    }

    /// Reads the goodbye and answers it.
    pub(crate) async fn goodbye(&mut self) -> v1::PublishClose {
        let Some(Request::Close(close)) = self.request().await else {
            panic!("no goodbye")
        };
        self.say(Response::Closed(v1::PublishClosed {
            records: self.read,
            ..v1::PublishClosed::default()
        }))
        .await;
        close
    }

    /// Says that the gateway is about to stop.
    pub(crate) async fn drain(&self) {
        self.say(Response::Drain(v1::PublishDrain {})).await;
    }

    /// Ends the stream with `status`.
    pub(crate) async fn fail(self, status: Status) {
        within("room to send", self.outbound.send(Err(status)))
            .await
            .unwrap();
    }
}

pub(crate) fn written(offset: u64) -> v1::PublishResult {
    v1::PublishResult {
        topic: "orders".to_owned(),
        partition: Some(3),
        offset: Some(i64::try_from(offset).unwrap()),
        ..v1::PublishResult::default()
    }
}

pub(crate) fn refused(error: v1::PublishError) -> v1::PublishResult {
    v1::PublishResult {
        topic: "orders".to_owned(),
        partition: Some(3),
        error: error.into(),
        detail: "for a reason".to_owned(),
        ..v1::PublishResult::default()
    }
}

/// A record whose value is its number.
pub(crate) fn numbered(number: usize) -> Outgoing {
    Outgoing::new("orders", number.to_string())
}

/// Sends records whose values are these numbers.
pub(crate) async fn send(
    publisher: &Publisher,
    numbers: impl IntoIterator<Item = usize>,
) -> Vec<Receipt> {
    let mut receipts = Vec::new();
    for number in numbers {
        receipts.push(within("room for a record", publisher.send(numbered(number))).await);
    }
    receipts
}

pub(crate) async fn outcome(receipt: Receipt) -> Result<Written, NotWritten> {
    within("a receipt", receipt).await
}

/// The offsets of receipts that say so.
pub(crate) async fn offsets(receipts: Vec<Receipt>) -> Vec<i64> {
    let mut offsets = Vec::new();
    for receipt in receipts {
        offsets.push(outcome(receipt).await.unwrap().offset.unwrap());
    }
    offsets
}
