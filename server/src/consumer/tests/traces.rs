//! Spans of traced records: which there are, whose children they are, how they end.

use opentelemetry::trace::{SpanId, SpanKind, Status};
use opentelemetry_sdk::trace::SpanData;

use ackgate_lane::Sharing;

use super::*;

mod anew;
mod chosen;
mod ends;
mod shape;

use crate::telemetry::traces::{Filter as Wanted, Ring, Sampler, Sampling, Tracer};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PRODUCER: &str = "b7ad6b7169203331";

/// A subscription with traces.
struct Traced {
    broker: Memory,
    ring: Arc<Ring>,
    handle: Handle,
}

fn producer() -> String {
    format!("00-{TRACE}-{PRODUCER}-00")
}

impl Traced {
    fn begin(broker: Memory, ratio: f64, subscription: Subscription) -> Self {
        let sampler = Sampler::new(ratio, false);
        broker.with(|state| state.sampling = Sampling::new(sampler, "test"));
        let ring = Arc::new(Ring::new(10_000));
        let tracer = Tracer::to_ring(&ring, &subscription.name, &subscription.group, ratio);
        let handle = spawn(Parts {
            subscription: Arc::new(subscription),
            connect: Arc::new(broker.clone()),
            producer: Some(Arc::new(broker.clone())),
            budget: Budget::new(1 << 30),
            origin: Instant::now(),
            wall: Wall::system(),
            stalled_after: STALLED_AFTER,
            tracer,
        });
        Self {
            broker,
            ring,
            handle,
        }
    }

    /// One record with a producer's span.
    fn one(order: Order) -> Self {
        let broker = Memory::default();
        broker.append_with(0, 0, &[("traceparent", &producer()), ("tracestate", "a=1")]);
        let mut subscription = configured(order);
        subscription.policy.max_attempts = 2;
        Self::begin(broker, 1.0, subscription)
    }

    fn spans(&self, name: &str) -> Vec<Arc<SpanData>> {
        let mut spans = self.ring.last(10_000, &Wanted::default());
        spans.retain(|span| span.name.starts_with(name));
        spans
    }

