//! A subscriber at the level of the protocol: messages out, messages in, nothing
//! done on its own.

use std::{collections::VecDeque, net::SocketAddr, time::Duration};

use ackgate_proto::v1::{
    Beat, Close, Confirm, Credit, DrainReason, LaneEvent, Open, Opened, Outcome, Settle, Settled,
    SubscribeRequest, SubscribeResponse, Verdict, gateway_service_client::GatewayServiceClient,
    subscribe_request::Request, subscribe_response::Response,
};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Code, Status, Streaming,
    transport::{Channel, Endpoint},
};
use tonic_types::StatusExt as _;

use super::{PATIENCE, Received, received::unpack};

/// More than any test receives at once.
const PLENTY: Credit = Credit {
    records: 100_000,
    bytes: 256 << 20,
};

/// A connection of the usual client library, with its usual windows.
pub(crate) async fn connection(address: SocketAddr) -> Result<Channel, Status> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"));
    let endpoint = endpoint.expect("an address makes a URI");
    let connected = endpoint.connect().await;
    connected.map_err(|error| Status::unavailable(error.to_string()))
}

/// An open stream. Dropping it is what a crashed subscriber looks like.
#[derive(Debug)]
pub(crate) struct Stream {
    requests: Option<mpsc::Sender<SubscribeRequest>>,
    responses: Streaming<SubscribeResponse>,
    /// Records that have come and were not asked for yet.
    records: VecDeque<Received>,
    /// Answers that have come and were not asked for yet.
    settled: VecDeque<Settled>,
    /// How many records each batch had.
    pub(crate) batches: Vec<usize>,
    /// Everything that happened to lanes.
    pub(crate) events: Vec<LaneEvent>,
    /// Whether the gateway has said that the stream ends soon.
    pub(crate) draining: bool,
    /// Why, once it has.
    pub(crate) drain_reason: DrainReason,
    /// What the gateway said to `Open`.
    pub(crate) opened: Option<Opened>,
    sequence: u64,
}

impl Stream {
    /// An `Open` with plenty of credit that wants all confirmations.
    pub(crate) fn hello(subscription: &str) -> Open {
        Open {
            subscription: subscription.to_owned(),
            credit: Some(PLENTY),
            confirm: Confirm::Applied.into(),
            ..Open::default()
        }
    }

    /// Connects without saying anything, and has the response headers.
    pub(crate) async fn connect(address: SocketAddr) -> Result<Self, Status> {
        Self::connect_over(connection(address).await?).await
    }

    /// The same over a connection that other streams share.
    pub(crate) async fn connect_over(connection: Channel) -> Result<Self, Status> {
        let mut client = GatewayServiceClient::new(connection).max_decoding_message_size(64 << 20);
        let (requests, outgoing) = mpsc::channel(64);
        let response = timeout(PATIENCE, client.subscribe(ReceiverStream::new(outgoing)))
            .await
            .expect("response headers come without a first message")?;
        Ok(Self {
            requests: Some(requests),
            responses: response.into_inner(),
            records: VecDeque::new(),
            settled: VecDeque::new(),
            batches: Vec::new(),
            events: Vec::new(),
            draining: false,
            drain_reason: DrainReason::Unspecified,
            opened: None,
            sequence: 0,
        })
    }

    /// Connects, opens and waits for the answer.
    pub(crate) async fn open(address: SocketAddr, open: Open) -> Self {
        let connection = connection(address).await;
        Self::open_over(connection.expect("the gateway listens"), open).await
    }

    /// The same over a connection that other streams share.
    pub(crate) async fn open_over(connection: Channel, open: Open) -> Self {
        let mut stream = Self::connect_over(connection)
            .await
            .expect("the gateway takes streams");
        stream.send(Request::Open(open)).await;
        while stream.opened.is_none() {
            stream.pull().await.expect("the stream is opened");
        }
        stream
    }

    /// Sends a message.
    pub(crate) async fn send(&self, request: Request) {
        let requests = self.requests.as_ref().expect("the sending side is open");
        let message = SubscribeRequest {
            request: Some(request),
        };
        // An error says that the gateway has ended the stream: the test sees how
        // from its status.
        requests.send(message).await.ok();
    }

    /// Another hold on the sending side, to send while the stream is read.
    pub(crate) fn sender(&self) -> mpsc::Sender<SubscribeRequest> {
        self.requests.clone().expect("the sending side is open")
    }

    /// Sends a message without a request in it.
    pub(crate) async fn send_nothing(&self) {
        let requests = self.requests.as_ref().expect("the sending side is open");
        requests.send(SubscribeRequest { request: None }).await.ok();
    }

    /// Ends the sending side without `Close`.
    pub(crate) fn half_close(&mut self) {
        self.requests = None;
    }

    /// Says goodbye and waits for the gateway to end the stream.
    pub(crate) async fn close(mut self) {
        self.send(Request::Close(Close {})).await;
        let status = self.status().await;
        assert_eq!(status.code(), Code::Ok, "{status:?}");
    }

    /// Gives a sign of life every so often, until the stream ends or it is told to stop.
    pub(crate) fn beats(&self, every: Duration) -> tokio::task::AbortHandle {
        let requests = self.sender().downgrade();
        tokio::spawn(async move {
            while let Some(requests) = requests.upgrade() {
                let request = Some(Request::Beat(Beat {}));
                if requests.send(SubscribeRequest { request }).await.is_err() {
                    break;
                }
                drop(requests);
                tokio::time::sleep(every).await;
            }
        })
        .abort_handle()
    }

