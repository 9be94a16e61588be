//! What a program gets in hand, and what becomes of what it drops, leaves or splits.

use std::time::Duration;

use ackgate_client::Delivery;
use ackgate_proto::v1::{self, Outcome};

use crate::support::{Gateway, by_offset, deliveries, last, ranges, within};

#[tokio::test]
async fn dropped_delivery_is_failed() {
    let mut gateway = Gateway::start().await;
    let (mut subscriber, mut session) = gateway.subscribe().await;
    session.batch(1, [5]).await;
    drop(deliveries(&mut subscriber, 1).await);
    let verdicts = session.settle().await.verdicts;
    assert_eq!((verdicts.len(), verdicts[0].first_offset), (1, 5));
    assert_eq!(verdicts[0].outcome(), Outcome::Failed);
    assert_eq!(verdicts[0].code, "dropped");
    assert_eq!(verdicts[0].retry_after, None);
}

#[tokio::test]
async fn dropped_batch_fails_what_is_left_in_it() {
    let mut gateway = Gateway::start().await;
    let (mut subscriber, mut session) = gateway.subscribe().await;
    session.batch(1, 0..10).await;
    let mut batch = within("a batch", subscriber.next_batch())
        .await
        .unwrap()
        .unwrap();
    batch.next().unwrap().ack();
    assert_eq!(batch.len(), 9);
    drop(batch);
    let named = by_offset(&session.verdicts(10).await);
    let outcomes: Vec<_> = named.into_values().map(|(outcome, _)| outcome).collect();
    assert_eq!(outcomes[0], Outcome::Acked);
    assert_eq!(outcomes[1..], [Outcome::Failed; 9]);
}

#[tokio::test]
async fn delivery_that_is_left_gets_no_verdict() {
    let mut gateway = Gateway::start().await;
    let (mut subscriber, session) = gateway.subscribe().await;
    session.batch(1, 0..3).await;
    session.batch(1, 3..6).await;
    let mut taken = deliveries(&mut subscriber, 3).await;
    taken.pop().unwrap().ack();
    taken.into_iter().for_each(Delivery::leave);
    within("a batch", subscriber.next_batch())
        .await
        .unwrap()
        .unwrap()
        .leave_all();
    drop(subscriber);
    assert_eq!(ranges(&session.goodbye().await), [(2, 2)]);
}

#[tokio::test]
async fn parts_of_a_batch_can_be_answered_apart() {
    let mut gateway = Gateway::start().await;
    let builder = gateway.builder().flush(Duration::from_secs(60), 7);
    let (mut subscriber, mut session) = gateway.subscribe_with(builder).await;
    let again = v1::Redelivery {
        first_offset: 0,
        last_offset: 6,
        attempt: 2,
        delivery: 3,
    };
    session.batch_with(1, 0..7, vec![again]).await;
    let mut batch = within("a batch", subscriber.next_batch())
        .await
        .unwrap()
        .unwrap();
    let mut rest = batch.split_off(3);
    assert!(rest.split_off(10).is_empty());
    batch.ack_all();
    rest.reject_all("code", "reason");
    let verdicts = session.settle().await.verdicts;
    let said: Vec<_> = verdicts
        .iter()
        .map(|it| (it.first_offset, last(it), it.outcome()))
        .collect();
    assert_eq!(said, [(0, 2, Outcome::Acked), (3, 6, Outcome::Rejected)]);
    assert!(verdicts.iter().all(|it| it.delivery == Some(3)));
}

#[tokio::test]
async fn delivery_shows_the_record_as_it_is() {
    let mut gateway = Gateway::start().await;
    let (mut subscriber, session) = gateway.subscribe().await;
    let header = |key: &str, value: Option<&'static [u8]>| v1::Header {
        key: key.to_owned(),
        value: value.map(bytes::Bytes::from_static),
    };
    let record = v1::Record {
        offset: 41,
        timestamp_ms: 1_234,
        timestamp_type: v1::TimestampType::LogAppendTime.into(),
        key: Some(bytes::Bytes::new()),
        value: None,
        headers: vec![
            header("a", Some(b"1")),
            header("a", None),
            header("b", Some(b"")),
        ],
    };
    let batch = v1::Batch {
        records: vec![record],
        ..crate::support::head(1)
    };
    session
        .say(v1::subscribe_response::Response::Batch(batch))
        .await;
    let delivery = deliveries(&mut subscriber, 1).await.remove(0);
    assert_eq!(
        (delivery.topic(), delivery.partition(), delivery.epoch()),
        ("orders", 3, 7)
    );
    assert_eq!((delivery.offset(), delivery.timestamp_ms()), (41, 1_234));
    assert_eq!((delivery.key(), delivery.value()), (Some(&b""[..]), None));
    let headers: Vec<_> = delivery.headers().collect();
    assert_eq!(
        headers,
        [("a", Some(&b"1"[..])), ("a", None), ("b", Some(&b""[..]))]
    );
    assert_eq!(
        (delivery.header("a"), delivery.header("b")),
        (None, Some(&b""[..]))
    );
    delivery.ack();
}
