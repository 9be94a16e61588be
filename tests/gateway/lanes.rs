//! Lanes that are added, idle, or many, and a group whose coordinator falls silent.

use std::time::Duration;

use ackgate_proto::v1::{Credit, LaneEventKind, Outcome, VerdictResult};
use rdkafka::{
    admin::NewPartitions,
    consumer::{BaseConsumer, Consumer as _},
};
use tokio::task::spawn_blocking;

use crate::{
    log::{admin, numbers, offsets, options},
    support::{Broker, Case, Gateway, Outgoing, PATIENCE, Stage, Stream, Topic, cases, eventually},
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        kafka: added_partition_is_read_from_its_beginning,
            latest_on_an_idle_lane_outlives_a_restart,
            silent_broker_fences_the_gateway_until_it_answers,
            prefetch_keeps_to_the_memory_budget_with_many_partitions;
    ]
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
    let mut before = 0;
    let baseline = eventually("the gateway takes no more memory", async || {
        let now = gateway.memory();
        if std::mem::replace(&mut before, now) == now {
            Ok(now)
        } else {
            Err(format!("{now} bytes"))
        }
    })
    .await;
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
