//! What Kafka's logs do by themselves: they have gaps, end in markers, lose their
//! beginning, grow partitions, and are made anew; and a group that falls silent.

use std::time::Duration;

use ackgate_proto::v1::{Credit, LaneEventKind, Outcome, VerdictResult};
use rdkafka::{
    admin::{AdminClient, AdminOptions, NewPartitions},
    client::DefaultClientContext,
    consumer::{BaseConsumer, Consumer as _},
    producer::{BaseProducer, BaseRecord, Producer as _},
};
use tokio::{task::spawn_blocking, time::Instant};

use crate::support::{
    Broker, Case, Gateway, Outgoing, PATIENCE, Stage, Stream, Topic, cases, eventually, throughout,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        kafka: compacted_log_is_committed_to_its_end,
            transaction_markers_show_no_lag,
            retention_that_passed_the_floor_is_told_and_the_oldest_record_is_next,
            retention_that_passes_a_running_lane_is_told,
            topic_made_anew_is_noticed_and_delivered_in_full,
            added_partition_is_read_from_its_beginning,
            latest_on_an_idle_lane_outlives_a_restart,
            silent_broker_fences_the_gateway_until_it_answers,
            prefetch_keeps_to_the_memory_budget_with_many_partitions;
    ]
}

fn admin(stage: &Stage) -> AdminClient<DefaultClientContext> {
    stage.broker.client().create().expect("an admin client")
}

fn options() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(PATIENCE))
}

/// Has Kafka delete everything below `position`, as retention does.
async fn delete_below(stage: &Stage, topic: &Topic, partition: i32, position: i64) {
    let mut list = rdkafka::TopicPartitionList::new();
    let offset = rdkafka::Offset::Offset(position);
    list.add_partition_offset(&topic.name, partition, offset)
        .unwrap();
    let done = admin(stage).delete_records(&list, &options()).await;
    done.expect("records can be deleted");
}

fn numbers(count: usize) -> impl Iterator<Item = Outgoing> {
    (0..count).map(|n| Outgoing::value(0, format!("{n}")))
}

fn offsets(records: &[crate::support::Received]) -> Vec<i64> {
    records.iter().map(|record| record.offset).collect()
}

// FC-04, L7.
async fn compacted_log_is_committed_to_its_end(stage: Stage) {
    let topic = Topic {
        name: stage.named("compacted"),
    };
    let admin = admin(&stage);
    let new =
        rdkafka::admin::NewTopic::new(&topic.name, 1, rdkafka::admin::TopicReplication::Fixed(1))
            .set("cleanup.policy", "compact")
            .set("min.cleanable.dirty.ratio", "0.001")
            .set("segment.ms", "100")
            .set("min.compaction.lag.ms", "0")
            .set("delete.retention.ms", "0");
    for result in admin.create_topics([&new], &options()).await.unwrap() {
        result.unwrap();
    }
    let keyed = |key: &str| Outgoing {
        key: Some(key.as_bytes().to_vec()),
        ..Outgoing::value(0, "v")
    };
    // Each in a batch of its own; the last of each key stays.
    for key in ["a", "b", "b", "c", "b", "a", "d", "a", "d", "a"] {
        stage.broker.produce(&topic.name, [keyed(key)]).await;
        tokio::time::sleep(Duration::from_millis(120)).await;
    }
    let visible = eventually("the log is compacted", async || {
        // Only segments that are no longer written to are compacted.
        stage.broker.produce(&topic.name, [keyed("z")]).await;
        let seen = stage.broker.read(&topic.name).await;
        let old = seen.iter().filter(|one| one.offset < 10).count();
        if old <= 5 {
            Ok(seen.len())
        } else {
            Err(format!("{seen:?}"))
        }
    })
    .await;
    let mut gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut stream = gateway.open().await;
    let mut received = stream.records(visible.min(4)).await;
    received.extend(stream.within(Duration::from_secs(2)).await);
    stream.answer_all(&received, Outcome::Acked).await;
    let end = received.last().unwrap().offset + 1;
    stage.commits(&topic, 0, end).await;
    assert!(
        (received.len() as i64) < end,
        "there are gaps: {received:?}"
    );
    gateway.terminate();
    assert!(gateway.end().await.success());
}

