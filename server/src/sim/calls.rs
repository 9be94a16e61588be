//! [`Calls`]: a subscriber without a stream, through the real session code: it draws records
//! by calls and answers them by calls, and otherwise speaks as a [`Link`](super::link::Link)
//! does, so that the rest of a subscriber need not know.

use std::{collections::VecDeque, pin::Pin, time::Duration};

use ackgate_proto::{Pulled, server::gateway_service_server::GatewayService, v1};
use futures::{future::poll_fn, stream};
use http_body::Body as _;
use prost::Message as _;
use tonic::{
    Request, Response, Status,
    codec::{EncodeBody, SingleMessageCompressionOverride},
    codegen::http,
};
use tonic_prost::ProstEncoder;
use v1::{subscribe_request::Request as Ask, subscribe_response::Response as Tell};

use super::{
    dice::Dice,
    history::{Event, History},
    manner::{PAUSE, Pulls},
};
use crate::session::{Service, with_receipt};

/// What a message on the wire begins with.
const PREFIX: usize = 5;

/// A call that draws, until its answer has been read; `None`: its caller went first.
type Drawing = Pin<Box<dyn Future<Output = Result<Option<v1::PullResponse>, Status>> + Send>>;

/// A session of calls.
pub(super) struct Calls {
    service: Service,
    history: History,
    id: u64,
    ways: Pulls,
    dice: Dice,
    /// What each draw asks for; with the session, once it is known.
    asks: v1::PullRequest,
    confirm: i32,
    under_way: Option<Drawing>,
    /// Read, and not looked at.
    heard: VecDeque<Tell>,
    /// When the last answer was read: its records were handed over then.
    read: u64,
    closing: bool,
    /// It calls no more, and why.
    over: Option<Option<Status>>,
}

impl Calls {
    pub(super) fn new(
        service: &Service,
        history: &History,
        id: u64,
        ways: Pulls,
        dice: Dice,
    ) -> Self {
        Self {
            service: service.clone(),
            history: history.clone(),
            id,
            ways,
            dice,
            asks: v1::PullRequest::default(),
            confirm: 0,
            under_way: None,
            heard: VecDeque::new(),
            read: 0,
            closing: false,
            over: None,
        }
    }

    /// Says something by a call, if there is one for it.
    pub(super) async fn say(&mut self, ask: Ask) -> bool {
        let session = self.asks.session.clone();
        let told = match ask {
            Ask::Open(open) => {
                self.open(open);
                return true;
            }
            Ask::Settle(settle) => {
                let request = v1::SettleRequest {
                    session,
                    verdicts: settle.verdicts,
                    confirm: self.confirm,
                    ..v1::SettleRequest::default()
                };
                let told = self.service.settle(Request::new(request)).await;
                told.map(|it| (settle.sequence, it.into_inner().answers))
            }
            Ask::Extend(extend) => {
                let request = v1::ExtendRequest {
                    session,
                    extensions: extend.extensions,
                    by: extend.by,
                };
                let told = self.service.extend(Request::new(request)).await;
                told.map(|it| (extend.sequence, it.into_inner().answers))
            }
            Ask::Credit(_) | Ask::Beat(_) | Ask::Close(_) => return true,
        };
        match told {
            Ok((sequence, answers)) => self.heard.push_back(Tell::Settled(v1::Settled {
                sequence,
                answers,
                more: false,
            })),
            // Whether it counts is not known; without a session nothing will.
            Err(status) if super::subscriber::reason(&status) == "PULL_SESSION_UNKNOWN" => {
                self.end(Some(status));
            }
            Err(_) => {}
        }
        true
    }

    fn open(&mut self, open: v1::Open) {
        self.confirm = open.confirm;
        self.asks = v1::PullRequest {
            subscription: open.subscription,
            subscriber_id: open.subscriber_id,
            ack_deadline: open.ack_deadline,
            max_records: self.ways.most.0,
            max_bytes: self.ways.most.1,
            wait: self.ways.wait.try_into().ok(),
            linger: self.ways.linger.try_into().ok(),
            ..v1::PullRequest::default()
        };
    }

    /// Gives back what is out with the next look for a message.
    pub(super) fn close(&mut self) {
        self.under_way = None;
        self.closing = true;
    }

    /// Calls no more; what is out has its leases.
    pub(super) fn end(&mut self, why: Option<Status>) {
        self.under_way = None;
        self.over.get_or_insert(why);
    }

