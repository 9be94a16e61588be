//! The commands that bring their own records: `pub`, `demo` and `bench`.

use std::{fs, process::Command};

use rdkafka::{
    ClientConfig,
    consumer::{BaseConsumer, Consumer as _},
};
use serde_json::Value;
use tokio::task::spawn_blocking;

use crate::support::{Case, PATIENCE, Process, Stage, ackgate, cases, eventually};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        both: lines_are_published_byte_for_byte;
        embedded: demo_accounts_for_every_record,
            benchmark_needs_no_cluster,
            benchmark_tells_what_telemetry_costs;
        kafka: benchmark_leaves_no_topic_behind;
    ]
}

/// Runs a command to its end, which must be a good one; returns its JSON.
async fn succeed(arguments: &[&str]) -> Value {
    let mut process = Process::start(arguments[0], Command::new(ackgate()).args(arguments));
    let status = process.end().await;
    let said = process.out_from(0);
    assert!(status.success(), "{status}: {said:?}\n{}", process.err());
    let line = said.last().expect("a command with --json says something");
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

async fn lines_are_published_byte_for_byte(stage: Stage) {
    let topic = stage.topic("t", 1).await;
    let file = stage.folder().join("lines");
    fs::write(&file, b"k1:one\nk2:\xff \r\nk3:\nnone\nk4:four").unwrap();
    let bootstrap = stage.broker.bootstrap();
    let mut process = Process::start(
        "pub",
        Command::new(ackgate())
            .args([
                "pub",
                "--bootstrap",
                &bootstrap,
                "--json",
                "-K",
                ":",
                "-H",
                "h=1",
            ])
            .arg(&topic.name)
            .arg(&file),
    );
    let status = process.end().await;
    assert_eq!(
        status.code(),
        Some(1),
        "a line has no key: {}",
        process.err()
    );
    assert!(process.err().contains("lines:4:"), "{}", process.err());
    let summary: Value = serde_json::from_str(&process.out_from(0)[0]).unwrap();
    assert_eq!(
        (&summary["written"], &summary["failed"]),
        (&4.into(), &1.into())
    );
    assert_eq!(summary["failures"][0]["record"], 4);

    let seen = stage.holds(&topic, 4).await;
    let pairs: Vec<_> = seen
        .iter()
        .map(|record| {
            (
                record.key.as_deref().unwrap(),
                record.value.as_deref().unwrap(),
            )
        })
        .collect();
    let expected: [(&[u8], &[u8]); 4] = [
        (b"k1", b"one"),
        (b"k2", b"\xff \r"),
        (b"k3", b""),
        (b"k4", b"four"),
    ];
    assert_eq!(pairs, expected);
    assert!(seen.iter().all(|record| record.header("h") == Some("1")));
}

async fn demo_accounts_for_every_record(_: Stage) {
    let summary = succeed(&["demo", "--once", "--records", "500", "--json"]).await;
    assert_eq!(summary["complete"], true, "{summary}");
    let count = |name: &str| summary[name].as_u64().unwrap();
    assert_eq!(count("acked") + count("dead_lettered"), 500, "{summary}");
    assert_eq!(count("dead_lettered"), count("poison"), "{summary}");
    assert!(
        count("dead_lettered") > 0 && count("retried") > 0,
        "{summary}"
    );
    for lane in summary["lanes"].as_array().unwrap() {
        assert_eq!(lane["committed"], lane["log_end"], "{summary}");
    }
}

async fn benchmark_needs_no_cluster(_: Stage) {
    let arguments = [
        "bench",
        "--records",
        "4000",
        "--partitions",
        "2",
        "--repeat",
        "1",
        "--json",
    ];
    let report = succeed(&arguments).await;
    assert_eq!(report["records"], 4_000);
    let direct = report["direct_per_s"].as_f64().unwrap();
    let gateway = report["gateway_per_s"].as_f64().unwrap();
    assert!(direct > 0.0 && gateway > 0.0, "{report}");
    assert!(
        (report["ratio"].as_f64().unwrap() - gateway / direct).abs() < 1e-6,
        "{report}"
    );
}

async fn benchmark_tells_what_telemetry_costs(_: Stage) {
    let arguments = [
        "bench",
        "--telemetry",
        "--records",
        "4000",
        "--partitions",
        "2",
        "--repeat",
        "1",
        "--json",
    ];
    let report = succeed(&arguments).await;
    let off = report["off_per_s"].as_f64().unwrap();
    for gateway in ["default", "hundredth"] {
        let rate = report[format!("{gateway}_per_s")].as_f64().unwrap();
        let ratio = report[format!("{gateway}_ratio")].as_f64().unwrap();
        assert!((ratio - rate / off).abs() < 1e-6, "{report}");
        let run = &report["runs"][0][gateway];
        assert!(run["scrapes"].as_u64() > Some(0), "{report}");
    }
    let run = &report["runs"][0]["off"];
    assert!(
        run["records"] == 4_000 && run.get("scrapes").is_none(),
        "{report}"
    );
}

async fn benchmark_leaves_no_topic_behind(stage: Stage) {
    let bootstrap = stage.broker.bootstrap();
    let arguments = [
        "bench",
        "--bootstrap",
        &bootstrap,
        "--records",
        "20000",
        "--repeat",
        "2",
        "--json",
    ];
    let report = succeed(&arguments).await;
    assert_eq!(report["runs"].as_array().unwrap().len(), 2);
    // A deleted topic is listed for a moment longer.
    eventually("the topics are gone", async || {
        let left = topics(&bootstrap).await;
        let left: Vec<_> = left
            .into_iter()
            .filter(|it| it.starts_with("ackgate-bench-"))
            .collect();
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        }
    })
    .await;
}

async fn topics(bootstrap: &str) -> Vec<String> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap);
    spawn_blocking(move || {
        let consumer: BaseConsumer = config.create().unwrap();
        let metadata = consumer.fetch_metadata(None, PATIENCE).unwrap();
        metadata
            .topics()
            .iter()
            .map(|topic| topic.name().to_owned())
            .collect()
    })
    .await
    .unwrap()
}
