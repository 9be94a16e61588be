//! `ackgate pub` and the client crate's publisher, through a gateway.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use ackgate_client::{NotWrittenKind, Outgoing, Publisher};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use crate::support::{
    Case, Gateway, Process, Seen, Stage, Topic, ackgate, cases, eventually, free_port,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        both: what_sub_prints_is_written_again_as_it_was,
            records_that_are_not_written_are_named_by_file_and_line;
        embedded: file_per_record_and_keys_go_through_the_gateway,
            pace_is_kept_and_a_stop_is_counted_truthfully,
            endless_input_takes_bounded_memory,
            missing_gateway_and_refusal_say_what_to_do,
            unanswered_records_are_the_unknown_ones_when_the_gateway_is_killed,
            nothing_is_lost_over_a_kill_if_unanswered_records_are_sent_again,
            gateways_that_stop_one_after_the_other_cost_no_record;
    ]
}

/// A gateway that takes records for the stage's topics and hands them out as `orders`.
async fn gateway(stage: &Stage, read: &[(&str, &Topic)]) -> Gateway {
    let top = format!("clusters.main.publish.topics = [\"{}\"]", stage.named("t*"));
    let subscriptions: Vec<_> = read
        .iter()
        .map(|(name, topic)| {
            crate::support::Subscription::new(name, &topic.name, &stage.named(name))
        })
        .collect();
    Gateway::start_with(stage, &subscriptions, &top).await
}

/// `ackgate pub` at the gateway.
fn publish(gateway: &Gateway, arguments: &[&str]) -> Process {
    publish_from(gateway, arguments, Stdio::null())
}

fn publish_from(gateway: &Gateway, arguments: &[&str], input: Stdio) -> Process {
    let address = gateway.address.to_string();
    Process::start_with_input(
        "ackgate pub",
        Command::new(ackgate())
            .args(["pub", "--json", "--address", &address])
            .args(arguments),
        input,
    )
}

/// Waits for its end: the exit code and the summary.
async fn ended(mut process: Process) -> (Option<i32>, Value, String) {
    let status = process.end().await;
    let said = process.out_from(0);
    let line = said.last().unwrap_or_else(|| panic!("{}", process.err()));
    let summary = serde_json::from_str(line).expect("a summary");
    (status.code(), summary, process.err())
}

/// What `ackgate sub --json` prints of the next records.
async fn printed(gateway: &Gateway, subscription: &str, count: usize) -> Vec<String> {
    let (address, count) = (gateway.address.to_string(), count.to_string());
    let arguments = ["--json", "--max", &count, "--address", &address];
    let mut process = Process::start(
        "ackgate sub",
        Command::new(ackgate())
            .args(["sub", subscription])
            .args(arguments),
    );
    let status = process.end().await;
    assert!(status.success(), "{}", process.err());
    process.out_from(0)
}

fn write(path: &Path, lines: &[String]) {
    fs::write(path, lines.join("\n")).unwrap();
}

/// Lines by partition and offset, without what another topic cannot have.
fn by_place(lines: &[String]) -> BTreeMap<(i64, i64), Value> {
    let line = |line: &String| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let place = (
            line["partition"].as_i64().unwrap(),
            line["offset"].as_i64().unwrap(),
        );
        let fields = line.as_object_mut().unwrap();
        fields.remove("topic").unwrap();
        (place, line)
    };
    lines.iter().map(line).collect()
}

/// Bytes that are no text.
const BINARY: [u8; 3] = [0xff, 0x00, 0xfe];

/// What keys and values can be, as JSON.
fn texts() -> [Value; 3] {
    [json!(null), json!(""), json!("né\n\t\"x\"")]
}

/// Records of every kind as lines: eleven of them, the last with headers.
fn every_kind() -> Vec<String> {
    let binary = BASE64_STANDARD.encode(BINARY);
    let mut lines = Vec::new();
    for key in texts() {
        for value in texts() {
            lines.push(json!({"key": key, "value": value, "partition": lines.len() % 3}));
        }
    }
    lines.push(json!({"key_base64": &binary, "value_base64": &binary, "partition": 0}));
    lines.push(json!({
        "value": {"order": 7, "items": [1, null]},
        "headers": [
            {"name": "h", "value": "1"},
            {"name": "h", "value": null},
            {"name": "h", "value": ""},
            {"name": "b", "value_base64": &binary},
            {"name": "h", "value": "1"},
        ],
        "partition": 1,
        "timestamp_ms": 1_700_000_000_123_i64,
    }));
    lines.iter().map(Value::to_string).collect()
}

