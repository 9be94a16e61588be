//! What is kept of traced records, and how it ends.

use std::{sync::Arc, time::SystemTime};

use ackgate_lane::{Offset, OffsetRange, Position, Ready, Subscriber, Verdict};
use ackgate_proto::v1;
use opentelemetry::{SpanId, TraceId};
use opentelemetry_sdk::trace::SpanData;

use super::{
    Asked, End, Ended, Spans, Traces,
    lane::{Delivered, MAX_LAST},
};
use crate::{
    broker::TopicPartition,
    telemetry::traces::{Filter, MAX_LINKS, Operation, RecordTrace, Ring, Tracer},
};

/// A lane's traces, and where they go.
struct Told {
    ring: Arc<Ring>,
    tracer: Tracer,
    place: TopicPartition,
    traces: Traces,
}

impl Told {
    /// With so many records that are traced.
    fn of(records: u64) -> Self {
        let ring = Arc::new(Ring::new(1000));
        let tracer = Tracer::to_ring(&ring, "shop", "group", 1.0);
        let poll = tracer.begin(Operation::Poll, None, SystemTime::now());
        let mut traces = Traces::default();
        let record = |offset: u64| RecordTrace {
            offset,
            trace: TraceId::from(u128::from(offset) + 1),
            parent: None,
            body: Some(1),
        };
        let of = (0..records).map(record).collect();
        traces.fetched(&tracer, of, poll.unwrap().context());
        let place = TopicPartition {
            topic: "orders".into(),
            partition: 0,
        };
        Self {
            ring,
            tracer,
            place,
            traces,
        }
    }

    /// Hands records out. Returns what the subscriber is told.
    fn hand_out(
        &mut self,
        range: OffsetRange,
        number: u64,
        is_broadcast: bool,
    ) -> Vec<v1::RecordTrace> {
        let mut told = Vec::new();
        let part = Delivered {
            range,
            numbers: Ready {
                range,
                attempt: 1,
                delivery: 1,
                alone: false,
                owner: None,
            },
            subscriber: Subscriber(number),
            name: "peer",
            is_broadcast,
        };
        let place = self.place.clone();
        self.traces
            .handed_out(&self.tracer, &place, part, &mut told);
        told
    }

    fn send(&mut self, range: OffsetRange, number: u64) {
        self.traces
            .sent(Subscriber(number), range, SystemTime::now());
    }

    fn end(&mut self, range: OffsetRange, number: u64, is_broadcast: bool) {
        let end = Ended {
            range,
            subscriber: Subscriber(number),
            how: End::of(Verdict::Failed { retry_after: None }),
            code: "",
            at: SystemTime::now(),
        };
        self.traces.ended(&self.tracer, is_broadcast, end);
    }

    fn spans(&self) -> Vec<Arc<SpanData>> {
        self.ring.last(1000, &Filter::default())
    }

    /// How they ended.
    fn verdicts(&self) -> Vec<String> {
        let of = |span: &Arc<SpanData>| {
            let mut all = span.attributes.iter();
            let found = all.find(|it| it.key.as_str() == "ackgate.verdict");
            found.unwrap().value.to_string()
        };
        self.spans().iter().map(of).collect()
    }
}

fn one(offset: u64) -> OffsetRange {
    OffsetRange::one(Offset::new(offset))
}

fn links(span: &SpanData) -> Vec<SpanId> {
    let links = span.links.iter();
    links.map(|link| link.span_context.span_id()).collect()
}

#[test]
fn what_is_out_when_its_record_is_settled_or_its_lane_goes_ends_void() {
    let mut told = Told::of(3);
    let all = OffsetRange::inclusive(Offset::new(0), Offset::new(2)).unwrap();
    told.hand_out(all, 1, false);
    told.send(one(0), 1);
    told.send(one(1), 1);
    told.traces.settled(&told.tracer, one(0));
    assert_eq!(told.verdicts(), ["void"]);
    let links = told.traces.committing(Position::new(1));
    assert_eq!(links, [told.spans()[0].span_context.clone()]);
    told.traces.gone(&told.tracer);
    // The third one never left.
    assert_eq!(told.verdicts(), ["void", "void"]);
    assert!(told.traces.is_empty());
    told.traces.gone(&told.tracer);
    assert_eq!(told.spans().len(), 2, "once");
}

#[test]
fn delivery_that_never_left_is_replaced_by_the_next_to_the_same_subscriber() {
    let mut told = Told::of(1);
    told.hand_out(one(0), 1, false);
    let named = told.hand_out(one(0), 1, false);
    told.send(one(0), 1);
    told.end(one(0), 1, false);
    let spans = told.spans();
    assert_eq!(spans.len(), 1);
    let id = spans[0].span_context.span_id().to_string();
    assert!(named[0].traceparent.contains(&id), "the one it was told");
    assert_eq!(spans[0].parent_span_id, SpanId::INVALID, "it is the root");
    told.hand_out(one(0), 2, false);
    told.send(one(0), 2);
    told.traces.gone(&told.tracer);
    let spans = told.spans();
    assert_eq!(spans.len(), 2);
    assert_eq!(
        spans[1].parent_span_id,
        spans[0].span_context.span_id(),
        "the first delivery is its parent"
    );
}

#[test]
fn first_delivery_is_the_parent_of_others_that_end_before_it() {
    let mut told = Told::of(1);
    for number in [1, 2] {
        told.hand_out(one(0), number, true);
        told.send(one(0), number);
    }
    for number in [2, 1] {
        told.end(one(0), number, true);
    }
    let spans = told.spans();
    let first = spans[1].span_context.span_id();
    assert_eq!(spans[0].parent_span_id, first);
    assert_eq!(spans[1].parent_span_id, SpanId::INVALID);
}

#[test]
fn few_subscribers_last_spans_of_a_broadcast_are_remembered() {
    let mut told = Told::of(1);
    let many = u64::try_from(MAX_LAST).unwrap() + 1;
    for round in 0..2 {
        for number in (0..many)
            .rev()
            .filter(|it| round == 0 || *it < 2 || *it == many - 1)
        {
            told.hand_out(one(0), number, true);
            told.send(one(0), number);
            told.end(one(0), number, true);
        }
    }
    let again = told.spans().split_off(MAX_LAST + 1);
    let counts: Vec<_> = again.iter().map(|span| links(span).len()).collect();
    assert_eq!(counts, [1, 2, 2], "the oldest one was forgotten");
}

#[test]
fn links_of_a_commit_and_what_kafka_was_asked_for_are_bounded() {
    let count = u64::try_from(MAX_LINKS).unwrap() + 1;
    let mut told = Told::of(count);
    let all = OffsetRange::inclusive(Offset::new(0), Offset::new(count - 1)).unwrap();
    told.hand_out(all, 1, false);
    told.send(all, 1);
    told.traces.settled(&told.tracer, all);
    let links = told.traces.committing(Position::new(count));
    assert_eq!(links.len(), MAX_LINKS);
    told.traces.committed(Position::new(count - 1));
    let links = told.traces.committing(Position::new(count));
    assert_eq!(links, [], "no more are kept");

    let mut spans = Spans::new(&told.tracer);
    let generation = ackgate_lane::Generation(1);
    for serial in 0..5000 {
        let span = told
            .tracer
            .begin(Operation::Commit, None, SystemTime::now());
        spans.ask(Asked::Commit(generation, serial), span.unwrap());
    }
    assert_eq!(spans.asked.len(), 4096);
    let newest = Asked::Commit(generation, 4999);
    assert!(spans.asked.contains_key(&newest), "the oldest makes room");
}