    /// Grants credit.
    pub(crate) async fn credit(&self, records: u32, bytes: u64) {
        self.send(Request::Credit(Credit { records, bytes })).await;
    }

    /// The next `count` records, whatever their batches.
    pub(crate) async fn records(&mut self, count: usize) -> Vec<Received> {
        let deadline = Instant::now() + PATIENCE;
        while self.records.len() < count {
            assert!(
                Instant::now() < deadline,
                "{count} records did not come: {:?}, events {:?}",
                self.records,
                self.events
            );
            self.pull().await.unwrap_or_else(|status| {
                panic!(
                    "{count} records did not come: {:?}, then {status:?}",
                    self.records
                )
            });
        }
        self.records.drain(..count).collect()
    }

    /// The next record.
    pub(crate) async fn record(&mut self) -> Received {
        self.records(1).await.remove(0)
    }

    /// What comes within `period`, for checks that something does not come.
    pub(crate) async fn within(&mut self, period: Duration) -> Vec<Received> {
        let end = Instant::now() + period;
        while let Ok(pulled) =
            timeout(end.saturating_duration_since(Instant::now()), self.next()).await
        {
            if let Err(status) = pulled {
                panic!("the stream ended: {status:?}");
            }
        }
        self.records.drain(..).collect()
    }

    /// Sends verdicts and waits for their answer.
    pub(crate) async fn settle(&mut self, verdicts: Vec<Verdict>) -> Settled {
        self.sequence += 1;
        let sequence = self.sequence;
        self.send(Request::Settle(Settle { sequence, verdicts }))
            .await;
        self.answer(sequence).await
    }

    /// Gives the same verdict on each record and checks that all were applied.
    pub(crate) async fn answer_all(&mut self, records: &[Received], outcome: Outcome) {
        let verdicts = records
            .iter()
            .map(|record| record.verdict(outcome))
            .collect();
        let settled = self.settle(verdicts).await;
        assert_eq!(settled.answers, [], "a verdict was not applied");
    }

    /// Acks one record.
    pub(crate) async fn ack(&mut self, record: &Received) {
        self.answer_all(std::slice::from_ref(record), Outcome::Acked)
            .await;
    }

    /// Fails one record.
    pub(crate) async fn fail(&mut self, record: &Received) {
        self.answer_all(std::slice::from_ref(record), Outcome::Failed)
            .await;
    }

    /// Rejects one record.
    pub(crate) async fn reject(&mut self, record: &Received) {
        self.answer_all(std::slice::from_ref(record), Outcome::Rejected)
            .await;
    }

    /// Sends one verdict and does not wait for its answer.
    pub(crate) async fn tell(&mut self, record: &Received, outcome: Outcome) {
        self.sequence += 1;
        let settle = Settle {
            sequence: self.sequence,
            verdicts: vec![record.verdict(outcome)],
        };
        self.send(Request::Settle(settle)).await;
    }

    /// Waits for the answer with this number.
    pub(crate) async fn answer(&mut self, sequence: u64) -> Settled {
        loop {
            if let Some(at) = self.settled.iter().position(|one| one.sequence == sequence) {
                return self.settled.remove(at).unwrap();
            }
            self.pull().await.expect("the verdicts are answered");
        }
    }

    /// Waits for a lane event that fits.
    pub(crate) async fn event(
        &mut self,
        what: &str,
        fits: impl Fn(&LaneEvent) -> bool,
    ) -> LaneEvent {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(event) = self.events.iter().find(|event| fits(event)) {
                return event.clone();
            }
            assert!(
                Instant::now() < deadline,
                "no event that {what}: {:?}",
                self.events
            );
            self.pull().await.expect("the stream goes on");
        }
    }

    /// Waits for `Drain`.
    pub(crate) async fn drain(&mut self) {
        while !self.draining {
            self.pull().await.expect("the gateway says that it drains");
        }
    }

    /// Takes messages until the gateway ends the stream, and says how it did.
    pub(crate) async fn status(&mut self) -> Status {
        let deadline = Instant::now() + PATIENCE;
        loop {
            assert!(
                Instant::now() < deadline,
                "the gateway did not end the stream"
            );
            if let Err(status) = self.pull().await {
                return status;
            }
        }
    }

    /// Takes one message, at most [`PATIENCE`] later.
    async fn pull(&mut self) -> Result<(), Status> {
        timeout(PATIENCE, self.next())
            .await
            .expect("the gateway says something")
    }

    async fn next(&mut self) -> Result<(), Status> {
        let message = self.responses.message().await?;
        let response = message
            .ok_or_else(|| Status::ok("the gateway ended the stream"))?
            .response
            .expect("no message of the gateway is empty");
        match response {
            Response::Opened(opened) => self.opened = Some(opened),
            Response::Batch(batch) => {
                self.batches.push(batch.records.len());
                self.records.extend(unpack(batch));
            }
            Response::Settled(settled) => self.settled.push_back(settled),
            Response::LaneEvent(event) => self.events.push(event),
            Response::Drain(drain) => {
                self.draining = true;
                self.drain_reason = drain.reason();
            }
            Response::Ping(_) => {}
        }
        Ok(())
    }
}

/// The stable reason code of a status of ours.
pub(crate) fn reason(status: &Status) -> String {
    let details = status.get_error_details();
    let info = details
        .error_info()
        .unwrap_or_else(|| panic!("no ErrorInfo in {status:?}"));
    assert_eq!(info.domain, "ackgate");
    info.reason.clone()
}
