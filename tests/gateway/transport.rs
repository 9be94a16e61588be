//! What clients may do to a connection without losing it, and what they may not cost.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use ackgate_proto::v1::{
    Open, Outcome, SubscribeRequest, gateway_service_client::GatewayServiceClient,
    subscribe_request::Request,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, timeout},
};
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};
use tonic::{
    Code,
    transport::{Channel, Endpoint},
};

use crate::support::{
    Case, Gateway, Outgoing, PATIENCE, Proxy, Stage, Stream, cases, connection, eventually, reason,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        embedded: pings_as_often_as_a_client_likes_never_end_a_connection,
            calls_that_a_client_ends_early_do_not_cost_the_connection,
            calls_that_the_gateway_ends_early_do_not_cost_the_connection,
            calls_that_are_given_up_before_they_are_heard_do_not_cost_the_connection,
            five_hundred_subscribers_come_back_after_a_restart,
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
    // Without a call, and beside a stream.
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
    let mut raw = Raw::connect(&gateway).await;
    raw.call(1).await;
    let mut calls = Vec::new();
    for number in 1..=u32::try_from(CALLS).unwrap() {
        calls.extend(Raw::headers(1 + 2 * number));
        calls.extend(Raw::frame(
            RST_STREAM,
            0,
            1 + 2 * number,
            &CANCEL.to_be_bytes(),
        ));
    }
    raw.send(&calls).await;
    // The answer to a ping comes after everything that was sent before it.
    raw.send(&Raw::frame(PING, 0, 0, &[7; 8])).await;
    raw.pong([7; 8]).await;
    // The first call is still there: a message of it is answered.
    let nothing = [0, 0, 0, 0, 0];
    raw.send(&Raw::frame(DATA, 0, 1, &nothing)).await;
    raw.ends(1).await;
    unharmed(&stage, &gateway, stream, memory).await;
}

/// How many subscribers a restart throws off at once.
const MANY: usize = 500;

// FC-88.
async fn five_hundred_subscribers_come_back_after_a_restart(stage: Stage) {
    let topic = stage.topic("orders", 4).await;
    let mut gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let address = format!("http://{}", gateway.address);
    let seen: Arc<Mutex<BTreeSet<(i32, i64)>>> = Arc::default();
    let mut subscribers = Vec::new();
    for part in 0..MANY / 50 {
        let some = (0..50).map(|n| {
            let builder = ackgate_client::Subscriber::builder(&address, "orders");
            let builder = builder
                .subscriber_id(format!("{part}-{n}"))
                .credit(4, 1 << 20);
            builder.connect()
        });
        for subscriber in futures::future::join_all(some).await {
            subscribers.push(subscriber.expect("it is taken"));
        }
    }
    let mut sessions = Vec::new();
    for mut subscriber in subscribers {
        let seen = Arc::clone(&seen);
        let (say, back) = tokio::sync::watch::channel(0);
        sessions.push(back);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    delivery = subscriber.next() => {
                        let delivery = delivery.expect("it goes on").expect("no error");
                        seen.lock().unwrap().insert((delivery.partition(), delivery.offset()));
                        delivery.ack();
                    }
                    () = tokio::time::sleep(Duration::from_millis(100)) => {}
                }
                say.send_replace(subscriber.stats().reconnects);
            }
        });
    }
    let write = async |from: i32| {
        let records = (from..from + 1000).map(|n| Outgoing::value(n % 4, n.to_string()));
        stage.broker.produce(&topic.name, records).await;
    };
    write(0).await;
    gateway.kill_and_restart().await;
    write(1000).await;
    let up = Instant::now();
    eventually("all are back", async || {
        let back = sessions.iter().filter(|it| *it.borrow() >= 1).count();
        if back == MANY {
            Ok(())
        } else {
            Err(format!("{back} of {MANY}"))
        }
    })
    .await;
    println!(
        "all {MANY} are back {:?} after the gateway listens",
        up.elapsed()
    );
    eventually("every record has come", async || {
        let seen = seen.lock().unwrap().len();
        if seen == 2000 {
            Ok(())
        } else {
            Err(seen.to_string())
        }
    })
    .await;
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

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const CANCEL: u32 = 8;

/// HTTP/2 by hand: no library would do what is done here.
struct Raw {
    socket: TcpStream,
}

impl Raw {
    async fn connect(gateway: &Gateway) -> Self {
        let mut socket = TcpStream::connect(gateway.address).await.unwrap();
        socket
            .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            .await
            .unwrap();
        let mut raw = Self { socket };
        raw.send(&Self::frame(SETTINGS, 0, 0, &[])).await;
        raw
    }

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut frame = length[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        frame
    }

    /// Begins a call of `Subscribe`.
    fn headers(stream: u32) -> Vec<u8> {
        // :method POST and :scheme http by their numbers, the others literally.
        let mut block = vec![0x83, 0x86];
        for (name, value) in [
            (":path", "/ackgate.v1.GatewayService/Subscribe"),
            (":authority", "gateway"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ] {
            block.push(0);
            for text in [name, value] {
                block.push(u8::try_from(text.len()).unwrap());
                block.extend(text.bytes());
            }
        }
        const END_HEADERS: u8 = 4;
        Self::frame(HEADERS, END_HEADERS, stream, &block)
    }

    async fn call(&mut self, stream: u32) {
        self.send(&Self::headers(stream)).await;
    }

    async fn send(&mut self, bytes: &[u8]) {
        // The gateway reads on whatever it is sent.
        let written = timeout(PATIENCE, self.socket.write_all(bytes)).await;
        written
            .expect("the gateway reads")
            .expect("the connection is there");
    }

    /// The next frame: its kind, its flags, its stream and what it carries.
    async fn next(&mut self) -> (u8, u8, u32, Vec<u8>) {
        let mut head = [0; 9];
        let read = timeout(PATIENCE, self.socket.read_exact(&mut head)).await;
        read.expect("something comes")
            .expect("the connection is there");
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        self.socket.read_exact(&mut payload).await.unwrap();
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        assert_ne!(head[3], GOAWAY, "{:?}", String::from_utf8_lossy(&payload));
        if head[3] == SETTINGS && head[4] & ACK == 0 {
            self.send(&Self::frame(SETTINGS, ACK, 0, &[])).await;
        }
        (head[3], head[4], stream, payload)
    }

    async fn pong(&mut self, payload: [u8; 8]) {
        while self.next().await != (PING, ACK, 0, payload.to_vec()) {}
    }

    /// Waits until the gateway ends the call with trailers.
    async fn ends(&mut self, stream: u32) {
        loop {
            let (kind, flags, on, _) = self.next().await;
            if on == stream {
                assert_ne!(kind, RST_STREAM);
                if kind == HEADERS && flags & END_STREAM != 0 {
                    return;
                }
            }
        }
    }
}
