//! Waits for durable verdicts: what the gateway says ends each of them, or the end of
//! the session does.

use std::time::Duration;

use ackgate_client::{Confirm, Durable, NotDurable, ProblemKind, Subscriber};
use ackgate_proto::v1::{self, Outcome, VerdictResult, subscribe_response::Response};
use futures::FutureExt as _;
use tonic::Status;

use crate::support::{Gateway, Session, by_offset, deliveries, delivery, until, within};

async fn durable(gateway: &mut Gateway) -> (Subscriber, Session) {
    let builder = gateway.builder().confirm(Confirm::Durable);
    gateway.subscribe_with(builder).await
}

fn answer(offset: i64, result: VerdictResult) -> v1::VerdictAnswer {
    v1::VerdictAnswer {
        lane: 1,
        first_offset: offset,
        last_offset: offset,
        result: result.into(),
        detail: String::new(),
    }
}

async fn settled(session: &Session, sequence: u64, answers: Vec<v1::VerdictAnswer>, more: bool) {
    let settled = v1::Settled {
        sequence,
        answers,
        more,
    };
    session.say(Response::Settled(settled)).await;
}

async fn told(durable: Durable) -> Result<(), NotDurable> {
    within("an answer", durable).await
}

#[tokio::test]
async fn wait_lasts_until_the_gateway_confirms_its_own_message() {
    let mut gateway = Gateway::start().await;
    let (mut subscriber, mut session) = durable(&mut gateway).await;
    session.batch(1, 0..2).await;
    let mut first = delivery(&mut subscriber).await.ack_durably();
    let one = session.settle().await;
    let mut second = delivery(&mut subscriber).await.reject_durably("c", "r");
    let two = session.settle().await;
    assert_eq!(
        (one.verdicts[0].outcome(), two.verdicts[0].outcome()),
        (Outcome::Acked, Outcome::Rejected)
    );
    assert_eq!((&mut first).now_or_never(), None, "nobody has confirmed it");
    settled(&session, two.sequence, Vec::new(), false).await;
    assert_eq!(within("an answer", &mut second).await, Ok(()));
    assert_eq!(
        (&mut first).now_or_never(),
        None,
        "that was another message"
    );
    settled(&session, one.sequence, Vec::new(), false).await;
    assert_eq!(told(first).await, Ok(()));
    until(&subscriber, "two confirmations", |stats| {
        stats.confirmed == 2
    })
    .await;
}

#[tokio::test]
async fn wait_ends_with_the_problem_of_its_record() {
    let mut gateway = Gateway::start().await;
    let builder = gateway
        .builder()
        .confirm(Confirm::Durable)
        .flush(Duration::from_secs(60), 4);
    let (mut subscriber, mut session) = gateway.subscribe_with(builder).await;
    session.batch(1, 0..4).await;
    let hands = deliveries(&mut subscriber, 4).await;
    let waits: Vec<Durable> = hands.into_iter().map(|it| it.ack_durably()).collect();
    let settle = session.settle().await;
    assert_eq!(by_offset(&settle.verdicts).len(), 4);
    // An answer in two parts counts as one.
    let stale = vec![answer(0, VerdictResult::Stale)];
    settled(&session, settle.sequence, stale, true).await;
    let rest = vec![
        answer(1, VerdictResult::Fenced),
        answer(2, VerdictResult::Duplicate),
    ];
    settled(&session, settle.sequence, rest, false).await;
    let mut said = Vec::new();
    for wait in waits {
        said.push(told(wait).await);
    }
    assert_eq!(
        said,
        [
            Err(NotDurable::Problem(ProblemKind::Stale)),
            Err(NotDurable::Problem(ProblemKind::Fenced)),
            Ok(()),
            Ok(())
        ]
    );
}

#[tokio::test]
async fn wait_ends_with_its_session() {
    let mut gateway = Gateway::start().await;
    let (mut subscriber, mut session) = durable(&mut gateway).await;
    session.batch(1, 0..2).await;
    let sent = delivery(&mut subscriber).await.ack_durably();
    session.settle().await;
    session.fail(Status::unavailable("cut")).await;
    assert_eq!(told(sent).await, Err(NotDurable::SessionEnded));
    // The next one knows nothing of what the first brought.
    let mut session = gateway.session().await;
    session.open().await;
    until(&subscriber, "a reconnect", |stats| stats.reconnects == 1).await;
    session.batch(2, [7]).await;
    let again = delivery(&mut subscriber).await.ack_durably();
    let sequence = session.settle().await.sequence;
    settled(&session, sequence, Vec::new(), false).await;
    assert_eq!(told(again).await, Ok(()));
}

#[tokio::test]
async fn close_waits_for_the_confirmation() {
    let mut gateway = Gateway::start().await;
    let (mut subscriber, mut session) = durable(&mut gateway).await;
    session.batch(1, [0]).await;
    let wait = delivery(&mut subscriber).await.ack_durably();
    let closing = tokio::spawn(async move { subscriber.close().await });
    let sequence = session.settle().await.sequence;
    let early = tokio::time::timeout(Duration::from_millis(50), session.request()).await;
    assert!(early.is_err(), "{early:?}");
    settled(&session, sequence, Vec::new(), false).await;
    session.goodbye().await;
    within("close", closing).await.unwrap().unwrap();
    assert_eq!(told(wait).await, Ok(()));
}

#[tokio::test]
async fn wait_without_durable_confirmations_ends_at_once_and_the_verdict_is_given() {
    let mut gateway = Gateway::start().await;
    let builder = gateway.builder().confirm(Confirm::Applied);
    let (mut subscriber, mut session) = gateway.subscribe_with(builder).await;
    session.batch(1, [0]).await;
    let wait = delivery(&mut subscriber).await.ack_durably();
    assert_eq!(told(wait).await, Err(NotDurable::NotAsked));
    assert_eq!(session.settle().await.verdicts[0].outcome(), Outcome::Acked);
}
