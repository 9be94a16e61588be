//! Connections that are too old: what is on them goes on elsewhere, and nothing else is
//! disturbed.

use std::{collections::BTreeMap, time::Duration};

use ackgate_client::{Delivery, Publisher, Subscriber};
use ackgate_proto::v1::{
    Close, DrainReason, Open, Outcome, PublishError, PublishOptions, subscribe_request::Request,
};
use tokio::time::{Instant, sleep, timeout};
use tokio_stream::StreamExt as _;
use tonic::Code;

use crate::{
    publish::{error, publishing},
    support::{
        Case, Gateway, Outgoing, PATIENCE, Publishing, Stage, Stream, cases, connection,
        eventually, reason, record, throughout,
    },
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        both: supplied_client_goes_on_over_aged_connections;
        embedded: aged_stream_gets_nothing_new_and_its_verdicts_count,
            what_is_not_answered_in_time_goes_to_others,
            connection_that_is_drained_takes_no_new_calls,
            work_that_takes_longer_than_the_grace_is_kept,
            aged_publishers_are_told_every_result,
            supplied_publisher_goes_on_over_aged_connections,
            connections_do_not_age_unless_they_are_asked_to;
    ]
}

/// Ages of connections, and the time for their streams to end.
fn ages(age: Duration, grace: Duration) -> String {
    format!(
        "listen.max_connection_age = \"{}ms\"\nshutdown.drain = \"{}ms\"",
        age.as_millis(),
        grace.as_millis()
    )
}

const SECOND: Duration = Duration::from_secs(1);

/// A grace whose end no test waits for.
const NEVER: Duration = Duration::from_secs(600);

/// Lets the gateway join its group, which takes longer than connections live here.
async fn warm(gateway: &Gateway) {
    eventually("records come", async || {
        let mut stream = gateway.open().await;
        let came = timeout(Duration::from_millis(500), stream.record()).await;
        stream.close().await;
        came.map(drop).map_err(|_elapsed| "none".to_owned())
    })
    .await;
}

async fn aged_stream_gets_nothing_new_and_its_verdicts_count(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["0", "1", "2"]).await;
    let top = ages(6 * SECOND, NEVER);
    let gateway = Gateway::start_with(&stage, &[stage.subscription(&topic)], &top).await;
    warm(&gateway).await;
    let begun = Instant::now();
    let mut old = gateway.open().await;
    let records = old.records(3).await;
    old.drain().await;
    assert_eq!(old.drain_reason, DrainReason::ConnectionAge);
    let lived = begun.elapsed();
    assert!(lived >= Duration::from_millis(5400), "{lived:?}");

    stage.produce(&topic, &["after"]).await;
    assert_eq!(old.within(SECOND).await.len(), 0, "nothing new");
    let mut new = gateway.open().await;
    let after = new.record().await;
    assert_eq!(after.text(), "after", "others go on");
    new.ack(&after).await;
    old.answer_all(&records, Outcome::Acked).await;
    // At once, since all is answered: nobody waits for the end of the grace here.
    let status = old.status().await;
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::Unavailable, "CONNECTION_AGED")
    );
    stage.commits(&topic, 0, 4).await;
}

async fn what_is_not_answered_in_time_goes_to_others(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["0"]).await;
    // The other's connection outlives the time that the stuck one has, and a slow machine.
    let top = ages(8 * SECOND, 2 * SECOND);
    let gateway = Gateway::start_with(&stage, &[stage.subscription(&topic)], &top).await;
    warm(&gateway).await;
    let begun = Instant::now();
    let mut stuck = gateway.open().await;
    let first = stuck.record().await;
    stuck.drain().await;
    let mut other = gateway.open().await;
    let again = other.record().await;
    assert_eq!((again.offset, again.delivery), (0, first.delivery + 1));
    // The least age, and the grace: when it was told so is seen late on a slow machine.
    let lived = begun.elapsed();
    assert!(lived >= 9 * SECOND, "it had time: {lived:?}");
    let status = stuck.status().await;
    assert_eq!(reason(&status), "CONNECTION_AGED");
    other.ack(&again).await;
    stage.commits(&topic, 0, 1).await;
}

async fn connection_that_is_drained_takes_no_new_calls(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["0"]).await;
    let top = ages(6 * SECOND, NEVER);
    let gateway = Gateway::start_with(&stage, &[stage.subscription(&topic)], &top).await;
    warm(&gateway).await;
    // The library connects again by itself when it is told to go.
    let channel = connection(gateway.address).await.unwrap();
    let mut old = Stream::open_over(channel.clone(), Stream::hello("orders")).await;
    // With this in hand the stream, and with it the connection, stays for the grace.
    old.record().await;
    old.drain().await;
    let begun = Instant::now();
    // It may have to be told first.
    let mut new = eventually("a new call is taken", async || {
        let call = Stream::connect_over(channel.clone()).await;
        call.map_err(|status| status.to_string())
    })
    .await;
    new.send(Request::Open(Stream::hello("orders"))).await;
    old.send(Request::Close(Close {})).await;
    assert_eq!(old.status().await.code(), Code::Ok);
    new.drain().await;
    let lived = begun.elapsed();
    assert!(
        lived >= 5 * SECOND,
        "it was on a connection of its own: {lived:?}"
    );
}

