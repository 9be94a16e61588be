//! Traces: one record followed from its producer to its dead letter, by OTLP and by
//! `/v1/traces`.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use ackgate_client::{Delivery, Subscriber};
use futures::StreamExt as _;
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{KeyValue, any_value::Value},
    trace::v1::{Span, TracesData, span::SpanKind, status::StatusCode},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, transport::Server};

use crate::support::{Case, Gateway, Outgoing, PATIENCE, Stage, cases, eventually, free_port};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        both: record_is_followed_from_its_producer_to_its_dead_letter;
        embedded: flag_of_a_producer_forces_no_trace;
    ]
}

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PRODUCER: &str = "b7ad6b7169203331";

/// A receiver of OTLP, and all that it has got.
#[derive(Clone, Default)]
struct Receiver(Arc<Mutex<Vec<ExportTraceServiceRequest>>>);

#[tonic::async_trait]
impl TraceService for Receiver {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.lock().unwrap().push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Receiver {
    async fn start() -> (Self, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let receiver = Self::default();
        let service = TraceServiceServer::new(receiver.clone());
        tokio::spawn(
            Server::builder()
                .add_service(service)
                .serve_with_incoming(TcpListenerStream::new(listener)),
        );
        (receiver, address)
    }

    fn spans(&self) -> Vec<Span> {
        let requests = self.0.lock().unwrap().clone();
        let resources = requests.into_iter().flat_map(|it| it.resource_spans);
        spans(resources.collect())
    }

    /// What resources say of themselves.
    fn service(&self) -> Option<String> {
        let requests = self.0.lock().unwrap();
        let resource = requests
            .first()?
            .resource_spans
            .first()?
            .resource
            .as_ref()?;
        text(&resource.attributes, "service.name")
    }
}

fn spans(resources: Vec<opentelemetry_proto::tonic::trace::v1::ResourceSpans>) -> Vec<Span> {
    let scopes = resources.into_iter().flat_map(|it| it.scope_spans);
    scopes.flat_map(|it| it.spans).collect()
}

fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|it| it.key == key)?;
    let value = found.value.as_ref()?.value.as_ref()?;
    if let Value::StringValue(text) = value {
        return Some(text.clone());
    }
    let Value::IntValue(number) = value else {
        panic!("{key}: {value:?}");
    };
    Some(number.to_string())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Asks the admin address for a page, over HTTP/1.1 as `curl` does.
async fn get(address: &str, path: &str) -> (u16, String) {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let read = socket.read_to_end(&mut answer);
    tokio::time::timeout(PATIENCE, read).await.unwrap().unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body = if head
        .to_ascii_lowercase()
        .contains("transfer-encoding: chunked")
    {
        unchunked(body)
    } else {
        body.to_owned()
    };
    (status, body)
}

fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        whole.push_str(&rest[..size]);
        body = rest[size..].trim_start_matches("\r\n");
    }
    whole
}

async fn next(subscriber: &mut Subscriber) -> Delivery {
    let next = tokio::time::timeout(PATIENCE, subscriber.next());
    next.await.unwrap().unwrap().unwrap()
}

/// Begins with one record of that producer.
async fn begin(stage: &Stage, flags: &str) -> crate::support::Topic {
    let topic = stage.topic("orders", 1).await;
    let parent = format!("00-{TRACE}-{PRODUCER}-{flags}");
    let record = Outgoing {
        headers: vec![
            ("a".to_owned(), Some(b"1".to_vec())),
            ("traceparent".to_owned(), Some(parent.into_bytes())),
        ],
        ..Outgoing::value(0, "espresso")
    };
    stage.broker.produce(&topic.name, [record]).await;
    topic
}

/// What the span of a failed attempt belongs to.
struct Attempt<'a> {
    topic: &'a str,
    group: &'a str,
    attempt: &'a str,
    /// The span that the subscriber was told.
    told: &'a str,
    /// The span of the fetch.
    poll: &'a [u8],
}

