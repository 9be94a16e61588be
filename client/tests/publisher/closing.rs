//! How a publisher ends, and what it says then.

use std::time::Duration;

use ackgate_client::NotWrittenKind;
use ackgate_proto::v1;
use futures::{FutureExt as _, future::join};

use crate::support::{Gateway, numbered, offsets, outcome, roomy, send, within};

#[tokio::test]
async fn close_waits_for_every_answer_and_says_goodbye() {
    let mut gateway = Gateway::start().await;
    let (publisher, mut session) = gateway.publish().await;
    let receipts = send(&publisher, 0..3).await;
    let gateway_side = async {
        session.records(3).await;
        let close = session.request().await;
        let Some(v1::publish_request::Request::Close(close)) = close else {
            panic!("no goodbye but {close:?}")
        };
        let timeout = Duration::try_from(close.timeout.unwrap()).unwrap();
        assert!(timeout <= Duration::from_secs(15) && timeout > Duration::from_secs(5));
        session.write(3).await;
        session
            .say(v1::publish_response::Response::Closed(v1::PublishClosed {
                records: 3,
                written: 3,
                failed: 0,
            }))
            .await;
    };
    let (stats, ()) = within(
        "close",
        join(publisher.close(Duration::from_secs(15)), gateway_side),
    )
    .await;
    assert_eq!((stats.sent, stats.written), (3, 3));
    assert!(stats.is_complete());
    assert_eq!(offsets(receipts).await, [0, 1, 2]);
    assert!(publisher.error().is_none());
    // It stays closed.
    let late = outcome(publisher.send(numbered(3)).await).await;
    assert_eq!(late.unwrap_err().kind, NotWrittenKind::NotSent);
    let stats = publisher.close(Duration::from_secs(1)).await;
    assert_eq!((stats.sent, stats.written, stats.failed), (4, 3, 1));
}

#[tokio::test]
async fn flush_waits_for_what_was_sent_before_it_and_for_nothing_else() {
    let mut gateway = Gateway::start().await;
    let (publisher, mut session) = gateway.publish().await;
    within("an empty flush", publisher.flush()).await;
    let mut receipts = send(&publisher, 0..3).await;
    session.records(3).await;
    let mut flush = Box::pin(publisher.flush());
    assert!(
        flush.as_mut().now_or_never().is_none(),
        "nothing is answered"
    );
    session.write(2).await;
    for _ in 0..2 {
        outcome(receipts.remove(0)).await.unwrap();
    }
    assert!(
        flush.as_mut().now_or_never().is_none(),
        "one is not answered"
    );
    let later = publisher.send(numbered(3)).await;
    session.records(1).await;
    session.write(1).await;
    within("the flush", flush).await;
    assert_eq!(publisher.stats().unanswered(), 1);
    session.write(1).await;
    outcome(later).await.unwrap();
}

#[tokio::test]
async fn close_that_comes_to_its_deadline_tells_unknown_from_not_sent() {
    let mut gateway = Gateway::start().await;
    let (publisher, mut session) = gateway.publish().await;
    let receipts = send(&publisher, 0..4).await;
    session.records(4).await;
    session.write(1).await;
    let mut receipts = receipts.into_iter();
    outcome(receipts.next().unwrap()).await.unwrap();
    // The gateway stops and never says more, so that this one has no stream.
    session.drain().await;
    assert!(session.request().await.is_none());
    let unsent = publisher.send(numbered(4)).await;
    let closing = publisher.close(Duration::from_millis(300));
    let stats = within("close", closing).await;
    assert_eq!(
        (stats.sent, stats.written, stats.failed, stats.unknown),
        (5, 1, 1, 3)
    );
    for receipt in receipts {
        let error = outcome(receipt).await.unwrap_err();
        assert_eq!(error.kind, NotWrittenKind::Unknown);
    }
    let error = outcome(unsent).await.unwrap_err();
    assert_eq!(error.kind, NotWrittenKind::NotSent);
    assert!(error.detail.contains("300ms"), "{error}");
}

#[tokio::test]
async fn close_without_a_gateway_ends_at_once_if_nothing_waits() {
    let mut gateway = Gateway::start().await;
    let (publisher, session) = gateway.publish().await;
    gateway.kill();
    drop(session);
    let closing = publisher.close(Duration::from_secs(3_600));
    let stats = within("close", closing).await;
    assert_eq!(stats.sent, 0);
}

