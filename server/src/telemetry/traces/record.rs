//! Which trace a record belongs to: its producer's, as its headers say, or one that follows
//! from its place in Kafka.
//!
//! Boundary: reads what a record says of itself, before anything is done with it.

use std::{sync::Arc, time::SystemTime};

use ackgate_client::TraceContext;
use opentelemetry::{
    SpanId, TraceFlags, TraceId,
    trace::{SpanContext, TraceState},
};
use sha2::{Digest as _, Sha256};

use super::Sampler;

/// Name of the header with trace, span and flags.
pub const PARENT: &str = "traceparent";

/// Bytes of a `tracestate` that is passed on.
const MAX_STATE: usize = 512;

/// Whether a header is called `traceparent`, in any case.
#[must_use]
pub const fn is_parent(name: &str) -> bool {
    name.eq_ignore_ascii_case(PARENT)
}

/// A record whose trace is recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordTrace {
    /// Its offset.
    pub offset: u64,
    /// Its trace: the parent's, if there is one.
    pub trace: TraceId,
    /// The span that wrote it, as its headers say.
    pub parent: Option<Parent>,
    /// Bytes of its value; `None` is Kafka's null.
    pub body: Option<usize>,
}

/// What a record's headers say of its trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Parent {
    /// The span. Its state is none: who links to it has no use for that.
    pub span: SpanContext,
    /// What its `tracestate` says, if anything: 512 bytes at most, since longer ones are
    /// dropped. For the spans of the record's deliveries, which share it.
    pub state: Option<Arc<str>>,
}

/// A fetch of records that is told of: some are traced, or it is itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Polled {
    /// When the first of them was asked for.
    pub began: SystemTime,
    /// When the last one was there.
    pub ended: SystemTime,
    /// The traced ones, in offset order.
    pub traces: Vec<RecordTrace>,
}

/// From which the trace of a record follows that says none: its cluster, topic and
/// partition, and then its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed([u64; 2]);

/// Finds the traced ones among the records of a cluster.
#[derive(Clone, Debug)]
pub struct Sampling {
    sampler: Sampler,
    cluster: Arc<str>,
}

impl Sampling {
    /// `None` if no record can be traced: then nobody needs to look.
    #[must_use]
    pub fn new(sampler: Sampler, cluster: &str) -> Option<Self> {
        sampler.is_on().then(|| Self {
            sampler,
            cluster: cluster.into(),
        })
    }

    /// The seed of a topic's partition. Every gateway with the same configuration has the
    /// same.
    #[must_use]
    pub fn seed(&self, topic: &str, partition: i32) -> Seed {
        let mut hash = Sha256::new();
        hash.update(self.cluster.as_bytes());
        hash.update([0]);
        hash.update(topic.as_bytes());
        hash.update([0]);
        hash.update(partition.to_be_bytes());
        let hash: [u8; 32] = hash.finalize().into();
        let half = |bytes: &[u8]| {
            let bytes = bytes.iter().take(8);
            bytes.fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))
        };
        let (high, low) = hash.split_at(16);
        Seed([half(high), half(low)])
    }

    /// Whether a fetch is told of for its own sake.
    #[must_use]
    pub fn takes_one(&self) -> bool {
        self.sampler.takes(TraceId::from(fastrand::u128(..)))
    }

    /// The trace of the record at `offset`, if it is recorded. `parent` is what its last
    /// header `traceparent` with a value says, and `headers` are all of them.
    pub fn look<'a, H>(
        &self,
        seed: Seed,
        offset: u64,
        parent: Option<&[u8]>,
        headers: impl FnOnce() -> H,
    ) -> Option<(TraceId, Option<Parent>)>
    where
        H: IntoIterator<Item = (&'a str, Option<&'a [u8]>)>,
    {
        let parent = parent.and_then(|parent| str::from_utf8(parent).ok());
        let Some(parent) = parent.and_then(|parent| TraceContext::parse(parent, "")) else {
            let trace = seed.trace(offset);
            return self.sampler.takes(trace).then_some((trace, None));
        };
        if !self.sampler.takes_parent(&remote(&parent)) {
            return None;
        }
        // Only now is it worth to look for its state.
        let whole = TraceContext::of_headers(headers()).unwrap_or(parent);
        let state = whole.state();
        let is_kept = (1..=MAX_STATE).contains(&state.len());
        let parent = Parent {
            span: remote(&whole),
            state: is_kept.then(|| state.into()),
        };
        Some((parent.span.trace_id(), Some(parent)))
    }
}

impl Seed {
    /// The trace of the record at `offset`. Never zero, which is none.
    #[must_use]
    pub fn trace(self, offset: u64) -> TraceId {
        let [high, low] = self.0;
        let high = mix(high ^ offset);
        let low = mix(low.wrapping_add(offset)).max(1);
        TraceId::from(u128::from(high) << 64 | u128::from(low))
    }
}

/// Spreads neighbouring numbers over all of them (the last steps of SplitMix64).
const fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let number = (number ^ number >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ number >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ number >> 31
}