    /// The next message, drawn if need be; `None` at the end. Cancel safe: a call goes on
    /// until it is looked for again.
    pub(super) async fn next(&mut self) -> Option<Result<Tell, Status>> {
        loop {
            if let Some(tell) = self.heard.pop_front() {
                return Some(Ok(tell));
            }
            if let Some(why) = &self.over {
                return why.clone().map(Err);
            }
            if self.closing {
                let close = v1::SettleRequest {
                    session: self.asks.session.clone(),
                    close: true,
                    ..v1::SettleRequest::default()
                };
                // One that has ended already is what was wanted.
                let _told = self.service.settle(Request::new(close)).await;
                return None;
            }
            if self.under_way.is_none() {
                self.under_way = Some(self.draw());
            }
            let drawing = self.under_way.as_mut()?;
            let answer = drawing.await;
            self.under_way = None;
            match answer {
                Ok(Some(answer)) => self.hear(answer),
                // Nobody else knows the session that its first call has begun.
                Ok(None) if self.asks.session.is_empty() => self.end(None),
                Ok(None) => {}
                Err(status) => {
                    let is_known = !self.asks.session.is_empty();
                    let reason = super::subscriber::reason(&status);
                    let goes_on = ["NOT_READY", "NOT_READING", "PULL_IN_PROGRESS"];
                    if !is_known || !goes_on.contains(&reason.as_str()) {
                        self.end(Some(status));
                    }
                }
            }
        }
    }

    /// When what it brings was handed over.
    pub(super) const fn handed_over(&self) -> u64 {
        self.read
    }

    /// What has been read and not looked at.
    pub(super) fn unread(&mut self) -> Option<Tell> {
        self.heard.pop_front()
    }

    fn hear(&mut self, answer: v1::PullResponse) {
        self.read = self.history.now();
        if self.asks.session.is_empty() {
            self.heard.push_back(Tell::Opened(v1::Opened {
                subscriber_id: answer.subscriber_id,
                ..v1::Opened::default()
            }));
        }
        self.heard
            .extend(answer.batches.into_iter().map(Tell::Batch));
        self.heard
            .extend(answer.lane_events.into_iter().map(Tell::LaneEvent));
        if answer.session.is_empty() {
            self.end(None);
        }
        self.asks.session = answer.session;
    }

    /// A call, after a pause.
    fn draw(&mut self) -> Drawing {
        let dice = &mut self.dice;
        let pause = dice.ms(PAUSE, self.ways.pause);
        let goes = dice.chance(self.ways.goes).then(|| dice.ms(0, 3000));
        let slow = dice.chance(self.ways.slow).then(|| dice.ms(0, 40_000));
        let (service, asks) = (self.service.clone(), self.asks.clone());
        let (history, session, most) = (self.history.clone(), self.id, self.ways.most);
        Box::pin(async move {
            tokio::time::sleep(pause).await;
            let _draw = Draw::begin(history, session, most);
            let call = async {
                let answer = service.pull(Request::new(asks)).await?;
                read(answer, slow.unwrap_or_default()).await
            };
            match goes {
                None => call.await.map(Some),
                Some(after) => match tokio::time::timeout(after, call).await {
                    Ok(answer) => answer.map(Some),
                    Err(_gone) => Ok(None),
                },
            }
        })
    }
}

/// A call that takes records, until it is over or dropped.
struct Draw {
    history: History,
    session: u64,
}

impl Draw {
    fn begin(history: History, session: u64, most: (u32, u64)) -> Self {
        history.push(Event::Draw { session, most });
        Self { history, session }
    }
}

impl Drop for Draw {
    fn drop(&mut self) {
        self.history.push(Event::Drawn {
            session: self.session,
        });
    }
}

/// Reads an answer as HTTP/2 does: piece by piece, the second one after `slow`.
async fn read(answer: Response<Pulled>, slow: Duration) -> Result<v1::PullResponse, Status> {
    let (_, pulled, extensions) = answer.into_parts();
    let body = EncodeBody::new_server(
        ProstEncoder::<Pulled>::default(),
        stream::iter([Ok(pulled)]),
        None,
        SingleMessageCompressionOverride::default(),
        None,
    );
    let mut response = http::Response::new(Box::pin(body));
    *response.extensions_mut() = extensions;
    let mut body = with_receipt(response).into_body();
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame = frame.map_err(Status::from_error)?;
        let is_first = bytes.is_empty();
        if let Ok(data) = frame.into_data() {
            bytes.extend_from_slice(&data);
        }
        if is_first && !slow.is_zero() {
            tokio::time::sleep(slow).await;
        }
    }
    let message = bytes.get(PREFIX..).unwrap_or_default();
    Ok(v1::PullResponse::decode(message).expect("a valid answer"))
}
