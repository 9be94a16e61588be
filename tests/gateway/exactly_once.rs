//! Exactly once: under `read_committed` each dead letter is there once, and if and only
//! if what the group has committed says that its record is settled.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use ackgate_lane::AckMap;
use ackgate_proto::v1::Outcome;
use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use futures::future::join_all;
use rdkafka::{
    ClientConfig, Message as _, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    error::KafkaError,
    message::Headers as _,
};
use tokio::task::spawn_blocking;

use crate::support::{
    Case, Gateway, Outgoing, PATIENCE, Stage, Subscriber, Subscription, Topic, cases, eventually,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        kafka: killed_at_any_step_each_dead_letter_is_there_exactly_once,
               a_transaction_left_open_ends_by_itself_and_no_position_is_guessed,
               a_member_that_slept_through_its_session_commits_nothing,
               partitions_that_move_repeat_no_dead_letter,
               a_transaction_that_timed_out_is_made_again,
               a_letter_too_large_for_its_topic_goes_without_its_value;
    ]
}

/// Every step of a transaction.
const STEPS: [&str; 5] = [
    "transaction.begun",
    "transaction.produced",
    "transaction.offsets-sent",
    "transaction.committing",
    "transaction.committed",
];

/// What the group has committed in one partition.
#[derive(Debug, Default)]
struct Committed {
    position: i64,
    /// Settled above it.
    settled: BTreeSet<i64>,
}

impl Committed {
    fn settles(&self, offset: i64) -> bool {
        offset < self.position || self.settled.contains(&offset)
    }
}

/// Waits for open transactions.
fn committed(client: &ClientConfig, topic: &str, partitions: i32) -> BTreeMap<i32, Committed> {
    let consumer: BaseConsumer = client.create().expect("a consumer can be made");
    let mut list = TopicPartitionList::new();
    for partition in 0..partitions {
        list.add_partition(topic, partition);
    }
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = consumer.committed_offsets(list.clone(), Duration::from_secs(5));
        let answer = answer.and_then(|answer| {
            for element in answer.elements() {
                element.error()?;
            }
            Ok(answer)
        });
        match answer {
            Ok(answer) => {
                let elements = answer.elements();
                return elements
                    .iter()
                    .map(|element| {
                        (
                            element.partition(),
                            state(element.offset(), element.metadata()),
                        )
                    })
                    .collect();
            }
            Err(error) => assert!(Instant::now() < deadline, "no stable position: {error}"),
        }
        std::thread::park_timeout(Duration::from_millis(100));
    }
}

fn state(offset: Offset, metadata: &str) -> Committed {
    let position = offset.to_raw().filter(|offset| *offset >= 0).unwrap_or(0);
    let map = STANDARD_NO_PAD.decode(metadata).ok();
    let map = map.and_then(|bytes| AckMap::decode(&bytes).ok());
    let runs = map.map(|map| map.settled).unwrap_or_default();
    let settled = runs
        .iter()
        .flat_map(|run| run.first().get()..run.end().get())
        .map(|offset| offset as i64)
        .collect();
    Committed { position, settled }
}

/// Origins of the dead letters that a reader of committed transactions sees: partition
/// and offset, and the size of the value.
fn letters(client: &ClientConfig, topic: &str, partitions: i32) -> Vec<(i32, i64, usize)> {
    let consumer: BaseConsumer = client
        .clone()
        .set("isolation.level", "read_committed")
        .set("enable.partition.eof", "true")
        .create()
        .expect("a consumer can be made");
    let mut list = TopicPartitionList::new();
    for partition in 0..partitions {
        list.add_partition_offset(topic, partition, Offset::Beginning)
            .unwrap();
    }
    consumer.assign(&list).unwrap();
    let deadline = Instant::now() + PATIENCE;
    let (mut ended, mut seen) = (BTreeSet::new(), Vec::new());
    while ended.len() < partitions as usize {
        assert!(Instant::now() < deadline, "{topic} has no end: {seen:?}");
        match consumer.poll(Duration::from_millis(100)) {
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                ended.insert(partition);
            }
            Some(Ok(letter)) => {
                let headers = letter.headers().expect("a dead letter has headers");
                let number = |name: &str| -> i64 {
                    let name = format!("ackgate.dead-letter.{name}");
                    let header = headers.iter().find(|header| header.key == name);
                    let value = header.and_then(|header| header.value);
                    let text = std::str::from_utf8(value.expect("a value")).expect("text");
                    text.parse().expect("a number")
                };
                let size = letter.payload().map_or(0, <[u8]>::len);
                seen.push((number("partition") as i32, number("offset"), size));
            }
            Some(Err(_)) | None => {}
        }
    }
    seen
}