#[tokio::test]
async fn close_turns_those_away_who_wait_for_room() {
    let mut gateway = Gateway::start().await;
    let builder = gateway.builder().max_in_flight(1, 1 << 20);
    let (publisher, mut session) = gateway.publish_with(builder).await;
    let first = publisher.send(numbered(0)).await;
    session.records(1).await;
    let mut waiting = Box::pin(publisher.send(numbered(1)));
    assert!(waiting.as_mut().now_or_never().is_none(), "there is room");
    let mut closing = Box::pin(publisher.close(Duration::from_secs(15)));
    assert!(closing.as_mut().now_or_never().is_none(), "it is closed");
    // Nothing was answered meanwhile.
    let turned_away = outcome(within("its receipt", waiting).await).await;
    assert_eq!(turned_away.unwrap_err().kind, NotWrittenKind::NotSent);
    let gateway_side = async {
        session.write(1).await;
        session.goodbye().await;
    };
    let (stats, ()) = within("close", join(closing, gateway_side)).await;
    outcome(first).await.unwrap();
    assert_eq!((stats.sent, stats.written, stats.failed), (2, 1, 1));
}

#[tokio::test]
async fn close_goes_on_over_a_broken_stream_while_records_wait() {
    let mut gateway = Gateway::start().await;
    let builder = gateway.builder().retry_unanswered(true);
    let (publisher, mut session) = gateway.publish_with(builder).await;
    let receipts = send(&publisher, 0..2).await;
    session.records(2).await;
    let gateway_side = async {
        let goodbye = session.request().await;
        assert!(
            matches!(goodbye, Some(v1::publish_request::Request::Close(_))),
            "{goodbye:?}"
        );
        drop(session);
        let mut session = gateway.opened().await;
        session.records(2).await;
        session.write(2).await;
        session.goodbye().await;
    };
    let closing = publisher.close(Duration::from_secs(15));
    let (stats, ()) = within("close", join(closing, gateway_side)).await;
    assert!(stats.is_complete(), "{stats}");
    assert_eq!((stats.written, stats.resent), (2, 2));
    offsets(receipts).await;
}

#[tokio::test]
async fn dropped_publisher_sends_what_it_has_and_receipts_still_tell() {
    let mut gateway = Gateway::start().await;
    let builder = gateway.builder().linger(Duration::from_secs(60));
    let (publisher, mut session) = gateway.publish_with(builder).await;
    let receipts = send(&publisher, 0..3).await;
    drop(publisher);
    session.records(3).await;
    session.write(3).await;
    session.goodbye().await;
    assert_eq!(offsets(receipts).await, [0, 1, 2]);
}

#[tokio::test]
async fn connect_that_is_given_up_leaves_no_stream_behind() {
    let mut gateway = Gateway::start().await;
    let connecting = tokio::spawn(gateway.builder().connect());
    let mut session = gateway.session().await;
    connecting.abort();
    assert!(within("its end", connecting).await.is_err());
    // What it began is cancelled, or ends with a goodbye.
    session
        .offer(v1::publish_response::Response::Opened(roomy()))
        .await;
    loop {
        match session.request().await {
            Some(v1::publish_request::Request::Open(_)) => {}
            None | Some(v1::publish_request::Request::Close(_)) => break,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn runtime_that_ends_first_is_told_by_the_receipts() {
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap()
    };
    let (theirs, ours) = (runtime(), runtime());
    let mut gateway = ours.block_on(Gateway::start());
    let connecting = theirs.spawn(gateway.builder().connect());
    let mut session = ours.block_on(gateway.opened());
    let publisher = ours.block_on(connecting).unwrap().unwrap();
    let receipt = ours.block_on(publisher.send(numbered(0)));
    ours.block_on(session.records(1));
    theirs.shutdown_background();
    let error = ours.block_on(outcome(receipt)).unwrap_err();
    assert_eq!(error.kind, NotWrittenKind::Unknown);
    let stats = ours.block_on(publisher.close(Duration::from_secs(60)));
    assert_eq!(stats.unknown, 1);
}
