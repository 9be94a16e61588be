//! What happens while dead letters cannot be written, what stops too many of them, and
//! what operators see and say.

use std::{process::Command, time::Duration};

use ackgate_proto::v1::{
    LaneEventKind, ListLanesRequest, Outcome, ResetBreakersRequest,
    admin_service_client::AdminServiceClient,
};
use serde_json::Value;
use tonic::Code;

use crate::support::{
    Case, Gateway, Outgoing, Process, Stage, Stream, Subscription, Topic, ackgate, cases,
    connection, eventually, free_port, reason,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        both: subscriber_that_rejects_everything_opens_the_breaker;
        embedded: operators_see_lanes_and_are_told_what_is_wrong;
        kafka: blocked_lane_hands_nothing_out_and_goes_on_by_itself,
            parked_record_waits_beside_its_lane,
            discarded_record_settles_without_a_copy;
    ]
}

/// Where a gateway's operators connect.
struct Operators(String);

impl Operators {
    async fn gateway(stage: &Stage, subscription: Subscription) -> (Gateway, Self) {
        let address = format!("127.0.0.1:{}", free_port());
        let top = format!("admin.address = \"{address}\"");
        let gateway = Gateway::start_with(stage, &[subscription], &top).await;
        (gateway, Self(address))
    }

    /// Runs a command against it; its standard output.
    async fn run(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(ackgate());
        command.args(arguments).args(["--address", &self.0]);
        let mut process = Process::start(arguments[0], &mut command);
        let status = process.end().await;
        assert!(status.success(), "{status}: {}", process.err());
        process.out_from(0).join("\n")
    }

    async fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let said = self.run(&[arguments, &["--json"]].concat()).await;
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"))
    }

    /// Waits until the lane of partition 0 shows so.
    async fn shows(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        eventually(what, async || {
            let lanes = self.json(&["lanes", "orders"]).await;
            let lane = lanes.into_iter().find(|lane| lane["partition"] == 0);
            match lane {
                Some(lane) if holds(&lane) => Ok(lane),
                other => Err(format!("{other:?}")),
            }
        })
        .await
    }
}

// FC-54.
async fn subscriber_that_rejects_everything_opens_the_breaker(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let dead = stage.topic("dead", 1).await;
    let records = (0..10_000).map(|number| Outgoing::value(0, number.to_string()));
    stage.broker.produce(&topic.name, records).await;
    let subscription = stage
        .subscription(&topic)
        .dead_letter(&dead)
        .set("dead_letter.breaker.run", "100");
    let (gateway, operators) = Operators::gateway(&stage, subscription).await;
    let mut faulty = gateway.open().await;
    faulty.credit(30, 1 << 20).await;
    let mut rejected = 0;
    let is_open = |faulty: &Stream| {
        let held = LaneEventKind::Held;
        faulty.events.iter().any(|event| event.kind() == held)
    };
    while !is_open(&faulty) {
        let records = faulty.within(Duration::from_millis(300)).await;
        rejected += records.len();
        faulty.answer_all(&records, Outcome::Rejected).await;
    }
    let rest = faulty.within(Duration::from_secs(2)).await;
    rejected += rest.len();
    faulty.answer_all(&rest, Outcome::Rejected).await;
    assert_eq!(
        faulty.within(Duration::from_secs(2)).await.len(),
        0,
        "nothing is handed out behind it"
    );
    stage.holds(&dead, 100).await;
    let waiting = rejected - 100;
    assert!(waiting < 10_000 - 100, "{waiting}");
    let lane = operators
        .shows("the open breaker", |lane| lane["hold"] == "breaker-open")
        .await;
    assert_eq!(lane["dead_lettering"], waiting);
    assert_eq!(
        lane["hold_detail"],
        "breaker open: 100 records given up one after another"
    );
    assert!(lane["held_since"].is_string(), "{lane}");
    faulty.close().await;
    stage.commits(&topic, 0, 100).await;

    let closed = operators.json(&["breaker", "reset", "orders"]).await;
    assert_eq!(
        (closed.len(), &closed[0]["hold"]),
        (1, &"breaker-open".into())
    );
    gateway.logs("an operator has reset breakers").await;
    gateway.logs("action=ResetBreakers").await;
    let mut sound = gateway.open().await;
    let mut left = 10_000 - rejected;
    while left > 0 {
        let records = sound.records(left.min(500)).await;
        left -= records.len();
        sound.answer_all(&records, Outcome::Acked).await;
    }
    stage.commits(&topic, 0, 10_000).await;
    stage.holds(&dead, rejected).await;
    let said = operators.run(&["breaker", "reset", "orders"]).await;
    assert_eq!(said, "no breaker was open");
}

