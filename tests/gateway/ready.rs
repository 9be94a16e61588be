//! The pages of the admin address: whether the gateway lives, whether it can serve, and what
//! keeps a lane from making progress.

use std::{net::SocketAddr, process::Command};

use ackgate_proto::v1::{
    LaneHold, ListLanesRequest, Outcome, admin_service_client::AdminServiceClient,
};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::spawn_blocking,
    time::timeout,
};

use crate::support::{
    Broker, Case, Gateway, PATIENCE, Process, Stage, Subscription, Topic, ackgate, cases,
    connection, eventually, free_port,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        embedded: pages_are_for_this_machine_alone,
            connections_that_say_nothing_keep_no_probe_out,
            gateway_is_ready_once_a_cluster_answers_and_degraded_while_another_does_not,
            record_without_a_verdict_stalls_its_lane_until_it_has_one,
            open_breaker_is_told_in_the_same_words_everywhere,
            gateway_that_stops_is_alive_and_not_ready;
        kafka: missing_dead_letter_topic_degrades_until_it_is_there,
            broker_that_falls_silent_is_told_and_forgotten;
    ]
}

/// The admin address of a gateway.
struct Pages(SocketAddr);

/// An answer: its status and its body.
#[derive(Debug)]
struct Page {
    status: u16,
    head: String,
    body: String,
}

impl Pages {
    async fn gateway(stage: &Stage, subscription: &[Subscription], top: &str) -> (Gateway, Self) {
        let pages = Self(SocketAddr::from(([127, 0, 0, 1], free_port())));
        let top = format!("admin.address = \"{}\"\n{top}", pages.0);
        let gateway = Gateway::start_with(stage, subscription, &top).await;
        (gateway, pages)
    }

    /// As a program asks that knows little of HTTP.
    async fn ask(&self, path: &str, headers: &str) -> Result<Page, String> {
        let asked = async {
            let mut stream = TcpStream::connect(self.0).await?;
            let request = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n");
            stream.write_all(request.as_bytes()).await?;
            let mut text = Vec::new();
            stream.read_to_end(&mut text).await?;
            Ok::<_, std::io::Error>(String::from_utf8_lossy(&text).into_owned())
        };
        let text = timeout(PATIENCE, asked).await.expect("an answer in time");
        let text = text.map_err(|error| error.to_string())?;
        let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| text.clone())?;
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        Ok(Page {
            status: status.expect("a status"),
            head: head.to_ascii_lowercase(),
            body: body.to_owned(),
        })
    }

    /// Runs `ackgate` against it: its exit code and its standard output.
    async fn command(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new(ackgate());
        command
            .args(arguments)
            .args(["--address", &self.0.to_string()]);
        let mut process = Process::start(arguments[0], &mut command);
        let status = process.end().await;
        (status.code(), process.out_from(0).join("\n"))
    }

    /// Runs the operator guide's probe, with its arguments as they stand there; the address
    /// comes from the environment.
    async fn probe(&self) -> (Option<i32>, String) {
        let guide = include_str!("../../server/README.md");
        let (_, rest) = guide.split_once("exec: { command: ").expect("a probe");
        let (words, _) = rest.split_once(" }").expect("its end");
        let words: Vec<String> = serde_json::from_str(words).expect("a list of words");
        assert_eq!(words[0], "ackgate");
        let mut command = Command::new(ackgate());
        command
            .args(&words[1..])
            .env("ACKGATE_ADMIN_ADDRESS", self.0.to_string());
        let mut process = Process::start("probe", &mut command);
        let status = process.end().await;
        (status.code(), process.out_from(0).join("\n"))
    }

    async fn get(&self, path: &str) -> Page {
        let host = format!("Host: {}\r\n", self.0);
        self.ask(path, &host).await.expect("it answers")
    }

    /// Waits until `/readyz` says this, with a reason of this kind if one is named.
    async fn becomes(&self, status: &str, kind: Option<&str>) -> Value {
        eventually(&format!("/readyz says {status} {kind:?}"), async || {
            let host = format!("Host: {}\r\n", self.0);
            let page = self.ask("/readyz", &host).await?;
            let code = if status == "not ready" { 503 } else { 200 };
            let said: Value = serde_json::from_str(&page.body).expect("it is JSON");
            let reasons = said["reasons"].as_array().expect("a list").clone();
            let reason = match kind {
                None => reasons.is_empty().then_some(Value::Null),
                Some(kind) => reasons.into_iter().find(|reason| reason["kind"] == kind),
            };
            match reason {
                Some(reason) if said["status"] == status && page.status == code => Ok(reason),
                _ => Err(format!("{}: {said}", page.status)),
            }
        })
        .await
    }
}

