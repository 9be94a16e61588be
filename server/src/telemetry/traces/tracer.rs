//! [`Tracer`]: where the spans of one subscription begin and go when they end.
//!
//! **Invariants**: a tracer never waits; what has not ended is bounded over the gateway
//! ([`Place`]).

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::SystemTime,
};

use opentelemetry::{InstrumentationScope, KeyValue, TraceId};

use super::{
    Allowance, Outlet, Ring, Sampler,
    names::{self, Operation},
    span::Span,
};

/// Traced records and open deliveries at a time, over all lanes: some KiB each at most, since
/// what a record says of its trace is bounded and kept once.
const PLACES: usize = 32 * 1024;

/// Where spans go. One for the gateway.
#[derive(Debug)]
pub(super) struct Out {
    pub(super) ring: Option<Arc<Ring>>,
    pub(super) export: Option<Outlet>,
    pub(super) scope: InstrumentationScope,
    taken: Arc<AtomicUsize>,
}

impl Out {
    pub(super) fn new(ring: Option<Arc<Ring>>, export: Option<Outlet>) -> Self {
        let scope = InstrumentationScope::builder("ackgate");
        Self {
            ring,
            export,
            scope: scope.with_version(env!("CARGO_PKG_VERSION")).build(),
            taken: Arc::default(),
        }
    }
}

/// Room for something that is traced, until it is dropped.
#[derive(Debug)]
pub struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The tracer of a subscription. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Tracer(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    out: Arc<Out>,
    sampler: Sampler,
    /// What all spans have.
    base: Arc<[KeyValue]>,
}

impl Tracer {
    /// Traces nothing.
    #[must_use]
    pub const fn off() -> Self {
        Self(None)
    }

    /// Of a subscription; off where no record can be traced.
    pub(super) fn new(out: &Arc<Out>, sampler: Sampler, of: [(&'static str, &str); 3]) -> Self {
        if !sampler.is_on() {
            return Self::off();
        }
        let system = KeyValue::new(names::SYSTEM, names::KAFKA);
        let own = of.map(|(key, value)| KeyValue::new(key, value.to_owned()));
        Self(Some(Arc::new(Inner {
            out: Arc::clone(out),
            sampler,
            base: [system].into_iter().chain(own).collect(),
        })))
    }

    /// Of a subscription in a test.
    #[cfg(test)]
    pub(crate) fn to_ring(ring: &Arc<Ring>, subscription: &str, group: &str, ratio: f64) -> Self {
        let out = Arc::new(Out::new(Some(Arc::clone(ring)), None));
        let of = [
            (names::SUBSCRIPTION, subscription),
            (names::GROUP, group),
            (names::CLUSTER, "test"),
        ];
        Self::new(&out, Sampler::new(ratio, false), of)
    }

    /// Whether anything is traced.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Whether something that concerns no traced record is told of all the same.
    #[must_use]
    pub fn takes_one(&self) -> bool {
        let inner = self.0.as_ref();
        inner.is_some_and(|inner| inner.sampler.takes(TraceId::from(fastrand::u128(..))))
    }

    /// What holds back records whose producers chose their traces' ids, if anything does.
    #[must_use]
    pub fn allowance(&self) -> Option<Allowance> {
        self.0.as_ref()?.sampler.allowance()
    }

    /// Room for one more; `None` if there is none, and it goes untraced.
    #[must_use]
    pub fn place(&self) -> Option<Place> {
        let taken = &self.0.as_ref()?.out.taken;
        let place = taken.fetch_add(1, Ordering::Relaxed);
        let place = (place < PLACES).then(|| Place(Arc::clone(taken)));
        if place.is_none() {
            taken.fetch_sub(1, Ordering::Relaxed);
        }
        place
    }

    /// Begins a span with a trace of its own.
    #[must_use]
    pub fn begin(&self, what: Operation, topic: Option<&str>, at: SystemTime) -> Option<Span> {
        self.begin_in(TraceId::from(fastrand::u128(1..)), what, topic, at)
    }

    /// Begins a span of `trace`.
    #[must_use]
    pub fn begin_in(
        &self,
        trace: TraceId,
        what: Operation,
        topic: Option<&str>,
        at: SystemTime,
    ) -> Option<Span> {
        let inner = self.0.as_ref()?;
        Some(Span::new(trace, what, topic, at, &inner.base))
    }

    /// Ends a span.
    pub fn end(&self, span: Span, at: SystemTime) {
        let Some(Inner { out, .. }) = self.0.as_deref() else {
            return;
        };
        let span = span.finish(at, &out.scope);
        match (&out.ring, &out.export) {
            (Some(ring), None) => ring.push(Arc::new(span)),
            (None, Some(export)) => export.take(span),
            (Some(ring), Some(export)) => {
                ring.push(Arc::new(span.clone()));
                export.take(span);
            }
            (None, None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_open_is_bounded_and_room_comes_back() {
        let ring = Arc::new(Ring::new(1));
        let tracer = Tracer::to_ring(&ring, "shop", "group", 1.0);
        let mut places: Vec<_> = (0..PLACES).map(|_| tracer.place()).collect();
        assert!(places.iter().all(Option::is_some));
        assert!(tracer.place().is_none());
        places.pop();
        assert!(tracer.place().is_some());
        assert!(Tracer::off().place().is_none());
    }
}
