//! `ackgate pub` and the client crate's publisher, through a gateway.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::support::{Case, Gateway, Process, Stage, Subscription, Topic, ackgate};

mod pub_copies;
mod pub_endless;
mod pub_lines;
mod pub_restarts;

pub(crate) fn cases() -> Vec<Case> {
    [
        pub_copies::cases(),
        pub_lines::cases(),
        pub_endless::cases(),
        pub_restarts::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A gateway that takes records for the stage's topics and hands them out as `orders`.
async fn gateway(stage: &Stage, read: &[(&str, &Topic)]) -> Gateway {
    let top = format!("clusters.main.publish.topics = [\"{}\"]", stage.named("t*"));
    let subscriptions: Vec<_> = read
        .iter()
        .map(|(name, topic)| Subscription::new(name, &topic.name, &stage.named(name)))
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

fn write(path: &Path, lines: &[String]) {
    fs::write(path, lines.join("\n")).unwrap();
}