async fn pages_are_for_this_machine_alone(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let (gateway, pages) = Pages::gateway(&stage, &[stage.subscription(&topic)], "").await;
    gateway.logs("/readyz").await;
    let alive = pages.get("/healthz").await;
    assert_eq!(alive.status, 200, "{alive:?}");
    assert!(alive.body.contains("\"alive\""), "{alive:?}");
    assert!(alive.head.contains("cache-control: no-store"), "{alive:?}");
    let lost = pages.get("/metricz").await;
    assert_eq!(lost.status, 404);
    assert!(lost.body.contains("/readyz"), "{lost:?}");
    for headers in [
        "Host: attacker.example\r\n",
        "Host: localhost\r\nOrigin: https://attacker.example\r\n",
        "Host: localhost\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n",
    ] {
        for path in ["/readyz", "/ackgate.v1.AdminService/ListLanes"] {
            let page = pages.ask(path, headers).await.expect("it answers");
            assert_eq!(page.status, 403, "{path} {headers}");
        }
    }
    // More than headers may take.
    let long = format!("Host: localhost\r\nX: {}\r\n", "x".repeat(1 << 20));
    if let Ok(page) = pages.ask("/readyz", &long).await {
        assert!(matches!(page.status, 400..500), "{}", page.status);
    }
    // gRPC is served beside it.
    let mut admin = AdminServiceClient::new(connection(pages.0).await.unwrap());
    let lanes = admin.list_lanes(ListLanesRequest::default()).await.unwrap();
    assert_eq!(lanes.into_inner().lanes, []);
}

async fn connections_that_say_nothing_keep_no_probe_out(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let (gateway, pages) = Pages::gateway(&stage, &[stage.subscription(&topic)], "").await;
    gateway.logs("/readyz").await;
    let mut silent = tokio::task::JoinSet::new();
    for _ in 0..300 {
        let address = pages.0;
        silent.spawn(async move {
            loop {
                if let Ok(mut stream) = TcpStream::connect(address).await {
                    // Until it is closed; then there is another one.
                    let _closed = stream.read(&mut [0; 1]).await;
                }
            }
        });
    }
    gateway.logs("quiet connections make room").await;
    for _ in 0..30 {
        assert_eq!(pages.get("/healthz").await.status, 200);
        let page = pages.get("/readyz").await;
        assert!(page.body.contains("\"status\""), "{page:?}");
    }
    silent.shutdown().await;
}

async fn gateway_is_ready_once_a_cluster_answers_and_degraded_while_another_does_not(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let other = Broker::embedded();
    let away = other.bootstrap();
    other.faults().set_reachable(false).unwrap();
    stage.broker.faults().set_reachable(false).unwrap();
    let top = format!("clusters.away.address = \"kafka://{away}\"");
    let (_gateway, pages) = Pages::gateway(&stage, &[stage.subscription(&topic)], &top).await;
    pages
        .becomes("not ready", Some("cluster-unreachable"))
        .await;
    assert_eq!(pages.get("/healthz").await.status, 200);
    let (code, said) = pages.command(&["ready"]).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.starts_with("not ready\n[-] cluster "), "{said}");
    let (code, said) = pages.probe().await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.starts_with("not ready\n[-] cluster "), "{said}");
    stage.broker.faults().set_reachable(true).unwrap();
    let reason = pages.becomes("degraded", Some("cluster-unreachable")).await;
    assert_eq!(reason["cluster"], "away");
    assert!(reason["age_seconds"].is_u64(), "{reason}");
    let (code, said) = pages.command(&["ready", "--json"]).await;
    let said: Value = serde_json::from_str(&said).expect("it is JSON");
    assert_eq!((code, &said["status"]), (Some(0), &"degraded".into()));
    other.faults().set_reachable(true).unwrap();
    pages.becomes("ready", None).await;
    assert_eq!(pages.probe().await, (Some(0), "ready".to_owned()));
}

