//! Sessions begin, end and follow each other.

use std::time::Duration;

use ackgate_client::{Confirm, Error, ProblemKind};
use ackgate_proto::v1::{self, Outcome, subscribe_request::Request, subscribe_response::Response};
use futures::StreamExt as _;
use tonic::Status;

use crate::support::{Gateway, Headers, by_offset, delivery, until, within};

fn seconds(seconds: i64) -> prost_types::Duration {
    prost_types::Duration { seconds, nanos: 0 }
}

#[tokio::test]
async fn open_says_what_the_builder_was_told() {
    let mut gateway = Gateway::start().await;
    let builder = gateway
        .builder()
        .subscriber_id("worker-1")
        .credit(100, 5_000)
        .max_message_bytes(1 << 20)
        .ack_deadline(Duration::from_secs(90))
        .confirm(Confirm::Applied)
        .filter("key == 'a'");
    let connecting = tokio::spawn(builder.connect());
    let mut session = gateway.session().await;
    let open = session.open().await;
    let subscriber = within("connect", connecting).await.unwrap().unwrap();
    let wanted = v1::Open {
        subscription: "orders".to_owned(),
        subscriber_id: "worker-1".to_owned(),
        credit: Some(v1::Credit {
            records: 100,
            bytes: 5_000,
        }),
        max_message_bytes: 1 << 20,
        confirm: v1::Confirm::Applied.into(),
        ack_deadline: Some(seconds(90)),
        filter: "key == 'a'".to_owned(),
        resumable: true,
        ..v1::Open::default()
    };
    assert_eq!(open, wanted);
    assert_eq!(
        (subscriber.session(), subscriber.subscriber_id()),
        ("s1".into(), "made-up".into())
    );
    subscriber.set_credit(0, 0);
    assert_eq!(
        session.request().await,
        Some(Request::Credit(v1::Credit {
            records: 0,
            bytes: 0
        }))
    );
}

#[tokio::test]
async fn gateway_that_wants_open_before_it_sends_headers_gets_it() {
    let mut gateway = Gateway::start_with(Headers::AfterOpen).await;
    let (mut subscriber, mut session) = gateway.subscribe().await;
    session.batch(1, [0]).await;
    delivery(&mut subscriber).await.ack();
    assert_eq!(by_offset(&session.verdicts(1).await).len(), 1);
}

#[tokio::test]
async fn killed_gateway_is_found_again_and_old_deliveries_no_longer_count() {
    let mut gateway = Gateway::start().await;
    let (mut subscriber, session) = gateway.subscribe().await;
    session.batch(1, 0..3).await;
    let held = delivery(&mut subscriber).await;
    let dropped = delivery(&mut subscriber).await;
    gateway.kill();
    drop(session);
    gateway.restart().await;
    let mut session = gateway.session().await;
    session.open().await;
    until(&subscriber, "a reconnect", |stats| stats.reconnects == 1).await;
    held.ack();
    drop(dropped);
    until(&subscriber, "two stale answers", |stats| {
        stats.stale_answers == 2
    })
    .await;
    let again = v1::Redelivery {
        first_offset: 0,
        last_offset: 2,
        attempt: 1,
        delivery: 2,
    };
    session.batch_with(1, 0..3, vec![again]).await;
    for offset in 0..3 {
        let delivery = delivery(&mut subscriber).await;
        assert_eq!((delivery.offset(), delivery.delivery_number()), (offset, 2));
        delivery.ack();
    }
    let named = by_offset(&session.verdicts(3).await);
    assert!(
        named
            .values()
            .all(|said| *said == (Outcome::Acked, Some(2)))
    );
    let stats = subscriber.stats();
    // Offset 2 of the first session was never in the program's hands.
    assert_eq!(
        (stats.records, stats.acked, stats.failed, stats.discarded),
        (6, 3, 0, 1)
    );
}

#[tokio::test]
async fn unavailable_and_an_end_without_a_word_are_gone_over() {
    let mut gateway = Gateway::start().await;
    let (mut subscriber, session) = gateway.subscribe().await;
    session.fail(Status::unavailable("restarting")).await;
    let mut session = gateway.session().await;
    session.open().await;
    drop(session);
    let mut session = gateway.session().await;
    session.open().await;
    session.batch(1, [7]).await;
    assert_eq!(delivery(&mut subscriber).await.offset(), 7);
    assert_eq!(subscriber.stats().reconnects, 2);
}

#[tokio::test]
async fn silent_gateway_is_left() {
    let mut gateway = Gateway::start().await;
    let connecting = tokio::spawn(gateway.builder().connect());
    let mut session = gateway.session().await;
    let ping_interval = Some(prost_types::Duration {
        seconds: 0,
        nanos: 20_000_000,
    });
    session
        .open_with(v1::Settings {
            ping_interval,
            ..v1::Settings::default()
        })
        .await;
    let _subscriber = within("connect", connecting).await.unwrap().unwrap();
    // The first session is still there, and says nothing.
    gateway.session().await.open().await;
    drop(session);
}

#[tokio::test]
async fn drained_subscriber_answers_what_is_out_says_goodbye_and_comes_again() {
    let mut gateway = Gateway::start().await;
    let (mut subscriber, session) = gateway.subscribe().await;
    session.batch(1, 0..2).await;
    session
        .say(Response::Drain(v1::Drain {
            deadline: Some(seconds(30)),
            ..v1::Drain::default()
        }))
        .await;
    delivery(&mut subscriber).await.ack();
    delivery(&mut subscriber).await.release();
    let named = by_offset(&session.goodbye().await);
    let outcomes: Vec<_> = named.into_values().map(|(outcome, _)| outcome).collect();
    assert_eq!(outcomes, [Outcome::Acked, Outcome::Released]);
    let mut session = gateway.session().await;
    session.open().await;
    session.batch(1, [2]).await;
    let next = delivery(&mut subscriber).await;
    assert_eq!(next.offset(), 2);
    // The goodbye was for the session that drained: this one goes on.
    next.ack();
    let verdicts = session.verdicts(1).await;
    assert_eq!(verdicts[0].outcome(), Outcome::Acked);
    session.batch(1, [3]).await;
    delivery(&mut subscriber).await.ack();
    session.verdicts(1).await;
}