/// A record that is settled, was not acked, and has no dead letter.
fn missing(
    committed: &BTreeMap<i32, Committed>,
    letters: &[(i32, i64, usize)],
) -> Option<(i32, i64)> {
    let there: BTreeSet<(i32, i64)> = letters.iter().map(|of| (of.0, of.1)).collect();
    let settled = committed.iter().flat_map(|(&partition, state)| {
        let all = (0..state.position).chain(state.settled.iter().copied());
        all.map(move |offset| (partition, offset))
    });
    let mut bad = settled.filter(|(_, offset)| offset % 3 != 0);
    bad.find(|of| !there.contains(of))
}

/// A case's topics and group.
struct Scene<'a> {
    stage: &'a Stage,
    topic: Topic,
    dead: Topic,
    group: String,
    partitions: u16,
}

impl<'a> Scene<'a> {
    async fn new(stage: &'a Stage, name: &str, partitions: u16) -> Self {
        Self {
            stage,
            topic: stage.topic(&format!("orders-{name}"), partitions).await,
            dead: stage.topic(&format!("dead-{name}"), 1).await,
            group: stage.named(&format!("group-{name}")),
            partitions,
        }
    }

    fn subscription(&self) -> Subscription {
        self.stage
            .subscription(&self.topic)
            .dead_letter(&self.dead)
            .set("group", &format!("\"{}\"", self.group))
            .set("dead_letter.exactly_once", "true")
            .set("commit.interval", "\"200ms\"")
    }

    /// `count` records in each partition, of which every third is to be acked.
    async fn produce(&self, count: usize) {
        for partition in 0..i32::from(self.partitions) {
            let value = |n: usize| if n.is_multiple_of(3) { "{}" } else { "no json" };
            let records = (0..count).map(|n| Outgoing::value(partition, value(n)));
            self.stage.broker.produce(&self.topic.name, records).await;
        }
    }

    /// Committed states and dead letters, after a look at whether they agree. The
    /// letters are read in between: what came later is in the second state alone.
    async fn look(&self) -> (BTreeMap<i32, Committed>, Vec<(i32, i64, usize)>) {
        let client = self
            .stage
            .broker
            .client()
            .set("group.id", &self.group)
            .clone();
        let (topic, dead) = (self.topic.name.clone(), self.dead.name.clone());
        let partitions = i32::from(self.partitions);
        let look = move || {
            let before = committed(&client, &topic, partitions);
            let deadline = Instant::now() + PATIENCE;
            // Kafka writes the end of a transaction to its partitions one by one.
            loop {
                let letters = letters(&client, &dead, 1);
                match missing(&before, &letters) {
                    Some(offset) if Instant::now() > deadline => {
                        panic!("{offset:?} is settled and not there: {letters:?}")
                    }
                    Some(_) => std::thread::park_timeout(Duration::from_millis(100)),
                    None => return (letters, committed(&client, &topic, partitions)),
                }
            }
        };
        let (letters, after) = spawn_blocking(look).await.unwrap();
        let mut once = BTreeSet::new();
        for &(partition, offset, _) in &letters {
            assert!(
                once.insert((partition, offset)),
                "twice: {offset}: {letters:?}"
            );
            assert!(offset % 3 != 0, "{offset} was acked: {letters:?}");
            assert!(
                after[&partition].settles(offset),
                "{offset} is not settled: {after:?}"
            );
        }
        (after, letters)
    }