/// A context that came with a record.
fn remote(context: &TraceContext) -> SpanContext {
    SpanContext::new(
        TraceId::from_bytes(context.trace_id()),
        SpanId::from_bytes(context.span_id()),
        TraceFlags::default().with_sampled(context.is_sampled()),
        true,
        TraceState::NONE,
    )
}

/// A context as `traceparent` has it.
#[must_use]
pub fn traceparent(context: &SpanContext) -> String {
    let flags = u8::from(context.is_sampled());
    format!(
        "00-{}-{}-{flags:02x}",
        context.trace_id(),
        context.span_id()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    type Headers<'a> = &'a [(&'a str, Option<&'a [u8]>)];

    fn look(ratio: f64, headers: Headers<'_>) -> Option<(TraceId, Option<Parent>)> {
        let sampling = Sampling::new(Sampler::new(ratio, false), "main")?;
        let parent = headers
            .iter()
            .rev()
            .find(|(name, value)| is_parent(name) && value.is_some());
        let seed = sampling.seed("orders", 3);
        sampling.look(seed, 7, parent.and_then(|(_, value)| *value), || {
            headers.to_vec()
        })
    }

    #[test]
    fn trace_is_the_producers_or_follows_from_the_place() {
        let own = look(1.0, &[]).unwrap();
        assert_eq!(own.1, None);
        assert_eq!(
            look(1.0, &[]),
            Some(own.clone()),
            "for every retry and gateway"
        );
        let (trace, parent) = look(1.0, &[("traceparent", Some(TRACE.as_bytes()))]).unwrap();
        let parent = parent.unwrap().span;
        assert_eq!(trace.to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(traceparent(&parent), TRACE);
        assert!(parent.is_remote());
        let malformed: [&[u8]; 5] = [
            b"",
            b"\xff\xfe",
            b"00-0AF7651916CD43DD8448EB211C80319C-B7AD6B7169203331-01",
            b"00-00000000000000000000000000000000-b7ad6b7169203331-01",
            &TRACE.as_bytes()[..54],
        ];
        for value in malformed {
            assert_eq!(
                look(1.0, &[("traceparent", Some(value))]),
                Some(own.clone())
            );
        }
    }

    #[test]
    fn last_parent_with_a_value_counts_whatever_its_case() {
        let other = TRACE.replace("0af7", "0bf7");
        let headers: Headers<'_> = &[
            ("traceparent", Some(other.as_bytes())),
            ("TraceParent", Some(TRACE.as_bytes())),
            ("tracestate", Some(b"a=1")),
            ("traceparent", None),
            ("tracestate", Some(b"b=2")),
        ];
        let parent = look(1.0, headers).unwrap().1.unwrap();
        assert_eq!(traceparent(&parent.span), TRACE);
        assert_eq!(parent.state.as_deref(), Some("a=1,b=2"));
    }

    #[test]
    fn state_is_kept_once_and_only_within_its_bound() {
        let state = |bytes: usize| {
            let state = format!("a={0},b={0},c={0}", "x".repeat((bytes - 8) / 3));
            let headers: Headers<'_> = &[
                ("traceparent", Some(TRACE.as_bytes())),
                ("tracestate", Some(state.as_bytes())),
            ];
            look(1.0, headers).unwrap().1.unwrap()
        };
        let kept = state(512);
        assert_eq!(kept.state.unwrap().len(), 512);
        assert_eq!(kept.span.trace_state(), &TraceState::NONE, "for links");
        let dropped = state(515);
        assert_eq!(dropped.state, None);
        assert_eq!(traceparent(&dropped.span), TRACE, "the rest is as it was");
    }

    #[test]
    fn sampled_flag_of_a_record_forces_nothing() {
        let headers: Headers<'_> = &[("traceparent", Some(TRACE.as_bytes()))];
        assert_eq!(look(0.0, headers), None);
        // Its last 64 bits are 8448eb211c80319c: 0.52 of all.
        assert_eq!(look(0.5, headers), None);
        assert!(look(0.53, headers).is_some());
        let unsampled = TRACE.replace("-01", "-00");
        assert!(look(0.53, &[("traceparent", Some(unsampled.as_bytes()))]).is_some());
    }

    #[test]
    fn places_have_traces_of_their_own() {
        let of = |cluster: &str, topic: &str, partition, offset| {
            let sampling = Sampling::new(Sampler::new(1.0, false), cluster).unwrap();
            sampling.seed(topic, partition).trace(offset)
        };
        let mut traces = vec![
            of("main", "orders", 0, 0),
            of("main", "orders", 0, 1),
            of("main", "orders", 1, 0),
            of("main", "order", 0, 0),
            of("other", "orders", 0, 0),
        ];
        traces.sort_by_key(|trace| trace.to_bytes());
        traces.dedup();
        assert_eq!(traces.len(), 5);
        let part = Sampling::new(Sampler::new(0.1, false), "main").unwrap();
        let seed = part.seed("orders", 0);
        let taken = (0..10_000).filter(|at| part.sampler.takes(seed.trace(*at)));
        let taken = taken.count();
        assert!((900..1100).contains(&taken), "{taken} of 10000");
    }
}
