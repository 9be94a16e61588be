//! The gateway killed between any two steps of a dead letter's path, or its topic
//! unavailable: nothing is lost, and what is written twice can be told.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use ackgate_proto::v1::Outcome;
use futures::future::join_all;
use tokio::{task::spawn_blocking, time::Instant};

use crate::support::{
    Broker, Case, Gateway, Outgoing, Seen, Stage, Stream, Subscription, Topic, cases, eventually,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        kafka: killed_at_any_step_it_loses_nothing_and_repeats_can_be_told,
            killed_among_many_dead_letters_it_loses_none_of_them,
            killed_before_a_dead_letter_is_confirmed_it_handles_the_record_again,
            outage_of_a_minute_costs_no_record_no_memory_and_no_connection;
    ]
}

/// What is true when a gateway has died at a step, and afterwards.
struct Step {
    name: &'static str,
    /// Kafka has confirmed the copy.
    is_copied: bool,
    /// The position that is committed.
    passed: i64,
    /// How many copies there may be in the end.
    most: usize,
}

const fn step(name: &'static str, is_copied: bool, passed: i64, most: usize) -> Step {
    Step {
        name,
        is_copied,
        passed,
        most,
    }
}

const STEPS: [Step; 6] = [
    step("dead-letter.before-write", false, 0, 1),
    step("dead-letter.enqueued", false, 0, 2),
    step("dead-letter.confirmed", true, 0, 2),
    step("dead-letter.settled", true, 0, 2),
    step("commit.before", true, 0, 2),
    step("commit.done", true, 1, 1),
];

/// Holds each copy back in Kafka's client for longer than a commit waits: a record that
/// was settled without its confirmation would be passed before there is a copy.
fn copying_late(subscription: Subscription) -> Subscription {
    subscription.set("dead_letter.producer.\"linger.ms\"", "\"3000\"")
}

// L3, L2.
async fn killed_at_any_step_it_loses_nothing_and_repeats_can_be_told(stage: Stage) {
    let steps = STEPS.iter();
    join_all(steps.map(|step| killed_at(&stage, step))).await;
}

async fn killed_at(stage: &Stage, at: &Step) {
    let step = at.name;
    let topic = stage.topic(&format!("orders-{step}"), 1).await;
    let dead = stage.topic(&format!("dead-{step}"), 1).await;
    let group = stage.named(&format!("group-{step}"));
    let committed = async || {
        let committed = stage.broker.committed(&group, &topic.name).await;
        committed.get(&0).copied().unwrap_or(0)
    };
    stage.produce(&topic, &["bad"]).await;
    let subscription = stage.subscription(&topic).dead_letter(&dead);
    let subscription = copying_late(subscription.set("group", &format!("\"{group}\"")));
    let mut gateway = Gateway::start_to_end_at(stage, &[subscription], "", step).await;
    let mut stream = gateway.open().await;
    let record = stream.record().await;
    // The answer may never come.
    stream.tell(&record, Outcome::Rejected).await;
    gateway.dies().await;

    let copies = stage.broker.read(&dead.name).await.len();
    let before = committed().await;
    let seen = format!("{step}: {before} is committed, and there are {copies} copies");
    assert_eq!(before, at.passed, "{seen}");
    assert!(!at.is_copied || copies == 1, "{seen}");

    gateway.restart().await;
    let mut stream = gateway.open().await;
    if before == 0 {
        let again = stream.record().await;
        assert_eq!(again.offset, record.offset, "{step}");
        stream.reject(&again).await;
    }
    eventually(
        &format!("{step}: 1 is committed"),
        async || match committed().await {
            1 => Ok(()),
            position => Err(position.to_string()),
        },
    )
    .await;
    let letters = stage.broker.read(&dead.name).await;
    assert!(
        (1..=at.most).contains(&letters.len()),
        "{step}: {letters:?}"
    );
    let ids: BTreeSet<_> = letters.iter().map(dedupe_id).collect();
    assert!(
        ids.len() == 1 && !ids.contains(&None),
        "{step}: {letters:?}"
    );
    stream.close().await;
}

const MANY: i64 = 40;

// L3, L2.
async fn killed_among_many_dead_letters_it_loses_none_of_them(stage: Stage) {
    let points = [
        "dead-letter.before-write:17",
        "dead-letter.enqueued:17",
        "dead-letter.confirmed:17",
        "dead-letter.settled:17",
        "commit.before",
        "commit.done",
    ];
    let points = points.into_iter();
    join_all(points.map(|point| killed_among_many(&stage, point))).await;
}

