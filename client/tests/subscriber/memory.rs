//! What a subscriber keeps is bounded, whatever the gateway and the program do.

use std::time::Duration;

use ackgate_client::ProblemKind;
use ackgate_proto::v1::{self, subscribe_response::Response};
use futures::StreamExt as _;

use crate::support::{Gateway, until, within};

#[tokio::test]
async fn gateway_that_ignores_the_credit_is_held_back() {
    let mut gateway = Gateway::start().await;
    let builder = gateway.builder().credit(10, 1 << 20);
    let (mut subscriber, session) = gateway.subscribe_with(builder).await;
    let flood = tokio::spawn(async move {
        for offset in 0..100 {
            session.batch(1, [offset]).await;
        }
        session
    });
    // Ten in the queue, one in the reader's hand.
    until(&subscriber, "the queue is full", |stats| {
        stats.batches == 11
    })
    .await;
    let more = until(&subscriber, "more", |stats| stats.batches > 11);
    assert!(
        tokio::time::timeout(Duration::from_millis(200), more)
            .await
            .is_err()
    );
    for offset in 0..100 {
        let delivery = within("a delivery", subscriber.next())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(delivery.offset(), offset);
        delivery.ack();
    }
    within("the flood", flood).await.unwrap();
}

#[tokio::test]
async fn unread_problems_push_out_the_oldest() {
    let mut gateway = Gateway::start().await;
    let (subscriber, session) = gateway.subscribe().await;
    for offset in 0..1_500 {
        let answer = v1::VerdictAnswer {
            lane: 1,
            first_offset: offset,
            last_offset: offset,
            result: v1::VerdictResult::Unknown.into(),
            detail: String::new(),
        };
        session
            .say(Response::Settled(v1::Settled {
                sequence: 1,
                answers: vec![answer],
                more: false,
            }))
            .await;
    }
    let unknown = ProblemKind::Unknown;
    until(&subscriber, "all problems", |stats| {
        stats.problems_of(unknown) == 1_500
    })
    .await;
    let problems = subscriber.problems();
    assert_eq!((problems.len(), problems[0].first_offset), (1_000, 500));
    assert_eq!(subscriber.stats().problems_dropped, 500);
}
