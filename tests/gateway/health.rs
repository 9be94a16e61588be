//! What the gateway tells of its health: to those who ask once, and to those who watch.

use std::{collections::HashMap, time::Duration};

use tokio::time::timeout;
use tonic::{Code, Status, Streaming, transport::Channel};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus,
    health_client::HealthClient,
};

use crate::support::{
    Broker, Case, Gateway, PATIENCE, Stage, cases, connection, eventually, reason, throughout,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        both: serves_once_kafka_answers;
        embedded: nothing_serves_before_kafka_answers,
            watcher_hears_that_the_cluster_goes_and_comes_back,
            cluster_that_is_away_costs_only_its_own_subscriptions,
            stop_is_told_before_streams_end,
            watcher_on_an_aged_connection_is_told_so,
            unknown_service_is_told_as_the_protocol_says;
        kafka: consumer_that_has_joined_tells_of_its_topics;
    ]
}

const GATEWAY: &str = "ackgate.v1.GatewayService";
const ORDERS: &str = "subscription/orders";

/// Asks about services, over one connection.
struct Doctor(HealthClient<Channel>);

impl Doctor {
    async fn of(gateway: &Gateway) -> Self {
        let connection = connection(gateway.address).await;
        Self(HealthClient::new(connection.expect("the gateway listens")))
    }

    async fn check(&self, service: &str) -> Result<ServingStatus, Status> {
        let answer = self.0.clone().check(request(service)).await?;
        Ok(answer.into_inner().status())
    }

    async fn watch(&self, service: &str) -> Watch {
        let answer = self.0.clone().watch(request(service)).await;
        Watch(answer.expect("anything can be watched").into_inner())
    }

    /// Waits until a service has this status.
    async fn becomes(&self, service: &str, expected: ServingStatus) {
        eventually(&format!("{service:?} is {expected:?}"), async || {
            let status = self.check(service).await;
            if matches!(&status, Ok(status) if *status == expected) {
                Ok(())
            } else {
                Err(format!("{status:?}"))
            }
        })
        .await;
    }
}

fn request(service: &str) -> HealthCheckRequest {
    HealthCheckRequest {
        service: service.to_owned(),
    }
}

struct Watch(Streaming<HealthCheckResponse>);

impl Watch {
    /// What it is told next.
    async fn next(&mut self) -> Result<ServingStatus, Status> {
        let told = timeout(PATIENCE, self.0.message()).await;
        let told = told.expect("a watcher is told something");
        told.map(|response| response.expect("it ends with a status").status())
    }
}

/// A gateway for one topic.
async fn gateway(stage: &Stage) -> Gateway {
    let topic = stage.topic("orders", 1).await;
    stage.gateway(&[stage.subscription(&topic)]).await
}

async fn serves_once_kafka_answers(stage: Stage) {
    let gateway = gateway(&stage).await;
    let doctor = Doctor::of(&gateway).await;
    for service in ["", GATEWAY, ORDERS] {
        doctor.becomes(service, ServingStatus::Serving).await;
    }
    let mut watch = doctor.watch(ORDERS).await;
    assert_eq!(watch.next().await.unwrap(), ServingStatus::Serving);
}

async fn watcher_on_an_aged_connection_is_told_so(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    // Far more than anybody waits here: an answer is no cut.
    let top = "listen.max_connection_age = \"3s\"\nshutdown.drain = \"10m\"";
    let gateway = Gateway::start_with(&stage, &[stage.subscription(&topic)], top).await;
    let doctor = Doctor::of(&gateway).await;
    // It stays unknown, and its watch is open too.
    let mut unknown = doctor.watch("subscription/nobody").await;
    assert_eq!(unknown.next().await.unwrap(), ServingStatus::ServiceUnknown);
    let mut watch = doctor.watch("").await;
    for watch in [&mut watch, &mut unknown] {
        let status = loop {
            if let Err(status) = watch.next().await {
                break status;
            }
        };
        assert_eq!(status.code(), Code::Unavailable, "{status:?}");
        assert_eq!(reason(&status), "CONNECTION_AGED");
    }
    // The library has another connection by itself, where it goes on.
    doctor.becomes("", ServingStatus::Serving).await;
}

async fn nothing_serves_before_kafka_answers(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.broker.faults().set_reachable(false).unwrap();
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let doctor = Doctor::of(&gateway).await;
    // Longer than a first question may take.
    throughout("it serves nothing", Duration::from_secs(7), async || {
        for service in ["", GATEWAY, ORDERS] {
            let status = doctor.check(service).await.unwrap();
            if status != ServingStatus::NotServing {
                return Err(format!("{service:?} is {status:?}"));
            }
        }
        Ok(())
    })
    .await;
    gateway.logs("cluster does not answer").await;

    stage.broker.faults().set_reachable(true).unwrap();
    for service in ["", GATEWAY, ORDERS] {
        doctor.becomes(service, ServingStatus::Serving).await;
    }
}