/// Every byte of [`every_kind`] is in the topic as it was written down.
fn assert_every_kind(seen: &[Seen]) {
    let bytes = |value: Value| value.as_str().map(|text| text.as_bytes().to_vec());
    for key in texts() {
        for value in texts() {
            let wanted = (bytes(key.clone()), bytes(value));
            let is_it =
                |it: &&Seen| (it.key.clone(), it.value.clone()) == wanted && it.headers.is_empty();
            assert_eq!(seen.iter().filter(is_it).count(), 1, "{wanted:?}");
        }
    }
    let binary = Some(BINARY.to_vec());
    assert!(seen.iter().any(|it| it.key == binary && it.value == binary));
    let full = seen.iter().find(|it| !it.headers.is_empty()).unwrap();
    let header = |name: &str, value: Option<&[u8]>| (name.to_owned(), value.map(<[u8]>::to_vec));
    assert_eq!(
        full.headers,
        [
            header("h", Some(b"1")),
            header("h", None),
            header("h", Some(b"")),
            header("b", binary.as_deref()),
            header("h", Some(b"1")),
        ]
    );
    assert_eq!(full.timestamp, Some(1_700_000_000_123));
    let json: Value = serde_json::from_slice(full.value.as_deref().unwrap()).unwrap();
    assert_eq!(json, json!({"order": 7, "items": [1, null]}));
}

// FC-57
async fn what_sub_prints_is_written_again_as_it_was(stage: Stage) {
    let (first, second) = (stage.topic("t1", 3).await, stage.topic("t2", 3).await);
    let gateway = gateway(&stage, &[("one", &first), ("two", &second)]).await;
    let file = stage.folder().join("records");
    write(&file, &every_kind());
    let file = file.display().to_string();
    let (code, summary, said) = ended(publish(&gateway, &["--ndjson", &first.name, &file])).await;
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(summary["written"], 11, "{summary}");
    assert_every_kind(&stage.holds(&first, 11).await);

    // Out of one topic and into another.
    let out = printed(&gateway, "one", 11).await;
    let file = stage.folder().join("copied");
    write(&file, &out);
    let file = file.display().to_string();
    let (code, _, said) = ended(publish(&gateway, &["--ndjson", &second.name, &file])).await;
    assert_eq!(code, Some(0), "{said}");
    let copied = printed(&gateway, "two", 11).await;
    assert_eq!(by_place(&out), by_place(&copied));
}

async fn records_that_are_not_written_are_named_by_file_and_line(stage: Stage) {
    let topic = stage.topic("t", 1).await;
    let gateway = gateway(&stage, &[]).await;
    let other = stage.named("u");
    let lines = [
        json!({"topic": topic.name, "value": "one"}).to_string(),
        String::new(),
        "{\"topic\": \"x\", \"vlaue\": 1}".to_owned(),
        json!({"topic": other, "value": "elsewhere"}).to_string(),
        json!({"topic": topic.name, "value": "nowhere", "partition": 7}).to_string(),
        json!({"topic": topic.name, "value": "x".repeat(2 << 20)}).to_string(),
        json!({"topic": topic.name, "value": "last"}).to_string(),
    ];
    let file = stage.folder().join("records");
    write(&file, &lines);
    let file = file.display().to_string();
    let process = publish(&gateway, &["--ndjson", "--own-topics", &file]);
    let (code, summary, said) = ended(process).await;
    assert_eq!(code, Some(1), "{said}");
    let counts = (&summary["written"], &summary["failed"], &summary["unknown"]);
    assert_eq!(counts, (&2.into(), &4.into(), &0.into()), "{summary}");
    assert_eq!(summary["topic"], Value::Null);
    let mut failed: Vec<_> = summary["failures"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["record"].as_u64().unwrap())
        .collect();
    failed.sort_unstable();
    assert_eq!(failed, [3, 4, 5, 6]);
    for (line, why) in [
        (3, "unknown field `vlaue`"),
        (4, other.as_str()),
        (5, "not written"),
        (6, "bytes"),
    ] {
        let place = format!("{file}:{line}: not written: ");
        let told = said.lines().find(|it| it.starts_with(&place));
        let told = told.unwrap_or_else(|| panic!("{place} is not in\n{said}"));
        assert!(told.contains(why), "{told}");
    }
    stage.holds(&topic, 2).await;
}

