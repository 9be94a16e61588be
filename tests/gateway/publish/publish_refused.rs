//! Records that are refused: each by itself, with the reason, and those beside it are
//! written.

use ackgate_proto::v1::{OutgoingRecord, PublishError};

use super::{error, header, open, publishing, written};
use crate::support::{Case, Gateway, Stage, Topic, cases, eventually, record};

pub(super) fn cases() -> Vec<Case> {
    cases![
        both:
            topics_that_are_not_allowed_are_refused_one_by_one;
        kafka:
            record_that_is_too_large_is_refused_alone,
            unknown_topic_and_partition_are_told_soon_and_noticed_when_they_appear,
            record_that_kafka_refuses_does_not_condemn_those_beside_it;
    ]
}

async fn topics_that_are_not_allowed_are_refused_one_by_one(stage: Stage) {
    let topic = stage.topic("open", 1).await;
    let dead = stage.topic("dead", 1).await;
    let named = stage.topic("named-dead", 1).await;
    let subscription = stage.subscription(&topic).dead_letter(&dead);
    let other = stage.subscription(&topic).dead_letter(&named);
    let other = other.set("group", "\"other\"").renamed("others");
    let top = format!(
        "clusters.main.publish.topics = [\"{}\", \"{}\"]",
        stage.named("*"),
        named.name
    );
    let gateway = Gateway::start_with(&stage, &[subscription, other], &top).await;
    let mut stream = open(&gateway).await;
    let to = |name: &str| Topic {
        name: name.to_owned(),
    };
    let long = "x".repeat(250);
    let refused = [
        (to("elsewhere"), PublishError::NotAllowed),
        (dead, PublishError::NotAllowed),
        (to("__consumer_offsets"), PublishError::NotAllowed),
        (to(""), PublishError::Invalid),
        (to("a b"), PublishError::Invalid),
        (to("a\0b"), PublishError::Invalid),
        (to(&long), PublishError::Invalid),
    ];
    for (topic, _) in &refused {
        stream.records(vec![record(topic, "v")]).await;
    }
    let bad = [
        OutgoingRecord {
            partition: Some(-1),
            ..record(&topic, "v")
        },
        OutgoingRecord {
            timestamp_ms: Some(0),
            ..record(&topic, "v")
        },
        OutgoingRecord {
            timestamp_ms: Some(-1),
            ..record(&topic, "v")
        },
        OutgoingRecord {
            headers: vec![header("", None)],
            ..record(&topic, "v")
        },
    ];
    stream.records(bad.to_vec()).await;
    stream
        .records(vec![record(&topic, "fits"), record(&named, "fits")])
        .await;
    let closed = stream.close().await;
    assert_eq!((closed.written, closed.failed), (2, 11));
    let expected = refused.map(|(_, error)| error).into_iter();
    let expected: Vec<PublishError> = expected.chain([PublishError::Invalid; 4]).collect();
    for (result, expected) in stream.results.iter().zip(expected) {
        assert_eq!(error(result), expected, "{result:?}");
        assert!(!result.detail.is_empty());
        assert_eq!(result.offset, None);
    }
    written(&stream.results[11]);
    written(&stream.results[12]);
}