async fn killed_among_many(stage: &Stage, point: &str) {
    let name = point.replace(':', "-");
    let topic = stage.topic(&format!("orders-{name}"), 1).await;
    let dead = stage.topic(&format!("dead-{name}"), 1).await;
    let group = stage.named(&format!("group-{name}"));
    let committed = async || {
        let committed = stage.broker.committed(&group, &topic.name).await;
        committed.get(&0).copied().unwrap_or(0)
    };
    let values = (0..MANY).map(|n| Outgoing::value(0, n.to_string()));
    stage.broker.produce(&topic.name, values).await;
    let subscription = stage.subscription(&topic).dead_letter(&dead);
    let subscription = subscription.set("group", &format!("\"{group}\""));
    let mut gateway = Gateway::start_to_end_at(stage, &[subscription], "", point).await;
    let mut stream = gateway.open().await;
    for record in stream.records(MANY as usize).await {
        stream.tell(&record, Outcome::Rejected).await;
    }
    gateway.dies().await;
    let passed = committed().await;
    let letters = stage.broker.read(&dead.name).await;
    for offset in 0..passed {
        let copied = letters
            .iter()
            .any(|letter| letter.value.as_deref() == Some(offset.to_string().as_bytes()));
        assert!(copied, "{point}: {offset} is passed without a copy");
    }

    gateway.restart().await;
    let mut stream = gateway.open().await;
    let deadline = Instant::now() + RECOVERY;
    while committed().await < MANY {
        answer(&mut stream).await;
        assert!(Instant::now() < deadline, "{point}: not all are passed");
    }
    let mut copies: BTreeMap<&str, usize> = BTreeMap::new();
    let letters = stage.broker.read(&dead.name).await;
    for id in letters.iter().filter_map(dedupe_id) {
        *copies.entry(id).or_default() += 1;
    }
    assert_eq!(copies.len(), MANY as usize, "{point}: {copies:?}");
    assert!(
        copies.values().all(|&many| many <= 2),
        "{point}: {copies:?}"
    );
    stream.close().await;
}

/// Lets the topic take writes, or none: every record is too old for it then.
async fn takes_writes(stage: &Stage, topic: &Topic, takes: bool) {
    let kafka = stage.broker.tools();
    let name = topic.name.clone();
    let change = if takes {
        ["--delete-config", "message.timestamp.before.max.ms"]
    } else {
        ["--add-config", "message.timestamp.before.max.ms=1"]
    };
    spawn_blocking(move || {
        let alter = ["--alter", "--entity-type", "topics", "--entity-name", &name];
        kafka.tool("configs", &[&alter[..], &change].concat())
    })
    .await
    .unwrap();
}

// FC-47, L3.
async fn killed_before_a_dead_letter_is_confirmed_it_handles_the_record_again(stage: Stage) {
    let stage = stage.on(spawn_blocking(Broker::own_kafka).await.unwrap());
    let topic = stage.topic("orders", 1).await;
    let dead = stage.topic("dead", 1).await;
    stage.produce(&topic, &["first", "bad"]).await;
    let mut gateway = stage
        .gateway(&[stage.subscription(&topic).dead_letter(&dead)])
        .await;
    let mut stream = gateway.open().await;
    let records = stream.records(2).await;
    // The first one connects the producer: the next is with Kafka's client at once.
    stream.reject(&records[0]).await;
    stage.holds(&dead, 1).await;
    stage.commits(&topic, 0, 1).await;

    let kafka = stage.broker.tools();
    kafka.signal("STOP");
    stream.tell(&records[1], Outcome::Rejected).await;
    // Longer than a commit waits: one that was sent now would be made later.
    let more = stream.within(Duration::from_secs(3)).await;
    assert!(more.is_empty(), "{more:?}");
    gateway.kill();
    kafka.signal("CONT");
    assert_eq!(stage.committed(&topic, 0).await, Some(1));

    gateway.restart().await;
    let mut stream = gateway.open().await;
    let again = stream.record().await;
    assert_eq!((again.offset, again.text()), (1, "bad"));
    stream.reject(&again).await;
    stage.commits(&topic, 0, 2).await;
    let letters = stage.broker.read(&dead.name).await;
    // The copy of the killed gateway may have reached the broker.
    assert!((2..=3).contains(&letters.len()), "{letters:?}");
    let ids: BTreeSet<_> = letters.iter().filter_map(dedupe_id).collect();
    assert_eq!(ids.len(), 2, "{letters:?}");
}

