//! The gateway's own log: its form, what must not be in it, and what repeats.

use std::{fs, time::Duration};

use ackgate_proto::v1::{
    Open, Outcome, PublishBatchRequest, gateway_service_client::GatewayServiceClient,
};
use serde_json::Value;
use tokio::time::Instant;
use tonic::{Code, Request};

use crate::support::{Case, Gateway, Outgoing, Stage, Stream, cases, connection, eventually};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        embedded: lines_are_json_and_hold_no_secret_at_any_level,
            nothing_that_clients_send_can_forge_a_line,
            refused_calls_are_one_episode_however_many,
            outage_is_told_once_and_so_is_its_end;
    ]
}

/// What is in values, keys, headers and settings that nobody may see.
const SECRET: &str = "Zx9SecretMarker";

/// Everything of the gateway's own, and what the client library says with its debugging on.
const EVERYTHING: &str = "log.filter = \"info,ackgate=trace,librdkafka=trace\"\n\
    log.format = \"json\"\n\
    clusters.main.properties.\"debug\" = \"conf,security,broker,protocol\"\n\
    clusters.main.properties.\"sasl.username\" = \"Zx9SecretMarker-user\"\n\
    clusters.main.properties.\"sasl.password\" = \"Zx9SecretMarker-password\"\n\
    clusters.main.properties.\"ssl.key.password\" = \"Zx9SecretMarker-key\"\n";

fn secret_records(count: usize) -> impl Iterator<Item = Outgoing> {
    (0..count).map(|n| Outgoing {
        headers: vec![(
            "authorization".to_owned(),
            Some(format!("{SECRET}-header-{n}").into_bytes()),
        )],
        ..Outgoing::value(0, format!("{SECRET}-value-{n}")).keyed(format!("{SECRET}-k{n}"))
    })
}

