//! What the mock cluster cannot show, against Apache Kafka:
//! `ACKGATE_TEST_BOOTSTRAP=127.0.0.1:9092 cargo test -p ackgate --lib -- --ignored real`

use std::{
    env,
    time::{Duration, Instant},
};

use ackgate_lane::Position;
use rdkafka::{
    ClientConfig, Offset,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    producer::{FutureProducer, FutureRecord},
};

use super::rebalance::move_lanes;
use super::support::{Member, PATIENCE, cluster, committed, fill, subscription};
use crate::{
    broker::{
        Commit, ErrorKind, Event, Outgoing, Producer as _, kafka::KafkaProducer, kafka::Probe,
    },
    config::StartAt,
};

fn bootstrap() -> String {
    env::var("ACKGATE_TEST_BOOTSTRAP").expect("the address of a broker")
}

/// A topic of its own for each run.
async fn topic(bootstrap: &str, partitions: i32, config: &[(&str, &str)]) -> String {
    let name = format!("adapter-{:016x}", fastrand::u64(..));
    let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .create()
        .unwrap();
    let mut topic = NewTopic::new(&name, partitions, TopicReplication::Fixed(1));
    for (key, value) in config {
        topic = topic.set(key, value);
    }
    let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
    admin
        .create_topics(&[topic], &options)
        .await
        .unwrap()
        .remove(0)
        .unwrap();
    name
}

async fn stamped(bootstrap: &str, topic: &str, times: &[i64]) {
    let producer: FutureProducer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .create()
        .unwrap();
    for time in times {
        let record = FutureRecord::<str, str>::to(topic)
            .partition(0)
            .payload("v")
            .timestamp(*time);
        producer
            .send_result(record)
            .unwrap()
            .await
            .unwrap()
            .unwrap();
    }
}

#[tokio::test]
#[ignore = "needs Apache Kafka at ACKGATE_TEST_BOOTSTRAP"]
async fn timestamp_begins_at_the_first_record_at_or_after_it() {
    let bootstrap = bootstrap();
    let topic = topic(&bootstrap, 1, &[]).await;
    let now = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap()
        .as_millis();
    // Recent enough for retention, and in the past.
    let base = i64::try_from(now).unwrap() - 100_000;
    stamped(&bootstrap, &topic, &[base, base + 10, base + 20]).await;
    for (time, start) in [(0, 0), (base + 5, 1), (base + 20, 2), (base + 21, 3)] {
        let group = format!("{topic}-{time}");
        let subscription = subscription(&[&topic], &group, StartAt::Timestamp(time));
        let mut member = Member::join(&bootstrap, &subscription);
        assert_eq!(
            member.lane().await.start.unwrap().get(),
            start,
            "time {time}"
        );
        member.close().await;
    }
}

#[tokio::test]
#[ignore = "needs Apache Kafka at ACKGATE_TEST_BOOTSTRAP"]
async fn commits_seeks_and_restarts_go_on_where_they_should() {
    let bootstrap = bootstrap();
    let topic = topic(&bootstrap, 1, &[]).await;
    fill(&bootstrap, &topic, 0, 0..20).await;
    let subscription = subscription(&[&topic], &topic, StartAt::Earliest);
    let mut member = Member::join(&bootstrap, &subscription);
    let lane = member.lane().await;
    member.grant(lane.generation, 10);
    member.offsets(10).await;
    member.seek(lane.generation, 4, 1).await.unwrap();
    member.grant(lane.generation, 2);
    assert_eq!(member.offsets(2).await, [4, 5]);
    member.commit(lane.generation, 6).await.unwrap();
    assert_eq!(committed(&bootstrap, &topic, &topic, 0), Offset::Offset(6));
    member.close().await;
    let mut member = Member::join(&bootstrap, &subscription);
    assert_eq!(member.lane().await.start.unwrap().get(), 6);
    member.close().await;
}

#[tokio::test]
#[ignore = "needs Apache Kafka at ACKGATE_TEST_BOOTSTRAP"]
async fn close_leaves_the_group_at_once() {
    let bootstrap = bootstrap();
    let topic = topic(&bootstrap, 1, &[]).await;
    let subscription = subscription(&[&topic], &topic, StartAt::Earliest);
    // Whoever does not leave keeps its lanes for a session of 45 s.
    let mut first = Member::join(&bootstrap, &subscription);
    first.lane().await;
    let begin = Instant::now();
    first.close().await;
    let mut second = Member::join(&bootstrap, &subscription);
    second.lane().await;
    assert!(
        begin.elapsed() < Duration::from_secs(20),
        "{:?}",
        begin.elapsed()
    );
    second.close().await;
}

#[tokio::test]
#[ignore = "needs Apache Kafka at ACKGATE_TEST_BOOTSTRAP"]
async fn lanes_move_with_their_last_commit_cooperatively_and_eagerly() {
    let bootstrap = bootstrap();
    for eager in [false, true] {
        let topic = topic(&bootstrap, 4, &[]).await;
        let subscription = subscription(&[&topic], &topic, StartAt::Earliest);
        assert!(move_lanes(&bootstrap, &topic, subscription, eager).await);
    }
}

