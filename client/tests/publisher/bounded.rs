//! What a publisher keeps is bounded, and what waits for room waits in order.

use std::{sync::Arc, time::Duration};

use ackgate_client::{NotWrittenKind, Outgoing};
use ackgate_proto::v1;
use futures::FutureExt as _;

use crate::support::{Gateway, numbered, offsets, outcome, roomy, send, within};

#[tokio::test]
async fn send_waits_at_the_limit_of_records_until_one_is_answered() {
    let mut gateway = Gateway::start().await;
    let builder = gateway.builder().max_in_flight(10, 1 << 20);
    let (publisher, mut session) = gateway.publish_with(builder).await;
    let mut receipts = send(&publisher, 0..10).await;
    session.records(10).await;
    {
        let mut next = Box::pin(publisher.send(numbered(10)));
        assert!(next.as_mut().now_or_never().is_none(), "taken at the limit");
        session.write(1).await;
        receipts.push(within("room", next).await);
    }
    assert!(
        publisher.send(numbered(11)).now_or_never().is_none(),
        "there is room for one"
    );
    session.records(1).await;
    session.write(10).await;
    assert_eq!(offsets(receipts).await, (0..11).collect::<Vec<i64>>());
    // The one that was given up while it waited was not sent.
    assert_eq!(publisher.stats().sent, 11);
}

#[tokio::test]
async fn send_waits_at_the_limit_of_bytes_and_a_larger_record_goes_alone() {
    let mut gateway = Gateway::start().await;
    let builder = gateway.builder().max_in_flight(1_000, 100);
    let (publisher, mut session) = gateway.publish_with(builder).await;
    let sized = |bytes| Outgoing::new("orders", vec![b'x'; bytes]);
    let first = publisher.send(sized(60)).await;
    assert!(publisher.send(sized(41)).now_or_never().is_none());
    let second = publisher.send(sized(40)).await;
    {
        let mut large = Box::pin(publisher.send(sized(5_000)));
        assert!(large.as_mut().now_or_never().is_none());
        session.records(2).await;
        session.write(1).await;
        outcome(first).await.unwrap();
        assert!(large.as_mut().now_or_never().is_none(), "not alone");
        session.write(1).await;
        let large = within("room", large).await;
        assert!(publisher.send(sized(0)).now_or_never().is_none());
        session.records(1).await;
        session.write(1).await;
        outcome(large).await.unwrap();
    }
    outcome(second).await.unwrap();
}

#[tokio::test]
async fn limits_of_the_gateway_hold_too() {
    let mut gateway = Gateway::start().await;
    let connecting = tokio::spawn(gateway.builder().connect());
    let mut session = gateway.session().await;
    let few = v1::PublishOpened {
        max_in_flight_records: 3,
        ..roomy()
    };
    session.open_with(few).await;
    let publisher = within("connect", connecting).await.unwrap().unwrap();
    let receipts = send(&publisher, 0..3).await;
    assert!(publisher.send(numbered(3)).now_or_never().is_none());
    session.records(3).await;
    session.write(3).await;
    offsets(receipts).await;
}

#[tokio::test]
async fn record_that_the_gateway_would_not_take_is_refused_without_costing_the_others_their_stream()
{
    let mut gateway = Gateway::start().await;
    let connecting = tokio::spawn(gateway.builder().connect());
    let mut session = gateway.session().await;
    let small = v1::PublishOpened {
        max_record_bytes: 100,
        ..roomy()
    };
    session.open_with(small).await;
    let publisher = within("connect", connecting).await.unwrap().unwrap();
    let record = |bytes: usize| {
        Outgoing::new("orders", vec![b'x'; bytes])
            .key("four")
            .header("ab", "cd")
    };
    let fits = publisher.send(record(92)).await;
    let does_not = publisher.send(record(93)).await;
    let error = outcome(does_not).await.unwrap_err();
    assert_eq!(error.kind, NotWrittenKind::TooLarge);
    assert!(error.detail.contains("101 bytes"), "{error}");
    session.records(1).await;
    session.write(1).await;
    outcome(fits).await.unwrap();
    let stats = publisher.stats();
    assert_eq!((stats.sent, stats.written, stats.failed), (2, 1, 1));
}

