//! What `ackgate sub` prints and `ackgate pub` writes again.

use std::{collections::BTreeMap, process::Command};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::{ended, gateway, publish, write};
use crate::support::{Case, Gateway, Process, Seen, Stage, ackgate, cases};

pub(super) fn cases() -> Vec<Case> {
    cases![
        both: what_sub_prints_is_written_again_as_it_was;
    ]
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
