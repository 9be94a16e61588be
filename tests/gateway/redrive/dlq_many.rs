//! Many dead letters are put back, through interruptions, each once.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use ackgate_proto::v1::Outcome;

use super::{Topics, dlq, from, grows_beyond, letter, redrive, said};
use crate::support::{Case, Process, Stage, ackgate, cases, eventually};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        kafka: many_are_put_back_once_through_an_interruption_and_a_kill,
            second_redrive_takes_over_from_the_first,
            progress_is_shown_on_a_terminal;
    ]
}

const MANY: i64 = 50_000;
const LANES: i64 = 4;

async fn write_letters(stage: &Stage, topics: &Topics, count: i64) {
    let letters = (0..count).map(|number| {
        let lane = i32::try_from(number % LANES).unwrap();
        letter(stage, topics, (lane, number / LANES))
    });
    stage.broker.produce(&topics.dead.name, letters).await;
}

// FC-48.
async fn many_are_put_back_once_through_an_interruption_and_a_kill(stage: Stage) {
    let topics = Topics::new(&stage, 4).await;
    write_letters(&stage, &topics, MANY).await;

    let slowly = ["--rate", "6000/s", "--json"];
    let mut first = dlq(&stage, &topics, "redrive", &slowly);
    grows_beyond(&stage, &topics.retry, 3_000).await;
    first.signal("INT");
    assert_eq!(first.end().await.code(), Some(130), "{}", first.err());
    let summary = said(&first).remove(0);
    assert_eq!(summary["interrupted"], true, "{summary}");
    let interrupted = summary["put_back"].as_i64().unwrap();
    assert!((1..MANY).contains(&interrupted), "{summary}");
    let there = stage.broker.read(&topics.retry.name).await.len();
    assert_eq!(i64::try_from(there).unwrap(), interrupted, "as it says");

    let mut second = dlq(&stage, &topics, "redrive", &slowly);
    grows_beyond(&stage, &topics.retry, interrupted + 3_000).await;
    second.kill();

    let summary = redrive(&stage, &topics, &[]).await;
    let count = |name: &str| summary[name].as_i64().unwrap();
    let before = count("put_back_before");
    assert_eq!(count("put_back") + before, MANY, "{summary}");
    assert!((interrupted + 1..MANY).contains(&before), "{summary}");
    let again = redrive(&stage, &topics, &[]).await;
    assert_eq!(
        (&again["put_back"], &again["put_back_before"]),
        (&0.into(), &MANY.into())
    );

    let subscription = stage.subscription(&topics.source);
    let retry = format!("\"{}\"", topics.retry.name);
    let gateway = stage
        .gateway(&[subscription
            .dead_letter(&topics.dead)
            .set("dead_letter.retry_topic", &retry)])
        .await;
    let mut stream = gateway.open().await;
    let mut processed = BTreeSet::new();
    let mut last: BTreeMap<String, i64> = BTreeMap::new();
    for _ in 0..MANY / 1000 {
        let records = stream.records(1000).await;
        for received in &records {
            let header = |name: &str| {
                let key = format!("ackgate.redrive.{name}");
                let mut headers = received.record.headers.iter();
                let found = headers.find(|header| header.key == key).expect("a header");
                String::from_utf8(found.value.clone().unwrap().to_vec()).unwrap()
            };
            assert!(processed.insert(header("dedupe-id")), "twice: {received:?}");
            let lane = header("partition");
            assert_eq!(lane, received.partition.to_string(), "as at its origin");
            let offset: i64 = header("offset").parse().unwrap();
            let before = last.insert(lane, offset);
            assert!(before.is_none_or(|before| before < offset), "{received:?}");
        }
        stream.answer_all(&records, Outcome::Acked).await;
    }
    assert_eq!(processed.len(), usize::try_from(MANY).unwrap());
    eventually("the group has passed all of them", async || {
        let committed = stage
            .broker
            .committed(&stage.group(), &topics.retry.name)
            .await;
        let sum: i64 = committed.values().sum();
        if sum >= MANY {
            Ok(())
        } else {
            Err(format!("{committed:?}"))
        }
    })
    .await;
}

async fn second_redrive_takes_over_from_the_first(stage: Stage) {
    let topics = Topics::new(&stage, 4).await;
    write_letters(&stage, &topics, 2_000).await;
    let mut first = dlq(&stage, &topics, "redrive", &["--rate", "100", "--json"]);
    grows_beyond(&stage, &topics.retry, 50).await;
    let second = redrive(&stage, &topics, &[]).await;
    assert_eq!(first.end().await.code(), Some(1));
    let ended = said(&first).remove(0);
    let error = ended["error"].as_str().unwrap();
    assert!(error.contains("another redrive into"), "{error}");
    let count = |of: &serde_json::Value, name: &str| of[name].as_i64().unwrap();
    assert_eq!(
        count(&ended, "put_back"),
        count(&second, "put_back_before"),
        "{ended} {second}"
    );
    let seen = stage.broker.read(&topics.retry.name).await;
    let ids: BTreeSet<_> = seen
        .iter()
        .map(|record| record.header("ackgate.redrive.dedupe-id").unwrap())
        .collect();
    assert_eq!((seen.len(), ids.len()), (2_000, 2_000));
}

async fn progress_is_shown_on_a_terminal(stage: Stage) {
    let topics = Topics::new(&stage, 4).await;
    write_letters(&stage, &topics, 400).await;
    let words = ["dlq", "redrive", "--rate", "400/s", "--retry-topic"].map(str::to_owned);
    let mut line = vec![ackgate().display().to_string()];
    line.extend(words);
    line.push(topics.retry.name.clone());
    line.extend(from(&stage, &topics));
    // Gives the command a terminal.
    let mut process = Process::start(
        "script",
        Command::new("script").args([
            "--quiet",
            "--return",
            "--command",
            &line.join(" "),
            "/dev/null",
        ]),
    );
    let status = process.end().await;
    let shown = process.out_from(0).join("\n");
    assert!(status.success(), "{shown}");
    assert!(shown.contains("putting back ["), "{shown}");
    assert!(shown.contains("/400"), "{shown}");
    assert!(shown.contains("400 put back into"), "{shown}");
}
