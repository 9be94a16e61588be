//! The client crate's worker on real gateways: verdicts by what handlers return, order, and
//! work that takes longer than its deadline.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use ackgate_client::{HandlerError, Message, Subscriber};
use tokio::{sync::Notify, time::timeout};

use crate::support::{Case, Gateway, PATIENCE, Stage, cases};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        both: worker_keeps_lanes_in_order_over_failures_and_panics;
        embedded: work_longer_than_the_deadline_is_done_once,
            shutdown_of_a_worker_loses_and_repeats_nothing;
    ]
}

async fn subscriber(gateway: &Gateway) -> Subscriber {
    Subscriber::builder(gateway.address.to_string(), "orders")
        .credit(32, 1 << 20)
        .until_drained()
        .connect()
        .await
        .expect("it connects")
}

type Seen = Arc<Mutex<BTreeMap<i32, Vec<(i64, u32)>>>>;

// L9: nothing of a lane is worked on before what failed below it.
async fn worker_keeps_lanes_in_order_over_failures_and_panics(stage: Stage) {
    let topic = stage.topic("orders", 2).await;
    let values: Vec<String> = (0..30).map(|it| it.to_string()).collect();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    for partition in 0..2 {
        stage.produce_to(&topic, partition, &values).await;
    }
    let subscription = stage.subscription(&topic).in_lane_order();
    let gateway = stage.gateway(&[subscription]).await;
    let seen: Seen = Arc::default();
    let noted = Arc::clone(&seen);
    let handler = move |message: Message| {
        let at = (message.offset(), message.attempt());
        let mut seen = noted.lock().expect("no panic in here");
        seen.entry(message.partition()).or_default().push(at);
        drop(seen);
        async move {
            match at {
                (7 | 20, 1) => Err(HandlerError::fail("once")),
                (13, 1) => panic!("once"),
                _ => Ok(()),
            }
        }
    };
    let working = subscriber(&gateway)
        .await
        .worker()
        .concurrency(8)
        .run(handler);
    let summary = timeout(PATIENCE, working)
        .await
        .expect("in time")
        .expect("a drained end");
    assert_eq!(
        (summary.acked, summary.failed, summary.panicked),
        (60, 6, 2),
        "{summary:?}"
    );
    for partition in 0..2 {
        stage.commits(&topic, partition, 30).await;
        let mut wanted: Vec<(i64, u32)> = (0..30).map(|it| (it, 1)).collect();
        for failed in [20, 13, 7] {
            wanted.insert(failed + 1, (failed as i64, 2));
        }
        assert_eq!(seen.lock().unwrap()[&partition], wanted);
    }
}

async fn work_longer_than_the_deadline_is_done_once(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["0", "1", "2", "3"]).await;
    let subscription = stage
        .subscription(&topic)
        .ack_deadline(Duration::from_millis(600));
    let gateway = stage.gateway(&[subscription]).await;
    let worker = subscriber(&gateway).await.worker();
    // One at a time: the last one waits for three times the deadline before it is begun.
    let working = worker.run(|message: Message| async move {
        tokio::time::sleep(Duration::from_millis(900)).await;
        match message.delivery_number() {
            1 => Ok(()),
            again => Err(HandlerError::reject("again", again.to_string())),
        }
    });
    let summary = timeout(PATIENCE, working)
        .await
        .expect("in time")
        .expect("a drained end");
    assert_eq!((summary.acked, summary.rejected), (4, 0), "{summary:?}");
    stage.commits(&topic, 0, 4).await;
}

async fn shutdown_of_a_worker_loses_and_repeats_nothing(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["0", "1", "2", "3", "4", "5"]).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let (begun, stop) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, stopped) = (Arc::clone(&begun), Arc::clone(&stop));
    let worker = subscriber(&gateway).await.worker().concurrency(2);
    let worker = worker.shutdown(async move { stopped.notified().await });
    let working = tokio::spawn(worker.run(move |message: Message| {
        if message.offset() == 1 {
            tell.notify_one();
        }
        async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            Ok(())
        }
    }));
    timeout(PATIENCE, begun.notified())
        .await
        .expect("two at work");
    stop.notify_one();
    let summary = timeout(PATIENCE, working).await.expect("in time");
    let summary = summary.expect("no panic").expect("a goodbye");
    assert_eq!((summary.acked, summary.cut_off), (2, 0), "{summary:?}");
    stage.commits(&topic, 0, 2).await;
    let working = subscriber(&gateway)
        .await
        .run(|message: Message| async move {
            match message.attempt() {
                1 => Ok(()),
                again => Err(HandlerError::reject("again", again.to_string())),
            }
        });
    let summary = timeout(PATIENCE, working)
        .await
        .expect("in time")
        .expect("a drained end");
    assert_eq!((summary.acked, summary.rejected), (4, 0), "{summary:?}");
    stage.commits(&topic, 0, 6).await;
}
