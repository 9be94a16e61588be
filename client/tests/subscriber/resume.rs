//! Streams that break and are gone on with: what is in hand, and what became of it.

use std::time::Duration;

use ackgate_client::{Code, Error, ProblemKind, Subscriber};
use ackgate_proto::v1::{
    self, Outcome, ResumeResult, subscribe_request::Request, subscribe_response::Response,
};
use futures::StreamExt as _;
use tonic::Status;

use crate::support::{Gateway, Session, by_offset, delivery, until, within};

/// Reads `Open` and answers it with a token and what became of the manifest.
async fn opens(session: &mut Session, resumed: Vec<v1::ResumeAnswer>) -> v1::Open {
    let Some(Request::Open(open)) = session.request().await else {
        panic!("no Open")
    };
    session
        .say(Response::Opened(v1::Opened {
            session: "s1".to_owned(),
            subscriber_id: "made-up".to_owned(),
            protocol_version: 1,
            settings: Some(v1::Settings::default()),
            resumed,
            resume_token: "token".to_owned(),
        }))
        .await;
    open
}

fn answer(
    first_offset: i64,
    last_offset: i64,
    result: ResumeResult,
    lane: u64,
) -> v1::ResumeAnswer {
    v1::ResumeAnswer {
        topic: "orders".to_owned(),
        partition: 3,
        first_offset,
        last_offset,
        result: result.into(),
        lane,
    }
}

async fn subscribe(gateway: &mut Gateway) -> (Subscriber, Session) {
    let builder = gateway.builder().flush(Duration::from_millis(1), 1_000);
    let connecting = tokio::spawn(builder.connect());
    let mut session = gateway.session().await;
    let open = opens(&mut session, Vec::new()).await;
    assert!(open.resumable);
    assert_eq!(open.resume, None);
    let subscriber = within("connect", connecting).await.unwrap().unwrap();
    (subscriber, session)
}

fn named(open: &v1::Open) -> Vec<(i64, i64, Option<u32>)> {
    let resume = open.resume.as_ref().expect("it goes on");
    assert_eq!(resume.token, "token");
    assert_eq!(open.subscriber_id, "made-up", "the name that it was given");
    let mut runs: Vec<_> = resume
        .held
        .iter()
        .inspect(|held| {
            assert_eq!(
                (held.topic.as_str(), held.partition, held.epoch),
                ("orders", 3, 7)
            );
        })
        .map(|held| (held.first_offset, held.last_offset, held.delivery))
        .collect();
    runs.sort_unstable();
    runs
}

#[tokio::test]
async fn kept_deliveries_are_answered_in_the_next_session_under_the_lane_it_names() {
    let mut gateway = Gateway::start().await;
    let (mut subscriber, mut session) = subscribe(&mut gateway).await;
    session.batch(1, 0..6).await;
    delivery(&mut subscriber).await.ack();
    session.verdicts(1).await;
    let (kept, moved) = (
        delivery(&mut subscriber).await,
        delivery(&mut subscriber).await,
    );
    session.fail(Status::unavailable("cut")).await;
    let mut session = gateway.session().await;
    let open = opens(
        &mut session,
        vec![
            answer(1, 1, ResumeResult::Kept, 9),
            answer(2, 4, ResumeResult::Kept, 9),
            answer(5, 5, ResumeResult::Lost, 0),
        ],
    )
    .await;
    assert_eq!(named(&open), [(1, 5, Some(1))]);
    until(&subscriber, "a reconnect", |stats| stats.reconnects == 1).await;
    kept.ack();
    moved.release();
    // What had not been handed out yet, and is kept; the last one is not.
    delivery(&mut subscriber).await.ack();
    delivery(&mut subscriber).await.ack();
    session.batch(9, [6]).await;
    let next = delivery(&mut subscriber).await;
    assert_eq!(next.offset(), 6, "5 is lost");
    next.ack();
    let said = by_offset(&session.verdicts(5).await);
    let said: Vec<_> = said
        .into_iter()
        .map(|(at, (outcome, _))| (at, outcome))
        .collect();
    assert_eq!(
        said,
        [
            ((9, 1), Outcome::Acked),
            ((9, 2), Outcome::Released),
            ((9, 3), Outcome::Acked),
            ((9, 4), Outcome::Acked),
            ((9, 6), Outcome::Acked)
        ]
    );
    let stats = subscriber.stats();
    assert_eq!((stats.stale_answers, stats.discarded), (0, 1));
}

