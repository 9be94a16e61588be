//! Peers that read nothing, and peers that send half of something: what they may hold, and
//! for how long.

use std::{
    convert::Infallible,
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use ackgate_proto::v1::{PullRequest, SettleRequest};
use futures::future::join_all;
use http_body::{Body, Frame};
use prost::Message as _;
use tokio::time::{Instant, sleep, timeout};
use tonic::{
    Code, Status,
    client::GrpcService,
    codegen::{Bytes, http},
    transport::Channel,
};

use crate::support::{Case, Gateway, Pulling, Raw, Stage, cases, connection, reason, span, texts};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        embedded: answer_that_no_window_took_was_never_handed_over,
            answer_that_waits_for_a_window_is_handed_over_when_it_opens,
            large_messages_wait_for_the_room_of_unfinished_ones,
            what_does_not_become_whole_is_ended;
    ]
}

/// A gateway with some records, whose deadlines no test waits for.
async fn gateway(stage: &Stage) -> Gateway {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["a", "b", "c"]).await;
    let long = Duration::from_secs(600);
    let subscription = stage.subscription(&topic).ack_deadline(long);
    stage.gateway(&[subscription]).await
}

/// Asks for all records, on stream 1, until the gateway has begun to answer.
async fn asks(raw: &mut Raw) {
    let request = PullRequest {
        subscription: "orders".to_owned(),
        wait: span(Duration::from_secs(60)),
        // Else it may end with the first.
        linger: span(Duration::from_secs(1)),
        ..PullRequest::default()
    };
    raw.call(1, "Pull").await;
    raw.message(1, &request.encode_to_vec(), true).await;
    // The headers need no window; with them the draw is over.
    raw.until(1, |came| came.headers).await;
    raw.has_read_everything().await;
}

// A caller that leaves before it could have read anything costs no lease.
async fn answer_that_no_window_took_was_never_handed_over(stage: Stage) {
    let gateway = gateway(&stage).await;
    for by_reset in [true, false] {
        let mut raw = Raw::connect_with_window(gateway.address, 0).await;
        asks(&mut raw).await;
        assert_eq!(raw.came(1).bytes, 0, "{:?}", raw.came(1));
        let mut kept = None;
        if by_reset {
            raw.send(&Raw::reset(1)).await;
            kept = Some(raw);
        } else {
            drop(raw);
        }
        // Its lease is longer than anybody waits here.
        let mut other = Pulling::at(gateway.address).await;
        let mut records = other.records(3).await;
        records.sort_by_key(|one| one.offset);
        assert_eq!(texts(&records), ["a", "b", "c"]);
        assert!(records.iter().all(|one| one.attempt == 1), "{records:?}");
        // For the next one, which finds them as they were.
        other.close().await;
        drop(kept);
    }
}

async fn answer_that_waits_for_a_window_is_handed_over_when_it_opens(stage: Stage) {
    let gateway = gateway(&stage).await;
    let mut raw = Raw::connect_with_window(gateway.address, 0).await;
    asks(&mut raw).await;
    raw.open_window(1, 1 << 20).await;
    raw.ends(1).await;
    drop(raw);
    // Now they are the caller's, until their deadline.
    let mut other = Pulling::at(gateway.address).await;
    other.asks.wait = span(Duration::from_secs(3));
    assert!(other.pull().await.is_empty());
}

/// As many messages of this size as all that are unfinished may hold.
const LARGEST: usize = 16 << 20;
const FULL: u32 = 16;

async fn large_messages_wait_for_the_room_of_unfinished_ones(stage: Stage) {
    let gateway = gateway(&stage).await;
    let mut raw = Raw::connect(gateway.address).await;
    let settle = |bytes: usize| {
        let request = SettleRequest {
            session: "x".repeat(bytes),
            ..SettleRequest::default()
        };
        request.encode_to_vec()
    };
    let stream = |number: u32| 1 + 2 * number;
    for number in 0..FULL {
        raw.call(stream(number), "Settle").await;
        raw.part(stream(number), LARGEST, &[0], false).await;
    }
    raw.has_read_everything().await;
    // Whole, but there is no room: it waits, as do those behind it on other connections.
    let large = stream(FULL);
    raw.call(large, "Settle").await;
    raw.message(large, &settle(100_000), true).await;
    let mut another = Raw::connect(gateway.address).await;
    // Now the windows are those of the gateway, which are larger than the usual ones.
    another.has_read_everything().await;
    another.call(1, "Settle").await;
    another.message(1, &settle(100_000), true).await;
    // Small ones do not.
    for number in FULL + 1..FULL + 20 {
        raw.call(stream(number), "Settle").await;
        raw.message(stream(number), &settle(100), true).await;
        raw.ends(stream(number)).await;
        another.has_read_everything().await;
        sleep(Duration::from_millis(50)).await;
    }
    for came in [raw.came(large), another.came(1)] {
        assert!(!came.headers && !came.ended, "{came:?}");
    }
    // Room for both.
    raw.send(&Raw::reset(stream(0))).await;
    raw.ends(large).await;
    another.ends(1).await;
}

/// What the gateway allows, and more than a slow machine adds to it.
const WITHIN: Duration = Duration::from_secs(60);
const AT_LAST: Duration = Duration::from_secs(150);

/// The beginning of a request, which never goes on.
struct Beginning(Option<Bytes>);

impl Body for Beginning {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.0.take() {
            Some(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            None => Poll::Pending,
        }
    }
}

/// What the gateway says to a call of which only this comes.
async fn half(mut channel: Channel, begins: &'static [u8]) -> Status {
    let body = Beginning(Some(Bytes::from_static(begins)).filter(|begins| !begins.is_empty()));
    let request = http::Request::post("/ackgate.v1.GatewayService/Settle")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(tonic::body::Body::new(body))
        .unwrap();
    poll_fn(|cx| GrpcService::<tonic::body::Body>::poll_ready(&mut channel, cx))
        .await
        .expect("the connection is there");
    let response = timeout(AT_LAST, channel.call(request)).await;
    let response = response
        .expect("it is ended")
        .expect("by an answer, not by giving it up");
    Status::from_header_map(response.headers()).expect("a status alone")
}

async fn what_does_not_become_whole_is_ended(stage: Stage) {
    let gateway = gateway(&stage).await;
    let begun = Instant::now();
    let mut raw = Raw::connect(gateway.address).await;
    raw.call(1, "Subscribe").await;
    raw.part(1, 100, &[0], false).await;
    let channel = connection(gateway.address).await.unwrap();
    // Half a message, and nothing at all.
    let halves = [&b"\0\0\0\x01\0x"[..], b""].map(|begins| half(channel.clone(), begins));
    // Read all the while: it answers the signs of life.
    let (statuses, _) = tokio::join!(join_all(halves), raw.ends(1));
    for status in statuses {
        assert_eq!(status.code(), Code::DeadlineExceeded, "{status:?}");
        assert_eq!(reason(&status), "REQUEST_TOO_SLOW");
    }
    assert!(begun.elapsed() >= WITHIN, "{:?}", begun.elapsed());
}
