//! What a record is after it was put back, and when it is handed out.

use ackgate_proto::v1::LaneEventKind;

use super::{Topics, letter, now_ms, redrive, run};
use crate::support::{
    Case, Outgoing, Received, Seen, Stage, Subscription, Topic, cases, eventually,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        kafka: record_is_identical_in_every_place_and_every_round,
            redriven_record_waits_for_its_time_and_others_do_not,
            sources_flow_before_the_retry_topic_exists,
            what_was_put_back_is_read_wherever_the_group_begins,
            created_retry_topic_keeps_old_records;
    ]
}

fn with_retry(stage: &Stage, topics: &Topics) -> Subscription {
    let retry = format!("\"{}\"", topics.retry.name);
    stage
        .subscription(&topics.source)
        .dead_letter(&topics.dead)
        .set("dead_letter.retry_topic", &retry)
        // A topic that is made later is found sooner.
        .consumer_property("topic.metadata.refresh.interval.ms", "1000")
}

fn header(key: &str, value: Option<&[u8]>) -> (String, Option<Vec<u8>>) {
    (key.to_owned(), value.map(<[u8]>::to_vec))
}

/// The record that is most easily changed on its way.
fn delicate() -> Outgoing {
    Outgoing {
        key: Some(vec![]),
        value: None,
        headers: vec![
            header("a", Some(b"1")),
            header("a", Some(b"\xff\x00")),
            header("b", None),
            header("c", Some(b"")),
        ],
        timestamp: Some(now_ms() - 5_000),
        ..Outgoing::default()
    }
}

type Headers = Vec<(String, Option<Vec<u8>>)>;

fn headers(received: &Received) -> Headers {
    let headers = received.record.headers.iter();
    headers
        .map(|header| {
            let value = header.value.as_ref().map(|value| value.to_vec());
            (header.key.clone(), value)
        })
        .collect()
}

/// Whether what was received is the record, but for headers at the end; those.
fn is_same(received: &Received, original: &Outgoing) -> Headers {
    let record = &received.record;
    assert_eq!(record.key.as_deref(), original.key.as_deref());
    assert_eq!(record.value.as_deref(), original.value.as_deref());
    assert_eq!(Some(record.timestamp_ms), original.timestamp);
    let mut headers = headers(received);
    let added = headers.split_off(original.headers.len());
    assert_eq!(headers, original.headers);
    added
}

fn is_same_letter(letter: &Seen, original: &Outgoing) -> Headers {
    assert_eq!(letter.key, original.key);
    assert_eq!(letter.value, original.value);
    assert_eq!(letter.timestamp, original.timestamp);
    let mut headers = letter.headers.clone();
    let added = headers.split_off(original.headers.len());
    assert_eq!(headers, original.headers);
    added
}

// FC-52, FC-57, FC-59.
async fn record_is_identical_in_every_place_and_every_round(stage: Stage) {
    let topics = Topics::new(&stage, 2).await;
    let original = Outgoing {
        partition: 1,
        ..delicate()
    };
    let other = Outgoing::value(1, "the delicate one is at offset 1");
    let both = [other, original.clone()];
    stage.broker.produce(&topics.source.name, both).await;
    let gateway = stage.gateway(&[with_retry(&stage, &topics)]).await;
    let mut stream = gateway.open().await;
    let first = stream.records(2).await;
    stream.ack(&first[0]).await;
    assert_eq!(is_same(&first[1], &original), []);
    stream.reject(&first[1]).await;

    let mut sizes = Vec::new();
    for round in 1..=3 {
        let letters = stage.holds(&topics.dead, round).await;
        let mut letters = letters.iter();
        let last = letters.rfind(|one| {
            let before = one.header("ackgate.dead-letter.round").unwrap_or("0");
            before == (round - 1).to_string()
        });
        let last = last.expect("the dead letter of this round");
        sizes.push(is_same_letter(last, &original).len());
        let id = format!("{}/{}/1/1", stage.group(), topics.source.name);
        let came_from = [
            ("topic", topics.source.name.as_str()),
            ("partition", "1"),
            ("offset", "1"),
            ("dedupe-id", &id),
        ];
        for (name, value) in came_from {
            let name = format!("ackgate.dead-letter.{name}");
            assert_eq!(last.header(&name), Some(value), "{name}");
        }

        let summary = redrive(&stage, &topics, &[]).await;
        assert_eq!(summary["put_back"], 1, "{summary}");
        let again = stream.record().await;
        let added = is_same(&again, &original);
        assert_eq!((again.attempt, again.delivery), (1, 1), "all begins anew");
        let timestamp = original.timestamp.unwrap().to_string();
        let letter = format!("{}/{}/{}", topics.dead.name, last.partition, last.offset);
        let round = round.to_string();
        let added: Vec<(&str, &str)> = added
            .iter()
            .map(|(key, value)| {
                let name = key.strip_prefix("ackgate.redrive.").expect("a redrive's");
                (name, str::from_utf8(value.as_deref().unwrap()).unwrap())
            })
            .collect();
        let expected = [
            ("topic", topics.source.name.as_str()),
            ("partition", "1"),
            ("offset", "1"),
            ("timestamp", &timestamp),
            ("dedupe-id", &id),
            ("dead-letter", &letter),
            ("round", &round),
        ];
        assert_eq!(added, expected);
        stream.reject(&again).await;
    }
    // The second round adds the number of rounds, and no round adds more.
    assert!(
        sizes[1] <= sizes[0] + 1 && sizes[2] == sizes[1],
        "{sizes:?}"
    );
    stage.holds(&topics.dead, 4).await;
}