#[tokio::test]
#[ignore = "needs Apache Kafka at ACKGATE_TEST_BOOTSTRAP"]
async fn oversize_record_and_missing_topic_are_told_apart() {
    let bootstrap = bootstrap();
    let topic = topic(&bootstrap, 1, &[("max.message.bytes", "1000")]).await;
    let producer = KafkaProducer::new(&cluster(&bootstrap), &[]).unwrap();
    let record = Outgoing {
        topic: topic.clone(),
        partition: None,
        key: None,
        value: Some(fastrand_bytes(5_000).into()),
        headers: Vec::new(),
        timestamp_ms: None,
    };
    let error = producer.produce(record.clone()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooLarge, "{error}");
    let missing = Outgoing {
        topic: "not..there".to_owned(),
        ..record
    };
    let error = producer.produce(missing).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Operator, "{error}");

    let probe = Probe::new(&cluster(&bootstrap), PATIENCE).unwrap();
    let facts = probe.topic(&topic).unwrap().unwrap();
    assert_eq!(facts.max_message_bytes, Some(1000));
    assert_eq!(facts.min_insync_replicas, Some(1));
    assert!(facts.unwritable().is_empty());
    assert_eq!(probe.topic("absent-topic").unwrap(), None);
    assert!(probe.brokers().unwrap() >= 1);
}

fn fastrand_bytes(len: usize) -> Vec<u8> {
    std::iter::repeat_with(|| fastrand::u8(..))
        .take(len)
        .collect()
}

#[tokio::test]
#[ignore = "needs Apache Kafka at ACKGATE_TEST_BOOTSTRAP; prints a figure"]
#[allow(clippy::print_stderr, reason = "the figure is the point")]
async fn throughput_of_the_adapter_alone() {
    const LANES: i32 = 8;
    let bootstrap = bootstrap();
    let count: u64 = env::var("ACKGATE_TEST_RECORDS").map_or(400_000, |n| n.parse().unwrap());
    let topic = topic(&bootstrap, LANES, &[]).await;
    let producer: FutureProducer = ClientConfig::new()
        .set("bootstrap.servers", &bootstrap)
        .set("linger.ms", "20")
        .set("queue.buffering.max.messages", "1000000")
        .create()
        .unwrap();
    let value = vec![b'x'; 128];
    let mut sent = std::collections::VecDeque::new();
    for number in 0..count {
        let partition = i32::try_from(number % 8).unwrap();
        let record = FutureRecord::<[u8], _>::to(&topic)
            .partition(partition)
            .payload(&value);
        sent.push_back(producer.send_result(record).unwrap());
        if sent.len() > 200_000 {
            sent.pop_front().unwrap().await.unwrap().unwrap();
        }
    }
    for delivery in sent {
        delivery.await.unwrap().unwrap();
    }
    let mut member = Member::join(
        &bootstrap,
        &subscription(&[&topic], &topic, StartAt::Earliest),
    );
    let lanes = member.lanes(8).await;
    for lane in &lanes {
        member.consumer.grant(lane.generation, 8192, 1 << 22);
    }
    let begin = Instant::now();
    let (mut seen, mut chunks, mut bytes) = (0, 0_u64, 0);
    while seen < count {
        let chunk = member.chunk().await;
        let records = u32::try_from(chunk.records.len()).unwrap();
        seen += u64::from(records);
        chunks += 1;
        bytes += chunk.bytes.len();
        member
            .consumer
            .grant(chunk.generation, records, chunk.bytes.len() as u64);
    }
    let took = begin.elapsed().max(Duration::from_millis(1));
    eprintln!(
        "{count} records in {took:?}: {:.0} records/s, {} per chunk, {bytes} bytes",
        count as f64 / took.as_secs_f64(),
        count / chunks,
    );
    member.close().await;
}

#[tokio::test]
#[ignore = "needs Apache Kafka at ACKGATE_TEST_BOOTSTRAP"]
async fn metadata_that_is_too_large_is_told_of_its_lane_alone() {
    let bootstrap = bootstrap();
    let topic = topic(&bootstrap, 2, &[]).await;
    let group = format!("{topic}-group");
    let mut member = Member::join(
        &bootstrap,
        &subscription(&[&topic], &group, StartAt::Earliest),
    );
    let lanes = member.lanes(2).await;
    let (fits, large) = ("x".repeat(4096), "x".repeat(4097));
    let texts = [fits, large];
    let commits: Vec<Commit> = texts
        .iter()
        .zip(&lanes)
        .map(|(text, lane)| Commit {
            generation: lane.generation,
            position: Position::new(7),
            serial: 1,
            metadata: Some(text.as_str().into()),
            letters: Vec::new(),
        })
        .collect();
    member.consumer.commit(commits);
    let mut results = Vec::new();
    while results.len() < 2 {
        let answer = member.until(|event| match event {
            Event::Committed { commit, result } => Some((commit.generation, result)),
            _ => None,
        });
        results.push(answer.await);
    }
    for (generation, result) in results {
        if generation == lanes[0].generation {
            result.unwrap();
        } else {
            assert_eq!(result.unwrap_err().kind, ErrorKind::TooLarge);
        }
    }
    member.close().await;
}