#[tokio::test]
async fn idle_subscriber_leaves_a_draining_gateway_at_once() {
    let mut gateway = Gateway::start().await;
    let (_subscriber, session) = gateway.subscribe().await;
    session.say(Response::Drain(v1::Drain::default())).await;
    assert_eq!(session.goodbye().await, []);
    gateway.session().await.open().await;
}

#[tokio::test]
async fn close_sends_what_was_gathered_and_says_goodbye() {
    let mut gateway = Gateway::start().await;
    let builder = gateway.builder().flush(Duration::from_secs(60), 1_000);
    let (mut subscriber, session) = gateway.subscribe_with(builder).await;
    session.batch(1, 0..10).await;
    let late = delivery(&mut subscriber).await;
    for _ in 1..4 {
        delivery(&mut subscriber).await.ack();
    }
    let closing = tokio::spawn(async move {
        let closed = subscriber.close().await;
        assert!(
            subscriber.next().await.is_none(),
            "a closed stream has ended"
        );
        assert_eq!(subscriber.close().await.unwrap(), subscriber.stats());
        closed
    });
    let named = by_offset(&session.goodbye().await);
    let offsets: Vec<_> = named.into_keys().map(|(_, offset)| offset).collect();
    assert_eq!(
        offsets,
        [1, 2, 3],
        "what was not read is left to the gateway"
    );
    let stats = within("close", closing).await.unwrap().unwrap();
    assert_eq!((stats.acked, stats.failed, stats.discarded), (3, 0, 6));
    late.ack();
}

#[tokio::test]
async fn dropped_subscriber_says_goodbye_too() {
    let mut gateway = Gateway::start().await;
    let (mut subscriber, session) = gateway.subscribe().await;
    session.batch(1, 0..10).await;
    delivery(&mut subscriber).await.ack();
    drop(subscriber);
    assert_eq!(by_offset(&session.goodbye().await).len(), 1);
}

#[tokio::test]
async fn close_does_not_wait_for_ever() {
    let mut gateway = Gateway::start().await;
    let builder = gateway.builder().close_timeout(Duration::from_millis(20));
    let (mut subscriber, _session) = gateway.subscribe_with(builder).await;
    let result = within("close", subscriber.close()).await;
    assert!(matches!(result, Err(Error::NotClosed(_))), "{result:?}");
}

#[tokio::test]
async fn close_while_the_gateway_is_away_ends_at_once() {
    let mut gateway = Gateway::start().await;
    let builder = gateway
        .builder()
        .backoff(Duration::from_secs(60), Duration::from_secs(60));
    let (mut subscriber, session) = gateway.subscribe_with(builder).await;
    session.batch(1, [0]).await;
    let held = delivery(&mut subscriber).await;
    gateway.kill();
    drop(session);
    drop(held);
    within("close", subscriber.close()).await.ok();
}

#[tokio::test]
async fn problems_name_the_record_and_are_counted_by_kind() {
    let mut gateway = Gateway::start().await;
    let builder = gateway.builder().confirm(Confirm::Applied);
    let (mut subscriber, mut session) = gateway.subscribe_with(builder).await;
    session.batch(5, [0]).await;
    delivery(&mut subscriber).await.ack();
    let sequence = session.settle().await.sequence;
    session
        .say(Response::Settled(v1::Settled {
            sequence,
            answers: Vec::new(),
            more: false,
        }))
        .await;
    let answer = |lane, result: v1::VerdictResult| v1::VerdictAnswer {
        lane,
        first_offset: 3,
        last_offset: 4,
        result: result.into(),
        detail: String::new(),
    };
    let answers = vec![
        answer(5, v1::VerdictResult::Stale),
        answer(6, v1::VerdictResult::Fenced),
    ];
    session
        .say(Response::Settled(v1::Settled {
            sequence,
            answers,
            more: false,
        }))
        .await;
    until(&subscriber, "two problems", |stats| {
        stats.problems.iter().sum::<u64>() == 2
    })
    .await;
    let stats = subscriber.stats();
    assert_eq!(stats.problems_of(ProblemKind::Stale), 1);
    assert_eq!(stats.problems_of(ProblemKind::Fenced), 1);
    assert_eq!(stats.confirmed, 1);
    let problems = subscriber.problems();
    let said: Vec<_> = problems
        .iter()
        .map(|it| (it.topic.as_str(), it.partition, it.last_offset))
        .collect();
    assert_eq!(said, [("orders", 3, 4), ("", -1, 4)]);
    assert!(subscriber.problems().is_empty());
}

#[tokio::test]
async fn pings_events_and_unknown_messages_are_no_deliveries() {
    let mut gateway = Gateway::start().await;
    let (mut subscriber, session) = gateway.subscribe().await;
    session.say(Response::Ping(v1::Ping {})).await;
    session
        .say(Response::LaneEvent(v1::LaneEvent::default()))
        .await;
    let unknown = ackgate_proto::Frame::Message(v1::SubscribeResponse { response: None });
    session.outbound.send(Ok(unknown)).await.unwrap();
    session.batch(1, [1]).await;
    assert_eq!(delivery(&mut subscriber).await.offset(), 1);
}
