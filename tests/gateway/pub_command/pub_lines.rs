//! What `ackgate pub` makes of its input and its arguments, and says of what it could not
//! write.

use std::{fs, process::Command};

use serde_json::{Value, json};

use super::{ended, gateway, publish, write};
use crate::support::{Case, Process, Seen, Stage, ackgate, cases, free_port};

pub(super) fn cases() -> Vec<Case> {
    cases![
        both: records_that_are_not_written_are_named_by_file_and_line;
        embedded: file_per_record_and_keys_go_through_the_gateway,
            missing_gateway_and_refusal_say_what_to_do;
    ]
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
