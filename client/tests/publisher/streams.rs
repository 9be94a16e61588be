//! Streams break, drain and follow each other.

use std::time::Duration;

use ackgate_client::{Error, NotWrittenKind, Publisher, Receipt};
use ackgate_proto::v1::PublishError;
use tonic::Status;

use crate::support::{Gateway, numbered, offsets, outcome, refused, send, within, written};

/// How each receipt ended: the offset, or why not.
async fn outcomes(receipts: Vec<Receipt>) -> Vec<Result<i64, NotWrittenKind>> {
    let mut outcomes = Vec::new();
    for receipt in receipts {
        let outcome = outcome(receipt).await;
        outcomes.push(match outcome {
            Ok(written) => Ok(written.offset.unwrap()),
            Err(error) => Err(error.kind),
        });
    }
    outcomes
}

#[tokio::test]
async fn broken_stream_leaves_its_unanswered_records_open_and_no_others() {
    let mut gateway = Gateway::start().await;
    let (publisher, mut session) = gateway.publish().await;
    let mut receipts = send(&publisher, 0..5).await;
    session.records(5).await;
    session.write(2).await;
    outcome(receipts.remove(0)).await.unwrap();
    gateway.kill();
    let unknown = Err(NotWrittenKind::Unknown);
    assert_eq!(outcomes(receipts).await, [Ok(1), unknown, unknown, unknown]);
    // Those that come while there is no stream wait for the next one.
    let receipts = send(&publisher, 5..8).await;
    gateway.restart().await;
    let mut session = gateway.opened().await;
    assert_eq!(session.values(3).await, ["5", "6", "7"]);
    session.write(3).await;
    assert_eq!(offsets(receipts).await, [0, 1, 2]);
    let stats = publisher.stats();
    assert_eq!(
        (stats.written, stats.failed, stats.unknown, stats.resent),
        (5, 0, 3, 0)
    );
    assert_eq!(stats.reconnects, 1);
}

#[tokio::test]
async fn unanswered_records_are_sent_again_before_all_others_if_asked() {
    let mut gateway = Gateway::start().await;
    let builder = gateway.builder().retry_unanswered(true);
    let (publisher, mut session) = gateway.publish_with(builder).await;
    let mut receipts = send(&publisher, 0..5).await;
    session.records(5).await;
    session.write(2).await;
    // Taken by the publisher, or the kill could be faster than the answers.
    for _ in 0..2 {
        outcome(receipts.remove(0)).await.unwrap();
    }
    gateway.kill();
    receipts.extend(send(&publisher, 5..7).await);
    gateway.restart().await;
    let mut session = gateway.opened().await;
    assert_eq!(session.values(5).await, ["2", "3", "4", "5", "6"]);
    session.write(5).await;
    assert_eq!(offsets(receipts).await, [0, 1, 2, 3, 4]);
    let stats = publisher.stats();
    assert_eq!((stats.sent, stats.written, stats.unknown), (7, 7, 0));
    // The last two may have been given to the stream before its end was noticed.
    assert!((3..=5).contains(&stats.resent), "{stats:?}");
}

#[tokio::test]
async fn error_that_passes_is_a_broken_stream_and_one_that_stays_ends_the_publisher() {
    let mut gateway = Gateway::start().await;
    let (publisher, mut session) = gateway.publish().await;
    let first = send(&publisher, 0..1).await;
    session.records(1).await;
    session.fail(Status::internal("oops")).await;
    assert_eq!(outcomes(first).await, [Err(NotWrittenKind::Unknown)]);
    let mut session = gateway.opened().await;
    let second = send(&publisher, 1..3).await;
    session.records(2).await;
    session
        .fail(Status::permission_denied("not any more"))
        .await;
    let unknown = Err(NotWrittenKind::Unknown);
    assert_eq!(outcomes(second).await, [unknown, unknown]);
    let third = send(&publisher, 3..4).await;
    assert_eq!(outcomes(third).await, [Err(NotWrittenKind::NotSent)]);
    let error = publisher.error().unwrap().to_string();
    assert!(error.contains("not any more"), "{error}");
    // Nobody waits for what cannot come.
    within("the flush", publisher.flush()).await;
    let stats = within("close", publisher.close(Duration::from_secs(60))).await;
    assert_eq!((stats.sent, stats.failed, stats.unknown), (4, 1, 3));
}

#[tokio::test]
async fn used_up_retries_end_the_publisher_and_say_what_was_not_sent() {
    let mut gateway = Gateway::start().await;
    let builder = gateway.builder().max_retries(2);
    let (publisher, mut session) = gateway.publish_with(builder).await;
    let mut receipts = send(&publisher, 0..1).await;
    session.records(1).await;
    gateway.kill();
    assert_eq!(
        outcome(receipts.remove(0)).await.unwrap_err().kind,
        NotWrittenKind::Unknown
    );
    let receipt = publisher.send(numbered(1)).await;
    assert_eq!(
        outcome(receipt).await.unwrap_err().kind,
        NotWrittenKind::NotSent
    );
    let error = publisher.error().unwrap();
    assert!(
        matches!(*error, Error::GaveUp { retries: 2, .. }),
        "{error}"
    );
}