async fn record_that_is_too_large_is_refused_alone(stage: Stage) {
    let topic = stage.topic("large", 1).await;
    let small = Topic {
        name: stage.named("small"),
    };
    let limit = Some(("max.message.bytes", "100000"));
    stage.broker.create(&small.name, 1, limit).await;
    let more = "clusters.main.publish.max_record_bytes = \"512KiB\"\n\
                clusters.main.publish.producer.\"compression.type\" = \"none\"";
    let gateway = publishing(&stage, more).await;
    let mut stream = open(&gateway).await;
    assert_eq!(stream.opened.as_ref().unwrap().max_record_bytes, 512 * 1024);
    let exactly = OutgoingRecord {
        headers: vec![header("h", None)],
        ..record(&topic, vec![b'x'; 512 * 1024 - 1])
    };
    let over = record(&topic, vec![b'x'; 512 * 1024 + 1]);
    stream
        .records(vec![
            record(&topic, "a"),
            over,
            exactly,
            record(&topic, "b"),
        ])
        .await;
    let errors: Vec<_> = stream.answered(4).await.iter().map(error).collect();
    let [fine, large] = [PublishError::Unspecified, PublishError::TooLarge];
    assert_eq!(errors, [fine, large, fine, fine]);
    // Smaller than the gateway's limit and larger than the topic's.
    stream
        .records(vec![record(&small, vec![b'x'; 200_000])])
        .await;
    assert_eq!(error(&stream.answered(5).await[4]), large);
    stream.records(vec![record(&small, "c")]).await;
    written(&stream.answered(6).await[5]);
    // Together more than the topic takes in one batch, and each less.
    let each = record(&small, vec![b'x'; 30_000]);
    stream.records(vec![each; 10]).await;
    let results = stream.answered(16).await;
    results.iter().skip(6).map(written).for_each(drop);
    stage.holds(&small, 11).await;
}

async fn unknown_topic_and_partition_are_told_soon_and_noticed_when_they_appear(stage: Stage) {
    let topic = stage.topic("there", 1).await;
    let gateway = publishing(&stage, "").await;
    let mut stream = open(&gateway).await;
    let late = Topic {
        name: stage.named("late"),
    };
    let beyond = OutgoingRecord {
        partition: Some(1),
        ..record(&topic, "v")
    };
    stream
        .records(vec![beyond, record(&late, "v"), record(&topic, "v")])
        .await;
    let results = stream.answered(3).await;
    assert_eq!(error(&results[0]), PublishError::NotFound, "{results:?}");
    assert_eq!(results[0].partition, Some(1));
    assert_eq!(error(&results[1]), PublishError::NotFound, "{results:?}");
    written(&results[2]);
    stage.broker.create(&late.name, 1, None).await;
    let mut number = 3;
    eventually("the topic is noticed", async || {
        stream.records(vec![record(&late, "v")]).await;
        number += 1;
        let result = &stream.answered(number).await[number - 1];
        if error(result) == PublishError::Unspecified {
            return Ok(());
        }
        assert_eq!(error(result), PublishError::NotFound, "{result:?}");
        Err(format!("{result:?}"))
    })
    .await;
}

async fn record_that_kafka_refuses_does_not_condemn_those_beside_it(stage: Stage) {
    let topic = stage.topic("future", 1).await;
    let more = "clusters.main.publish.producer.\"linger.ms\" = 500";
    let gateway = publishing(&stage, more).await;
    let mut stream = open(&gateway).await;
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let future = OutgoingRecord {
        timestamp_ms: Some(now.as_millis() as i64 + 1_000_000_000),
        ..record(&topic, "future")
    };
    let beside = OutgoingRecord {
        key: Some(b"".as_slice().into()),
        value: None,
        headers: vec![header("h", None), header("h", Some(b""))],
        timestamp_ms: Some(1_600_000_000_002),
        ..record(&topic, "")
    };
    stream.records(vec![beside.clone(), future, beside]).await;
    let errors: Vec<_> = stream.answered(3).await.iter().map(error).collect();
    let [fine, refused] = [PublishError::Unspecified, PublishError::Refused];
    assert_eq!(errors, [fine, refused, fine], "{:?}", stream.results);
    let seen = stage.holds(&topic, 2).await;
    for (seen, result) in seen.iter().zip([&stream.results[0], &stream.results[2]]) {
        assert_eq!((seen.partition, seen.offset), written(result));
        assert_eq!(
            (seen.key.as_deref(), seen.value.as_deref()),
            (Some(&b""[..]), None)
        );
        let none_and_empty = [("h".to_owned(), None), ("h".to_owned(), Some(Vec::new()))];
        assert_eq!(seen.headers, none_and_empty);
        assert_eq!(seen.timestamp, Some(1_600_000_000_002));
    }
}
