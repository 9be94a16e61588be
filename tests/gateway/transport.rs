//! What clients may do to a connection without losing it, and what they may not cost.

use std::time::Duration;

use ackgate_proto::v1::{
    Open, Outcome, SubscribeRequest, gateway_service_client::GatewayServiceClient,
    subscribe_request::Request,
};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Code,
    transport::{Channel, Endpoint},
};

use crate::support::{
    Case, Gateway, Outgoing, PATIENCE, Proxy, Raw, Stage, Stream, cases, connection, eventually,
    reason,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        embedded: pings_as_often_as_a_client_likes_never_end_a_connection,
            calls_that_a_client_ends_early_do_not_cost_the_connection,
            calls_that_the_gateway_ends_early_do_not_cost_the_connection,
            calls_that_are_given_up_before_they_are_heard_do_not_cost_the_connection,
            thousand_streams_go_over_few_connections,
            names_of_any_letters_are_echoed_as_they_are;
    ]
}

/// What a hostile or careless client may make the gateway grow by.
const GROWTH: u64 = 64 << 20;

const CALLS: usize = 10_000;

async fn pings_as_often_as_a_client_likes_never_end_a_connection(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let proxy = Proxy::start(gateway.address).await;
    let endpoint = Endpoint::from_shared(format!("http://{}", proxy.address)).unwrap();
    let channel = endpoint
        .http2_keep_alive_interval(Duration::from_millis(50))
        .keep_alive_timeout(Duration::from_secs(10))
        .keep_alive_while_idle(true)
        .connect()
        .await
        .unwrap();
    // Some 60 pings without a call, more than a server bears that minds them; then beside a stream.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let mut stream = Stream::open_over(channel.clone(), Stream::hello("orders")).await;
    assert_eq!(stream.within(Duration::from_secs(3)).await.len(), 0);
    stage.produce(&topic, &["0"]).await;
    let record = stream.record().await;
    stream.ack(&record).await;
    stream.close().await;
    Stream::open_over(channel, Stream::hello("orders"))
        .await
        .close()
        .await;
    assert_eq!(proxy.taken(), 1, "the client had to connect again");
}

/// A gateway, a connection to it, and a stream over that.
async fn shared(stage: &Stage) -> (Gateway, Channel, Stream) {
    let topic = stage.topic("orders", 1).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let channel = connection(gateway.address).await.unwrap();
    let mut stream = Stream::open_over(channel.clone(), Stream::hello("orders")).await;
    stage.produce(&topic, &["before"]).await;
    let record = stream.record().await;
    stream.ack(&record).await;
    (gateway, channel, stream)
}

/// The stream has lived through it, and what was done cost no memory that stays.
async fn unharmed(stage: &Stage, gateway: &Gateway, mut stream: Stream, memory: u64) {
    let topic = crate::support::Topic {
        name: stage.named("orders"),
    };
    stage.produce(&topic, &["after"]).await;
    let record = stream.record().await;
    assert_eq!(record.text(), "after");
    stream.ack(&record).await;
    eventually("the memory is given back", async || {
        let grown = gateway.memory().saturating_sub(memory);
        if grown < GROWTH {
            Ok(())
        } else {
            Err(format!("{grown} bytes"))
        }
    })
    .await;
}

async fn calls_that_a_client_ends_early_do_not_cost_the_connection(stage: Stage) {
    let (gateway, channel, stream) = shared(&stage).await;
    let memory = gateway.memory();
    let client = GatewayServiceClient::new(channel);
    for _ in 0..CALLS / 100 {
        let calls = (0..100).map(|_| {
            let mut client = client.clone();
            async move {
                let (requests, outgoing) = tokio::sync::mpsc::channel(1);
                let response = client.subscribe(ReceiverStream::new(outgoing)).await;
                response.expect("the connection is there");
                drop(requests);
            }
        });
        let all = timeout(PATIENCE, futures::future::join_all(calls)).await;
        all.expect("they are answered");
    }
    unharmed(&stage, &gateway, stream, memory).await;
}

