//! Where rejected and exhausted records go, and that nothing passes them first.

use std::time::Duration;

use ackgate::broker::kafka::embedded::Refusable;
use ackgate_proto::v1::{LaneEventKind, Outcome};

use crate::support::{Case, Outgoing, Stage, Stream, Topic, cases, throughout};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        both: copy_is_the_record_byte_for_byte,
            null_and_empty_stay_different_in_the_copy,
            dead_lettered_record_is_settled_for_good,
            record_above_the_subscribers_limit_is_dead_lettered;
        embedded: committed_position_waits_for_the_confirmed_copy;
        kafka: missing_topic_holds_its_lane_and_no_other;
    ]
}

fn header(key: &str, value: Option<&[u8]>) -> (String, Option<Vec<u8>>) {
    (key.to_owned(), value.map(<[u8]>::to_vec))
}

// FC-52, FC-55, FC-59.
async fn copy_is_the_record_byte_for_byte(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let dead = stage.topic("dead", 1).await;
    let record = Outgoing {
        partition: 0,
        key: Some(vec![0x00, 0xff, 0x10]),
        value: None,
        headers: vec![
            header("a", Some(b"1")),
            header("a", Some(b"2")),
            header("b", None),
            header("c", Some(b"\xff")),
        ],
        timestamp: Some(1_700_000_000_000),
    };
    stage.broker.produce(&topic.name, [record.clone()]).await;
    let gateway = stage
        .gateway(&[stage.subscription(&topic).dead_letter(&dead)])
        .await;
    let mut open = Stream::hello("orders");
    open.subscriber_id = "billing-1".to_owned();
    let mut stream = Stream::open(gateway.address, open).await;
    let mut rejected = stream.record().await.verdict(Outcome::Rejected);
    rejected.code = "bad-total".to_owned();
    rejected.reason = "total is negative".to_owned();
    assert_eq!(stream.settle(vec![rejected]).await.answers, []);

    let letter = stage.holds(&dead, 1).await.remove(0);
    assert_eq!(letter.key, record.key);
    assert_eq!(letter.value, record.value);
    assert_eq!(letter.headers[..4], record.headers[..]);
    assert_eq!(letter.timestamp, record.timestamp);
    let group = stage.group();
    for (name, value) in [
        ("topic", topic.name.as_str()),
        ("partition", "0"),
        ("offset", "0"),
        ("timestamp", "1700000000000"),
        ("group", &group),
        ("subscription", "orders"),
        ("cause", "rejected"),
        ("code", "bad-total"),
        ("reason", "total is negative"),
        ("attempts", "1"),
        ("deliveries", "1"),
        ("subscriber", "billing-1"),
    ] {
        assert_eq!(
            letter.header(&format!("ackgate.dead-letter.{name}")),
            Some(value),
            "{name}"
        );
    }
    for name in ["first-delivery", "last-delivery", "dedupe-id"] {
        assert!(
            letter
                .header(&format!("ackgate.dead-letter.{name}"))
                .is_some(),
            "{name}"
        );
    }
    stage.commits(&topic, 0, 1).await;
}

// FC-57.
async fn null_and_empty_stay_different_in_the_copy(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let dead = stage.topic("dead", 1).await;
    let forms = [
        (None, None),
        (None, Some(vec![])),
        (Some(vec![]), None),
        (Some(vec![]), Some(vec![])),
    ];
    let records = forms.iter().cloned();
    let records = records.map(|(key, value)| Outgoing {
        key,
        value,
        ..Outgoing::default()
    });
    stage.broker.produce(&topic.name, records).await;
    let gateway = stage
        .gateway(&[stage.subscription(&topic).dead_letter(&dead)])
        .await;
    let mut stream = gateway.open().await;
    let received = stream.records(4).await;
    stream.answer_all(&received, Outcome::Rejected).await;

    let mut letters = stage.holds(&dead, 4).await;
    letters.sort_by_key(|one| one.header("ackgate.dead-letter.offset").map(str::to_owned));
    let seen: Vec<_> = letters
        .into_iter()
        .map(|one| (one.key, one.value))
        .collect();
    assert_eq!(seen, forms);
}