#[tokio::test]
async fn draining_gateway_answers_what_it_took_and_the_rest_goes_to_the_next() {
    let mut gateway = Gateway::start().await;
    let (publisher, mut session) = gateway.publish().await;
    let receipts = send(&publisher, 0..6).await;
    session.records(6).await;
    session.drain().await;
    // It sees the end of input before it is done.
    assert!(session.request().await.is_none(), "records after the drain");
    let unavailable = || refused(PublishError::Unavailable);
    let results = vec![
        written(0),
        refused(PublishError::TooLarge),
        written(2),
        unavailable(),
        written(4),
        unavailable(),
    ];
    // Still the same stream.
    let later = send(&publisher, 6..8).await;
    session.answer(results).await;
    drop(session);
    let mut session = gateway.opened().await;
    // What it turned away was not written: nobody has to know.
    assert_eq!(session.values(4).await, ["3", "5", "6", "7"]);
    session.write(4).await;
    let outcomes = outcomes(receipts).await;
    let too_large = Err(NotWrittenKind::TooLarge);
    assert_eq!(outcomes, [Ok(0), too_large, Ok(2), Ok(0), Ok(4), Ok(1)]);
    assert_eq!(offsets(later).await, [2, 3]);
    let stats = publisher.stats();
    assert_eq!((stats.written, stats.failed, stats.unknown), (7, 1, 0));
    assert_eq!(stats.resent, 0, "they were answered");
}

#[tokio::test]
async fn drained_stream_that_breaks_leaves_what_it_owes_open() {
    let mut gateway = Gateway::start().await;
    let (publisher, mut session) = gateway.publish().await;
    let receipts = send(&publisher, 0..2).await;
    session.records(2).await;
    session.drain().await;
    session.write(1).await;
    drop(session);
    assert_eq!(
        outcomes(receipts).await,
        [Ok(0), Err(NotWrittenKind::Unknown)]
    );
    let _session = gateway.opened().await;
    assert_eq!(publisher.stats().unanswered(), 0);
}

#[tokio::test]
async fn what_a_stream_left_open_is_sent_again_before_what_waited() {
    let mut gateway = Gateway::start().await;
    let builder = gateway.builder().retry_unanswered(true);
    let (publisher, mut session) = gateway.publish_with(builder).await;
    let mut receipts = send(&publisher, 0..4).await;
    session.records(4).await;
    session.drain().await;
    assert!(session.request().await.is_none());
    // These have no stream yet, and two of the others no answer.
    receipts.extend(send(&publisher, 4..6).await);
    let turned_away = refused(PublishError::Unavailable);
    session.answer(vec![written(0), turned_away]).await;
    outcome(receipts.remove(0)).await.unwrap();
    drop(session);
    let mut session = gateway.opened().await;
    assert_eq!(session.values(5).await, ["1", "2", "3", "4", "5"]);
    session.write(5).await;
    assert_eq!(offsets(receipts).await, [0, 1, 2, 3, 4]);
    assert_eq!(publisher.stats().resent, 2);
}

#[tokio::test]
async fn gateway_that_owes_answers_and_says_nothing_counts_as_gone() {
    let mut gateway = Gateway::start().await;
    let hour = Duration::from_hours(1);
    let builder = gateway.builder().keepalive(hour, hour);
    let connecting = tokio::spawn(builder.connect());
    let mut session = gateway.opened().await;
    let publisher: Publisher = within("connect", connecting).await.unwrap().unwrap();
    let receipt = publisher.send(numbered(0)).await;
    session.records(1).await;
    // A record has 30 s and the gateway 10 s more; the connection itself is sound.
    tokio::time::pause();
    let waiting = tokio::time::Instant::now();
    let error = receipt.await.unwrap_err();
    assert_eq!(error.kind, NotWrittenKind::Unknown);
    assert!(error.detail.contains("no sign of life"), "{error}");
    assert!(waiting.elapsed() >= Duration::from_secs(39));
}

#[tokio::test]
async fn publisher_waits_for_its_first_gateway() {
    let mut gateway = Gateway::start().await;
    gateway.kill();
    let connecting = tokio::spawn(gateway.builder().connect());
    gateway.restart().await;
    let _session = gateway.opened().await;
    within("connect", connecting).await.unwrap().unwrap();
}

#[tokio::test]
async fn publisher_goes_on_at_the_next_gateway_in_order() {
    let (mut first, mut second) = (Gateway::start().await, Gateway::start().await);
    let addresses = [first.address.to_string(), second.address.to_string()];
    let builder = Publisher::builder(addresses)
        .backoff(Duration::from_millis(5), Duration::from_millis(50))
        .retry_unanswered(true);
    let (publisher, mut session) = first.publish_with(builder).await;
    let mut receipts = send(&publisher, 0..4).await;
    assert_eq!(session.values(4).await, ["0", "1", "2", "3"]);
    session.answer(vec![written(0), written(1)]).await;
    let unanswered = receipts.split_off(2);
    // Before the end of the gateway, which could overtake them.
    assert_eq!(offsets(receipts).await, [0, 1]);
    first.kill();
    drop(session);
    let later = send(&publisher, 4..6).await;
    let mut session = second.opened().await;
    // What the first one may have written and did not say comes again, before all others.
    assert_eq!(session.values(4).await, ["2", "3", "4", "5"]);
    session.write(4).await;
    assert_eq!(offsets(unanswered).await, [0, 1]);
    assert_eq!(offsets(later).await, [2, 3]);
    assert_eq!(publisher.stats().reconnects, 1);
}
