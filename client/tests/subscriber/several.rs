//! Several gateways at once, and a gateway that asks to leave.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ackgate_client::{Error, Event, Subscriber};
use ackgate_proto::v1::{
    self, Outcome, ResumeResult, subscribe_request::Request, subscribe_response::Response,
};
use futures::StreamExt as _;
use hyper_util::rt::TokioIo;
use tokio::io::DuplexStream;
use tonic::{
    Status,
    service::interceptor::InterceptedService,
    transport::{Channel, Endpoint, Uri},
};

use crate::support::{Gateway, Session, by_offset, delivery, until, within};

fn builder(gateways: &[&Gateway]) -> ackgate_client::Builder {
    let addresses: Vec<_> = gateways.iter().map(|it| it.address.to_string()).collect();
    Subscriber::builder(addresses, "orders")
        .backoff(Duration::from_millis(5), Duration::from_millis(50))
}

/// A subscriber of two gateways and its sessions, open.
async fn two(
    a: &mut Gateway,
    b: &mut Gateway,
    builder: ackgate_client::Builder,
) -> (Subscriber, Session, Session) {
    let connecting = tokio::spawn(builder.connect());
    let (mut of_a, mut of_b) = (a.session().await, b.session().await);
    of_a.open().await;
    of_b.open().await;
    let subscriber = within("connect", connecting).await.unwrap().unwrap();
    until(&subscriber, "both", |_| subscriber.gateways().len() == 2).await;
    (subscriber, of_a, of_b)
}

fn drain() -> Response {
    Response::Drain(v1::Drain {
        reason: v1::DrainReason::ConnectionAge.into(),
        ..v1::Drain::default()
    })
}

#[tokio::test]
async fn records_of_all_gateways_are_one_stream_and_each_is_answered_where_it_came_from() {
    let (mut a, mut b) = (Gateway::start().await, Gateway::start().await);
    let builder = builder(&[&a, &b]).subscriber_id("billing");
    let (mut subscriber, mut of_a, mut of_b) = two(&mut a, &mut b, builder).await;
    // The same lane number and offsets: only the gateway tells them apart.
    of_a.batch(1, 0..10).await;
    of_b.batch(1, 0..10).await;
    for _ in 0..20 {
        delivery(&mut subscriber).await.ack();
    }
    assert_eq!(by_offset(&of_a.verdicts(10).await).len(), 10);
    assert_eq!(by_offset(&of_b.verdicts(10).await).len(), 10);
    let stats = subscriber.stats();
    assert_eq!((stats.records, stats.reconnects), (20, 0));
    let closing = tokio::spawn(async move { subscriber.close().await });
    assert_eq!(of_a.goodbye().await, []);
    assert_eq!(of_b.goodbye().await, []);
    assert_eq!(within("close", closing).await.unwrap().unwrap().acked, 20);
}

#[tokio::test]
async fn credit_is_split_over_the_gateways_there_are() {
    let (mut a, mut b) = (Gateway::start().await, Gateway::start().await);
    let connecting = tokio::spawn(builder(&[&a, &b]).credit(11, 1_001).connect());
    let (mut of_a, mut of_b) = (a.session().await, b.session().await);
    let half = |records, bytes| Some(v1::Credit { records, bytes });
    assert_eq!(of_a.open().await.credit, half(5, 500));
    assert_eq!(of_b.open().await.credit, half(5, 500));
    let subscriber = within("connect", connecting).await.unwrap().unwrap();
    subscriber.set_credit(1, 0);
    for session in [&mut of_a, &mut of_b] {
        let Some(Request::Credit(credit)) = session.request().await else {
            panic!("no credit")
        };
        assert_eq!(Some(credit), half(1, 0));
    }
    subscriber.set_credit(8, 8_000);
    for session in [&mut of_a, &mut of_b] {
        session.request().await;
    }
    // One is given up for good: the other one gets all there is.
    of_b.fail(Status::not_found("no such subscription")).await;
    let Some(Request::Credit(credit)) = of_a.request().await else {
        panic!("no credit")
    };
    assert_eq!(Some(credit), half(8, 8_000));
}