/// The span of a failed attempt is whose it should be, and has what OpenTelemetry asks for.
fn check_attempt(of: &Attempt<'_>, span: &Span) {
    let Attempt {
        topic,
        group,
        attempt,
        told,
        poll,
    } = *of;
    assert_eq!(span.kind(), SpanKind::Consumer);
    assert_eq!(hex(&span.trace_id), TRACE);
    assert_eq!(hex(&span.parent_span_id), PRODUCER);
    assert_eq!(hex(&span.span_id), told, "as the subscriber was told");
    assert_eq!(span.links[0].span_id, poll);
    assert_eq!(span.status.as_ref().unwrap().code(), StatusCode::Error);
    assert!(span.end_time_unix_nano >= span.start_time_unix_nano);
    for (key, value) in [
        ("messaging.system", "kafka"),
        ("messaging.operation.name", "process"),
        ("messaging.operation.type", "process"),
        ("messaging.destination.name", topic),
        ("messaging.destination.partition.id", "0"),
        ("messaging.kafka.offset", "0"),
        ("messaging.consumer.group.name", group),
        ("ackgate.subscription", "orders"),
        ("ackgate.subscriber", "billing"),
        ("ackgate.attempt", attempt),
        ("ackgate.verdict", "failed"),
        ("error.type", "failed"),
    ] {
        assert_eq!(text(&span.attributes, key).as_deref(), Some(value), "{key}");
    }
}

/// The ids of the spans that `/v1/traces` shows of the record's trace.
async fn shown(admin: &str) -> Vec<Vec<u8>> {
    let (status, body) = get(admin, &format!("/v1/traces?trace_id={TRACE}&since=1h")).await;
    assert_eq!(status, 200, "{body}");
    let shown: TracesData = serde_json::from_str(&body).unwrap();
    let spans = spans(shown.resource_spans).into_iter();
    let mut shown: Vec<_> = spans.map(|it| it.span_id).collect();
    shown.sort();
    shown
}

/// A subscriber fails the record twice. Returns it, and the spans that it was told of the
/// deliveries.
async fn fail_twice(gateway: &Gateway) -> (Subscriber, Vec<String>) {
    let address = format!("http://{}", gateway.address);
    let builder = Subscriber::builder(address, "orders").subscriber_id("billing");
    let mut subscriber = builder.connect().await.unwrap();
    let mut told = Vec::new();
    for attempt in 1..=2 {
        let delivery = next(&mut subscriber).await;
        assert_eq!(delivery.attempt(), attempt);
        let own = delivery.trace_context().unwrap();
        assert_eq!(hex(&own.trace_id()), TRACE);
        told.push(hex(&own.span_id()));
        // The producer's stands beside it, as it was written.
        let parent = delivery.record().header("traceparent").unwrap();
        assert_eq!(parent, format!("00-{TRACE}-{PRODUCER}-00").as_bytes());
        delivery.fail("no coffee");
    }
    (subscriber, told)
}

/// A scrape counts what the spans tell.
async fn is_counted(admin: &str) {
    let (status, text) = get(admin, "/metrics").await;
    assert_eq!(status, 200, "{text}");
    for (name, label, count) in [
        ("ackgate_verdicts_total", "kind=\"failed\"", 2),
        ("ackgate_dead_letters_total", "outcome=\"stored\"", 1),
    ] {
        let of = |line: &&str| line.starts_with(name) && line.contains(label);
        let lines = text.lines().filter(of);
        let numbers = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        let sum: f64 = numbers.sum();
        assert_eq!(sum, f64::from(count), "{name}: {text}");
    }
}

/// What the collector has got once nothing is missing.
async fn all_of(receiver: &Receiver) -> Vec<Span> {
    eventually("the collector has all spans", async || {
        let spans = receiver.spans();
        let is = |it: &&Span, of: &str| {
            it.name.starts_with(of) && (of == "send" || !it.links.is_empty())
        };
        let count = |of: &str| spans.iter().filter(|it| is(it, of)).count();
        let counts = ["poll", "process", "send", "commit"].map(count);
        if counts[0] > 0 && counts[1] == 2 && counts[2] == 1 && counts[3] > 0 {
            Ok(spans)
        } else {
            Err(format!("{counts:?}"))
        }
    })
    .await
}

/// The first span of that name that has links.
fn linked<'a>(sent: &'a [Span], name: &str) -> &'a Span {
    let mut named = sent.iter().filter(|it| it.name == name);
    named.find(|it| !it.links.is_empty()).unwrap()
}

