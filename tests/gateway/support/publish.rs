//! A publisher at the level of the protocol: messages out, messages in, nothing done
//! on its own.

use std::net::SocketAddr;

use ackgate_proto::v1::{
    OutgoingRecord, PublishClose, PublishClosed, PublishOpened, PublishOptions, PublishRecords,
    PublishRequest, PublishResponse, PublishResult, gateway_service_client::GatewayServiceClient,
    publish_request::Request, publish_response::Response,
};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming, transport::Channel};

use super::{PATIENCE, Topic, connection};

/// A record with a value and nothing else.
pub(crate) fn record(topic: &Topic, value: impl Into<Vec<u8>>) -> OutgoingRecord {
    OutgoingRecord {
        topic: topic.name.clone(),
        value: Some(value.into().into()),
        ..OutgoingRecord::default()
    }
}

/// A client for calls.
pub(crate) async fn calls(address: SocketAddr) -> GatewayServiceClient<Channel> {
    calls_over(connection(address).await.expect("the gateway listens"))
}

/// The same over a connection that others share.
pub(crate) fn calls_over(connection: Channel) -> GatewayServiceClient<Channel> {
    GatewayServiceClient::new(connection)
        .max_decoding_message_size(64 << 20)
        .max_encoding_message_size(64 << 20)
}

/// An open stream. Dropping it is what a crashed publisher looks like.
#[derive(Debug)]
pub(crate) struct Publishing {
    requests: Option<mpsc::Sender<PublishRequest>>,
    responses: Streaming<PublishResponse>,
    /// What the gateway said to the options.
    pub(crate) opened: Option<PublishOpened>,
    /// Results so far: their numbers are their places.
    pub(crate) results: Vec<PublishResult>,
    /// Whether the gateway has said that it stops.
    pub(crate) draining: bool,
    /// The gateway's last word.
    pub(crate) closed: Option<PublishClosed>,
}

impl Publishing {
    /// Connects without saying anything.
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self::connect_over(connection(address).await.expect("the gateway listens")).await
    }

    async fn connect_over(connection: Channel) -> Self {
        let (requests, outgoing) = mpsc::channel(4);
        let mut client = calls_over(connection);
        let response = timeout(PATIENCE, client.publish(ReceiverStream::new(outgoing)))
            .await
            .expect("response headers come without a first message")
            .expect("the gateway takes streams");
        Self {
            requests: Some(requests),
            responses: response.into_inner(),
            opened: None,
            results: Vec::new(),
            draining: false,
            closed: None,
        }
    }

    /// Connects, opens and waits for the answer.
    pub(crate) async fn open(address: SocketAddr, options: PublishOptions) -> Self {
        let connection = connection(address).await.expect("the gateway listens");
        Self::open_over(connection, options).await
    }

    /// The same over a connection that others share.
    pub(crate) async fn open_over(connection: Channel, options: PublishOptions) -> Self {
        let mut stream = Self::connect_over(connection).await;
        stream.send(Request::Open(options)).await;
        while stream.opened.is_none() {
            stream.pull().await.expect("the stream is opened");
        }
        stream
    }

    /// Sends a message.
    pub(crate) async fn send(&self, request: Request) {
        let requests = self.requests.as_ref().expect("the sending side is open");
        let request = Some(request);
        // An error says that the gateway has ended the stream: the test sees how from
        // its status.
        requests.send(PublishRequest { request }).await.ok();
    }

    /// Another hold on the sending side, to send while the stream is read.
    pub(crate) fn sender(&self) -> mpsc::Sender<PublishRequest> {
        self.requests.clone().expect("the sending side is open")
    }

    /// Sends records in one message.
    pub(crate) async fn records(&self, records: Vec<OutgoingRecord>) {
        self.send(Request::Records(PublishRecords { records }))
            .await;
    }

    /// Ends the sending side without `Close`.
    pub(crate) fn half_close(&mut self) {
        self.requests = None;
    }

    /// Takes one message; an error is the stream's status.
    pub(crate) async fn pull(&mut self) -> Result<(), Status> {
        let message = timeout(PATIENCE, self.responses.message())
            .await
            .expect("the gateway sends something");
        let Some(message) = message? else {
            return Err(Status::new(Code::Ok, "the stream has ended"));
        };
        match message.response.expect("a response that is known") {
            Response::Opened(opened) => self.opened = Some(opened),
            Response::Results(results) => {
                assert_eq!(results.first, self.results.len() as u64, "no gap");
                assert!(!results.results.is_empty());
                self.results.extend(results.results);
            }
            Response::Drain(_) => self.draining = true,
            Response::Closed(closed) => self.closed = Some(closed),
        }
        Ok(())
    }

    /// Waits until this many results have come.
    pub(crate) async fn answered(&mut self, results: usize) -> &[PublishResult] {
        while self.results.len() < results {
            self.pull().await.expect("the stream goes on");
        }
        &self.results
    }

    /// Reads to the end and gives the status.
    pub(crate) async fn status(&mut self) -> Status {
        loop {
            if let Err(status) = self.pull().await {
                return status;
            }
        }
    }

    /// Says goodbye, reads to the end and gives the last word.
    pub(crate) async fn close(&mut self) -> PublishClosed {
        self.send(Request::Close(PublishClose { timeout: None }))
            .await;
        self.end().await
    }

    /// Reads to the end, which must be a good one, and gives the last word.
    pub(crate) async fn end(&mut self) -> PublishClosed {
        let status = self.status().await;
        assert_eq!(status.code(), Code::Ok, "{status:?}");
        let closed = self.closed.expect("the last word comes before the end");
        assert_eq!(closed.records, closed.written + closed.failed, "{closed:?}");
        assert_eq!(closed.records, self.results.len() as u64, "{closed:?}");
        closed
    }
}