#[tokio::test]
async fn lost_gateway_holds_up_nothing_of_the_others() {
    let (mut a, mut b) = (Gateway::start().await, Gateway::start().await);
    let builder = builder(&[&a, &b]);
    let connecting = tokio::spawn(builder.connect());
    let (mut of_a, mut of_b) = (a.session().await, b.session().await);
    let Some(Request::Open(_)) = of_a.request().await else {
        panic!("no Open")
    };
    of_a.say(Response::Opened(v1::Opened {
        resume_token: "secret".to_owned(),
        ..v1::Opened::default()
    }))
    .await;
    of_b.open().await;
    let mut subscriber = within("connect", connecting).await.unwrap().unwrap();
    of_a.batch(1, 0..3).await;
    until(&subscriber, "three", |stats| stats.records == 3).await;
    // Before that "one left" says nothing.
    until(&subscriber, "both", |_| subscriber.gateways().len() == 2).await;
    a.kill();
    drop(of_a);
    until(&subscriber, "one left", |_| {
        subscriber.gateways().len() == 1
    })
    .await;
    // What the lost one brought waits; what comes from the other does not.
    of_b.batch(1, 10..13).await;
    for offset in 10..13 {
        let next = delivery(&mut subscriber).await;
        assert_eq!(next.offset(), offset);
        next.ack();
    }
    of_b.verdicts(3).await;
    a.restart().await;
    let mut of_a = a.session().await;
    let Some(Request::Open(open)) = of_a.request().await else {
        panic!("no Open")
    };
    let held = open.resume.expect("it goes on").held;
    assert_eq!((held[0].first_offset, held[0].last_offset), (0, 2));
    of_a.say(Response::Opened(v1::Opened {
        resumed: vec![v1::ResumeAnswer {
            topic: "orders".to_owned(),
            partition: 3,
            first_offset: 0,
            last_offset: 2,
            result: ResumeResult::Kept.into(),
            lane: 9,
        }],
        ..v1::Opened::default()
    }))
    .await;
    for offset in 0..3 {
        let next = delivery(&mut subscriber).await;
        assert_eq!(next.offset(), offset);
        next.ack();
    }
    let named = by_offset(&of_a.verdicts(3).await);
    assert!(named.keys().all(|(lane, _)| *lane == 9), "{named:?}");
}

#[tokio::test]
async fn subscriber_ends_when_all_its_gateways_are_drained_or_given_up() {
    let (mut a, mut b) = (Gateway::start().await, Gateway::start().await);
    let builder_of = |a: &Gateway, b: &Gateway| builder(&[a, b]).until_drained();
    let builder = builder_of(&a, &b);
    let (mut subscriber, of_a, of_b) = two(&mut a, &mut b, builder).await;
    drop(of_a.outbound);
    until(&subscriber, "one left", |_| {
        subscriber.gateways().len() == 1
    })
    .await;
    of_b.batch(1, [7]).await;
    delivery(&mut subscriber).await.ack();
    drop(of_b.outbound);
    assert!(within("the end", subscriber.next()).await.is_none());
    subscriber.close().await.unwrap();

    let builder = builder_of(&a, &b);
    let (mut subscriber, of_a, of_b) = two(&mut a, &mut b, builder).await;
    of_a.fail(Status::not_found("no such subscription")).await;
    until(&subscriber, "one left", |_| {
        subscriber.gateways().len() == 1
    })
    .await;
    of_b.fail(Status::permission_denied("not yours")).await;
    let error = within("the end", subscriber.next())
        .await
        .unwrap()
        .unwrap_err();
    assert!(matches!(error, Error::Status { .. }), "{error:?}");
    assert!(subscriber.next().await.is_none());
}

#[tokio::test]
async fn name_that_resolves_is_looked_up_and_named_with_its_address() {
    let mut gateway = Gateway::start().await;
    let port = gateway.address.port();
    let address = format!("localhost:{port}");
    let connecting = tokio::spawn(Subscriber::connect(address.clone(), "orders"));
    let mut session = gateway.session().await;
    session.open().await;
    let subscriber = within("connect", connecting).await.unwrap().unwrap();
    let gateways = subscriber.gateways();
    assert!(gateways[0].starts_with(&address), "{gateways:?}");
    let error = Subscriber::builder("nowhere.invalid:1", "orders")
        .backoff(Duration::from_millis(1), Duration::from_millis(1))
        .max_retries(1)
        .connect();
    let error = within("no such name", error).await.unwrap_err();
    assert!(matches!(error, Error::GaveUp { .. }), "{error:?}");
}

#[tokio::test]
async fn gateway_that_asks_to_leave_is_left_before_what_is_in_hand_is_answered() {
    let mut gateway = Gateway::start().await;
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = Arc::clone(&told);
    let builder = gateway.builder().observe(move |event| {
        if let Event::Drain { reason, .. } = event {
            noted.lock().unwrap().push(reason.to_string());
        }
    });
    let (mut subscriber, old) = gateway.subscribe_with(builder).await;
    old.batch(1, 0..3).await;
    let first = delivery(&mut subscriber).await;
    old.say(drain()).await;
    // The next stream opens while three are in hand of the old one.
    let mut new = gateway.session().await;
    assert_eq!(new.open().await.resume, None);
    new.batch(1, 3..5).await;
    first.ack();
    for _ in 1..5 {
        delivery(&mut subscriber).await.ack();
    }
    let named = by_offset(&new.verdicts(2).await);
    assert_eq!(named.into_keys().map(|it| it.1).collect::<Vec<_>>(), [3, 4]);
    let named = by_offset(&old.goodbye().await);
    assert_eq!(
        named.into_keys().map(|it| it.1).collect::<Vec<_>>(),
        [0, 1, 2]
    );
    assert_eq!(*told.lock().unwrap(), ["CONNECTION_AGE"]);
    let stats = subscriber.stats();
    assert_eq!((stats.reconnects, stats.stale_answers), (1, 0));
}

