//! Workers: what handlers come to, how many at a time, in which order, and how it ends.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ackgate_client::{Error, HandlerError, Message, Order, WorkSummary};
use ackgate_proto::v1::{self, Outcome, subscribe_request::Request, subscribe_response::Response};
use tokio::{
    sync::{Notify, oneshot},
    task::JoinHandle,
};

use crate::support::{Gateway, Session, by_offset, last, within};

type Working = JoinHandle<Result<WorkSummary, Error>>;

/// Whether a record's work begins, its key and its offset.
type Step = (bool, Vec<u8>, i64);

async fn summary(working: Working) -> WorkSummary {
    within("the worker's end", working).await.unwrap().unwrap()
}

/// Reads to the goodbye, leaving out extensions; the verdicts.
async fn to_the_end(mut session: Session) -> Vec<v1::Verdict> {
    let mut verdicts = Vec::new();
    loop {
        match session.request().await {
            Some(Request::Settle(settle)) => verdicts.extend(settle.verdicts),
            Some(Request::Extend(_) | Request::Credit(_)) => {}
            Some(Request::Close(_)) => return verdicts,
            other => panic!("no goodbye but {other:?}"),
        }
    }
}

async fn outcome_of_each(message: Message) -> Result<(), HandlerError> {
    match message.offset() {
        0 => Ok(()),
        1 => Err(HandlerError::reject("bad", "never")),
        2 => Err(HandlerError::fail_after(
            "later",
            "busy",
            Duration::from_secs(7),
        )),
        3 => Err(HandlerError::release()),
        4 => Err(std::io::Error::other("unexpected"))?,
        5 => panic!("cannot happen"),
        _ => std::future::pending().await,
    }
}

#[tokio::test]
async fn verdict_is_what_came_of_the_handler() {
    let mut gateway = Gateway::start().await;
    let (subscriber, mut session) = gateway.subscribe().await;
    session.batch(1, 0..7).await;
    let (stop, stopped) = oneshot::channel::<()>();
    let worker = subscriber
        .worker()
        .concurrency(7)
        .handler_timeout(Duration::from_millis(50))
        .shutdown(async { drop(stopped.await) });
    let working = tokio::spawn(worker.run(outcome_of_each));
    let verdicts = session.verdicts(7).await;
    let said: std::collections::BTreeMap<i64, (Outcome, &str)> = verdicts
        .iter()
        .map(|it| (it.first_offset, (it.outcome(), it.code.as_str())))
        .collect();
    let wanted = [
        (0, (Outcome::Acked, "")),
        (1, (Outcome::Rejected, "bad")),
        (2, (Outcome::Failed, "later")),
        (3, (Outcome::Released, "")),
        (4, (Outcome::Failed, "handler")),
        (5, (Outcome::Failed, "handler-panic")),
        (6, (Outcome::Failed, "handler-timeout")),
    ];
    assert_eq!(said.into_iter().collect::<Vec<_>>(), wanted);
    let of = |offset| {
        verdicts
            .iter()
            .find(|it| it.first_offset == offset)
            .unwrap()
    };
    assert_eq!(of(4).reason, "unexpected");
    assert_eq!(of(5).reason, "cannot happen");
    drop(stop);
    assert_eq!(to_the_end(session).await, []);
    let summary = summary(working).await;
    assert_eq!(
        (
            summary.acked,
            summary.rejected,
            summary.failed,
            summary.released
        ),
        (1, 1, 4, 1)
    );
    assert_eq!((summary.panicked, summary.timed_out), (1, 1));
    assert_eq!(summary.stats.failed, 4);
}

#[tokio::test]
async fn no_more_than_asked_for_are_worked_on_at_a_time() {
    let mut gateway = Gateway::start().await;
    let (subscriber, session) = gateway.subscribe().await;
    session.batch(1, 0..40).await;
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&most);
    let handler = move |_message| {
        let (now, most) = (Arc::clone(&now), Arc::clone(&most));
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(2)).await;
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        }
    };
    let (stop, stopped) = oneshot::channel::<()>();
    let worker = subscriber.worker().concurrency(4);
    let worker = worker.shutdown(async { drop(stopped.await) });
    let working = tokio::spawn(worker.run(handler));
    let mut session = session;
    session.verdicts(40).await;
    drop(stop);
    to_the_end(session).await;
    assert_eq!(summary(working).await.acked, 40);
    assert_eq!(seen.load(Ordering::SeqCst), 4);
}

#[tokio::test]
async fn records_of_a_key_are_worked_on_one_after_the_other() {
    let mut gateway = Gateway::start().await;
    let (subscriber, session) = gateway.subscribe().await;
    // Odd offsets have no key, and no order; even ones have one each.
    let records = (0..20).map(|offset| v1::Record {
        key: (offset % 2 == 0).then(|| format!("{}", offset % 4).into()),
        offset,
        ..v1::Record::default()
    });
    let records = records
        .map(|record| crate::support::encoded(&record))
        .collect();
    let head = crate::support::head(1);
    let frame = ackgate_proto::Frame::Batch(ackgate_proto::EncodedBatch { head, records });
    session.outbound.send(Ok(frame)).await.unwrap();
    let seen: Arc<Mutex<Vec<Step>>> = Arc::default();
    let noted = Arc::clone(&seen);
    let handler = move |message: Message| {
        let noted = Arc::clone(&noted);
        async move {
            let key = message.key().unwrap_or(b"none").to_vec();
            let offset = message.offset();
            noted.lock().unwrap().push((true, key.clone(), offset));
            tokio::time::sleep(Duration::from_millis(2)).await;
            noted.lock().unwrap().push((false, key, offset));
            Ok(())
        }
    };
    let (stop, stopped) = oneshot::channel::<()>();
    let worker = subscriber.worker().concurrency(16).order(Order::Key);
    let worker = worker.shutdown(async { drop(stopped.await) });
    let working = tokio::spawn(worker.run(handler));
    let mut session = session;
    session.verdicts(20).await;
    drop(stop);
    to_the_end(session).await;
    summary(working).await;
    let seen = seen.lock().unwrap();
    for key in [b"0", b"2"] {
        let of_key: Vec<_> = seen.iter().filter(|it| it.1 == key).collect();
        assert_eq!(of_key.len(), 10);
        for pair in of_key.chunks(2) {
            assert!(
                pair[0].0 && !pair[1].0 && pair[0].2 == pair[1].2,
                "{of_key:?}"
            );
        }
        assert!(of_key.is_sorted_by_key(|it| it.2), "{of_key:?}");
    }
}