/// Without a subscriber nobody but the question itself notices.
async fn watcher_hears_that_the_cluster_goes_and_comes_back(stage: Stage) {
    let gateway = gateway(&stage).await;
    let doctor = Doctor::of(&gateway).await;
    doctor.becomes(ORDERS, ServingStatus::Serving).await;
    let mut watches = Vec::new();
    for service in ["", ORDERS] {
        let mut watch = doctor.watch(service).await;
        assert_eq!(watch.next().await.unwrap(), ServingStatus::Serving);
        watches.push(watch);
    }
    for (reachable, expected) in [
        (false, ServingStatus::NotServing),
        (true, ServingStatus::Serving),
    ] {
        stage.broker.faults().set_reachable(reachable).unwrap();
        for watch in &mut watches {
            assert_eq!(watch.next().await.unwrap(), expected);
        }
    }
}

/// A missing topic is no trouble of the cluster: only who reads it can tell.
async fn consumer_that_has_joined_tells_of_its_topics(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let missing = stage.named("missing");
    let topics = format!("[\"{}\", \"{missing}\"]", topic.name);
    let subscription = stage.subscription(&topic).set("topics", &topics);
    let gateway = stage.gateway(&[subscription]).await;
    let doctor = Doctor::of(&gateway).await;
    doctor.becomes(ORDERS, ServingStatus::Serving).await;

    let _stream = gateway.open().await;
    doctor.becomes(ORDERS, ServingStatus::NotServing).await;
    let whole = doctor.check("").await;
    assert_eq!(whole.unwrap(), ServingStatus::Serving);
    stage.broker.create(&missing, 1, None).await;
    doctor.becomes(ORDERS, ServingStatus::Serving).await;
}

async fn cluster_that_is_away_costs_only_its_own_subscriptions(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let other = Broker::embedded();
    let away = other.bootstrap();
    other.faults().set_reachable(false).unwrap();
    let bills = stage
        .subscription(&topic)
        .renamed("bills")
        .set("cluster", "\"away\"");
    let top = format!("clusters.away.address = \"kafka://{away}\"");
    let gateway = Gateway::start_with(&stage, &[stage.subscription(&topic), bills], &top).await;
    let doctor = Doctor::of(&gateway).await;
    for service in ["", GATEWAY, ORDERS] {
        doctor.becomes(service, ServingStatus::Serving).await;
    }
    gateway.logs("cluster does not answer").await;
    let bills = doctor.check("subscription/bills").await;
    assert_eq!(bills.unwrap(), ServingStatus::NotServing);
    // What serves works, and what does not is served once it can be.
    stage.produce(&topic, &["0"]).await;
    assert_eq!(gateway.open().await.record().await.text(), "0");
    other.faults().set_reachable(true).unwrap();
    doctor
        .becomes("subscription/bills", ServingStatus::Serving)
        .await;
}

async fn stop_is_told_before_streams_end(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["0"]).await;
    let top = "shutdown.drain = \"600s\"\nshutdown.close = \"5s\"";
    let mut gateway = Gateway::start_with(&stage, &[stage.subscription(&topic)], top).await;
    let doctor = Doctor::of(&gateway).await;
    doctor.becomes(ORDERS, ServingStatus::Serving).await;
    let mut watches = HashMap::new();
    for service in ["", GATEWAY, ORDERS] {
        let mut watch = doctor.watch(service).await;
        assert_eq!(watch.next().await.unwrap(), ServingStatus::Serving);
        watches.insert(service, watch);
    }
    let mut stream = gateway.open().await;
    let record = stream.record().await;

    gateway.terminate();
    for watch in watches.values_mut() {
        assert_eq!(watch.next().await.unwrap(), ServingStatus::NotServing);
    }
    // Also who asks only now is answered, while new streams are refused.
    let late = Doctor::of(&gateway).await;
    assert_eq!(
        late.check("").await.unwrap(),
        ServingStatus::NotServing,
        "the stream is still being drained"
    );
    stream.drain().await;
    stream.ack(&record).await;
    stream.status().await;
    for (_, mut watch) in watches {
        let end = watch.next().await.unwrap_err();
        assert_eq!(
            (end.code(), reason(&end).as_str()),
            (Code::Unavailable, "SHUTTING_DOWN")
        );
    }
    assert!(gateway.end().await.success());
    assert!(
        !gateway.log().contains("are cut"),
        "watchers do not hold the stop"
    );
}

async fn unknown_service_is_told_as_the_protocol_says(stage: Stage) {
    let gateway = gateway(&stage).await;
    let doctor = Doctor::of(&gateway).await;
    for service in ["orders", "subscription/", "subscription/bills"] {
        let refused = doctor.check(service).await.unwrap_err();
        assert_eq!(
            (refused.code(), reason(&refused).as_str()),
            (Code::NotFound, "UNKNOWN_HEALTH_SERVICE")
        );
        let mut watch = doctor.watch(service).await;
        assert_eq!(watch.next().await.unwrap(), ServingStatus::ServiceUnknown);
    }
}