// FC-06, L7.
async fn transaction_markers_show_no_lag(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let transaction = async || {
        let mut config = stage.broker.client();
        config.set("transactional.id", stage.named("writer"));
        let name = topic.name.clone();
        spawn_blocking(move || {
            let producer: BaseProducer = config.create().unwrap();
            producer.init_transactions(PATIENCE).unwrap();
            producer.begin_transaction().unwrap();
            for _ in 0..5 {
                let record: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(&name);
                producer
                    .send(record.partition(0).payload(b"v".as_slice()))
                    .map_err(|(error, _)| error)
                    .unwrap();
            }
            producer.commit_transaction(PATIENCE).unwrap();
        })
        .await
        .unwrap();
    };
    transaction().await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut stream = gateway.open().await;
    let records = stream.records(5).await;
    assert_eq!(offsets(&records), [0, 1, 2, 3, 4]);
    throughout(
        "nothing is settled",
        Duration::from_secs(3),
        async || match stage.committed(&topic, 0).await {
            None | Some(0) => Ok(()),
            seen => Err(format!("{seen:?}")),
        },
    )
    .await;
    stream.answer_all(&records, Outcome::Acked).await;
    stage.commits(&topic, 0, 6).await;

    transaction().await;
    let records = stream.records(5).await;
    assert_eq!(offsets(&records), [6, 7, 8, 9, 10]);
    stream.answer_all(&records, Outcome::Acked).await;
    stage.commits(&topic, 0, 12).await;
}

// FC-93, L7.
async fn retention_that_passed_the_floor_is_told_and_the_oldest_record_is_next(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.broker.produce(&topic.name, numbers(600)).await;
    // Wherever a new group would begin, a lost position leads to the oldest record.
    let subscription = stage.subscription(&topic).set("start", "\"earliest\"");
    let mut gateway = stage.gateway(std::slice::from_ref(&subscription)).await;
    let mut stream = gateway.open().await;
    let records = stream.records(101).await;
    stream.answer_all(&records[..100], Outcome::Acked).await;
    stage.commits(&topic, 0, 100).await;
    let old = records[100].clone();
    gateway.terminate();
    gateway.end().await;
    delete_below(&stage, &topic, 0, 500).await;

    let gateway = stage
        .gateway(&[subscription.set("start", "\"latest\"")])
        .await;
    let mut stream = gateway.open().await;
    let lost = stream
        .event("tells what is lost", |event| {
            event.kind() == LaneEventKind::LostRange
        })
        .await;
    assert_eq!(
        (lost.first_offset, lost.last_offset),
        (Some(100), Some(499))
    );
    gateway.logs("offsets=400").await;
    let records = stream.records(100).await;
    assert_eq!(offsets(&records), (500..600).collect::<Vec<_>>());
    // The old lane's number means nothing here, and the new lane never had 100.
    let mut verdicts = vec![old.verdict(Outcome::Acked), old.verdict(Outcome::Acked)];
    verdicts[1].lane = records[0].lane;
    let settled = stream.settle(verdicts).await;
    let results: Vec<VerdictResult> = settled.answers.iter().map(|one| one.result()).collect();
    assert_eq!(results.len(), 2, "{settled:?}");
    for result in results {
        let known = [
            VerdictResult::Unknown,
            VerdictResult::Stale,
            VerdictResult::Fenced,
        ];
        assert!(known.contains(&result), "{settled:?}");
    }
    stream.answer_all(&records, Outcome::Acked).await;
    stage.commits(&topic, 0, 600).await;
}

// FC-93, L7.
async fn retention_that_passes_a_running_lane_is_told(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let value = vec![b'x'; 100_000];
    let records = (0..200).map(|_| Outgoing::value(0, value.clone()));
    stage.broker.produce(&topic.name, records).await;
    // Little is fetched ahead, so that the log's beginning passes the fetcher.
    let subscription = stage
        .subscription(&topic)
        .set("window.records", "2")
        .consumer_property("queued.max.messages.kbytes", "100")
        .consumer_property("fetch.message.max.bytes", "100000");
    let gateway = stage.gateway(&[subscription]).await;
    let mut stream = gateway.open().await;
    let held = stream.records(2).await;
    delete_below(&stage, &topic, 0, 150).await;
    stream.answer_all(&held, Outcome::Acked).await;
    let mut seen = offsets(&held);
    while seen.last() != Some(&199) {
        let record = stream.record().await;
        stream.ack(&record).await;
        seen.push(record.offset);
    }
    let lost = stream
        .event("tells what is lost", |event| {
            event.kind() == LaneEventKind::LostRange
        })
        .await;
    let (first, last) = (lost.first_offset.unwrap(), lost.last_offset.unwrap());
    assert_eq!(last, 149);
    let expected: Vec<i64> = (0..first).chain(150..200).collect();
    assert_eq!(seen, expected, "every record is received or told as lost");
    stage.commits(&topic, 0, 200).await;
}

