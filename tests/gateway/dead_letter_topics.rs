//! Topics of dead letters: made at the start where that is asked for, looked at, and not
//! taken for sources by accident.

use crate::support::{
    Case, Gateway, Outgoing, Stage, Stream, Subscription, Topic, cases, eventually,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        both: dead_letters_of_another_are_read_as_any_other_records;
        kafka: missing_topics_are_made_at_the_start_and_existing_ones_left,
            topic_that_cannot_be_made_is_told_and_tried_again_and_holds_up_nobody,
            topic_that_takes_less_than_its_source_is_told_at_the_start;
    ]
}

fn partitions(stage: &Stage, topic: &str) -> Option<usize> {
    let list = stage.broker.tools().tool("topics", &["--list"]);
    list.lines().any(|line| line == topic).then(|| {
        let shown = stage
            .broker
            .tools()
            .tool("topics", &["--describe", "--topic", topic]);
        shown
            .lines()
            .filter(|line| line.contains("Partition: "))
            .count()
    })
}

async fn has_partitions(stage: &Stage, topic: &Topic, count: usize) {
    let what = format!("{} has {count} partitions", topic.name);
    eventually(&what, async || match partitions(stage, &topic.name) {
        Some(seen) if seen == count => Ok(()),
        seen => Err(format!("{seen:?}")),
    })
    .await;
}

fn quoted(topic: &Topic) -> String {
    format!("\"{}\"", topic.name)
}

async fn missing_topics_are_made_at_the_start_and_existing_ones_left(stage: Stage) {
    let topic = stage.topic("orders", 3).await;
    let [dead, retry] = ["dead", "retry"].map(|name| Topic {
        name: stage.named(name),
    });
    stage.produce_to(&topic, 2, &["bad"]).await;
    let subscription = stage
        .subscription(&topic)
        .dead_letter(&dead)
        .set("dead_letter.retry_topic", &quoted(&retry))
        .set("dead_letter.create", "true");
    let mut gateway = stage.gateway(&[subscription]).await;
    has_partitions(&stage, &dead, 3).await;
    has_partitions(&stage, &retry, 3).await;
    let mut stream = gateway.open().await;
    let record = stream.record().await;
    stream.reject(&record).await;
    assert_eq!(stage.holds(&dead, 1).await[0].partition, 2);

    // What is there is as good as what is made.
    gateway.terminate();
    gateway.restart().await;
    gateway
        .logs(&format!("dead-letter topic {} has one replica", dead.name))
        .await;
    assert!(!gateway.log().contains("cannot be created"));
    has_partitions(&stage, &dead, 3).await;
}

async fn topic_that_cannot_be_made_is_told_and_tried_again_and_holds_up_nobody(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let other = stage.topic("other", 1).await;
    let dead = Topic {
        name: stage.named("dead"),
    };
    stage.produce(&topic, &["bad"]).await;
    stage.produce(&other, &["good"]).await;
    // The cluster has one broker.
    let subscription = stage
        .subscription(&topic)
        .dead_letter(&dead)
        .set("dead_letter.create", "true")
        .set("dead_letter.replication", "3");
    let group = stage.named("others");
    let others = Subscription::new("others", &other.name, &group);
    let gateway = Gateway::start(&stage, &[subscription, others]).await;
    gateway.logs("cannot be created: tried again").await;

    let mut stream = Stream::open(gateway.address, Stream::hello("others")).await;
    let record = stream.record().await;
    stream.ack(&record).await;
    let mut stream = gateway.open().await;
    let record = stream.record().await;
    stream.reject(&record).await;
    gateway.logs("dead letter not written").await;

    stage.broker.create(&dead.name, 1, None).await;
    stage.holds(&dead, 1).await;
    stage.commits(&topic, 0, 1).await;
    // The next try finds it, and looks at it.
    gateway
        .logs(&format!("dead-letter topic {} has one replica", dead.name))
        .await;
}

// FC-49.
async fn topic_that_takes_less_than_its_source_is_told_at_the_start(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let dead = Topic {
        name: stage.named("dead"),
    };
    let setting = Some(("max.message.bytes", "1000"));
    stage.broker.create(&dead.name, 1, setting).await;
    let gateway = stage
        .gateway(&[stage.subscription(&topic).dead_letter(&dead)])
        .await;
    gateway.logs("takes messages up to 1000 bytes, and").await;
}

async fn dead_letters_of_another_are_read_as_any_other_records(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let dead = stage.topic("dead", 1).await;
    let last = stage.topic("last", 1).await;
    let record = Outgoing {
        headers: vec![("a".to_owned(), Some(b"1".to_vec()))],
        ..Outgoing::value(0, "bad").keyed("key")
    };
    stage.broker.produce(&topic.name, [record]).await;
    let group = stage.named("second");
    let second = Subscription::new("second", &dead.name, &group);
    let subscriptions = [
        stage.subscription(&topic).dead_letter(&dead),
        second.dead_letter(&last),
    ];
    let gateway = stage.gateway(&subscriptions).await;
    let mut stream = gateway.open().await;
    let record = stream.record().await;
    stream.reject(&record).await;
    let mut again = Stream::open(gateway.address, Stream::hello("second")).await;
    let record = again.record().await;
    assert_eq!(record.text(), "bad");
    again.reject(&record).await;

    let first = stage.holds(&dead, 1).await.remove(0);
    let letter = stage.holds(&last, 1).await.remove(0);
    assert_eq!((&letter.key, &letter.value), (&first.key, &first.value));
    assert_eq!(letter.headers.len(), first.headers.len(), "{letter:?}");
    assert_eq!(letter.headers[0], first.headers[0]);
    let header = |name: &str| letter.header(&format!("ackgate.dead-letter.{name}"));
    assert_eq!(header("topic"), Some(dead.name.as_str()));
    assert_eq!(header("group"), Some(group.as_str()));
}