#[tokio::test]
async fn message_has_a_mebibyte_or_one_record() {
    let mut gateway = Gateway::start().await;
    let connecting = tokio::spawn(gateway.builder().connect());
    let mut session = gateway.session().await;
    let large = v1::PublishOpened {
        max_record_bytes: 3 << 20,
        ..roomy()
    };
    session.open_with(large).await;
    let publisher = within("connect", connecting).await.unwrap().unwrap();
    for size in [400 << 10, 400 << 10, 400 << 10, 2 << 20, 1, 1] {
        drop(publisher.send(Outgoing::new("orders", vec![0; size])).await);
    }
    let mut read = 0;
    while read < 6 {
        let Some(v1::publish_request::Request::Records(message)) = session.request().await else {
            panic!("no records")
        };
        let size = |it: &v1::OutgoingRecord| it.value.as_ref().unwrap().len();
        let bytes: usize = message.records.iter().map(size).sum();
        assert!(bytes <= 1 << 20 || message.records.len() == 1, "{bytes}");
        read += message.records.len();
    }
}

#[tokio::test]
async fn records_of_many_tasks_are_all_written_and_room_is_given_in_order() {
    let mut gateway = Gateway::start().await;
    let builder = gateway.builder().max_in_flight(7, 1 << 20);
    let (publisher, mut session) = gateway.publish_with(builder).await;
    let publisher = Arc::new(publisher);
    let tasks: Vec<_> = (0..5)
        .map(|task| {
            let publisher = Arc::clone(&publisher);
            tokio::spawn(async move {
                let mut receipts = Vec::new();
                for number in 0..40 {
                    receipts.push(publisher.send(numbered(task * 100 + number)).await);
                }
                offsets(receipts).await
            })
        })
        .collect();
    let mut values = Vec::new();
    while values.len() < 200 {
        let Some(v1::publish_request::Request::Records(message)) = session.request().await else {
            panic!("no records")
        };
        assert!(message.records.len() <= 7);
        session.write(message.records.len() as u64).await;
        values.extend(message.records.into_iter().map(|it| it.value.unwrap()));
    }
    for (number, task) in tasks.into_iter().enumerate() {
        let offsets = within("a task", task).await.unwrap();
        assert!(offsets.is_sorted(), "each task's records keep their order");
        let first = offsets.first().copied().unwrap();
        let value = &values[usize::try_from(first).unwrap()];
        assert_eq!(*value, (number * 100).to_string());
    }
}

#[tokio::test]
async fn lingering_records_share_a_message_and_a_flush_or_a_full_room_does_not_wait() {
    let mut gateway = Gateway::start().await;
    let builder = gateway
        .builder()
        .linger(Duration::from_secs(60))
        .max_in_flight(5, 1 << 20);
    let (publisher, mut session) = gateway.publish_with(builder).await;
    drop(send(&publisher, 0..3).await);
    let silent = tokio::time::timeout(Duration::from_millis(100), session.inbound.message()).await;
    assert!(silent.is_err(), "sent at once");
    let flushed = publisher.flush();
    let answers = async {
        let Some(v1::publish_request::Request::Records(message)) = session.request().await else {
            panic!("no records")
        };
        assert_eq!(message.records.len(), 3, "one message");
        session.write(3).await;
    };
    within("the flush", futures::future::join(flushed, answers)).await;

    // No wait of the test is as long as the linger.
    let receipts = send(&publisher, 0..5).await;
    let sixth = publisher.send(numbered(5));
    let answers = async {
        session.records(5).await;
        session.write(5).await;
    };
    let (sixth, ()) = within("room", futures::future::join(sixth, answers)).await;
    offsets(receipts).await;
    drop(sixth);
}