// FC-91, L1, L4, L11.
async fn topic_made_anew_is_noticed_and_delivered_in_full(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.broker.produce(&topic.name, numbers(1_002)).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut stream = gateway.open().await;
    let records = stream.records(1_002).await;
    stream.answer_all(&records[..1_000], Outcome::Acked).await;
    stage.commits(&topic, 0, 1_000).await;

    let admin = admin(&stage);
    admin
        .delete_topics(&[topic.name.as_str()], &options())
        .await
        .unwrap();
    eventually("the topic can be created again", async || {
        let new = rdkafka::admin::NewTopic::new(
            &topic.name,
            1,
            rdkafka::admin::TopicReplication::Fixed(1),
        );
        let results = admin.create_topics([&new], &options()).await.unwrap();
        for result in results {
            result.map_err(|error| format!("{error:?}"))?;
        }
        Ok(())
    })
    .await;
    stage.broker.produce(&topic.name, numbers(10)).await;
    let begin = Instant::now();
    let reset = stream
        .event("says that the topic was made anew", |event| {
            event.kind() == LaneEventKind::Reset
        })
        .await;
    assert!(begin.elapsed() < Duration::from_secs(60));
    assert!(reset.detail.contains("topic recreated"), "{reset:?}");
    let settled = stream
        .settle(vec![records[1_000].verdict(Outcome::Acked)])
        .await;
    assert_eq!(settled.answers[0].result(), VerdictResult::Fenced);
    let records = stream.records(10).await;
    assert_eq!(offsets(&records), (0..10).collect::<Vec<_>>());
    stream.answer_all(&records, Outcome::Acked).await;
    stage.commits(&topic, 0, 10).await;
}

async fn added_partition_is_read_from_its_beginning(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.broker.produce(&topic.name, numbers(3)).await;
    let subscription = stage
        .subscription(&topic)
        .set("start", "\"latest\"")
        .consumer_property("topic.metadata.refresh.interval.ms", "1000");
    let mut gateway = stage.gateway(&[subscription]).await;
    let mut stream = gateway.open().await;
    // The end was looked up and committed.
    stage.commits(&topic, 0, 3).await;
    let grow = async |count: usize| {
        let more = NewPartitions::new(&topic.name, count);
        let results = admin(&stage).create_partitions([&more], &options()).await;
        results.unwrap().remove(0).unwrap();
        eventually("the partition is there", async || {
            let (client, name) = (stage.broker.client(), topic.name.clone());
            let seen = spawn_blocking(move || {
                let consumer: BaseConsumer = client.create().unwrap();
                let metadata = consumer.fetch_metadata(Some(&name), PATIENCE).unwrap();
                metadata.topics()[0].partitions().len()
            });
            match seen.await.unwrap() {
                enough if enough >= count => Ok(()),
                seen => Err(format!("{seen}")),
            }
        })
        .await;
        let partition = count as i32 - 1;
        let first = (0..2).map(|n| Outgoing::value(partition, format!("{n}")));
        stage.broker.produce(&topic.name, first).await;
    };
    grow(2).await;
    let records = stream.records(2).await;
    assert!(records.iter().all(|one| one.partition == 1), "{records:?}");
    stream.answer_all(&records, Outcome::Acked).await;
    stage.commits(&topic, 1, 2).await;

    // Another one while nobody is there.
    drop(stream);
    gateway.terminate();
    gateway.end().await;
    grow(3).await;
    gateway.restart().await;
    let mut stream = gateway.open().await;
    let records = stream.records(2).await;
    assert!(records.iter().all(|one| one.partition == 2), "{records:?}");
    stream.answer_all(&records, Outcome::Acked).await;
    stage.commits(&topic, 2, 2).await;
}