#[tokio::test]
async fn name_that_the_leaving_stream_still_has_is_waited_for() {
    let mut gateway = Gateway::start().await;
    let builder = gateway.builder().subscriber_id("billing");
    let (mut subscriber, old) = gateway.subscribe_with(builder).await;
    old.batch(1, [0]).await;
    let first = delivery(&mut subscriber).await;
    old.say(drain()).await;
    gateway
        .session()
        .await
        .fail(Status::already_exists("in use"))
        .await;
    first.ack();
    assert_eq!(old.goodbye().await.len(), 1);
    let mut new = gateway.session().await;
    assert_eq!(new.open().await.subscriber_id, "billing");
}

#[tokio::test]
async fn stream_lost_while_it_left_is_gone_on_with_for_what_is_in_hand() {
    let mut gateway = Gateway::start().await;
    let connecting = tokio::spawn(gateway.builder().connect());
    let mut old = gateway.session().await;
    let Some(Request::Open(_)) = old.request().await else {
        panic!("no Open")
    };
    old.say(Response::Opened(v1::Opened {
        subscriber_id: "made-up".to_owned(),
        resume_token: "secret".to_owned(),
        ..v1::Opened::default()
    }))
    .await;
    let mut subscriber = within("connect", connecting).await.unwrap().unwrap();
    old.batch(1, 0..2).await;
    let long = delivery(&mut subscriber).await;
    delivery(&mut subscriber).await.ack();
    old.verdicts(1).await;
    old.say(drain()).await;
    let mut new = gateway.session().await;
    new.open().await;
    until(&subscriber, "a reconnect", |stats| stats.reconnects == 1).await;
    // Its time to leave is over.
    old.fail(Status::unavailable("too old")).await;
    let mut rest = gateway.session().await;
    let Some(Request::Open(open)) = rest.request().await else {
        panic!("no Open")
    };
    let resume = open.resume.expect("it goes on");
    assert_eq!(
        (open.subscriber_id.as_str(), resume.token.as_str()),
        ("made-up", "secret")
    );
    assert_eq!(
        open.credit,
        Some(v1::Credit::default()),
        "it takes nothing new"
    );
    rest.say(Response::Opened(v1::Opened {
        resumed: vec![v1::ResumeAnswer {
            topic: "orders".to_owned(),
            partition: 3,
            first_offset: 0,
            last_offset: 0,
            result: ResumeResult::Kept.into(),
            lane: 1,
        }],
        ..v1::Opened::default()
    }))
    .await;
    long.ack();
    let verdicts = rest.goodbye().await;
    assert_eq!(verdicts.len(), 1);
    assert_eq!(verdicts[0].outcome(), Outcome::Acked);
    assert_eq!(subscriber.stats().stale_answers, 0);
}

/// Streams over pipes in memory, each connection a new one.
fn channel_in_memory(sessions: tokio::sync::mpsc::Sender<Session>) -> Channel {
    let (connections, incoming) = tokio::sync::mpsc::channel::<std::io::Result<DuplexStream>>(4);
    let service = crate::support::service(sessions, crate::support::Headers::BeforeOpen);
    let serving = tonic::transport::Server::builder()
        .add_service(service)
        .serve_with_incoming(tokio_stream::wrappers::ReceiverStream::new(incoming));
    tokio::spawn(serving);
    let connector = tower::service_fn(move |_: Uri| {
        let connections = connections.clone();
        async move {
            let (ours, theirs) = tokio::io::duplex(64 << 10);
            let taken = connections.send(Ok(theirs)).await;
            taken.map_err(std::io::Error::other)?;
            Ok::<_, std::io::Error>(TokioIo::new(ours))
        }
    });
    Endpoint::from_static("http://in.memory").connect_with_connector_lazy(connector)
}

#[tokio::test]
async fn channel_of_the_program_is_used_for_every_stream() {
    let (sessions, mut opened) = tokio::sync::mpsc::channel(4);
    let channel = channel_in_memory(sessions);
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let layered = InterceptedService::new(channel, move |request: tonic::Request<()>| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok::<_, Status>(request)
    });
    let connecting = Subscriber::builder("in.memory", "orders")
        .channel(layered)
        .backoff(Duration::from_millis(5), Duration::from_millis(50))
        .connect();
    let connecting = tokio::spawn(connecting);
    let mut session: Session = within("a stream", opened.recv()).await.unwrap();
    session.open().await;
    let mut subscriber = within("connect", connecting).await.unwrap().unwrap();
    session.batch(1, [0]).await;
    delivery(&mut subscriber).await.ack();
    session.verdicts(1).await;
    session.fail(Status::unavailable("again")).await;
    let mut session = within("a stream", opened.recv()).await.unwrap();
    session.open().await;
    session.batch(1, [1]).await;
    delivery(&mut subscriber).await.ack();
    session.verdicts(1).await;
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}
