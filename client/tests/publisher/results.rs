//! Each record gets its own answer.

use std::time::Duration;

use ackgate_client::{Acks, NotWrittenKind, Outgoing};
use ackgate_proto::v1::{self, PublishError, publish_response::Response};
use bytes::Bytes;
use tonic::Code;

use crate::support::{Gateway, numbered, offsets, outcome, refused, send, within, written};

#[tokio::test]
async fn open_says_what_the_builder_was_told() {
    let mut gateway = Gateway::start().await;
    let builder = gateway
        .builder()
        .cluster("main")
        .acks(Acks::All)
        .idempotence(true)
        .timeout(Duration::from_millis(1_500));
    let connecting = tokio::spawn(builder.connect());
    let mut session = gateway.session().await;
    let wanted = v1::PublishOptions {
        cluster: "main".to_owned(),
        acks: v1::Acks::All.into(),
        idempotence: Some(true),
        timeout: Some(prost_types::Duration {
            seconds: 1,
            nanos: 500_000_000,
        }),
    };
    assert_eq!(session.open().await, wanted);
    within("connect", connecting).await.unwrap().unwrap();

    let connecting = tokio::spawn(gateway.builder().connect());
    let mut session = gateway.session().await;
    assert_eq!(session.open().await, v1::PublishOptions::default());
    within("connect", connecting).await.unwrap().unwrap();
}

#[tokio::test]
async fn option_outside_its_range_is_refused_before_anything_is_sent() {
    let gateway = Gateway::start().await;
    let wrong = [
        (
            gateway.builder().timeout(Duration::from_millis(99)),
            "timeout",
        ),
        (
            gateway.builder().timeout(Duration::from_secs(301)),
            "timeout",
        ),
        (gateway.builder().max_in_flight(0, 1), "max_in_flight"),
        (gateway.builder().max_in_flight(1, 0), "max_in_flight"),
        (gateway.builder().linger(Duration::from_secs(61)), "linger"),
        (
            gateway.builder().acks(Acks::Leader).idempotence(true),
            "idempotence",
        ),
        (
            gateway.builder().backoff(Duration::ZERO, Duration::ZERO),
            "backoff",
        ),
    ];
    for (builder, option) in wrong {
        let error = builder.connect().await.unwrap_err().to_string();
        assert!(error.contains(option), "{error}");
    }
}

#[tokio::test]
async fn every_field_travels_and_null_and_empty_stay_apart() {
    let mut gateway = Gateway::start().await;
    let (publisher, mut session) = gateway.publish().await;
    let full = Outgoing::new("orders", Bytes::new())
        .key(&b"\xff\x00"[..])
        .partition(2)
        .header("h", "1")
        .null_header("h")
        .header("", "")
        .timestamp_ms(7);
    let bare = Outgoing::tombstone("orders").idempotency_key(None);
    let named = Outgoing::tombstone("orders").idempotency_key("");
    for record in [full, bare, named] {
        drop(publisher.send(record).await);
    }
    let header = |key: &str, value: Option<&'static str>| v1::Header {
        key: key.to_owned(),
        value: value.map(Bytes::from),
    };
    let topic = || "orders".to_owned();
    let wanted = [
        v1::OutgoingRecord {
            topic: topic(),
            partition: Some(2),
            key: Some(Bytes::from_static(b"\xff\x00")),
            value: Some(Bytes::new()),
            headers: vec![
                header("h", Some("1")),
                header("h", None),
                header("", Some("")),
            ],
            timestamp_ms: Some(7),
        },
        v1::OutgoingRecord {
            topic: topic(),
            ..v1::OutgoingRecord::default()
        },
        v1::OutgoingRecord {
            topic: topic(),
            key: Some(Bytes::new()),
            ..v1::OutgoingRecord::default()
        },
    ];
    assert_eq!(session.records(3).await, wanted);
}

#[tokio::test]
async fn records_keep_their_order_and_get_the_answer_that_is_theirs() {
    let mut gateway = Gateway::start().await;
    let (publisher, mut session) = gateway.publish().await;
    let receipts = send(&publisher, 0..500).await;
    let sent: Vec<String> = (0..500).map(|number| number.to_string()).collect();
    assert_eq!(session.values(500).await, sent);
    for part in [1, 99, 400] {
        session.write(part).await;
    }
    assert_eq!(offsets(receipts).await, (0..500).collect::<Vec<i64>>());
    let stats = publisher.stats();
    assert_eq!((stats.sent, stats.written), (500, 500));
    assert!(stats.is_complete());
}

