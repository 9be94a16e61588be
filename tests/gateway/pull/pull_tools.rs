//! What makes the calls for others: the command, and the client crate's puller.

use std::{process::Command, time::Duration};

use ackgate_client::{Lease, ProblemKind, Puller, Subscriber};
use serde_json::Value;

use crate::support::{Case, Gateway, Process, Stage, ackgate, cases, eventually};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        both: puller_of_the_client_crate_answers_what_it_takes;
        embedded: command_prints_and_acks_or_gives_back,
            puller_begins_anew_where_its_session_has_ended,
            puller_goes_on_waiting_over_aged_connections;
    ]
}

/// What the command printed, and with which code it ended.
async fn pull(gateway: &Gateway, arguments: &[&str]) -> (Vec<Value>, Option<i32>) {
    let mut command = Command::new(ackgate());
    let address = gateway.address.to_string();
    command.args(["pull", "--json", "--address", &address]);
    let mut process = Process::start("pull", command.args(arguments));
    let status = process.end().await;
    let lines = process.out_from(0);
    let lines = lines.iter().map(|line| serde_json::from_str(line).unwrap());
    (lines.collect(), status.code())
}

async fn command_prints_and_acks_or_gives_back(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["a", "b", "c"]).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let values = |lines: &[Value]| -> Vec<String> {
        let text = |line: &Value| line["value"].as_str().unwrap().to_owned();
        lines.iter().map(text).collect()
    };
    // Given back, they come again at once.
    let (lines, code) = pull(&gateway, &["orders", "--max", "2", "--wait", "30s"]).await;
    assert_eq!((values(&lines).join(""), code), ("ab".to_owned(), Some(0)));
    let arguments = ["orders", "--max", "2", "--wait", "30s", "--ack"];
    let (lines, code) = pull(&gateway, &arguments).await;
    assert_eq!((values(&lines).join(""), code), ("ab".to_owned(), Some(0)));
    assert_eq!(lines[0]["attempt"], 1);
    stage.commits(&topic, 0, 2).await;
    let (lines, code) = pull(&gateway, &arguments).await;
    assert_eq!((values(&lines).join(""), code), ("c".to_owned(), Some(0)));
    let (lines, code) = pull(&gateway, &["orders", "--ack"]).await;
    assert_eq!((lines, code), (vec![], Some(0)));
    let (_, code) = pull(&gateway, &["unknown"]).await;
    assert_eq!(code, Some(1));
}

async fn puller_of_the_client_crate_answers_what_it_takes(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let dead = stage.topic("dead", 1).await;
    stage.produce(&topic, &["0", "1", "2", "3", "4"]).await;
    let subscription = stage.subscription(&topic).dead_letter(&dead);
    let gateway = stage.gateway(&[subscription]).await;
    let address = format!("http://{}", gateway.address);
    let mut orders = Puller::connect(address, "orders")
        .await
        .expect("the gateway listens")
        .wait(Duration::from_secs(30))
        .linger(Duration::from_secs(2));
    let leases = orders.pull().await.expect("it may pull");
    assert_eq!(leases.len(), 5);
    let problems = orders.extend(&leases, Duration::from_secs(60)).await;
    assert_eq!(problems.expect("the session is there"), []);
    let verdicts = [
        leases[0].acked(),
        leases[1].acked(),
        leases[2].rejected("bad", "it is"),
        leases[3].failed_after("later", "not yet", Duration::ZERO),
        leases[4].released(),
    ];
    let problems = orders.settle_durably(verdicts).await;
    assert_eq!(problems.expect("they are durable"), []);
    assert_eq!(stage.committed(&topic, 0).await, Some(3));
    assert_eq!(
        stage.holds(&dead, 1).await[0].value.as_deref(),
        Some(&b"2"[..])
    );
    let mut again = Vec::new();
    while again.len() < 2 {
        again.extend(orders.pull().await.expect("it may pull"));
    }
    again.sort_by_key(|lease| lease.record().offset());
    let attempts: Vec<_> = again.iter().map(Lease::attempt).collect();
    assert_eq!(attempts, [2, 1]);
    // The first lease of a record says nothing any more.
    let problems = orders.settle([leases[3].acked()]).await;
    let problems = problems.expect("the session is there");
    assert_eq!(
        (problems[0].kind, problems[0].first_offset),
        (ProblemKind::Stale, 3)
    );
    assert_eq!(problems[0].topic, topic.name);
    let acks = again.iter().map(Lease::acked);
    assert_eq!(orders.settle(acks).await.expect("the session is there"), []);
    orders.close().await.expect("the session is there");
    stage.commits(&topic, 0, 5).await;
}

async fn puller_begins_anew_where_its_session_has_ended(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["a"]).await;
    let mut gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let address = format!("http://{}", gateway.address);
    let builder = Subscriber::builder(address, "orders").subscriber_id("nightly");
    let mut orders = builder.puller().await.expect("the gateway listens");
    orders = orders.wait(Duration::from_secs(30));
    let leases = orders.pull().await.expect("it may pull");
    assert_eq!(orders.subscriber_id(), "nightly");
    gateway.kill_and_restart().await;
    let lost = orders.settle([leases[0].acked()]).await;
    let lost = lost.expect_err("the session died with the gateway");
    let again = loop {
        // The connection is made again by itself.
        match orders.pull().await {
            Ok(leases) if !leases.is_empty() => break leases,
            Ok(_) => {}
            Err(error) => assert!(error.is_retryable(), "{error}; before: {lost}"),
        }
    };
    let problems = orders.settle_durably([again[0].acked()]).await;
    assert_eq!(problems.expect("it is durable"), []);
    assert_eq!(stage.committed(&topic, 0).await, Some(1));
}

async fn puller_goes_on_waiting_over_aged_connections(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let top = "listen.max_connection_age = \"2s\"\nshutdown.drain = \"10m\"\n\
               log.filter = \"info,ackgate=debug\"";
    let gateway = Gateway::start_with(&stage, &[stage.subscription(&topic)], top).await;
    let builder = Subscriber::builder(format!("http://{}", gateway.address), "orders");
    let puller = builder.puller().await.expect("it connects");
    let mut puller = puller.wait(Duration::from_secs(55));
    let waiting = tokio::spawn(async move { puller.pull().await });
    // It is the call of the third connection at least that finds it.
    eventually("two connections have aged", async || {
        let log = gateway.log();
        let aged = log.matches("a connection is as old as it may become");
        let aged = aged.count();
        (aged >= 2)
            .then_some(())
            .ok_or_else(|| format!("{aged} have"))
    })
    .await;
    assert!(!waiting.is_finished(), "there is nothing yet");
    stage.produce(&topic, &["a"]).await;
    let leases = waiting.await.expect("it does not panic");
    assert_eq!(leases.expect("it goes on").len(), 1);
}
