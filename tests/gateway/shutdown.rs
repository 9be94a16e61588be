//! A stop that is asked for: answered work is kept, and it ends whatever clients do.

use std::time::Duration;

use ackgate_proto::v1::{Outcome, subscribe_request::Request};
use tokio::time::{Instant, timeout};
use tonic::Code;

use crate::support::{Case, Gateway, Outgoing, Stage, Stream, cases, reason};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        both: stop_drains_commits_and_hands_over;
        embedded: stop_ends_whatever_clients_do,
            second_signal_stops_at_once,
            stop_ends_although_nobody_reads_the_log,
            new_stream_is_refused_during_the_drain;
    ]
}

fn drain(time: Duration) -> String {
    format!(
        "shutdown.drain = \"{0}ms\"\nshutdown.close = \"5s\"",
        time.as_millis()
    )
}

// FC-87.
async fn stop_drains_commits_and_hands_over(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage
        .broker
        .produce(
            &topic.name,
            (0..50).map(|n| Outgoing::value(0, format!("{n}"))),
        )
        .await;
    let subscription = stage.subscription(&topic);
    let top = drain(Duration::from_secs(30));
    let mut gateway = Gateway::start_with(&stage, std::slice::from_ref(&subscription), &top).await;
    let mut stream = gateway.open().await;
    let records = stream.records(50).await;

    gateway.terminate();
    stream.drain().await;
    stage.produce(&topic, &["after"]).await;
    assert_eq!(
        stream.within(Duration::from_secs(1)).await.len(),
        0,
        "nothing new is handed out"
    );
    stream.answer_all(&records, Outcome::Acked).await;
    stream
        .send(Request::Close(ackgate_proto::v1::Close {}))
        .await;
    stream.status().await;
    assert!(gateway.end().await.success());
    assert_eq!(stage.committed(&topic, 0).await, Some(50));

    gateway.restart().await;
    assert_eq!(
        gateway.open().await.record().await.text(),
        "after",
        "nothing is repeated"
    );
}

// FC-86.
async fn stop_ends_whatever_clients_do(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["0", "1"]).await;
    let top = drain(Duration::from_secs(2));
    let mut gateway = Gateway::start_with(&stage, &[stage.subscription(&topic)], &top).await;
    let mut healthy = gateway.open().await;
    let records = healthy.records(2).await;
    // One that never reads, one that never said a word of gRPC.
    let deaf = Stream::connect(gateway.address).await.unwrap();
    deaf.send(Request::Open(Stream::hello("orders"))).await;
    let mute = tokio::net::TcpStream::connect(gateway.address)
        .await
        .unwrap();

    gateway.terminate();
    healthy.drain().await;
    healthy.ack(&records[0]).await;
    let status = healthy.status().await;
    assert_eq!(
        (status.code(), reason(&status).as_str()),
        (Code::Unavailable, "SHUTTING_DOWN")
    );
    assert!(gateway.end().await.success());
    drop((deaf, mute));
    assert_eq!(
        stage.committed(&topic, 0).await,
        Some(1),
        "what was settled is committed"
    );
}

/// A line that cannot be written must not cost the thread that logs it: without the
/// consumer's thread no stop comes to its end.
async fn stop_ends_although_nobody_reads_the_log(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["0"]).await;
    let top = format!("log.filter = \"debug\"\n{}", drain(Duration::from_secs(2)));
    let subscription = stage.subscription(&topic);
    let mut gateway = Gateway::start_with(&stage, &[subscription], &top).await;
    gateway.stop_reading_log();
    let mut stream = gateway.open().await;
    let record = stream.record().await;
    stream.ack(&record).await;

    gateway.terminate();
    stream.status().await;
    assert!(gateway.end().await.success());
    assert_eq!(stage.committed(&topic, 0).await, Some(1));
}

async fn second_signal_stops_at_once(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["0"]).await;
    let drain_time = Duration::from_secs(600);
    let top = drain(drain_time);
    let mut gateway = Gateway::start_with(&stage, &[stage.subscription(&topic)], &top).await;
    let mut stream = gateway.open().await;
    stream.record().await;
    let before = Instant::now();
    gateway.terminate();
    stream.drain().await;
    gateway.terminate();
    assert!(
        !gateway.end().await.success(),
        "what was out is not accounted for"
    );
    assert!(before.elapsed() < drain_time);
}

async fn new_stream_is_refused_during_the_drain(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["0"]).await;
    let top = drain(Duration::from_secs(600));
    let gateway = Gateway::start_with(&stage, &[stage.subscription(&topic)], &top).await;
    let mut stream = gateway.open().await;
    let record = stream.record().await;
    gateway.terminate();
    stream.drain().await;
    // Either the connection or the stream on it is refused, and it may be retried.
    let late = timeout(Duration::from_secs(30), Stream::connect(gateway.address));
    let status = match late.await.expect("an answer comes") {
        Err(status) => status,
        Ok(mut late) => {
            late.send(Request::Open(Stream::hello("orders"))).await;
            late.status().await
        }
    };
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    stream.ack(&record).await;
}
