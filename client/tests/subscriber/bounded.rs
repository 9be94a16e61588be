//! Openings beyond a name: ad hoc, with options and batches, until nothing is left.

use std::time::{Duration, UNIX_EPOCH};

use ackgate_client::{
    Batches, DeliveryMode, Error, OnReject, Order, Start, Subscriber, SubscriptionOptions,
};
use ackgate_proto::v1;
use futures::StreamExt as _;
use tonic::Status;

use crate::support::{Gateway, within};

fn options() -> SubscriptionOptions {
    SubscriptionOptions::new()
        .delivery(DeliveryMode::Competing)
        .order(Order::Key)
        .start(Start::At(UNIX_EPOCH + Duration::from_millis(1_500)))
        .ack_deadline(Duration::from_secs(7))
        .max_attempts(3)
        .max_deliveries(9)
        .on_reject(OnReject::DeadLetter)
        .dead_letter_topic("dead")
        .filter("key == 'a'")
        .min_age(Duration::from_secs(86_400))
}

fn on_the_wire() -> v1::SubscriptionOptions {
    let at = v1::start::At::Timestamp(prost_types::Timestamp {
        seconds: 1,
        nanos: 500_000_000,
    });
    let seconds = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
    v1::SubscriptionOptions {
        delivery: v1::Delivery::Competing.into(),
        order: v1::Order::Key.into(),
        start: Some(v1::Start { at: Some(at) }),
        ack_deadline: seconds(7),
        max_attempts: Some(3),
        max_deliveries: Some(9),
        on_reject: v1::OnReject::DeadLetter.into(),
        dead_letter_topic: Some("dead".to_owned()),
        filter: Some("key == 'a'".to_owned()),
        min_age: seconds(86_400),
    }
}

#[tokio::test]
async fn ad_hoc_opening_says_what_it_was_told() {
    let mut gateway = Gateway::start().await;
    let builder = Subscriber::ad_hoc(
        format!("http://{}", gateway.address),
        "main",
        ["b", "a"],
        "g",
    )
    .options(options())
    .batches(
        Batches::new()
            .max_records(10)
            .max_bytes(4_096)
            .linger(Duration::ZERO)
            .min_fill(0.5),
    )
    .until_drained();
    let connecting = tokio::spawn(builder.connect());
    let mut session = gateway.session().await;
    let open = session.open().await;
    let _subscriber = within("connect", connecting).await.unwrap().unwrap();
    let ad_hoc = v1::AdHoc {
        cluster: "main".to_owned(),
        topics: vec!["b".to_owned(), "a".to_owned()],
        group: "g".to_owned(),
        options: Some(on_the_wire()),
    };
    assert_eq!(open.subscription, "");
    assert_eq!(open.ad_hoc, Some(ad_hoc));
    assert_eq!(open.expect, None);
    assert!(open.until_drained);
    let batch = v1::BatchOptions {
        max_records: 10,
        max_bytes: 4_096,
        linger: Some(prost_types::Duration::default()),
        min_fill: 0.5,
    };
    assert_eq!(open.batch, Some(batch));
}

#[tokio::test]
async fn options_of_a_named_subscription_are_what_is_expected_of_it() {
    let mut gateway = Gateway::start().await;
    let connecting = tokio::spawn(gateway.builder().options(options()).connect());
    let mut session = gateway.session().await;
    let open = session.open().await;
    let _subscriber = within("connect", connecting).await.unwrap().unwrap();
    assert_eq!(open.subscription, "orders");
    assert_eq!(open.expect, Some(on_the_wire()));
    assert_eq!(open.ad_hoc, None);
}

#[tokio::test]
async fn drained_stream_ends_without_an_error() {
    let mut gateway = Gateway::start().await;
    let builder = gateway.builder().until_drained();
    let (mut subscriber, mut session) = gateway.subscribe_with(builder).await;
    session.batch(1, [0]).await;
    let delivery = within("a delivery", subscriber.next()).await.unwrap();
    delivery.unwrap().ack();
    session.verdicts(1).await;
    drop(session);
    assert!(within("the end", subscriber.next()).await.is_none());
    let stats = within("close", subscriber.close()).await.unwrap();
    assert_eq!((stats.acked, stats.reconnects), (1, 0));
}

#[tokio::test]
async fn lost_stream_is_opened_again_until_it_is_drained() {
    let mut gateway = Gateway::start().await;
    let builder = gateway.builder().until_drained();
    let (mut subscriber, session) = gateway.subscribe_with(builder).await;
    session.fail(Status::unavailable("stopping")).await;
    let mut session = gateway.session().await;
    assert!(session.open().await.until_drained);
    drop(session);
    assert!(within("the end", subscriber.next()).await.is_none());
}

#[tokio::test]
async fn what_is_out_of_range_is_refused_before_anything_is_sent() {
    let address = "http://127.0.0.1:1";
    let none: [&str; 0] = [];
    let wrong = [
        (Subscriber::ad_hoc(address, "", ["a"], "g"), "cluster"),
        (Subscriber::ad_hoc(address, "c", none, "g"), "topics"),
        (Subscriber::ad_hoc(address, "c", ["a"], ""), "group"),
    ];
    for (builder, name) in wrong {
        let error = builder.connect().await.unwrap_err();
        assert!(
            matches!(error, Error::Option { option, .. } if option == name),
            "{error}"
        );
    }
    for batches in [
        Batches::new().max_records(0),
        Batches::new().max_bytes(1),
        Batches::new().linger(Duration::from_secs(61)),
        Batches::new().min_fill(f64::NAN),
    ] {
        let builder = Subscriber::builder(address, "orders").batches(batches);
        let error = builder.connect().await.unwrap_err();
        assert!(
            matches!(
                error,
                Error::Option {
                    option: "batches",
                    ..
                }
            ),
            "{error}"
        );
    }
}
