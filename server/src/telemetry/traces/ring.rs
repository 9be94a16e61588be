//! [`Ring`]: the last spans, for whoever asks.
//!
//! Invariant: it never holds more than it was made for, and who asks copies no span while
//! others wait to put theirs in.

use std::{collections::VecDeque, sync::Arc, time::SystemTime};

use opentelemetry::{
    KeyValue, TraceId, Value,
    trace::{Link, SpanContext},
};
use opentelemetry_sdk::trace::SpanData;
use parking_lot::Mutex;

use super::names;

/// Bytes that the spans of a ring take at most.
const BYTES: usize = 16 << 20;

/// Finished spans, the oldest first.
#[derive(Debug)]
pub struct Ring {
    keep: usize,
    bytes: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    spans: VecDeque<(usize, Arc<SpanData>)>,
    bytes: usize,
}

/// Which spans are wanted: those that have all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of this subscription.
    pub subscription: Option<String>,
    /// Of this topic, or of a dead letter that comes from there.
    pub topic: Option<String>,
    /// In this trace, or with a link to it.
    pub trace: Option<TraceId>,
    /// Ended then or later.
    pub since: Option<SystemTime>,
}

impl Ring {
    /// A ring of `keep` spans, in 16 MiB at most.
    #[must_use]
    pub fn new(keep: usize) -> Self {
        Self::within(keep, BYTES)
    }

    fn within(keep: usize, bytes: usize) -> Self {
        Self {
            keep,
            bytes,
            held: Mutex::default(),
        }
    }

    /// Puts a span in; the oldest makes room.
    pub fn push(&self, span: Arc<SpanData>) {
        let size = size_of_span(&span);
        let mut held = self.held.lock();
        while held.spans.len() >= self.keep || held.bytes.saturating_add(size) > self.bytes {
            let Some((oldest, _)) = held.spans.pop_front() else {
                return;
            };
            held.bytes = held.bytes.saturating_sub(oldest);
        }
        held.bytes = held.bytes.saturating_add(size);
        held.spans.push_back((size, span));
    }

    /// The last `limit` spans that are wanted, the oldest first.
    #[must_use]
    pub fn last(&self, limit: usize, filter: &Filter) -> Vec<Arc<SpanData>> {
        let all: Vec<Arc<SpanData>> = {
            let held = self.held.lock();
            held.spans
                .iter()
                .map(|(_, span)| Arc::clone(span))
                .collect()
        };
        let wanted = all.into_iter().rev().filter(|span| filter.wants(span));
        let mut wanted: Vec<_> = wanted.take(limit).collect();
        wanted.reverse();
        wanted
    }
}

/// About the bytes of memory that a span takes.
fn size_of_span(span: &SpanData) -> usize {
    let attribute = |it: &KeyValue| {
        if let Value::String(text) = &it.value {
            text.as_str().len()
        } else {
            0
        }
    };
    let attributes: usize = span.attributes.iter().map(attribute).sum();
    let links = span.links.iter();
    let states: usize = links.map(|it| size_of_state(&it.span_context)).sum();
    size_of::<SpanData>()
        + span.name.len()
        + span.attributes.capacity() * size_of::<KeyValue>()
        + attributes
        + span.links.links.capacity() * size_of::<Link>()
        + states
        + size_of_state(&span.span_context)
}

/// Its members are two texts each.
fn size_of_state(context: &SpanContext) -> usize {
    const MEMBER: usize = 2 * (size_of::<String>() + 16);
    let state = context.trace_state().header();
    let members = state.split(',').filter(|member| !member.is_empty()).count();
    state.len() + members * MEMBER
}

impl Filter {
    fn wants(&self, span: &SpanData) -> bool {
        let has = |key: &str, wanted: &str| {
            let mut attributes = span.attributes.iter();
            attributes.any(|it| {
                it.key.as_str() == key
                    && matches!(&it.value, Value::String(is) if is.as_str() == wanted)
            })
        };
        let subscription = self.subscription.as_deref();
        let topic = self.topic.as_deref();
        subscription.is_none_or(|name| has(names::SUBSCRIPTION, name))
            && topic.is_none_or(|name| has(names::TOPIC, name) || has(names::SOURCE_TOPIC, name))
            && self.trace.is_none_or(|trace| {
                let mut links = span.links.iter();
                span.span_context.trace_id() == trace
                    || links.any(|link| link.span_context.trace_id() == trace)
            })
            && self.since.is_none_or(|since| span.end_time >= since)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{
        super::{Operation, Tracer},
        *,
    };

    fn at(second: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(second)
    }

    #[test]
    fn ring_is_bounded_in_bytes_too() {
        let ring = Arc::new(Ring::within(1000, 64 << 10));
        let tracer = Tracer::to_ring(&ring, "shop", "group", 1.0);
        let put = |links| {
            let other = tracer.begin(Operation::Poll, None, at(0)).unwrap();
            let mut span = tracer.begin(Operation::Poll, None, at(0)).unwrap();
            (0..links).for_each(|_| span.link(other.context()));
            tracer.end(span, at(0));
        };
        (0..100).for_each(|_| put(0));
        let small = ring.last(1000, &Filter::default()).len();
        assert!((20..100).contains(&small), "{small}");
        (0..100).for_each(|_| put(128));
        let large = ring.last(1000, &Filter::default()).len();
        assert!((1..small / 4).contains(&large), "{large} of {small}");
        let held = ring.held.lock();
        let sizes: usize = held.spans.iter().map(|(size, _)| size).sum();
        assert_eq!(held.bytes, sizes, "what has gone is not counted");
        assert!(sizes <= 64 << 10, "{sizes}");
    }

    #[test]
    fn ring_has_the_last_spans_that_are_wanted() {
        let ring = Arc::new(Ring::new(3));
        let tracer = Tracer::to_ring(&ring, "shop", "group", 1.0);
        let mut traces = Vec::new();
        for second in 0..5 {
            let topic = ["orders", "bills"][usize::from(second % 2 == 1)];
            let mut span = tracer
                .begin(Operation::Commit, Some(topic), at(second))
                .unwrap();
            if let Some(before) = traces.last() {
                span.link(before);
            }
            traces.push(span.context().clone());
            tracer.end(span, at(second));
        }
        let ends = |limit, filter: Filter| -> Vec<u64> {
            let spans = ring.last(limit, &filter);
            let age = |span: &Arc<SpanData>| span.end_time.duration_since(at(0)).unwrap();
            spans.iter().map(|span| age(span).as_secs()).collect()
        };
        let all = Filter::default;
        assert_eq!(ends(10, all()), [2, 3, 4]);
        assert_eq!(ends(2, all()), [3, 4], "the newest");
        let topic = |name: &str| Filter {
            topic: Some(name.to_owned()),
            ..all()
        };
        assert_eq!(ends(10, topic("bills")), [3]);
        assert_eq!(ends(10, topic("bill")), [0; 0]);
        let subscription = |name: &str| Filter {
            subscription: Some(name.to_owned()),
            ..all()
        };
        assert_eq!(ends(10, subscription("shop")), [2, 3, 4]);
        assert_eq!(ends(10, subscription("other")), [0; 0]);
        let since = Filter {
            since: Some(at(3)),
            ..all()
        };
        assert_eq!(ends(10, since), [3, 4]);
        let trace = Filter {
            trace: Some(traces[2].trace_id()),
            ..all()
        };
        assert_eq!(ends(10, trace), [2, 3], "itself, and what links to it");
        let none = Ring::new(0);
        none.push(ring.last(1, &all()).remove(0));
        assert!(none.last(1, &all()).is_empty());
    }
}
