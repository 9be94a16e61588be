//! [`Link`]: a subscriber's stream through the real session code, in memory: messages
//! are encoded and decoded as on the wire, but there is no HTTP/2 below. Or its calls, if it
//! has no stream.

use std::time::Duration;

use ackgate_proto::{server::gateway_service_server::GatewayService, v1};
use futures::{FutureExt as _, StreamExt as _};
use prost::Message as _;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Status, Streaming, codec::EncodeBody};
use tonic_prost::{ProstDecoder, ProstEncoder};
use v1::{subscribe_request::Request as Ask, subscribe_response::Response as Tell};

use super::calls::Calls;
use crate::session::Service;

/// Messages that the transport holds for a gateway that does not take them.
const TRANSPORT: usize = 16;

/// As the gateway's own listener has it.
const MOST_BYTES: usize = 16 << 20;

/// How a subscriber and a gateway speak.
pub(super) enum Link {
    Stream(Stream),
    Calls(Box<Calls>),
}

/// Both halves of a stream.
pub(super) struct Stream {
    /// `None` once it is half closed.
    up: Option<mpsc::Sender<Result<v1::SubscribeRequest, Status>>>,
    down: <Service as GatewayService>::SubscribeStream,
}

impl Link {
    /// Opens a stream; the first message is still to be said.
    pub(super) async fn open(service: &Service) -> Result<Self, Status> {
        Stream::open(service).await.map(Self::Stream)
    }

    /// Says something; `false` if the transport takes nothing for too long.
    pub(super) async fn say(&mut self, ask: Ask) -> bool {
        match self {
            Self::Stream(stream) => stream.say(ask).await,
            Self::Calls(calls) => calls.say(ask).await,
        }
    }

    /// Says goodbye, if the transport takes it at once.
    pub(super) fn close(&mut self) -> bool {
        match self {
            Self::Stream(stream) => stream.try_say(Ask::Close(v1::Close {})),
            Self::Calls(calls) => {
                calls.close();
                true
            }
        }
    }

    /// Says nothing more.
    pub(super) fn half_close(&mut self) {
        match self {
            Self::Stream(stream) => stream.half_close(),
            Self::Calls(calls) => calls.end(None),
        }
    }

    /// Breaks the stream as a reset does.
    pub(super) fn reset(&mut self) {
        match self {
            Self::Stream(stream) => stream.reset(),
            Self::Calls(calls) => calls.end(None),
        }
    }

    /// The next message; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Result<Tell, Status>> {
        match self {
            Self::Stream(stream) => stream.next().await,
            Self::Calls(calls) => calls.next().await,
        }
    }

    /// When records that are read now were handed over, if that is known.
    pub(super) fn handed_over(&self) -> Option<u64> {
        match self {
            Self::Stream(_) => None,
            Self::Calls(calls) => Some(calls.handed_over()),
        }
    }

    /// What has reached the transport and was not read.
    pub(super) fn unread(&mut self) -> Option<Tell> {
        match self {
            Self::Stream(stream) => stream.unread(),
            Self::Calls(calls) => calls.unread(),
        }
    }
}

impl Stream {
    async fn open(service: &Service) -> Result<Self, Status> {
        let (up, requests) = mpsc::channel(TRANSPORT);
        let body = EncodeBody::new_client(
            ProstEncoder::<v1::SubscribeRequest>::default(),
            ReceiverStream::new(requests),
            None,
            None,
        );
        let decoder = ProstDecoder::<v1::SubscribeRequest>::default();
        let input = Streaming::new_request(decoder, body, None, Some(MOST_BYTES));
        let down = service.subscribe(Request::new(input)).await?.into_inner();
        Ok(Self { up: Some(up), down })
    }

    /// Says something; `false` if the transport takes nothing for too long.
    async fn say(&self, ask: Ask) -> bool {
        let request = v1::SubscribeRequest { request: Some(ask) };
        match &self.up {
            Some(up) => {
                let sent = tokio::time::timeout(Duration::from_secs(5), up.send(Ok(request)));
                matches!(sent.await, Ok(Ok(())))
            }
            None => false,
        }
    }

    /// Says something if the transport takes it at once.
    fn try_say(&self, ask: Ask) -> bool {
        let request = v1::SubscribeRequest { request: Some(ask) };
        self.up
            .as_ref()
            .is_some_and(|up| up.try_send(Ok(request)).is_ok())
    }

    /// Says nothing more.
    fn half_close(&mut self) {
        self.up = None;
    }

    /// Breaks the stream as a reset does.
    fn reset(&mut self) {
        if let Some(up) = self.up.take() {
            // A full transport is dropped instead, which the gateway takes alike.
            let _full = up.try_send(Err(Status::cancelled("reset")));
        }
    }

    /// The next message; `None` at the end.
    async fn next(&mut self) -> Option<Result<Tell, Status>> {
        Some(self.down.next().await?.map(|frame| {
            let bytes = frame.encode_to_vec();
            let message = v1::SubscribeResponse::decode(bytes.as_slice()).expect("a valid frame");
            message.response.expect("a message that says something")
        }))
    }

    /// What has reached the transport and was not read.
    fn unread(&mut self) -> Option<Tell> {
        self.next().now_or_never()??.ok()
    }
}