// FC-100.
async fn record_is_followed_from_its_producer_to_its_dead_letter(stage: Stage) {
    let topic = begin(&stage, "00").await;
    let dead = stage.topic("dead", 1).await;
    let (receiver, collector) = Receiver::start().await;
    let admin = format!("127.0.0.1:{}", free_port());
    let top = format!(
        "admin.address = \"{admin}\"\ntelemetry.traces.sample = 1.0\n\
         telemetry.service_name = \"shop\"\ntelemetry.otlp.endpoint = \"http://{collector}\"\n"
    );
    let subscription = stage
        .subscription(&topic)
        .dead_letter(&dead)
        .max_attempts(2);
    let gateway = Gateway::start_with(&stage, &[subscription], &top).await;
    // It goes on until its verdicts are there.
    let (_subscriber, told) = fail_twice(&gateway).await;
    let letter = stage.holds(&dead, 1).await.remove(0);
    let parents = letter.headers.iter();
    let parents = parents.filter(|(key, _)| key == "traceparent").count();
    assert_eq!(parents, 1, "{:?}", letter.headers);
    stage.commits(&topic, 0, 1).await;

    let sent = all_of(&receiver).await;
    assert_eq!(receiver.service().as_deref(), Some("shop"));
    let attempts: Vec<_> = sent
        .iter()
        .filter(|it| it.name == format!("process {}", topic.name))
        .collect();
    let poll = linked(&sent, &format!("poll {}", topic.name));
    let send = sent
        .iter()
        .find(|it| it.name == format!("send {}", dead.name))
        .unwrap();
    let commit = linked(&sent, &format!("commit {}", topic.name));
    assert_eq!(poll.kind(), SpanKind::Client);
    assert_eq!(hex(&poll.links[0].trace_id), TRACE);
    assert_eq!(hex(&poll.links[0].span_id), PRODUCER);
    let group = stage.group();
    for (index, span) in attempts.iter().enumerate() {
        let of = Attempt {
            topic: &topic.name,
            group: &group,
            attempt: ["1", "2"][index],
            told: &told[index],
            poll: &poll.span_id,
        };
        check_attempt(&of, span);
    }
    assert_eq!(attempts[1].links[1].span_id, attempts[0].span_id);
    assert_eq!(send.kind(), SpanKind::Producer);
    assert_eq!(
        (hex(&send.trace_id).as_str(), &send.parent_span_id),
        (TRACE, &attempts[1].span_id)
    );
    assert_eq!(commit.kind(), SpanKind::Client);
    assert_eq!(commit.links[0].span_id, attempts[1].span_id);

    let mut expected: Vec<_> = attempts.iter().map(|it| it.span_id.clone()).collect();
    expected.extend([&poll.span_id, &send.span_id, &commit.span_id].map(Clone::clone));
    expected.sort();
    assert_eq!(shown(&admin).await, expected, "the same spans");
    is_counted(&admin).await;
    let (status, body) = get(&admin, "/v1/traces?since=yesterday").await;
    assert_eq!(
        (status, body.contains("since must be")),
        (400, true),
        "{body}"
    );
}

async fn flag_of_a_producer_forces_no_trace(stage: Stage) {
    let topic = begin(&stage, "01").await;
    let admin = format!("127.0.0.1:{}", free_port());
    let top = format!("admin.address = \"{admin}\"\ntelemetry.traces.sample = 0.0\n");
    let gateway = Gateway::start_with(&stage, &[stage.subscription(&topic)], &top).await;
    let address = format!("http://{}", gateway.address);
    let mut subscriber = Subscriber::builder(address, "orders")
        .connect()
        .await
        .unwrap();
    let delivery = next(&mut subscriber).await;
    // Whose own trace still is the producer's.
    let context = delivery.trace_context().unwrap();
    assert_eq!(context.to_string(), format!("00-{TRACE}-{PRODUCER}-01"));
    delivery.ack();
    stage.commits(&topic, 0, 1).await;
    let (_, body) = get(&admin, "/v1/traces").await;
    let shown: TracesData = serde_json::from_str(&body).unwrap();
    let names = spans(shown.resource_spans).into_iter().map(|it| it.name);
    let others: Vec<_> = names.filter(|name| name != "rebalance").collect();
    assert!(others.is_empty(), "{others:?}");
}