#[tokio::test]
async fn verdict_on_a_lost_delivery_says_so_and_is_not_sent() {
    let mut gateway = Gateway::start().await;
    let (mut subscriber, session) = subscribe(&mut gateway).await;
    session.batch(1, 0..4).await;
    let mut hands = Vec::new();
    for _ in 0..4 {
        hands.push(delivery(&mut subscriber).await);
    }
    session.fail(Status::unavailable("cut")).await;
    let mut session = gateway.session().await;
    opens(
        &mut session,
        vec![
            answer(0, 0, ResumeResult::Settled, 0),
            answer(1, 2, ResumeResult::Lost, 0),
            answer(3, 3, ResumeResult::Kept, 1),
        ],
    )
    .await;
    until(&subscriber, "a reconnect", |stats| stats.reconnects == 1).await;
    for hand in hands {
        hand.ack();
    }
    let said = by_offset(&session.verdicts(1).await);
    assert_eq!(said.keys().copied().collect::<Vec<_>>(), [(1, 3)]);
    let stats = subscriber.stats();
    assert_eq!(stats.problems_of(ProblemKind::Lost), 3);
    assert_eq!(stats.stale_answers, 3);
    let problems = subscriber.problems();
    let told: Vec<_> = problems
        .iter()
        .map(|problem| {
            (
                problem.topic.as_str(),
                problem.partition,
                problem.first_offset,
            )
        })
        .collect();
    assert_eq!(told, [("orders", 3, 0), ("orders", 3, 1), ("orders", 3, 2)]);
}

#[tokio::test]
async fn verdicts_that_did_not_get_out_are_named_and_sent_again() {
    let mut gateway = Gateway::start().await;
    let builder = gateway.builder().flush(Duration::from_secs(60), 1_000);
    let connecting = tokio::spawn(builder.connect());
    let mut session = gateway.session().await;
    opens(&mut session, Vec::new()).await;
    let mut subscriber = within("connect", connecting).await.unwrap().unwrap();
    session.batch(1, 0..4).await;
    delivery(&mut subscriber).await.ack();
    delivery(&mut subscriber).await.reject("bad", "really");
    delivery(&mut subscriber).await.ack();
    let leave = delivery(&mut subscriber).await;
    leave.leave();
    session.fail(Status::unavailable("cut")).await;
    let mut session = gateway.session().await;
    let open = opens(
        &mut session,
        vec![
            answer(0, 1, ResumeResult::Kept, 1),
            answer(2, 2, ResumeResult::Lost, 0),
        ],
    )
    .await;
    assert_eq!(
        named(&open),
        [(0, 0, Some(1)), (1, 1, Some(1)), (2, 2, Some(1))],
        "what was left is not worked on"
    );
    until(&subscriber, "a reconnect", |stats| stats.reconnects == 1).await;
    let closing = tokio::spawn(async move { subscriber.close().await });
    let said = by_offset(&session.goodbye().await);
    let said: Vec<_> = said
        .into_iter()
        .map(|((_, at), (outcome, _))| (at, outcome))
        .collect();
    assert_eq!(said, [(0, Outcome::Acked), (1, Outcome::Rejected)]);
    let stats = within("close", closing).await.unwrap().unwrap();
    assert_eq!(stats.stale_answers, 1);
}

