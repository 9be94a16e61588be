//! What a subscriber receives: every record as it is in Kafka, once, in order.

use std::collections::BTreeSet;

use ackgate_proto::v1::{Header, Outcome, TimestampType};

use crate::support::{Case, Outgoing, Stage, Stream, cases};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        both: null_and_empty_stay_different,
            headers_arrive_with_repeats_and_in_order,
            lane_arrives_in_offset_order;
        embedded: session_is_told_its_settings,
            record_goes_to_one_of_the_subscribers,
            first_hand_over_is_attempt_one_and_delivery_one;
    ]
}

async fn null_and_empty_stay_different(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
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

    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let received = gateway.open().await.records(4).await;

    let seen: Vec<_> = received
        .iter()
        .map(|one| {
            let bytes =
                |field: &Option<_>| field.as_ref().map(|bytes: &bytes::Bytes| bytes.to_vec());
            (bytes(&one.record.key), bytes(&one.record.value))
        })
        .collect();
    assert_eq!(seen, forms);
}

async fn headers_arrive_with_repeats_and_in_order(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let header = |key: &str, value: Option<&[u8]>| (key.to_owned(), value.map(<[u8]>::to_vec));
    let headers = vec![
        header("x", Some(b"1")),
        header("y", None),
        header("x", Some(b"")),
        header("x", Some(b"\xff\x00")),
    ];
    let record = Outgoing {
        headers: headers.clone(),
        timestamp: Some(1_700_000_000_000),
        ..Outgoing::value(0, "v")
    };
    stage.broker.produce(&topic.name, [record]).await;

    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let received = gateway.open().await.record().await.record;

    let sent: Vec<Header> = headers
        .into_iter()
        .map(|(key, value)| Header {
            key,
            value: value.map(Into::into),
        })
        .collect();
    assert_eq!(received.headers, sent);
    assert_eq!(received.timestamp_ms, 1_700_000_000_000);
    assert_eq!(received.timestamp_type(), TimestampType::CreateTime);
}

async fn lane_arrives_in_offset_order(stage: Stage) {
    let topic = stage.topic("orders", 3).await;
    for partition in 0..3 {
        let records = (0..500).map(|n| Outgoing::value(partition, format!("{partition}/{n}")));
        stage.broker.produce(&topic.name, records).await;
    }
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let received = gateway.open().await.records(1_500).await;
    for partition in 0..3 {
        let lane: Vec<_> = received
            .iter()
            .filter(|one| one.partition == partition)
            .collect();
        let offsets: Vec<i64> = lane.iter().map(|one| one.offset).collect();
        assert_eq!(offsets, (0..500).collect::<Vec<_>>());
        for one in lane {
            assert_eq!(one.text(), format!("{partition}/{}", one.offset));
        }
    }
}

async fn session_is_told_its_settings(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let subscription = stage.subscription(&topic).max_attempts(3);
    let gateway = stage.gateway(&[subscription]).await;
    let mut open = Stream::hello("orders");
    open.subscriber_id = "клиент-7 🦊".to_owned();
    open.max_message_bytes = 65_536;
    open.ack_deadline = Some(prost_types::Duration {
        seconds: 7,
        nanos: 0,
    });

    let stream = Stream::open(gateway.address, open).await;

    let opened = stream.opened.clone().unwrap();
    assert_eq!(opened.subscriber_id, "клиент-7 🦊");
    assert_eq!(opened.protocol_version, 1);
    assert!(!opened.session.is_empty());
    let settings = opened.settings.unwrap();
    assert_eq!(settings.max_attempts, 3);
    assert_eq!(settings.max_message_bytes, 65_536);
    assert_eq!(settings.max_verdicts, 10_000);
    assert_eq!(settings.ack_deadline.unwrap().seconds, 7);
    assert!(settings.ping_interval.is_some());
    stream.close().await;
}

async fn record_goes_to_one_of_the_subscribers(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut open = Stream::hello("orders");
    open.credit.as_mut().unwrap().records = 10;
    let mut one = Stream::open(gateway.address, open.clone()).await;
    let mut other = Stream::open(gateway.address, open).await;
    stage
        .broker
        .produce(
            &topic.name,
            (0..20).map(|n| Outgoing::value(0, format!("{n}"))),
        )
        .await;

    let first = one.records(10).await;
    let second = other.records(10).await;

    let offsets: BTreeSet<i64> = first.iter().chain(&second).map(|one| one.offset).collect();
    assert_eq!(offsets, (0..20).collect());
    one.answer_all(&first, Outcome::Acked).await;
    other.answer_all(&second, Outcome::Acked).await;
    stage.commits(&topic, 0, 20).await;
}

async fn first_hand_over_is_attempt_one_and_delivery_one(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["a"]).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut stream = gateway.open().await;

    let first = stream.record().await;
    assert_eq!((first.attempt, first.delivery), (1, 1));
    stream.fail(&first).await;

    let second = stream.record().await;
    assert_eq!((second.offset, second.attempt, second.delivery), (0, 2, 2));
    assert_eq!(second.record, first.record);
}
