//! Sessions that end once there is nothing left for them.

use std::time::Duration;

use ackgate_proto::v1::{Open, Outcome};
use tonic::Code;

use crate::support::{Case, Stage, Stream, Subscriber, cases};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        both: empty_topic_is_drained,
            topic_is_drained_once_every_record_is_answered,
            record_that_waits_for_its_retry_is_awaited;
        embedded: command_line_ends_when_drained;
    ]
}

fn bounded() -> Open {
    Open {
        until_drained: true,
        ..Stream::hello("orders")
    }
}

async fn is_drained(mut stream: Stream) {
    let status = stream.status().await;
    assert_eq!(status.code(), Code::Ok, "{status:?}");
}

async fn empty_topic_is_drained(stage: Stage) {
    let topic = stage.topic("orders", 3).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    is_drained(Stream::open(gateway.address, bounded()).await).await;
    // Within the linger, with the consumer still in its group.
    is_drained(Stream::open(gateway.address, bounded()).await).await;
}

async fn topic_is_drained_once_every_record_is_answered(stage: Stage) {
    let topic = stage.topic("orders", 2).await;
    stage.produce_to(&topic, 0, &["a", "b", "c"]).await;
    stage.produce_to(&topic, 1, &["d"]).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut stream = Stream::open(gateway.address, bounded()).await;
    let records = stream.records(4).await;
    stream.answer_all(&records[1..], Outcome::Acked).await;
    // Panics if the stream ends.
    let more = stream.within(Duration::from_secs(2)).await;
    assert_eq!(more.len(), 0);
    stream.ack(&records[0]).await;
    is_drained(stream).await;
    stage.commits(&topic, 0, 3).await;
    stage.commits(&topic, 1, 1).await;

    // What comes meanwhile is found by the next one.
    stage.produce(&topic, &["e"]).await;
    let mut next = Stream::open(gateway.address, bounded()).await;
    let record = next.record().await;
    assert_eq!((record.text(), record.offset), ("e", 3));
    next.ack(&record).await;
    is_drained(next).await;
}

async fn record_that_waits_for_its_retry_is_awaited(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["a", "b"]).await;
    let delay = Duration::from_secs(2);
    let gateway = stage
        .gateway(&[stage.subscription(&topic).backoff(delay)])
        .await;
    let mut stream = Stream::open(gateway.address, bounded()).await;
    let records = stream.records(2).await;
    stream.ack(&records[1]).await;
    stream.fail(&records[0]).await;
    let again = stream.record().await;
    assert_eq!((again.offset, again.attempt), (0, 2));
    stream.ack(&again).await;
    is_drained(stream).await;
    stage.commits(&topic, 0, 2).await;
}

async fn command_line_ends_when_drained(stage: Stage) {
    let topic = stage.topic("orders", 2).await;
    stage.produce(&topic, &["a", "b", "c"]).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut subscriber = Subscriber::start(gateway.address, &["--until-drained"]);
    assert!(subscriber.end().await.success());
    assert_eq!(subscriber.take().len(), 3);
    stage.commits(&topic, 0, 3).await;
}