// L10.
async fn redriven_record_waits_for_its_time_and_others_do_not(stage: Stage) {
    let topics = Topics::new(&stage, 1).await;
    let letters = [letter(&stage, &topics, (0, 0))];
    stage.broker.produce(&topics.dead.name, letters).await;
    let gateway = stage.gateway(&[with_retry(&stage, &topics)]).await;
    let mut stream = gateway.open().await;
    let summary = redrive(&stage, &topics, &["--delay", "4s"]).await;
    assert_eq!(summary["put_back"], 1, "{summary}");
    stage.produce(&topics.source, &["0", "1"]).await;
    let mut received = stream.records(3).await;
    let waited = received.pop().unwrap();
    assert_eq!(
        received.iter().map(Received::text).collect::<Vec<_>>(),
        ["0", "1"],
        "what comes later elsewhere is not held"
    );
    let headers = headers(&waited);
    let mut headers = headers.iter();
    let (_, time) = headers
        .find(|(key, _)| key == "ackgate.redrive.not-before")
        .expect("a time");
    let time = String::from_utf8(time.clone().unwrap()).unwrap();
    assert!(
        now_ms() >= time.parse().unwrap(),
        "handed out before {time}"
    );
}

// FC-94.
async fn sources_flow_before_the_retry_topic_exists(stage: Stage) {
    let retry = Topic {
        name: stage.named("retry"),
    };
    let topics = Topics {
        source: stage.topic("orders", 1).await,
        dead: stage.topic("dead", 1).await,
        retry,
    };
    stage.produce(&topics.source, &["0", "1"]).await;
    let gateway = stage.gateway(&[with_retry(&stage, &topics)]).await;
    let mut stream = gateway.open().await;
    let received = stream.records(2).await;
    stream.ack(&received[0]).await;
    stream.reject(&received[1]).await;
    stage.commits(&topics.source, 0, 2).await;
    let (code, _) = run(&stage, &topics, "redrive", &[]).await;
    assert_eq!(code, 1, "there is no such topic");
    let held = |event: &ackgate_proto::v1::LaneEvent| event.kind() == LaneEventKind::Held;
    assert!(!stream.events.iter().any(held), "{:?}", stream.events);

    stage.broker.create(&topics.retry.name, 1, None).await;
    redrive(&stage, &topics, &[]).await;
    let again = stream.record().await;
    assert_eq!(again.text(), "1");
    stream.ack(&again).await;
    eventually("it is passed", async || {
        let group = stage.group();
        let committed = stage.broker.committed(&group, &topics.retry.name).await;
        if committed.values().any(|position| *position >= 1) {
            Ok(())
        } else {
            Err(format!("{committed:?}"))
        }
    })
    .await;
}

async fn what_was_put_back_is_read_wherever_the_group_begins(stage: Stage) {
    let topics = Topics::new(&stage, 1).await;
    let letters = [letter(&stage, &topics, (0, 0))];
    stage.broker.produce(&topics.dead.name, letters).await;
    redrive(&stage, &topics, &[]).await;
    for start in ["\"latest\"", "\"fail\""] {
        let subscription = with_retry(&stage, &topics).set("start", start);
        let gateway = stage.gateway(&[subscription]).await;
        let mut stream = gateway.open().await;
        assert_eq!(stream.record().await.text(), "value 0", "{start}");
    }
}

async fn created_retry_topic_keeps_old_records(stage: Stage) {
    let topics = Topics {
        source: stage.topic("orders", 2).await,
        dead: stage.topic("dead", 2).await,
        retry: Topic {
            name: stage.named("retry"),
        },
    };
    let mut old = letter(&stage, &topics, (1, 0));
    for (key, value) in &mut old.headers {
        if key == "ackgate.dead-letter.timestamp" {
            *value = Some(b"1700000000000".to_vec());
        }
    }
    stage.broker.produce(&topics.dead.name, [old]).await;
    let subscription = with_retry(&stage, &topics).set("dead_letter.create", "true");
    let gateway = stage.gateway(&[subscription]).await;
    gateway.logs("topic created").await;
    let made = stage
        .broker
        .tools()
        .tool("configs", &["--describe", "--topic", &topics.retry.name]);
    assert!(made.contains("retention.ms=-1"), "{made}");
    let summary = redrive(&stage, &topics, &[]).await;
    assert_eq!(summary["put_back"], 1, "{summary}");
    let mut stream = gateway.open().await;
    let again = stream.record().await;
    assert_eq!(again.record.timestamp_ms, 1_700_000_000_000);
}