async fn file_per_record_and_keys_go_through_the_gateway(stage: Stage) {
    let topic = stage.topic("t", 1).await;
    let gateway = gateway(&stage, &[]).await;
    let file = |name: &str, text: &[u8]| {
        let path = stage.folder().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (one, two) = (file("one", b"a\nb\n\xff"), file("two", b""));
    let arguments = ["--file-per-record", "-k", "K", "-H", "h=1", &topic.name];
    let arguments = [&arguments[..], &[&one, &two]].concat();
    let (code, summary, said) = ended(publish(&gateway, &arguments)).await;
    assert_eq!((code, &summary["written"]), (Some(0), &2.into()), "{said}");
    let seen = stage.holds(&topic, 2).await;
    let values: Vec<_> = seen.iter().map(|it| it.value.as_deref().unwrap()).collect();
    assert_eq!(values, [&b"a\nb\n\xff"[..], b""]);
    let all = |it: &Seen| it.key.as_deref() == Some(b"K") && it.header("h") == Some("1");
    assert!(seen.iter().all(all));
}

/// Lines without end, and the process that makes them.
fn endless() -> (std::process::Child, Stdio) {
    let mut yes = Command::new("yes")
        .arg("a line of some length")
        .stdout(Stdio::piped())
        .spawn()
        .expect("yes can be run");
    let out = yes.stdout.take().expect("stdout is piped");
    (yes, out.into())
}

async fn pace_is_kept_and_a_stop_is_counted_truthfully(stage: Stage) {
    let topic = stage.topic("t", 1).await;
    let gateway = gateway(&stage, &[]).await;
    let (mut yes, lines) = endless();
    let process = publish_from(&gateway, &["--rate", "200", &topic.name], lines);
    eventually("some are written", async || {
        match stage.broker.read(&topic.name).await.len() {
            written if written >= 50 => Ok(()),
            written => Err(written.to_string()),
        }
    })
    .await;
    process.signal("INT");
    let (code, summary, said) = ended(process).await;
    yes.kill().ok();
    yes.wait().unwrap();
    assert_eq!(code, Some(1), "{said}");
    assert_eq!(summary["interrupted"], true);
    let unwritten = (&summary["failed"], &summary["unknown"]);
    assert_eq!(unwritten, (&0.into(), &0.into()), "{summary}");
    let written = summary["written"].as_u64().unwrap();
    let seconds = summary["seconds"].as_f64().unwrap();
    // The pace may make good what it has lost in the last tenth of a second.
    assert!(
        written as f64 <= 200.0 * (seconds + 0.1) + 1.0,
        "{written} in {seconds} s"
    );
    stage.holds(&topic, usize::try_from(written).unwrap()).await;
}

async fn endless_input_takes_bounded_memory(stage: Stage) {
    let topic = stage.topic("t", 1).await;
    let mut gateway = gateway(&stage, &[]).await;
    let (mut yes, lines) = endless();
    let process = publish_from(&gateway, &["--retry-unanswered", &topic.name], lines);
    eventually("some are written", async || {
        match stage.broker.read(&topic.name).await.len() {
            0 => Err("nothing is".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
    // Nobody takes anything for a while, and the input does not wait for that.
    gateway.terminate();
    gateway.end().await;
    eventually("the command has noticed", async || {
        if process.err().contains("trying again") {
            Ok(())
        } else {
            Err(process.err())
        }
    })
    .await;
    let memory = process.memory();
    assert!(memory < 200 << 20, "{memory} bytes");
    process.signal("INT");
    let (code, summary, _) = ended(process).await;
    yes.kill().ok();
    yes.wait().unwrap();
    assert_eq!(code, Some(1));
    assert_eq!(summary["interrupted"], true);
    let written = summary["written"].as_u64().unwrap();
    let unknown = summary["unknown"].as_u64().unwrap();
    let there = stage.broker.read(&topic.name).await.len() as u64;
    assert!(
        (written..=written + unknown).contains(&there),
        "{there}: {summary}"
    );
}

async fn missing_gateway_and_refusal_say_what_to_do(stage: Stage) {
    let topic = stage.topic("t", 1).await;
    let address = format!("127.0.0.1:{}", free_port());
    let pub_at = async |address: &str, more: &[&str]| {
        let mut process = Process::start(
            "ackgate pub",
            Command::new(ackgate())
                .args(["pub", "--address", address, &topic.name])
                .args(more),
        );
        let status = process.end().await;
        assert_eq!(process.out_from(0), Vec::<String>::new());
        (status.code(), process.err())
    };
    let (code, said) = pub_at(&address, &["--wait", "300ms"]).await;
    assert_eq!(code, Some(1));
    assert!(
        said.contains(&address) && said.contains("--bootstrap"),
        "{said}"
    );

    let silent = stage.gateway(&[stage.subscription(&topic)]).await;
    let (code, said) = pub_at(&silent.address.to_string(), &[]).await;
    assert_eq!(code, Some(1));
    assert!(said.contains("`publish`"), "{said}");
}

/// Sends numbered records until `enough` says so, counting on one writer: what was said
/// of each.
async fn say(
    publisher: &Publisher,
    topic: &Topic,
    mut enough: impl AsyncFnMut(usize) -> bool,
) -> Vec<Result<i64, NotWrittenKind>> {
    let mut receipts = Vec::new();
    while !enough(receipts.len()).await {
        let record = Outgoing::new(&topic.name, receipts.len().to_string());
        receipts.push(publisher.send(record).await);
    }
    let mut said = Vec::new();
    for receipt in receipts {
        said.push(match receipt.await {
            Ok(written) => Ok(written.offset.unwrap()),
            Err(error) => Err(error.kind),
        });
    }
    said
}

fn builder(gateway: &Gateway) -> ackgate_client::PublisherBuilder {
    Publisher::builder(format!("http://{}", gateway.address))
        .backoff(Duration::from_millis(20), Duration::from_millis(200))
        .max_in_flight(200, 1 << 20)
}

/// How often each number is in the topic, and at which offsets.
async fn places(stage: &Stage, topic: &Topic) -> BTreeMap<usize, Vec<i64>> {
    let mut places: BTreeMap<usize, Vec<i64>> = BTreeMap::new();
    for seen in stage.broker.read(&topic.name).await {
        let number = String::from_utf8(seen.value.unwrap()).unwrap();
        let number = number.parse().unwrap();
        places.entry(number).or_default().push(seen.offset);
    }
    places
}

async fn unanswered_records_are_the_unknown_ones_when_the_gateway_is_killed(stage: Stage) {
    let topic = stage.topic("t", 1).await;
    let mut gateway = gateway(&stage, &[]).await;
    let publisher = builder(&gateway).connect().await.unwrap();
    let said = say(&publisher, &topic, async |sent| {
        if sent == 1_000 || sent == 2_000 {
            gateway.kill_and_restart().await;
        }
        sent == 3_000
    })
    .await;
    let stats = publisher.close(Duration::from_secs(20)).await;
    let count = |wanted: fn(&Result<i64, NotWrittenKind>) -> bool| {
        said.iter().filter(|it| wanted(it)).count() as u64
    };
    assert_eq!(stats.written, count(|it| it.is_ok()));
    assert_eq!(
        stats.unknown,
        count(|it| *it == Err(NotWrittenKind::Unknown))
    );
    assert_eq!(stats.written + stats.unknown, 3_000, "{stats}");
    assert!(stats.reconnects >= 2);
    let places = places(&stage, &topic).await;
    for (number, said) in said.iter().enumerate() {
        let found = places.get(&number).map_or(&[][..], Vec::as_slice);
        match said {
            // There, once, where it was said to be.
            Ok(offset) => assert_eq!(found, [*offset], "record {number}"),
            Err(_) => assert!(found.len() <= 1, "record {number} at {found:?}"),
        }
    }
}

async fn nothing_is_lost_over_a_kill_if_unanswered_records_are_sent_again(stage: Stage) {
    let topic = stage.topic("t", 1).await;
    let mut gateway = gateway(&stage, &[]).await;
    let publisher = builder(&gateway).retry_unanswered(true).connect().await;
    let publisher = publisher.unwrap();
    let said = say(&publisher, &topic, async |sent| {
        if sent == 1_000 || sent == 2_000 {
            gateway.kill_and_restart().await;
        }
        sent == 3_000
    })
    .await;
    let stats = publisher.close(Duration::from_secs(20)).await;
    assert!(stats.is_complete(), "{stats}");
    let places = places(&stage, &topic).await;
    for (number, said) in said.iter().enumerate() {
        let offset = said.expect("every record is written");
        assert!(places[&number].contains(&offset), "record {number}");
    }
}

async fn gateways_that_stop_one_after_the_other_cost_no_record(stage: Stage) {
    let topic = stage.topic("t", 1).await;
    let mut gateway = gateway(&stage, &[]).await;
    let publisher = builder(&gateway).connect().await.unwrap();
    let said = say(&publisher, &topic, async |sent| {
        if sent == 1_000 || sent == 2_000 {
            gateway.terminate();
            gateway.restart().await;
        }
        sent == 3_000
    })
    .await;
    let stats = publisher.close(Duration::from_secs(20)).await;
    assert!(stats.is_complete(), "{stats}");
    assert!(stats.reconnects >= 2);
    let places = places(&stage, &topic).await;
    for (number, said) in said.iter().enumerate() {
        assert_eq!(places[&number], [said.expect("written")], "record {number}");
    }
}