#[tokio::test]
async fn refused_record_is_told_why_and_the_others_are_written() {
    let mut gateway = Gateway::start().await;
    let (publisher, mut session) = gateway.publish().await;
    let kinds = [
        (PublishError::Invalid, NotWrittenKind::Invalid, false),
        (PublishError::NotAllowed, NotWrittenKind::NotAllowed, false),
        (PublishError::TooLarge, NotWrittenKind::TooLarge, false),
        (PublishError::NotFound, NotWrittenKind::NotFound, false),
        (PublishError::TimedOut, NotWrittenKind::TimedOut, true),
        (
            PublishError::Unavailable,
            NotWrittenKind::Unavailable,
            false,
        ),
        (PublishError::Refused, NotWrittenKind::Refused, false),
    ];
    let receipts = send(&publisher, 0..kinds.len() + 1).await;
    session.records(kinds.len() + 1).await;
    let mut results: Vec<_> = kinds.iter().map(|(error, ..)| refused(*error)).collect();
    results.push(written(41));
    session.answer(results).await;
    let mut receipts = receipts.into_iter();
    for ((_, kind, may_be), receipt) in kinds.iter().zip(receipts.by_ref()) {
        let error = outcome(receipt).await.unwrap_err();
        assert_eq!((error.kind, error.may_be_written()), (*kind, *may_be));
        assert_eq!((error.topic.as_str(), error.partition), ("orders", Some(3)));
        assert_eq!(error.detail, "for a reason");
    }
    let written = outcome(receipts.next().unwrap()).await.unwrap();
    assert_eq!(
        (written.topic.as_str(), written.partition, written.offset),
        ("orders", 3, Some(41))
    );
    let stats = publisher.stats();
    assert_eq!((stats.written, stats.failed, stats.unknown), (1, 6, 1));
}

#[tokio::test]
async fn record_written_without_acks_has_no_offset() {
    let mut gateway = Gateway::start().await;
    let (publisher, mut session) = gateway.publish().await;
    let receipt = publisher.send(numbered(0)).await;
    session.records(1).await;
    let result = v1::PublishResult {
        offset: None,
        ..written(0)
    };
    session.answer(vec![result]).await;
    assert_eq!(outcome(receipt).await.unwrap().offset, None);
}

#[tokio::test]
async fn refusal_to_publish_at_all_ends_connect() {
    let mut gateway = Gateway::start().await;
    let connecting = tokio::spawn(gateway.builder().connect());
    let session = gateway.session().await;
    session
        .fail(tonic::Status::permission_denied("no publishing here"))
        .await;
    let error = within("connect", connecting).await.unwrap().unwrap_err();
    let ackgate_client::Error::Status { code, message, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(
        (code, message.as_str()),
        (Code::PermissionDenied, "no publishing here")
    );
}

#[tokio::test]
async fn answer_that_is_no_ones_ends_the_publisher_and_leaves_its_records_open() {
    for first in [1, 0] {
        let mut gateway = Gateway::start().await;
        let (publisher, mut session) = gateway.publish().await;
        let receipt = publisher.send(numbered(0)).await;
        session.records(1).await;
        // The wrong number, or one answer more than there are records.
        let results = match first {
            0 => vec![written(0), written(1)],
            _ => vec![written(0)],
        };
        session
            .say(Response::Results(v1::PublishResults { first, results }))
            .await;
        let outcome = outcome(receipt).await;
        match first {
            0 => assert_eq!(outcome.unwrap().offset, Some(0)),
            _ => assert_eq!(outcome.unwrap_err().kind, NotWrittenKind::Unknown),
        }
        let late = within("a receipt", publisher.send(numbered(1)).await).await;
        assert_eq!(late.unwrap_err().kind, NotWrittenKind::NotSent);
        let error = publisher.error().unwrap();
        assert!(
            matches!(*error, ackgate_client::Error::Protocol(_)),
            "{error}"
        );
    }
}