/// Each line of a log as an object, whatever it is at the moment.
fn objects(log: &str) -> Vec<Value> {
    // The last line may not be whole yet.
    let (whole, _rest) = log.rsplit_once('\n').unwrap_or_default();
    let lines = whole.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

// FC-105.
async fn lines_are_json_and_hold_no_secret_at_any_level(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let dead = stage.topic("dead", 1).await;
    stage.broker.produce(&topic.name, secret_records(5)).await;
    let subscription = stage
        .subscription(&topic)
        .dead_letter(&dead)
        .max_attempts(2)
        .set("filter", "\"headers.nothing == 'x' || topic != ''\"")
        .set("content.check", "\"json\"")
        .set("content.on_failure", "\"deliver\"");
    let mut gateway = Gateway::start_with(&stage, &[subscription], EVERYTHING).await;
    let open = Open {
        resumable: true,
        subscriber_id: "worker-1".to_owned(),
        ..Stream::hello("orders")
    };
    let mut stream = Stream::open(gateway.address, open).await;
    let token = stream.opened.as_ref().unwrap().resume_token.clone();
    assert!(!token.is_empty(), "{:?}", stream.opened);
    let records = stream.records(5).await;
    stream.ack(&records[0]).await;
    stream.reject(&records[1]).await;
    stream.fail(&records[2]).await;
    let again = stream.record().await;
    stream.fail(&again).await;
    stream.answer_all(&records[3..], Outcome::Acked).await;
    stage.holds(&dead, 2).await;
    stage.commits(&topic, 0, 5).await;
    // Lost, and told so.
    drop(stream);
    gateway.logs("subscriber lost").await;
    // What the client library says under its own debugging is in the log too.
    gateway.logs("\"target\":\"librdkafka\"").await;
    gateway.terminate();
    assert!(gateway.end().await.success());

    let log = gateway.log();
    for secret in [SECRET, token.as_str()] {
        let found: Vec<&str> = log.lines().filter(|line| line.contains(secret)).collect();
        assert!(found.is_empty(), "{secret} is in {found:#?}");
    }
    let lines = objects(&log);
    let levels: Vec<&str> = lines
        .iter()
        .map(|it| it["level"].as_str().unwrap())
        .collect();
    assert!(levels.contains(&"DEBUG") && levels.contains(&"INFO"));
    for line in &lines {
        for field in ["timestamp", "level", "target", "message"] {
            assert!(line[field].is_string(), "{field} of {line}");
        }
        for field in ["partition", "offset", "session", "count"] {
            let is_fine = line.get(field).is_none_or(Value::is_number);
            assert!(is_fine, "{field} of {line}");
        }
    }
    let attached = lines
        .iter()
        .find(|line| line["message"] == "subscriber attached")
        .expect("it attached");
    assert_eq!(attached["subscription"], "orders");
    assert_eq!(attached["subscriber"], "worker-1");
    assert_eq!(attached["resumes"], false);
    // Nothing of librdkafka's dump of the configuration.
    assert!(lines.iter().all(|line| line["facility"] != "CONF"));
    let client = lines
        .iter()
        .find(|line| line["client"] == "consumer")
        .expect("a consumer says something");
    assert_eq!(client["group"], stage.group());
}

async fn nothing_that_clients_send_can_forge_a_line(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["a", "b"]).await;
    let top = "log.filter = \"info,ackgate=trace\"\n";
    let subscription = stage.subscription(&topic);
    let mut gateway = Gateway::start_with(&stage, &[subscription], top).await;
    let open = Open {
        subscriber_id: "worker\u{202e}1\u{2028}x level=\"ERROR\"".to_owned(),
        ..Stream::hello("orders")
    };
    let mut stream = Stream::open(gateway.address, open).await;
    let records = stream.records(2).await;
    let mut verdict = records[0].verdict(Outcome::Rejected);
    verdict.code = "bad".to_owned();
    verdict.reason = "no\n2026-01-01T00:00:00Z ERROR ackgate: forged\u{1b}[31m".to_owned();
    stream.settle(vec![verdict]).await;
    stream.ack(&records[1]).await;
    stage.commits(&topic, 0, 2).await;
    drop(stream);
    gateway.logs("subscriber lost").await;
    // In quotes, with its own quotes escaped.
    gateway
        .logs(r#"subscriber="worker\u{202e}1\u{2028}x level=\"ERROR\"""#)
        .await;
    // What is refused is named in no line of its own either.
    let refused = Open {
        subscriber_id: "a\nb".to_owned(),
        ..Stream::hello("orders")
    };
    let mut stream = Stream::connect(gateway.address).await.unwrap();
    stream
        .send(ackgate_proto::v1::subscribe_request::Request::Open(refused))
        .await;
    assert_eq!(stream.status().await.code(), Code::InvalidArgument);
    gateway.terminate();
    assert!(gateway.end().await.success());
    let log = gateway.log();
    let hostile = |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{202e}' | '\u{2028}');
    assert!(!log.contains(hostile), "{log:?}");
    for line in log.lines() {
        let time = line.split_whitespace().next().unwrap_or_default();
        assert!(time.ends_with('Z') && time.len() == 27, "{line}");
        assert!(!line.contains("ackgate: forged"), "{line}");
    }
}

async fn refused_calls_are_one_episode_however_many(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    // The line of a token that nobody has here.
    let line = format!("ours:sha256:{}", "0".repeat(64));
    fs::write(stage.folder().join("tokens"), line).unwrap();
    let top = "listen.tokens_file = \"tokens\"\n";
    let gateway = Gateway::start_with(&stage, &[stage.subscription(&topic)], top).await;
    let begin = Instant::now();
    let channel = connection(gateway.address).await.unwrap();
    let mut client = GatewayServiceClient::new(channel);
    for _ in 0..200 {
        let mut request = Request::new(PublishBatchRequest::default());
        let wrong = "Bearer wrong".parse().unwrap();
        request.metadata_mut().insert("authorization", wrong);
        let status = client.publish_batch(request).await.expect_err("no token");
        assert_eq!(status.code(), Code::Unauthenticated, "{status:?}");
    }
    gateway.logs("calls without a known token").await;
    let log = gateway.log();
    let told: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("calls without a known token"))
        .collect();
    let most = 1 + begin.elapsed().as_secs() as usize / 30;
    assert!(told.len() <= most, "{told:#?}");
    for part in [
        " WARN ",
        "peer=127.0.0.1:",
        "count=1",
        "reason=\"token unknown\"",
    ] {
        assert!(told[0].contains(part), "{part} is not in {}", told[0]);
    }
    assert!(!log.contains("Bearer") && !log.contains("wrong"), "{log}");
}

async fn outage_is_told_once_and_so_is_its_end(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["a"]).await;
    let top = "log.filter = \"info\"\n";
    let gateway = Gateway::start_with(&stage, &[stage.subscription(&topic)], top).await;
    let mut stream = gateway.open().await;
    let record = stream.record().await;
    stream.ack(&record).await;
    stage.commits(&topic, 0, 1).await;
    let begin = Instant::now();
    stage.broker.faults().set_reachable(false).unwrap();
    gateway.logs("cluster unreachable: trying for ever").await;
    crate::support::throughout("one line tells it", Duration::from_secs(5), async || {
        let log = gateway.log();
        let count = log.matches("cluster unreachable").count();
        if count == 1 { Ok(()) } else { Err(log) }
    })
    .await;
    stage.broker.faults().set_reachable(true).unwrap();
    eventually("the end is told", async || {
        let log = gateway.log();
        let (_, after) = log.split_once("cluster unreachable").unwrap_or_default();
        match after.contains("cluster reachable") {
            true => Ok(()),
            false => Err(log),
        }
    })
    .await;
    // One line of each kind at first, and one in half a minute of what goes on.
    let log = gateway.log();
    let warnings: Vec<&str> = log
        .lines()
        .filter(|line| line.contains(" WARN ") || line.contains(" ERROR "))
        .filter(|line| !line.contains("fail points"))
        .collect();
    let most = 8 * (1 + begin.elapsed().as_secs() as usize / 30);
    assert!(warnings.len() <= most, "{warnings:#?}");
}