// FC-103.
async fn record_without_a_verdict_stalls_its_lane_until_it_has_one(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["0", "1"]).await;
    let top = "health.stalled_after = \"1s\"";
    let (gateway, pages) = Pages::gateway(&stage, &[stage.subscription(&topic)], top).await;
    let mut stream = gateway.open().await;
    let records = stream.records(2).await;
    stream.ack(&records[0]).await;
    let reason = pages.becomes("degraded", Some("unanswered")).await;
    assert_eq!(reason["subscription"], "orders");
    assert_eq!(reason["topic"].as_str(), Some(topic.name.as_str()));
    assert_eq!(
        (&reason["partition"], &reason["offset"]),
        (&0.into(), &1.into())
    );
    gateway.logs("lane makes no progress").await;
    let text = pages.get("/readyz?verbose").await;
    assert!(text.body.starts_with("degraded\n"), "{text:?}");
    assert!(text.body.contains("the record at 1 is out to"), "{text:?}");
    let mut admin = AdminServiceClient::new(connection(pages.0).await.unwrap());
    let lanes = admin.list_lanes(ListLanesRequest::default()).await.unwrap();
    assert_eq!(lanes.into_inner().lanes[0].hold(), LaneHold::Stalled);
    stream.ack(&records[1]).await;
    pages.becomes("ready", None).await;
    gateway.logs("lane goes on").await;
}

async fn open_breaker_is_told_in_the_same_words_everywhere(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let dead = stage.topic("dead", 1).await;
    stage.produce(&topic, &["0", "1", "2"]).await;
    let subscription = stage
        .subscription(&topic)
        .dead_letter(&dead)
        .set("dead_letter.breaker.run", "2");
    let (gateway, pages) = Pages::gateway(&stage, &[subscription], "").await;
    let mut stream = gateway.open().await;
    let records = stream.records(3).await;
    stream.answer_all(&records, Outcome::Rejected).await;
    let reason = pages.becomes("degraded", Some("breaker-open")).await;
    let text = reason["text"].as_str().expect("words").to_owned();
    let mut admin = AdminServiceClient::new(connection(pages.0).await.unwrap());
    let lanes = admin.list_lanes(ListLanesRequest::default()).await.unwrap();
    let lane = &lanes.into_inner().lanes[0];
    assert_eq!(lane.hold(), LaneHold::BreakerOpen);
    assert_eq!(lane.hold_detail, text);
    let event = stream
        .event("holds", |event| event.detail.contains("breaker"))
        .await;
    assert_eq!(event.detail, text);
    gateway.logs(&text).await;
}

async fn gateway_that_stops_is_alive_and_not_ready(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["0"]).await;
    let top = "shutdown.drain = \"60s\"";
    let (mut gateway, pages) = Pages::gateway(&stage, &[stage.subscription(&topic)], top).await;
    let mut stream = gateway.open().await;
    let record = stream.record().await;
    pages.becomes("ready", None).await;
    gateway.terminate();
    let reason = pages.becomes("not ready", Some("draining")).await;
    assert!(reason["text"].as_str().unwrap().contains("stops"));
    assert_eq!(pages.get("/healthz").await.status, 200);
    stream.ack(&record).await;
    gateway.end().await;
}

async fn missing_dead_letter_topic_degrades_until_it_is_there(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let dead = Topic {
        name: stage.named("dead"),
    };
    stage.produce(&topic, &["bad"]).await;
    let subscription = stage.subscription(&topic).dead_letter(&dead);
    let (gateway, pages) = Pages::gateway(&stage, &[subscription], "").await;
    let mut stream = gateway.open().await;
    let record = stream.record().await;
    stream.reject(&record).await;
    let reason = pages.becomes("degraded", Some("dead-letter-blocked")).await;
    let text = reason["text"].as_str().expect("words");
    assert!(text.starts_with("dead letter not written: "), "{reason}");
    stage.broker.create(&dead.name, 1, None).await;
    pages.becomes("ready", None).await;
}

async fn broker_that_falls_silent_is_told_and_forgotten(stage: Stage) {
    // A broker of its own: others must not wait for it.
    let own = spawn_blocking(Broker::own_kafka).await.unwrap();
    let stage = stage.on(own);
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["0"]).await;
    let subscription = stage
        .subscription(&topic)
        .consumer_property("session.timeout.ms", "6000")
        .consumer_property("heartbeat.interval.ms", "1000");
    let (gateway, pages) = Pages::gateway(&stage, &[subscription], "").await;
    let mut stream = gateway.open().await;
    let record = stream.record().await;
    stream.ack(&record).await;
    pages.becomes("ready", None).await;
    stage.broker.tools().signal("STOP");
    pages
        .becomes("not ready", Some("cluster-unreachable"))
        .await;
    pages.becomes("not ready", Some("group-fenced")).await;
    assert_eq!(pages.get("/healthz").await.status, 200);
    stage.broker.tools().signal("CONT");
    pages.becomes("ready", None).await;
    drop(stream);
    stage.broker.tools().end();
}