/// Lanes whose records are rejected, before one whose records are acked.
const REJECTED: i32 = 4;
const EACH: usize = 2500;
const OUTAGE: Duration = Duration::from_secs(60);
/// For all of them to be written afterwards, on a slow machine.
const RECOVERY: Duration = Duration::from_secs(120);
/// What the gateway may grow by: its client's queue, and records of 200 bytes.
const GROWTH: u64 = 200 << 20;

/// Answers what comes within a moment, each lane as it is meant to be.
async fn answer(stream: &mut Stream) {
    let records = stream.within(Duration::from_millis(500)).await;
    let verdicts = records.iter().map(|record| {
        record.verdict(if record.partition < REJECTED {
            Outcome::Rejected
        } else {
            Outcome::Acked
        })
    });
    let verdicts: Vec<_> = verdicts.collect();
    if !verdicts.is_empty() {
        assert_eq!(stream.settle(verdicts).await.answers, []);
    }
}

// FC-53.
async fn outage_of_a_minute_costs_no_record_no_memory_and_no_connection(stage: Stage) {
    let topic = stage.topic("orders", REJECTED as u16 + 1).await;
    let dead = stage.topic("dead", 2).await;
    // Thousands are tried again for a minute.
    let subscription = stage
        .subscription(&topic)
        .dead_letter(&dead)
        .set("dead_letter.backoff.initial", "\"4s\"")
        .set("dead_letter.backoff.max", "\"8s\"");
    let gateway = stage.gateway(&[subscription]).await;
    let mut stream = gateway.open().await;
    // The first one connects the producer.
    stage.produce_to(&topic, 0, &["first"]).await;
    let record = stream.record().await;
    stream.reject(&record).await;
    stage.holds(&dead, 1).await;
    let (sockets, memory) = (gateway.sockets(), gateway.memory());

    takes_writes(&stage, &dead, false).await;
    let records = (0..REJECTED as usize * EACH)
        .map(|n| Outgoing::value(n as i32 % REJECTED, format!("{n:0200}")));
    stage.broker.produce(&topic.name, records).await;
    let end = Instant::now() + OUTAGE;
    let mut acked = 0;
    while Instant::now() < end {
        stage.produce_to(&topic, REJECTED, &["good"]).await;
        acked += 1;
        answer(&mut stream).await;
        let now = (gateway.sockets(), gateway.memory());
        assert!(now.0 <= sockets + 2, "{} sockets, then {}", sockets, now.0);
        assert!(now.1 <= memory + GROWTH, "{memory} bytes, then {}", now.1);
    }
    // The other lane went on, these hold.
    answer(&mut stream).await;
    stage.commits(&topic, REJECTED, acked).await;
    let committed = stage.broker.committed(&stage.group(), &topic.name).await;
    for partition in 0..REJECTED {
        let held = i64::from(partition == 0);
        let seen = committed.get(&partition).copied().unwrap_or(0);
        assert_eq!(seen, held, "partition {partition}");
    }
    assert_eq!(stage.broker.read(&dead.name).await.len(), 1);

    takes_writes(&stage, &dead, true).await;
    let deadline = Instant::now() + RECOVERY;
    loop {
        answer(&mut stream).await;
        let committed = stage.broker.committed(&stage.group(), &topic.name).await;
        let settled: i64 = (0..REJECTED).filter_map(|it| committed.get(&it)).sum();
        if settled == i64::from(REJECTED) * EACH as i64 + 1 {
            break;
        }
        assert!(
            Instant::now() < deadline,
            "{settled} are settled: {committed:?}"
        );
    }
    let letters = stage.broker.read(&dead.name).await;
    let ids: BTreeSet<_> = letters.iter().filter_map(dedupe_id).collect();
    assert_eq!(ids.len(), REJECTED as usize * EACH + 1);
    assert_eq!(letters.len(), ids.len(), "none was written twice");
    let now = gateway.sockets();
    assert!(now <= sockets + 2, "{sockets} sockets, then {now}");
}

fn dedupe_id(letter: &Seen) -> Option<&str> {
    letter.header("ackgate.dead-letter.dedupe-id")
}