async fn latest_on_an_idle_lane_outlives_a_restart(stage: Stage) {
    let topic = stage.topic("orders", 2).await;
    stage.broker.produce(&topic.name, numbers(3)).await;
    let subscription = stage.subscription(&topic).set("start", "\"latest\"");
    let mut gateway = stage.gateway(&[subscription]).await;
    let stream = gateway.open().await;
    // Nothing was received, nothing settled.
    stage.commits(&topic, 0, 3).await;
    stage.commits(&topic, 1, 0).await;
    drop(stream);
    gateway.terminate();
    gateway.end().await;
    let missed = [Outgoing::value(0, "missed"), Outgoing::value(1, "missed")];
    stage.broker.produce(&topic.name, missed).await;
    gateway.restart().await;
    let records = gateway.open().await.records(2).await;
    assert!(records.iter().all(|one| one.text() == "missed"));
}

// L4.
async fn silent_broker_fences_the_gateway_until_it_answers(stage: Stage) {
    // A broker of its own: others must not wait for it.
    let own = spawn_blocking(Broker::own_kafka).await.unwrap();
    let stage = stage.on(own);
    let topic = stage.topic("orders", 1).await;
    stage.broker.produce(&topic.name, numbers(10)).await;
    let subscription = stage
        .subscription(&topic)
        .consumer_property("session.timeout.ms", "6000")
        .consumer_property("heartbeat.interval.ms", "1000");
    let gateway = stage.gateway(&[subscription]).await;
    let mut open = Stream::hello("orders");
    open.credit = Some(Credit {
        records: 5,
        bytes: 1 << 20,
    });
    let mut stream = Stream::open(gateway.address, open).await;
    let held = stream.records(5).await;

    stage.broker.tools().signal("STOP");
    let event = stream
        .event("holds back what is new", |event| {
            event.kind() == LaneEventKind::Held && event.detail.contains("coordinator")
        })
        .await;
    assert_eq!(event.lane, 0);
    // A place is free, and yet nothing comes.
    stream.credit(10, 1 << 20).await;
    let fenced = |kind| matches!(kind, LaneEventKind::Fenced | LaneEventKind::Revoked);
    stream
        .event("voids what is out", |event| fenced(event.kind()))
        .await;
    assert_eq!(stream.within(Duration::from_secs(2)).await.len(), 0);
    let settled = stream.settle(vec![held[0].verdict(Outcome::Acked)]).await;
    let result = settled.answers[0].result();
    let void = [VerdictResult::Stale, VerdictResult::Fenced];
    assert!(void.contains(&result), "{settled:?}");

    stage.broker.tools().signal("CONT");
    let records = stream.records(10).await;
    assert_eq!(offsets(&records), (0..10).collect::<Vec<_>>());
    stream.answer_all(&records, Outcome::Acked).await;
    stage.commits(&topic, 0, 10).await;
    stage.broker.tools().end();
}

// FC-75.
async fn prefetch_keeps_to_the_memory_budget_with_many_partitions(stage: Stage) {
    const MIB: u64 = 1 << 20;
    const PARTITIONS: i32 = 60;
    const EACH: usize = 20;
    let topic = stage.topic("orders", PARTITIONS as u16).await;
    let empty = stage.topic("empty", PARTITIONS as u16).await;
    for round in 0..EACH {
        let value = vec![b'a' + round as u8; 175_000];
        let records = (0..PARTITIONS).map(|partition| Outgoing::value(partition, value.clone()));
        stage.broker.produce(&topic.name, records).await;
    }
    let budget = 48 * MIB;
    let top = "memory = \"48MiB\"";
    let window = |topic: &Topic| {
        stage
            .subscription(topic)
            .set("window.records", "1")
            .set("window.bytes", "\"8MiB\"")
    };
    // What the process takes with as many lanes and nothing in them.
    let gateway = Gateway::start_with(&stage, &[window(&empty)], top).await;
    let _stream = gateway.open().await;
    gateway.logs("partition=59").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let baseline = gateway.memory();
    drop(gateway);

    let gateway = Gateway::start_with(&stage, &[window(&topic)], top).await;
    let mut open = Stream::hello("orders");
    open.credit = Some(Credit {
        records: 1,
        bytes: MIB,
    });
    let mut stream = Stream::open(gateway.address, open).await;
    let allowed = baseline + budget * 5 / 4;
    let mut most = 0;
    let count = PARTITIONS as usize * EACH;
    for number in 0..count {
        let record = stream.record().await;
        if number % 20 == 0 {
            most = most.max(gateway.memory());
            assert!(
                most <= allowed,
                "{} MiB after {number} records, {} MiB without any",
                most / MIB,
                baseline / MIB
            );
        }
        stream.ack(&record).await;
    }
    println!(
        "{} MiB at most, {} MiB without records",
        most / MIB,
        baseline / MIB
    );
}