#[tokio::test]
async fn deadline_of_long_work_and_of_what_waits_is_moved() {
    let mut gateway = Gateway::start().await;
    let connecting = tokio::spawn(gateway.builder().connect());
    let mut session = gateway.session().await;
    let ack_deadline = Some(prost_types::Duration {
        seconds: 0,
        nanos: 90_000_000,
    });
    session
        .open_with(v1::Settings {
            ack_deadline,
            ..v1::Settings::default()
        })
        .await;
    let subscriber = within("connect", connecting).await.unwrap().unwrap();
    session.batch(1, 0..10).await;
    let go = Arc::new(Notify::new());
    let gate = Arc::clone(&go);
    let working = tokio::spawn(subscriber.run(move |_message| {
        let gate = Arc::clone(&gate);
        async move {
            gate.notified().await;
            Ok(())
        }
    }));
    for _ in 0..3 {
        let Some(Request::Extend(extend)) = session.request().await else {
            panic!("no Extend")
        };
        assert_eq!(extend.by, ack_deadline);
        let all: Vec<_> = extend.extensions.iter().collect();
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].first_offset, all[0].last_offset), (0, Some(9)));
    }
    working.abort();
    go.notify_waiters();
}

#[tokio::test]
async fn shutdown_finishes_what_was_begun_and_releases_the_rest() {
    let mut gateway = Gateway::start().await;
    let (subscriber, session) = gateway.subscribe().await;
    session.batch(1, 0..10).await;
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, gate) = (Arc::clone(&begun), Arc::clone(&go));
    let (stop, stopped) = oneshot::channel::<()>();
    let worker = subscriber
        .worker()
        .concurrency(2)
        .shutdown(async { drop(stopped.await) })
        .finish_within(Duration::from_millis(300));
    let working = tokio::spawn(worker.run(move |message: Message| {
        let (tell, gate) = (Arc::clone(&tell), Arc::clone(&gate));
        async move {
            if message.offset() == 1 {
                // Never done: it is cut off.
                tell.notify_one();
                std::future::pending::<()>().await;
            }
            gate.notified().await;
            Ok(())
        }
    }));
    within("two at work", begun.notified()).await;
    drop(stop);
    go.notify_one();
    let named = by_offset(&to_the_end(session).await);
    let outcomes: Vec<_> = named.values().map(|it| it.0).collect();
    let mut wanted = vec![Outcome::Released; 10];
    wanted[0] = Outcome::Acked;
    assert_eq!(outcomes, wanted);
    let summary = summary(working).await;
    assert_eq!(
        (summary.acked, summary.released, summary.cut_off),
        (1, 9, 1)
    );
}

#[tokio::test]
async fn failure_in_lane_order_keeps_later_records_back_until_it_comes_again() {
    let mut gateway = Gateway::start().await;
    let connecting = tokio::spawn(gateway.builder().connect());
    let mut session = gateway.session().await;
    session
        .open_with(v1::Settings {
            order: v1::Order::Lane.into(),
            ..v1::Settings::default()
        })
        .await;
    let subscriber = within("connect", connecting).await.unwrap().unwrap();
    session.batch(1, 0..5).await;
    let seen: Arc<Mutex<Vec<(i64, u32)>>> = Arc::default();
    let noted = Arc::clone(&seen);
    let (stop, stopped) = oneshot::channel::<()>();
    let worker = subscriber
        .worker()
        .concurrency(8)
        .shutdown(async { drop(stopped.await) });
    let working = tokio::spawn(worker.run(move |message: Message| {
        let at = (message.offset(), message.attempt());
        noted.lock().unwrap().push(at);
        async move {
            match at {
                (2, 1) => Err(HandlerError::fail("not yet")),
                _ => Ok(()),
            }
        }
    }));
    let verdicts = session.verdicts(3).await;
    assert_eq!(verdicts.iter().map(last).max(), Some(2));
    // One that was under way before the gateway knew of the failure, and is void with it.
    session.batch(1, [5]).await;
    session
        .say(Response::LaneEvent(v1::LaneEvent {
            lane: 1,
            kind: v1::LaneEventKind::Rewound.into(),
            first_offset: Some(2),
            ..v1::LaneEvent::default()
        }))
        .await;
    let again = |first_offset, last_offset, attempt, delivery| v1::Redelivery {
        first_offset,
        last_offset,
        attempt,
        delivery,
    };
    session
        .batch_with(1, 2..6, vec![again(2, 2, 2, 2), again(3, 5, 1, 2)])
        .await;
    let named = by_offset(&session.verdicts(4).await);
    assert!(
        named.values().all(|it| *it == (Outcome::Acked, Some(2))),
        "{named:?}"
    );
    drop(stop);
    to_the_end(session).await;
    summary(working).await;
    let wanted = [(0, 1), (1, 1), (2, 1), (2, 2), (3, 1), (4, 1), (5, 1)];
    assert_eq!(*seen.lock().unwrap(), wanted);
}