#[tokio::test]
async fn wait_for_durability_goes_on_with_its_delivery() {
    let mut gateway = Gateway::start().await;
    let builder = gateway.builder().confirm(ackgate_client::Confirm::Durable);
    let connecting = tokio::spawn(builder.connect());
    let mut session = gateway.session().await;
    opens(&mut session, Vec::new()).await;
    let mut subscriber = within("connect", connecting).await.unwrap().unwrap();
    session.batch(1, 0..2).await;
    let (kept, lost) = (
        delivery(&mut subscriber).await,
        delivery(&mut subscriber).await,
    );
    session.fail(Status::unavailable("cut")).await;
    let mut session = gateway.session().await;
    let (kept, lost) = (kept.ack_durably(), lost.ack_durably());
    opens(&mut session, vec![answer(0, 0, ResumeResult::Kept, 9)]).await;
    let sequence = session.settle().await.sequence;
    let answers = Vec::new();
    session
        .say(Response::Settled(v1::Settled {
            sequence,
            answers,
            more: false,
        }))
        .await;
    assert_eq!(within("the answer", kept).await, Ok(()));
    assert!(within("the answer", lost).await.is_err());
}

#[tokio::test]
async fn nothing_is_handed_out_while_it_is_open_whether_it_was_kept() {
    let mut gateway = Gateway::start().await;
    let (mut subscriber, session) = subscribe(&mut gateway).await;
    session.batch(1, 0..2).await;
    delivery(&mut subscriber).await.ack();
    session.fail(Status::unavailable("cut")).await;
    let mut session = gateway.session().await;
    // The stream is there, the answer is not.
    let early = tokio::time::timeout(Duration::from_millis(50), subscriber.next()).await;
    assert!(early.is_err(), "{early:?}");
    opens(&mut session, vec![answer(1, 1, ResumeResult::Kept, 1)]).await;
    assert_eq!(delivery(&mut subscriber).await.offset(), 1);
}

#[tokio::test]
async fn superseded_subscriber_does_not_come_again() {
    let mut gateway = Gateway::start().await;
    let (mut subscriber, session) = subscribe(&mut gateway).await;
    let mut details = tonic_types::ErrorDetails::new();
    details.set_error_info(
        "SUPERSEDED",
        "ackgate",
        std::collections::HashMap::<String, String>::new(),
    );
    let status =
        <Status as tonic_types::StatusExt>::with_error_details(Code::Aborted, "taken", details);
    session.fail(status).await;
    let end = within("the end", subscriber.next()).await;
    let Some(Err(error @ Error::Status { .. })) = end else {
        panic!("{end:?}")
    };
    assert_eq!(error.reason(), Some("SUPERSEDED"));
    assert!(!error.is_retryable());
    assert!(subscriber.next().await.is_none());
}

#[tokio::test]
async fn takeover_is_asked_for_once_and_resuming_only_if_wanted() {
    let mut gateway = Gateway::start().await;
    let builder = gateway.builder().takeover(true).resumable(false);
    let connecting = tokio::spawn(builder.connect());
    let mut session = gateway.session().await;
    let open = session.open().await;
    assert!(open.takeover && !open.resumable);
    let mut subscriber = within("connect", connecting).await.unwrap().unwrap();
    session.batch(1, 0..1).await;
    let held = delivery(&mut subscriber).await;
    session.fail(Status::unavailable("cut")).await;
    let mut session = gateway.session().await;
    let open = session.open().await;
    assert!(!open.takeover);
    assert_eq!((open.resume, open.subscriber_id.as_str()), (None, ""));
    until(&subscriber, "a reconnect", |stats| stats.reconnects == 1).await;
    held.ack();
    assert_eq!(subscriber.stats().problems_of(ProblemKind::Lost), 1);
}

#[tokio::test]
async fn beats_come_on_a_timer_whether_there_is_work_or_not() {
    let mut gateway = Gateway::start().await;
    let connecting = tokio::spawn(gateway.builder().connect());
    let mut session = gateway.session().await;
    session
        .open_with(v1::Settings {
            lease_beat: Some(prost_types::Duration {
                seconds: 0,
                nanos: 10_000_000,
            }),
            ..v1::Settings::default()
        })
        .await;
    let mut subscriber = within("connect", connecting).await.unwrap().unwrap();
    session.batch(1, 0..2).await;
    // It works on this for as long as the test lasts.
    let _held = delivery(&mut subscriber).await;
    for _ in 0..5 {
        assert_eq!(session.request().await, Some(Request::Beat(v1::Beat {})));
    }
}