    /// Everything is settled in the end, and each dead letter is there once.
    async fn ends(&self, count: i64) {
        eventually("everything is settled", async || {
            let (committed, letters) = self.look().await;
            let is_done = committed.values().all(|of| of.position == count);
            let bad = (0..count).filter(|offset| offset % 3 != 0).count();
            if is_done && letters.len() == bad * usize::from(self.partitions) {
                Ok(())
            } else {
                Err(format!("{} letters, {committed:?}", letters.len()))
            }
        })
        .await;
    }
}

// L3: killed between any two steps.
async fn killed_at_any_step_each_dead_letter_is_there_exactly_once(stage: Stage) {
    join_all(STEPS.into_iter().map(|step| killed_at(&stage, step))).await;
}

async fn killed_at(stage: &Stage, step: &str) {
    let scene = Scene::new(stage, step, 1).await;
    scene.produce(4).await;
    // The next start of the same gateway ends what this one leaves open.
    let id = format!("\"{}\"", stage.named(step));
    let subscription = scene
        .subscription()
        .set("dead_letter.transactional_id", &id)
        .set("dead_letter.transaction_timeout", "\"60s\"");
    let mut gateway = Gateway::start_to_die_at(stage, &[subscription], "", step).await;
    let mut stream = gateway.open().await;
    let records = stream.records(4).await;
    // Above the floor: settled by the map alone. The answer may never come.
    stream.tell(&records[2], Outcome::Rejected).await;
    gateway.dies().await;

    gateway.restart().await;
    let mut stream = gateway.open().await;
    let first = stream.records(3).await;
    let (committed, letters) = scene.look().await;
    let is_settled = committed[&0].settles(2);
    assert_eq!(letters.len(), usize::from(is_settled), "{step}");
    assert_eq!(is_settled, step == "transaction.committed", "{step}");
    let again = if is_settled {
        Vec::new()
    } else {
        stream.records(1).await
    };
    for record in first.iter().chain(&again) {
        let outcome = if record.offset % 3 == 0 {
            Outcome::Acked
        } else {
            Outcome::Rejected
        };
        stream
            .answer_all(std::slice::from_ref(record), outcome)
            .await;
    }
    scene.ends(4).await;
    stream.close().await;
}

// L3: each start has an id of its own, so nobody ends the transaction but Kafka.
async fn a_transaction_left_open_ends_by_itself_and_no_position_is_guessed(stage: Stage) {
    let scene = Scene::new(&stage, "open", 1).await;
    scene.produce(4).await;
    let subscription = scene
        .subscription()
        .set("start", "\"latest\"")
        .set("dead_letter.transaction_timeout", "\"2s\"")
        .set("content.check", "\"none\"");
    // The first one commits where reading begins.
    let step = "transaction.committing:2";
    let mut gateway = Gateway::start_to_die_at(&stage, &[subscription], "", step).await;
    let mut stream = gateway.open().await;
    // The lane begins at the end, and its start is committed before it is read.
    eventually("a record comes", async || {
        scene.produce(1).await;
        let got = stream.within(Duration::from_millis(500)).await;
        match got.first() {
            Some(record) => {
                stream.tell(record, Outcome::Rejected).await;
                Ok(())
            }
            None => Err("none".to_owned()),
        }
    })
    .await;
    gateway.dies().await;
    gateway.restart().await;
    let mut stream = gateway.open().await;
    let again = stream.record().await;
    assert!(again.offset >= 4, "what was before the start: {again:?}");
    stream.close().await;
}