    async fn until(&self, name: &str, count: usize) -> Vec<Arc<SpanData>> {
        let end = Instant::now() + LONG;
        loop {
            let spans = self.spans(name);
            if spans.len() >= count {
                assert_eq!(spans.len(), count, "{name}: {spans:#?}");
                return spans;
            }
            assert!(Instant::now() < end, "{name}: {:#?}", self.spans(""));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn committed(&self, position: u64) {
        eventually(&self.broker, "the commit", |state| {
            state.committed.get(&0) == Some(&position)
        })
        .await;
    }
}

fn has(span: &SpanData, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|it| it.key.as_str() == key);
    found.map(|it| it.value.to_string())
}

fn verdicts(spans: &[Arc<SpanData>]) -> Vec<String> {
    let verdict = |span: &Arc<SpanData>| has(span, "ackgate.verdict").unwrap_or_default();
    spans.iter().map(verdict).collect()
}

fn trace(span: &SpanData) -> String {
    span.span_context.trace_id().to_string()
}

fn links(span: &SpanData) -> Vec<SpanId> {
    let links = span.links.iter();
    links.map(|link| link.span_context.span_id()).collect()
}

const FAILED: Verdict = Verdict::Failed { retry_after: None };

/// The span of a failed attempt has what OpenTelemetry asks for.
fn check_attempt(attempt: usize, span: &SpanData) {
    assert_eq!(
        (&*span.name, &span.span_kind),
        ("process orders", &SpanKind::Consumer)
    );
    assert_eq!(trace(span), TRACE);
    assert_eq!(span.parent_span_id.to_string(), PRODUCER);
    assert!(span.parent_span_is_remote);
    assert_eq!(span.span_context.trace_state().header(), "a=1");
    assert_eq!(span.status, Status::error("failed"));
    let expected = [
        ("messaging.system", "kafka"),
        ("messaging.operation.name", "process"),
        ("messaging.operation.type", "process"),
        ("messaging.destination.name", "orders"),
        ("messaging.destination.partition.id", "0"),
        ("messaging.kafka.offset", "0"),
        (
            "messaging.consumer.group.name",
            &configured(Order::None).group,
        ),
        ("ackgate.subscription", &configured(Order::None).name),
        ("ackgate.attempt", &attempt.to_string()),
        ("ackgate.subscriber", "peer-1"),
        ("ackgate.verdict", "failed"),
        ("ackgate.verdict.code", "code"),
        ("error.type", "failed"),
    ];
    for (key, value) in expected {
        assert_eq!(has(span, key).as_deref(), Some(value), "{key}");
    }
}

// FC-100.
#[tokio::test(start_paused = true)]
async fn record_is_one_trace_from_its_producer_to_its_dead_letter() {
    let traced = Traced::one(Order::None);
    let mut peer = Peer::attach(&traced.handle, 1, 100).await;
    for _ in 0..2 {
        let got = peer.records(1).await[0];
        peer.settle(got.lane, 0, 0, FAILED).await;
    }
    traced.committed(1).await;
    let commit = traced.until("commit", 1).await.remove(0);
    let poll = traced.until("poll", 1).await.remove(0);
    let process = traced.until("process", 2).await;
    let send = traced.until("send", 1).await.remove(0);

    assert_eq!(
        (&*poll.name, &poll.span_kind),
        ("poll orders", &SpanKind::Client)
    );
    assert_eq!(links(&poll), [SpanId::from_hex(PRODUCER).unwrap()]);
    assert_eq!(
        has(&poll, "messaging.operation.type").as_deref(),
        Some("receive")
    );
    assert_eq!(
        has(&poll, "messaging.batch.message_count").as_deref(),
        Some("1")
    );
    assert_ne!(trace(&poll), TRACE);

    for (attempt, span) in (1..).zip(&process) {
        check_attempt(attempt, span);
    }
    let id = |span: &SpanData| span.span_context.span_id();
    assert_eq!(links(&process[0]), [id(&poll)]);
    assert_eq!(links(&process[1]), [id(&poll), id(&process[0])]);

    assert_eq!(send.span_kind, SpanKind::Producer);
    assert_eq!(&*send.name, "send orders.dead-letter");
    assert_eq!(trace(&send), TRACE);
    assert_eq!(send.parent_span_id, id(&process[1]));
    assert_eq!(
        has(&send, "ackgate.dead_letter.cause").as_deref(),
        Some("attempts-exhausted")
    );
    assert_eq!(
        has(&send, "ackgate.source.topic").as_deref(),
        Some("orders")
    );
    assert_eq!(send.status, Status::Unset);
    assert_eq!(links(&commit), [id(&process[1])]);
    assert_eq!(has(&commit, "ackgate.position").as_deref(), Some("1"));

    let letter = traced.broker.with(|state| state.letters[0].clone());
    let parents: Vec<_> = letter
        .headers
        .iter()
        .filter(|(key, _)| key.eq_ignore_ascii_case("traceparent"))
        .collect();
    assert_eq!(parents.len(), 1);
    assert_eq!(
        parents[0].1.as_deref(),
        Some(producer().as_bytes()),
        "the original one"
    );
}

// FC-100.
#[tokio::test(start_paused = true)]
async fn every_subscriber_of_a_broadcast_has_spans_of_the_same_trace() {
    let broker = Memory::default();
    broker.append_with(0, 0, &[("traceparent", &producer())]);
    let mut subscription = configured(Order::Lane { skip_acked: false });
    subscription.min_subscribers = 2;
    subscription.delivery = Delivery::Broadcast(Sharing {
        cut_off_after: None,
        absent_grace: LONG,
    });
    let traced = Traced::begin(broker, 1.0, subscription);
    let mut one = Peer::attach(&traced.handle, 1, 100).await;
    let mut two = Peer::attach(&traced.handle, 2, 100).await;
    let lane = one.records(1).await[0].lane;
    two.records(1).await;
    one.settle(lane, 0, 0, FAILED).await;
    two.settle(lane, 0, 0, Verdict::Acked).await;
    one.records(1).await;
    one.settle(lane, 0, 0, Verdict::Rejected).await;
    traced.committed(1).await;
    let process = traced.until("process", 3).await;
    assert_eq!(verdicts(&process), ["failed", "acked", "rejected"]);
    let of = |span: &SpanData| has(span, "ackgate.subscriber").unwrap();
    assert_eq!(
        [of(&process[0]), of(&process[1]), of(&process[2])],
        ["peer-1", "peer-2", "peer-1"]
    );
    for span in &process {
        assert_eq!(
            (
                trace(span).as_str(),
                span.parent_span_id.to_string().as_str()
            ),
            (TRACE, PRODUCER)
        );
    }
    let before = process[0].span_context.span_id();
    assert_eq!(
        links(&process[2]).last(),
        Some(&before),
        "its own attempt before"
    );
    assert_eq!(links(&process[1]).len(), 1);
    let send = traced.until("send", 1).await.remove(0);
    assert_eq!(trace(&send), TRACE);
    let letters = traced.broker.with(|state| state.letters.clone());
    assert_eq!(letters.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn record_without_a_trace_gets_one_and_its_dead_letter_says_it() {
    let broker = Memory::default();
    broker.append_with(0, 0, &[("traceparent", "00-nonsense"), ("Traceparent", "")]);
    let traced = Traced::begin(broker, 1.0, configured(Order::None));
    let mut peer = Peer::attach(&traced.handle, 1, 100).await;
    let got = peer.records(1).await[0];
    peer.settle(got.lane, 0, 0, FAILED).await;
    peer.records(1).await;
    peer.settle(got.lane, 0, 0, Verdict::Rejected).await;
    traced.committed(1).await;
    let process = traced.until("process", 2).await;
    let send = traced.until("send", 1).await.remove(0);
    let sampling = Sampling::new(Sampler::new(1.0, false), "test").unwrap();
    let derived = sampling.seed("orders", 0).trace(0).to_string();
    for span in [&process[0], &process[1], &send] {
        assert_eq!(trace(span), derived);
    }
    let first = process[0].span_context.span_id();
    assert_eq!(process[0].parent_span_id, SpanId::INVALID, "the root");
    assert_eq!(process[1].parent_span_id, first);
    let letter = traced.broker.with(|state| state.letters[0].clone());
    let parents = letter
        .headers
        .iter()
        .filter(|(key, _)| key.eq_ignore_ascii_case("traceparent"));
    let parents: Vec<_> = parents.map(|(_, value)| value.clone().unwrap()).collect();
    let expected = format!("00-{derived}-{}-01", send.span_context.span_id());
    assert_eq!(parents, [expected]);
}

#[tokio::test(start_paused = true)]
async fn subscriber_is_told_the_span_that_is_recorded() {
    let traced = Traced::one(Order::None);
    let mut peer = Peer::attach(&traced.handle, 1, 100).await;
    let Outbound::Batch(batch) = peer.next().await else {
        panic!("a batch is due")
    };
    let [told] = &batch.traces[..] else {
        panic!("one record is traced: {:?}", batch.traces)
    };
    assert_eq!((told.offset, told.tracestate.as_str()), (0, "a=1"));
    let lane = batch.lane.lane;
    peer.tell(Input::Sent {
        session: peer.session,
        lane,
        ranges: batch.ranges,
    })
    .await;
    peer.settle(lane, 0, 0, Verdict::Acked).await;
    let process = traced.until("process", 1).await.remove(0);
    let expected = format!("00-{TRACE}-{}-01", process.span_context.span_id());
    assert_eq!(told.traceparent, expected);
    assert_eq!(process.status, Status::Unset);
}

#[tokio::test(start_paused = true)]
async fn traces_of_a_batch_keep_within_what_its_subscriber_accepts() {
    let broker = Memory::default();
    broker.append_sized(0, 0..100, 200);
    let traced = Traced::begin(broker, 1.0, configured(Order::None));
    let wish = Wish {
        max_message_bytes: 8192,
        ..Wish::new(1, "small")
    };
    let mut peer = Peer::open(&traced.handle, wish)
        .await
        .expect("it may attach");
    let mut left_out = false;
    for _ in 0..3 {
        let Outbound::Batch(batch) = peer.next().await else {
            panic!("a batch is due")
        };
        let records: usize = batch.records.iter().map(bytes::Bytes::len).sum();
        let traces: usize = batch.traces.iter().map(prost::Message::encoded_len).sum();
        // A key and a length for each.
        assert!(
            records + traces + 3 * batch.traces.len() <= 8192 - 300,
            "{records} {traces}"
        );
        let offsets: u64 = batch.ranges.iter().map(|range| range.len()).sum();
        left_out |= (batch.traces.len() as u64) < offsets;
        let lane = batch.lane.lane;
        let ranges = batch.ranges.clone();
        peer.tell(Input::Sent {
            session: peer.session,
            lane,
            ranges,
        })
        .await;
        for range in &batch.ranges {
            let (first, last) = (range.first().get(), range.last().get());
            peer.declare(lane, first, last, Verdict::Acked, Confirm::Problems)
                .await;
        }
    }
    assert!(left_out, "there is no room for all");
}

#[tokio::test(start_paused = true)]
async fn sampled_flag_of_a_record_traces_nothing_where_nothing_is_sampled() {
    let broker = Memory::default();
    let sampled = producer().replace("-00", "-01");
    broker.append_with(0, 0, &[("traceparent", &sampled)]);
    let traced = Traced::begin(broker, 0.0, configured(Order::None));
    let mut peer = Peer::attach(&traced.handle, 1, 100).await;
    let Outbound::Batch(batch) = peer.next().await else {
        panic!("a batch is due")
    };
    assert_eq!(batch.traces, []);
    let lane = batch.lane.lane;
    peer.tell(Input::Sent {
        session: peer.session,
        lane,
        ranges: batch.ranges,
    })
    .await;
    peer.settle(lane, 0, 0, Verdict::Rejected).await;
    traced.committed(1).await;
    let names: Vec<_> = traced
        .spans("")
        .iter()
        .map(|span| span.name.to_string())
        .collect();
    assert!(names.is_empty(), "{names:?}");
}