async fn operators_see_lanes_and_are_told_what_is_wrong(stage: Stage) {
    let topic = stage.topic("orders", 2).await;
    stage.produce_to(&topic, 0, &["a", "b"]).await;
    let (gateway, operators) = Operators::gateway(&stage, stage.subscription(&topic)).await;
    assert_eq!(
        operators.run(&["lanes"]).await,
        "this gateway owns no lanes now"
    );
    let mut stream = gateway.open().await;
    let records = stream.records(2).await;
    stream.ack(&records[0]).await;
    let lane = operators
        .shows("the record that is out", |lane| lane["out"] == 1)
        .await;
    assert_eq!(lane["subscription"], "orders");
    assert_eq!((&lane["floor"], &lane["unsettled"]), (&1.into(), &1.into()));
    assert!(lane["hold"].is_null(), "{lane}");
    assert_eq!(operators.json(&["lanes"]).await.len(), 2);
    let table = operators.run(&["lanes"]).await;
    assert!(table.trim_start().starts_with("SUBSCRIPTION"), "{table}");
    assert_eq!(table.lines().count(), 3, "{table}");

    let channel = connection(operators.0.parse().unwrap()).await.unwrap();
    let mut admin = AdminServiceClient::new(channel);
    let unknown = ListLanesRequest {
        subscription: "nothing".to_owned(),
    };
    let status = admin.list_lanes(unknown).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    assert_eq!(reason(&status), "UNKNOWN_SUBSCRIPTION");
    let orders = ResetBreakersRequest {
        subscription: "orders".to_owned(),
        ..ResetBreakersRequest::default()
    };
    for (request, code, expected) in [
        (
            ResetBreakersRequest::default(),
            Code::InvalidArgument,
            "SUBSCRIPTION_REQUIRED",
        ),
        (
            ResetBreakersRequest {
                partition: Some(0),
                ..orders.clone()
            },
            Code::InvalidArgument,
            "TOPIC_REQUIRED",
        ),
        (
            ResetBreakersRequest {
                topic: topic.name.clone(),
                partition: Some(2),
                ..orders.clone()
            },
            Code::NotFound,
            "LANE_NOT_HERE",
        ),
    ] {
        let status = admin.reset_breakers(request).await.unwrap_err();
        assert_eq!(status.code(), code, "{status:?}");
        assert_eq!(reason(&status), expected);
    }
    let nothing = admin.reset_breakers(orders).await.unwrap();
    assert_eq!(nothing.into_inner().lanes, []);
}

/// A dead-letter topic that does not exist.
fn missing(stage: &Stage) -> Topic {
    Topic {
        name: stage.named("dead"),
    }
}