// L3, L2.
async fn committed_position_waits_for_the_confirmed_copy(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let dead = stage.topic("dead", 1).await;
    stage.produce(&topic, &["good", "bad", "good"]).await;
    let gateway = stage
        .gateway(&[stage.subscription(&topic).dead_letter(&dead)])
        .await;
    let mut stream = gateway.open().await;
    let records = stream.records(3).await;
    stage
        .broker
        .faults()
        .refuse(Refusable::Write, 1_000)
        .unwrap();
    stream.reject(&records[1]).await;
    stream.ack(&records[0]).await;
    stream.ack(&records[2]).await;
    stage.commits(&topic, 0, 1).await;
    throughout(
        "the copy is refused",
        Duration::from_secs(2),
        async || match stage.committed(&topic, 0).await {
            Some(1) => Ok(()),
            seen => Err(format!("{seen:?}")),
        },
    )
    .await;

    stage.broker.faults().refuse(Refusable::Write, 0).unwrap();
    stage.commits(&topic, 0, 3).await;
    let letters = stage.broker.read(&dead.name).await;
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].value.as_deref(), Some(b"bad".as_slice()));
}

// FC-48.
async fn dead_lettered_record_is_settled_for_good(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let dead = stage.topic("dead", 1).await;
    stage.produce(&topic, &["bad"]).await;
    let mut gateway = stage
        .gateway(&[stage.subscription(&topic).dead_letter(&dead)])
        .await;
    let mut stream = gateway.open().await;
    let record = stream.record().await;
    stream.reject(&record).await;
    stage.holds(&dead, 1).await;
    stage.commits(&topic, 0, 1).await;

    for number in 1..=3 {
        gateway.kill_and_restart().await;
        let mut stream = gateway.open().await;
        stage.produce(&topic, &["good"]).await;
        let record = stream.record().await;
        assert_eq!(record.offset, number, "what comes next is new");
        stream.ack(&record).await;
        stage.commits(&topic, 0, number + 1).await;
    }
    stage.holds(&dead, 1).await;
}

// FC-45.
async fn missing_topic_holds_its_lane_and_no_other(stage: Stage) {
    let topic = stage.topic("orders", 2).await;
    let dead = Topic {
        name: stage.named("dead"),
    };
    stage.produce_to(&topic, 0, &["bad", "good"]).await;
    let gateway = stage
        .gateway(&[stage.subscription(&topic).dead_letter(&dead)])
        .await;
    let mut stream = gateway.open().await;
    let records = stream.records(2).await;
    stream.reject(&records[0]).await;
    stream.ack(&records[1]).await;
    let held = LaneEventKind::Held;
    let event = stream.event("holds", |event| event.kind() == held).await;
    assert_eq!((event.partition, event.first_offset), (0, Some(0)));

    stage.produce_to(&topic, 1, &["0", "1", "2"]).await;
    let others = stream.records(3).await;
    stream.answer_all(&others, Outcome::Acked).await;
    stage.commits(&topic, 1, 3).await;
    assert!(matches!(stage.committed(&topic, 0).await, None | Some(0)));

    stage.broker.create(&dead.name, 1, None).await;
    stage.commits(&topic, 0, 2).await;
    assert_eq!(
        stage.holds(&dead, 1).await[0].value.as_deref(),
        Some(b"bad".as_slice())
    );
}

// FC-62.
async fn record_above_the_subscribers_limit_is_dead_lettered(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let dead = stage.topic("dead", 1).await;
    let large = vec![b'x'; 100_000];
    let records = [
        Outgoing::value(0, "small"),
        Outgoing::value(0, large.clone()),
        Outgoing::value(0, "small"),
    ];
    stage.broker.produce(&topic.name, records).await;
    let gateway = stage
        .gateway(&[stage.subscription(&topic).dead_letter(&dead)])
        .await;
    let mut open = Stream::hello("orders");
    open.max_message_bytes = 65_536;
    let mut stream = Stream::open(gateway.address, open).await;
    let received = stream.records(2).await;
    assert_eq!(
        received.iter().map(|one| one.offset).collect::<Vec<_>>(),
        [0, 2]
    );
    stream.answer_all(&received, Outcome::Acked).await;

    let letter = stage.holds(&dead, 1).await.remove(0);
    assert_eq!(letter.value, Some(large));
    assert_eq!(letter.header("ackgate.dead-letter.cause"), Some("oversize"));
    stage.commits(&topic, 0, 3).await;
    stream.close().await;
}