// L3, L4: two gateways; the first one sleeps while it has letters under way.
async fn a_member_that_slept_through_its_session_commits_nothing(stage: Stage) {
    let scene = Scene::new(&stage, "zombie", 2).await;
    let subscription = scene.subscription().set("content.check", "\"json\"");
    let first = Gateway::start(&stage, std::slice::from_ref(&subscription)).await;
    let _one = Subscriber::start(first.address, &[]);
    scene.produce(600).await;
    eventually("the first is at work", async || {
        let (_, letters) = scene.look().await;
        if letters.is_empty() {
            Err("no letter".to_owned())
        } else {
            Ok(())
        }
    })
    .await;
    first.signal("STOP");
    let second = Gateway::start(&stage, &[subscription]).await;
    let _other = Subscriber::start(second.address, &[]);
    scene.ends(600).await;
    first.signal("CONT");
    scene.produce(600).await;
    // It goes on, with new lanes; what it had under way is void.
    eventually("everything is committed", async || {
        let (committed, _) = scene.look().await;
        if committed.values().all(|of| of.position >= 1200) {
            Ok(())
        } else {
            Err(format!("{committed:?}"))
        }
    })
    .await;
}

// L3: lanes go to gateways that come, and come back, all along.
async fn partitions_that_move_repeat_no_dead_letter(stage: Stage) {
    let scene = Scene::new(&stage, "moving", 4).await;
    let subscription = scene.subscription().set("content.check", "\"json\"");
    let first = Gateway::start(&stage, std::slice::from_ref(&subscription)).await;
    let _one = Subscriber::start(first.address, &[]);
    scene.produce(999).await;
    for _ in 0..2 {
        let mut second = Gateway::start(&stage, std::slice::from_ref(&subscription)).await;
        let _two = Subscriber::start(second.address, &[]);
        eventually("it has lanes", async || {
            if second.log().contains("lane assigned") {
                Ok(())
            } else {
                Err("none".to_owned())
            }
        })
        .await;
        scene.look().await;
        second.terminate();
        assert!(second.end().await.success());
    }
    scene.ends(999).await;
}

// L3: stopped for longer than Kafka keeps its transaction, and for less than its session.
async fn a_transaction_that_timed_out_is_made_again(stage: Stage) {
    let scene = Scene::new(&stage, "slow", 1).await;
    let subscription = scene
        .subscription()
        .set("content.check", "\"json\"")
        .set("dead_letter.transaction_timeout", "\"1s\"")
        .consumer_property("session.timeout.ms", "45000");
    let gateway = Gateway::start(&stage, &[subscription]).await;
    let _subscriber = Subscriber::start(gateway.address, &[]);
    scene.produce(3000).await;
    eventually("letters are written", async || {
        let (_, letters) = scene.look().await;
        if letters.is_empty() {
            Err("none".to_owned())
        } else {
            Ok(())
        }
    })
    .await;
    gateway.signal("STOP");
    // Kafka looks for such transactions every ten seconds.
    tokio::time::sleep(Duration::from_secs(12)).await;
    gateway.signal("CONT");
    scene.ends(3000).await;
}

/// Bytes that nothing compresses.
fn noise(count: usize) -> Vec<u8> {
    let next = |state: &u64| {
        Some(
            state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1),
        )
    };
    std::iter::successors(Some(7_u64), next)
        .map(|state| (state >> 56) as u8)
        .take(count)
        .collect()
}

async fn a_letter_too_large_for_its_topic_goes_without_its_value(stage: Stage) {
    let mut scene = Scene::new(&stage, "large", 1).await;
    scene.dead = Topic {
        name: stage.named("small"),
    };
    let limit = Some(("max.message.bytes", "4000"));
    stage.broker.create(&scene.dead.name, 1, limit).await;
    let subscription = scene.subscription().set("content.check", "\"json\"");
    let gateway = Gateway::start(&stage, &[subscription]).await;
    let _subscriber = Subscriber::start(gateway.address, &[]);
    let value = |n: usize| match n {
        1 => noise(20_000),
        2 | 4 | 5 => noise(2_000),
        _ => b"{}".to_vec(),
    };
    let records = (0..7).map(|n| Outgoing::value(0, value(n)));
    stage.broker.produce(&scene.topic.name, records).await;
    scene.ends(7).await;
    let (_, letters) = scene.look().await;
    let sizes: BTreeMap<i64, usize> = letters.iter().map(|of| (of.1, of.2)).collect();
    assert_eq!(
        sizes,
        BTreeMap::from([(1, 0), (2, 2000), (4, 2000), (5, 2000)])
    );
}
