//! What Kafka's logs do by themselves: they have gaps, end in markers, lose their
//! beginning, and are made anew.

use std::time::Duration;

use ackgate_proto::v1::{LaneEventKind, Outcome, VerdictResult};
use rdkafka::{
    admin::{AdminClient, AdminOptions},
    client::DefaultClientContext,
    producer::{BaseProducer, BaseRecord, Producer as _},
};
use tokio::{task::spawn_blocking, time::Instant};

use crate::support::{Case, Outgoing, PATIENCE, Stage, Topic, cases, eventually, throughout};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        kafka: compacted_log_is_committed_to_its_end,
            transaction_markers_show_no_lag,
            retention_that_passed_the_floor_is_told_and_the_oldest_record_is_next,
            retention_that_passes_a_running_lane_is_told,
            topic_made_anew_is_noticed_and_delivered_in_full;
    ]
}

pub(crate) fn admin(stage: &Stage) -> AdminClient<DefaultClientContext> {
    stage.broker.client().create().expect("an admin client")
}

pub(crate) fn options() -> AdminOptions {
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

pub(crate) fn numbers(count: usize) -> impl Iterator<Item = Outgoing> {
    (0..count).map(|n| Outgoing::value(0, format!("{n}")))
}

pub(crate) fn offsets(records: &[crate::support::Received]) -> Vec<i64> {
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

/// Writes so many records to partition 0 in one transaction: a marker follows them.
pub(crate) async fn in_transaction(stage: &Stage, topic: &Topic, records: usize) {
    let mut config = stage.broker.client();
    config.set("transactional.id", stage.named("writer"));
    let name = topic.name.clone();
    spawn_blocking(move || {
        let producer: BaseProducer = config.create().unwrap();
        producer.init_transactions(PATIENCE).unwrap();
        producer.begin_transaction().unwrap();
        for _ in 0..records {
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
}

// FC-06, L7.
async fn transaction_markers_show_no_lag(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    in_transaction(&stage, &topic, 5).await;
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

    in_transaction(&stage, &topic, 5).await;
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
