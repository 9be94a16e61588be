//! `ackgate dlq`: dead letters listed, shown and put back, and what their subscription
//! makes of it.

use std::{process::Command, time::SystemTime};

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use serde_json::Value;
use tokio::task::spawn_blocking;

use crate::support::{Case, Outgoing, PATIENCE, Process, Stage, Topic, ackgate, eventually};

mod dlq_back;
mod dlq_left;
mod dlq_look;
mod dlq_many;

pub(crate) fn cases() -> Vec<Case> {
    [
        dlq_look::cases(),
        dlq_back::cases(),
        dlq_left::cases(),
        dlq_many::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The topics of one test.
struct Topics {
    source: Topic,
    dead: Topic,
    retry: Topic,
}

impl Topics {
    async fn new(stage: &Stage, partitions: u16) -> Self {
        Self {
            source: stage.topic("orders", partitions).await,
            dead: stage.topic("dead", partitions).await,
            retry: stage.topic("retry", partitions).await,
        }
    }
}

/// Arguments that name the dead-letter topic of this test and its group's letters.
fn from(stage: &Stage, topics: &Topics) -> Vec<String> {
    let bootstrap = stage.broker.bootstrap();
    let named = ["--topic", &topics.dead.name, "--group", &stage.group()].map(str::to_owned);
    let mut all = vec!["--bootstrap".to_owned(), bootstrap];
    all.extend(named);
    all
}

/// Starts `ackgate dlq WHAT` for the test's topics, with more arguments.
fn dlq(stage: &Stage, topics: &Topics, what: &str, more: &[&str]) -> Process {
    let mut command = Command::new(ackgate());
    command.args(["dlq", what]).args(from(stage, topics));
    if what == "redrive" {
        command.args(["--retry-topic", &topics.retry.name]);
    }
    Process::start("ackgate dlq", command.args(more))
}

/// Runs it to its end and gives its exit code and what it said as JSON.
async fn run(stage: &Stage, topics: &Topics, what: &str, more: &[&str]) -> (i32, Vec<Value>) {
    let arguments = [more, &["--json"]].concat();
    let mut process = dlq(stage, topics, what, &arguments);
    let code = process.end().await.code().expect("it was not killed");
    (code, said(&process))
}

fn said(process: &Process) -> Vec<Value> {
    let text = process.out_from(0).join("\n");
    let values = serde_json::Deserializer::from_str(&text).into_iter();
    values
        .map(|value| value.unwrap_or_else(|error| panic!("{error}: {text}\n{}", process.err())))
        .collect()
}

/// Puts back, which must succeed; the summary.
async fn redrive(stage: &Stage, topics: &Topics, more: &[&str]) -> Value {
    let (code, mut said) = run(stage, topics, "redrive", more).await;
    let summary = said.pop().expect("a summary");
    assert_eq!(code, 0, "{summary}");
    summary
}

/// Milliseconds since the Unix epoch.
fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    i64::try_from(now.unwrap().as_millis()).unwrap()
}

/// A dead letter as a gateway writes it, of a record in `lane` of the source.
fn letter(stage: &Stage, topics: &Topics, (lane, offset): (i32, i64)) -> Outgoing {
    let said = [
        ("topic", topics.source.name.clone()),
        ("partition", lane.to_string()),
        ("offset", offset.to_string()),
        ("timestamp", now_ms().to_string()),
        ("group", stage.group()),
        ("subscription", "orders".to_owned()),
        ("cause", "rejected".to_owned()),
        ("code", "bad-total".to_owned()),
        ("reason", "total is negative".to_owned()),
        ("attempts", "1".to_owned()),
        ("deliveries", "1".to_owned()),
        (
            "dedupe-id",
            format!("{}/{}/{lane}/{offset}", stage.group(), topics.source.name),
        ),
    ];
    let headers = said.into_iter().map(|(name, value)| {
        let key = format!("ackgate.dead-letter.{name}");
        (key, Some(value.into_bytes()))
    });
    Outgoing {
        partition: lane,
        key: Some(format!("key-{}", offset % 7).into_bytes()),
        value: Some(format!("value {offset}").into_bytes()),
        headers: headers.collect(),
        timestamp: Some(now_ms()),
    }
}

/// Sum of the ends of a topic's partitions, markers included.
async fn ends(stage: &Stage, topic: &Topic) -> i64 {
    let mut config = stage.broker.client();
    config.set("group.id", "asks-for-ends");
    let name = topic.name.clone();
    spawn_blocking(move || {
        let consumer: BaseConsumer = config.create().unwrap();
        let metadata = consumer.fetch_metadata(Some(&name), PATIENCE).unwrap();
        let partitions = metadata.topics()[0].partitions().iter();
        partitions
            .map(|one| consumer.fetch_watermarks(&name, one.id(), PATIENCE))
            .map(|marks| marks.unwrap().1)
            .sum()
    })
    .await
    .unwrap()
}

/// Waits until more than so many offsets of a topic are used.
async fn grows_beyond(stage: &Stage, topic: &Topic, count: i64) {
    eventually("the topic grows", async || {
        let end = ends(stage, topic).await;
        if end > count {
            Ok(())
        } else {
            Err(format!("{end}"))
        }
    })
    .await;
}