// FC-45.
async fn blocked_lane_hands_nothing_out_and_goes_on_by_itself(stage: Stage) {
    let topic = stage.topic("orders", 2).await;
    let dead = missing(&stage);
    stage.produce_to(&topic, 0, &["bad", "out"]).await;
    let subscription = stage.subscription(&topic).dead_letter(&dead);
    let (gateway, operators) = Operators::gateway(&stage, subscription).await;
    let mut stream = gateway.open().await;
    let records = stream.records(2).await;
    stream.reject(&records[0]).await;
    let held = LaneEventKind::Held;
    let event = stream.event("holds", |event| event.kind() == held).await;
    assert_eq!((event.partition, event.first_offset), (0, Some(0)));
    let lane = operators
        .shows("the blocked lane", |lane| {
            lane["hold"] == "dead-letter-blocked"
        })
        .await;
    let detail = lane["hold_detail"].as_str().unwrap_or_default();
    assert!(detail.starts_with("dead letter not written: "), "{lane}");

    // Verdicts count, the other lane flows, and nothing new of this one comes.
    stream.ack(&records[1]).await;
    stage.produce_to(&topic, 0, &["new"]).await;
    stage.produce_to(&topic, 1, &["0", "1", "2"]).await;
    let others = stream.records(3).await;
    assert!(others.iter().all(|one| one.partition == 1), "{others:?}");
    stream.answer_all(&others, Outcome::Acked).await;
    stage.commits(&topic, 1, 3).await;
    assert_eq!(stream.within(Duration::from_secs(2)).await.len(), 0);
    assert!(matches!(stage.committed(&topic, 0).await, None | Some(0)));

    stage.broker.create(&dead.name, 1, None).await;
    let new = stream.record().await;
    assert_eq!((new.partition, new.offset), (0, 2));
    stream.ack(&new).await;
    stage.commits(&topic, 0, 3).await;
    let letters = stage.holds(&dead, 1).await;
    assert_eq!(letters[0].value.as_deref(), Some(b"bad".as_slice()));
    let recovered = LaneEventKind::Recovered;
    stream
        .event("recovers", |event| event.kind() == recovered)
        .await;
}

async fn parked_record_waits_beside_its_lane(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let dead = missing(&stage);
    stage.produce(&topic, &["bad", "0"]).await;
    let subscription = stage
        .subscription(&topic)
        .dead_letter(&dead)
        .set("dead_letter.on_failure", "\"park\"")
        .set("dead_letter.tries", "2");
    let (gateway, operators) = Operators::gateway(&stage, subscription).await;
    let mut stream = gateway.open().await;
    let records = stream.records(2).await;
    stream.reject(&records[0]).await;
    stream.ack(&records[1]).await;
    let lane = operators
        .shows("the record set aside", |lane| lane["parked"] == 1)
        .await;
    assert_eq!(
        (&lane["hold"], &lane["dead_lettering"]),
        (&Value::Null, &0.into())
    );
    stage.produce(&topic, &["1", "2"]).await;
    let more = stream.records(2).await;
    stream.answer_all(&more, Outcome::Acked).await;
    gateway
        .logs("record set aside, as on_failure = park says")
        .await;
    let settled = operators
        .shows("the others settled", |lane| lane["unsettled"] == 1)
        .await;
    assert_eq!(settled["floor"], 0, "L2");
    assert!(matches!(stage.committed(&topic, 0).await, None | Some(0)));

    stage.broker.create(&dead.name, 1, None).await;
    stage.commits(&topic, 0, 4).await;
    let letters = stage.holds(&dead, 1).await;
    assert_eq!(letters[0].value.as_deref(), Some(b"bad".as_slice()));
}

async fn discarded_record_settles_without_a_copy(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let dead = missing(&stage);
    stage.produce(&topic, &["bad", "good"]).await;
    let subscription = stage
        .subscription(&topic)
        .dead_letter(&dead)
        .set("dead_letter.on_failure", "\"discard\"")
        .set("dead_letter.tries", "2");
    let gateway = stage.gateway(&[subscription]).await;
    let mut stream = gateway.open().await;
    let records = stream.records(2).await;
    stream.ack(&records[1]).await;
    stream.reject(&records[0]).await;
    stage.commits(&topic, 0, 2).await;
    gateway
        .logs("record settled without a dead letter, as on_failure = discard says")
        .await;
    stage.broker.create(&dead.name, 1, None).await;
    assert_eq!(stage.broker.read(&dead.name).await.len(), 0);
}