async fn calls_that_the_gateway_ends_early_do_not_cost_the_connection(stage: Stage) {
    let (gateway, channel, stream) = shared(&stage).await;
    let memory = gateway.memory();
    let client = GatewayServiceClient::new(channel);
    for _ in 0..CALLS / 100 {
        let calls = (0..100).map(|_| {
            let mut client = client.clone();
            async move {
                // It goes on to send although the first message is refused.
                let wrong = SubscribeRequest {
                    request: Some(Request::Open(Open::default())),
                };
                let requests = futures::stream::iter(vec![wrong; 200]);
                let mut responses = client.subscribe(requests).await?.into_inner();
                responses.message().await.map(drop)
            }
        });
        let all = timeout(PATIENCE, futures::future::join_all(calls)).await;
        for refused in all.expect("they are answered") {
            let status = refused.expect_err("it names no subscription");
            assert_ne!(status.code(), Code::Ok);
            assert_eq!(reason(&status), "OPEN_INVALID", "{status:?}");
        }
    }
    unharmed(&stage, &gateway, stream, memory).await;
}

/// As fast as they can be begun and given up, in one write: most are reset before anybody
/// looks at them.
async fn calls_that_are_given_up_before_they_are_heard_do_not_cost_the_connection(stage: Stage) {
    let (gateway, _channel, stream) = shared(&stage).await;
    let memory = gateway.memory();
    let mut raw = Raw::connect(gateway.address).await;
    raw.call(1, "Subscribe").await;
    let mut calls = Vec::new();
    for number in 1..=u32::try_from(CALLS).unwrap() {
        calls.extend(Raw::headers(1 + 2 * number, "Subscribe"));
        calls.extend(Raw::reset(1 + 2 * number));
    }
    raw.send(&calls).await;
    raw.has_read_everything().await;
    // The first call is still there: a message of it is answered.
    raw.message(1, &[], false).await;
    raw.ends(1).await;
    unharmed(&stage, &gateway, stream, memory).await;
}

async fn thousand_streams_go_over_few_connections(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut streams = Vec::new();
    for _ in 0..4 {
        let channel = connection(gateway.address).await.unwrap();
        for _ in 0..5 {
            let some = (0..50).map(|_| Stream::open_over(channel.clone(), Stream::hello("orders")));
            streams.extend(futures::future::join_all(some).await);
        }
    }
    assert_eq!(streams.len(), 1000);
    stage
        .broker
        .produce(
            &topic.name,
            (0..1000).map(|n| Outgoing::value(0, n.to_string())),
        )
        .await;
    let mut got = 0;
    eventually("the records come, whoever gets them", async || {
        for stream in &mut streams {
            let records = stream.within(Duration::from_millis(1)).await;
            got += records.len();
            if !records.is_empty() {
                stream.answer_all(&records, Outcome::Acked).await;
            }
        }
        if got == 1000 {
            Ok(())
        } else {
            Err(got.to_string())
        }
    })
    .await;
    stage.commits(&topic, 0, 1000).await;
}

// FC-90.
async fn names_of_any_letters_are_echoed_as_they_are(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["0"]).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let name = "касса-№7-Ёж-😀";
    let named = Open {
        subscriber_id: name.to_owned(),
        ..Stream::hello("orders")
    };
    let mut first = Stream::open(gateway.address, named.clone()).await;
    assert_eq!(first.opened.as_ref().unwrap().subscriber_id, name);
    let record = first.record().await;
    first.ack(&record).await;
    gateway.logs(name).await;
    // In a refusal too, and where a subscription has such a name.
    let mut second = Stream::connect(gateway.address).await.unwrap();
    second.send(Request::Open(Stream::hello("заказы-😀"))).await;
    let status = second.status().await;
    assert_eq!(status.code(), Code::NotFound, "{status:?}");
    assert!(status.message().contains("заказы-😀"), "{status:?}");
}