/// What came of each record, and how often.
async fn collect(subscriber: &mut Subscriber, count: usize) -> BTreeMap<(i32, i64), u32> {
    let mut times = BTreeMap::new();
    while times.len() < count {
        let delivery = next(subscriber).await;
        *times
            .entry((delivery.partition(), delivery.offset()))
            .or_default() += 1;
        sleep(Duration::from_millis(5)).await;
        delivery.ack();
    }
    times
}

async fn next(subscriber: &mut Subscriber) -> Delivery {
    timeout(PATIENCE, subscriber.next())
        .await
        .expect("a delivery in time")
        .expect("the stream goes on")
        .expect("no error")
}

async fn subscriber(gateway: &Gateway) -> Subscriber {
    Subscriber::builder(format!("http://{}", gateway.address), "orders")
        .credit(20, 1 << 20)
        .connect()
        .await
        .expect("it connects")
}

async fn supplied_client_goes_on_over_aged_connections(stage: Stage) {
    let topic = stage.topic("orders", 2).await;
    let count = 1200;
    let records = (0..count).map(|n| Outgoing::value(n % 2, n.to_string()));
    stage.broker.produce(&topic.name, records).await;
    let top = ages(SECOND, 10 * SECOND);
    let gateway = Gateway::start_with(&stage, &[stage.subscription(&topic)], &top).await;
    let mut subscriber = subscriber(&gateway).await;
    let times = collect(&mut subscriber, count as usize).await;
    assert!(
        times.values().all(|times| *times == 1),
        "a record came twice"
    );
    let stats = subscriber.close().await.expect("a goodbye");
    assert!(stats.reconnects >= 2, "{stats:?}");
    assert_eq!(stats.stale_answers, 0, "{stats:?}");
    stage.commits(&topic, 0, 600).await;
    stage.commits(&topic, 1, 600).await;
}

async fn work_that_takes_longer_than_the_grace_is_kept(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["0", "1"]).await;
    let top = ages(2 * SECOND, SECOND);
    let gateway = Gateway::start_with(&stage, &[stage.subscription(&topic)], &top).await;
    let mut working = subscriber(&gateway).await;
    let (first, second) = (next(&mut working).await, next(&mut working).await);
    // It may have before they came.
    let before = working.stats().reconnects;
    eventually("it has come back with them", async || {
        let stats = working.stats();
        if stats.reconnects > before {
            Ok(())
        } else {
            Err(format!("{stats:?}"))
        }
    })
    .await;
    let mut other = Stream::open(gateway.address, Stream::hello("orders")).await;
    assert_eq!(
        other.within(Duration::from_millis(500)).await.len(),
        0,
        "L10"
    );
    first.ack();
    second.ack();
    stage.commits(&topic, 0, 2).await;
    let stats = working.stats();
    assert_eq!((stats.records, stats.stale_answers), (2, 0), "{stats:?}");
}

async fn aged_publishers_are_told_every_result(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let gateway = publishing(&stage, &ages(2 * SECOND, 10 * SECOND)).await;
    let mut stream = Publishing::open(gateway.address, PublishOptions::default()).await;
    let mut sent = 0;
    while !stream.draining {
        stream.records(vec![record(&topic, sent.to_string())]).await;
        sent += 1;
        stream.answered(sent).await;
        sleep(Duration::from_millis(20)).await;
    }
    // What comes now is answered too: it was not taken.
    stream.records(vec![record(&topic, "late")]).await;
    let closed = stream.end().await;
    assert_eq!(closed.records, sent as u64 + 1, "{closed:?}");
    assert!(
        (1..=2).contains(&closed.failed),
        "one may have crossed: {closed:?}"
    );
    let refused = stream
        .results
        .iter()
        .map(error)
        .filter(|it| *it != PublishError::Unspecified);
    assert!(
        refused
            .into_iter()
            .all(|error| error == PublishError::Unavailable)
    );
    stage.holds(&topic, closed.written as usize).await;
}

async fn supplied_publisher_goes_on_over_aged_connections(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let gateway = publishing(&stage, &ages(SECOND, 5 * SECOND)).await;
    let publisher = Publisher::connect(format!("http://{}", gateway.address))
        .await
        .unwrap();
    let begun = Instant::now();
    let mut sent = 0;
    while begun.elapsed() < 4 * SECOND {
        let outgoing = ackgate_client::Outgoing::new(&topic.name, sent.to_string());
        let receipt = publisher.send(outgoing).await;
        timeout(PATIENCE, receipt)
            .await
            .expect("a result")
            .expect("it is written");
        sent += 1;
    }
    let seen = stage.holds(&topic, sent).await;
    let values: Vec<_> = seen.into_iter().map(|seen| seen.value.unwrap()).collect();
    let wanted: Vec<_> = (0..sent).map(|n| n.to_string().into_bytes()).collect();
    assert_eq!(values, wanted, "once each, in order");
}

async fn connections_do_not_age_unless_they_are_asked_to(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut stream = Stream::open(
        gateway.address,
        Open {
            subscriber_id: "stays".to_owned(),
            ..Stream::hello("orders")
        },
    )
    .await;
    throughout("the stream stays", 3 * SECOND, async || {
        stream.within(Duration::from_millis(100)).await;
        if stream.draining {
            Err("it drains".to_owned())
        } else {
            Ok(())
        }
    })
    .await;
}
