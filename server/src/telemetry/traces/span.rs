//! [`Span`]: what the gateway does, from when to when, until it is over.
//!
//! The SDK's own span takes the trace's id from its parent or makes one up, and begins when
//! it is made; here a record without a parent has a trace already, and its span is named to
//! the subscriber before it begins. So a span is made of the SDK's parts at its end.

use std::{borrow::Cow, sync::Arc, time::SystemTime};

use opentelemetry::{
    InstrumentationScope, Key, KeyValue, SpanId, TraceFlags, TraceId, Value,
    trace::{Link, SpanContext, SpanKind, Status, TraceState},
};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use super::names::{self, Operation};

/// Links of one span, as many as the SDK allows by itself.
pub const MAX_LINKS: usize = 128;

/// A span that has not ended.
#[derive(Clone, Debug)]
pub struct Span {
    context: SpanContext,
    parent: Option<SpanContext>,
    /// Its `tracestate`, read when it ends.
    state: Option<Arc<str>>,
    operation: Operation,
    name: Cow<'static, str>,
    start: SystemTime,
    attributes: Vec<KeyValue>,
    links: SpanLinks,
    error: Option<&'static str>,
}

impl Span {
    /// Begins one of `trace`; `topic` is a part of its name.
    pub(super) fn new(
        trace: TraceId,
        operation: Operation,
        topic: Option<&str>,
        start: SystemTime,
        base: &Arc<[KeyValue]>,
    ) -> Self {
        let context = SpanContext::new(
            trace,
            SpanId::from(fastrand::u64(1..)),
            TraceFlags::SAMPLED,
            false,
            TraceState::NONE,
        );
        let name = match topic {
            None => operation.name().into(),
            Some(topic) => format!("{} {topic}", operation.name()).into(),
        };
        // Those of its own come behind, few more than these.
        let mut attributes = Vec::with_capacity(base.len() + 12);
        attributes.extend_from_slice(base);
        let mut span = Self {
            context,
            parent: None,
            state: None,
            operation,
            name,
            start,
            attributes,
            links: SpanLinks::default(),
            error: None,
        };
        span.set(names::OPERATION_NAME, operation.name());
        if let Some(kind) = operation.kind() {
            span.set(names::OPERATION_TYPE, kind);
        }
        if let Some(topic) = topic {
            span.set(names::TOPIC, topic.to_owned());
        }
        span
    }

    /// Who it is.
    #[must_use]
    pub const fn context(&self) -> &SpanContext {
        &self.context
    }

    /// Whether it has a parent.
    #[must_use]
    pub const fn has_parent(&self) -> bool {
        self.parent.is_some()
    }

    /// Makes it a child of `parent`, which is of the same trace.
    pub fn set_parent(&mut self, parent: &SpanContext) {
        self.parent = Some(parent.clone());
    }

    /// Says the `tracestate` that it passes on.
    pub fn set_state(&mut self, state: Option<Arc<str>>) {
        self.state = state;
    }

    /// Says when it really begins.
    pub const fn start_at(&mut self, start: SystemTime) {
        self.start = start;
    }

    /// Adds an attribute.
    pub fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        self.attributes
            .push(KeyValue::new(Key::from_static_str(key), value));
    }

    /// Adds an attribute of a number that Kafka or the gateway counts.
    pub fn set_number(&mut self, key: &'static str, number: u64) {
        self.set(key, i64::try_from(number).unwrap_or(i64::MAX));
    }

    /// Adds a link; those above [`MAX_LINKS`] are counted only.
    pub fn link(&mut self, to: &SpanContext) {
        if self.links.links.len() < MAX_LINKS {
            self.links.links.push(Link::with_context(to.clone()));
        } else {
            self.links.dropped_count = self.links.dropped_count.saturating_add(1);
        }
    }

    /// It did not end well, for a reason of a closed set.
    pub fn fail(&mut self, error: &'static str) {
        self.error = Some(error);
    }

    pub(super) fn finish(mut self, end: SystemTime, scope: &InstrumentationScope) -> SpanData {
        let status = match self.error {
            None => Status::Unset,
            Some(error) => {
                self.set(names::ERROR_TYPE, error);
                Status::error(error)
            }
        };
        let parent = self.parent.as_ref();
        let state = self.state.and_then(|state| state.parse().ok());
        let context = match state {
            None => self.context,
            Some(state) => SpanContext::new(
                self.context.trace_id(),
                self.context.span_id(),
                self.context.trace_flags(),
                false,
                state,
            ),
        };
        SpanData {
            parent_span_id: parent.map_or(SpanId::INVALID, SpanContext::span_id),
            parent_span_is_remote: parent.is_some_and(SpanContext::is_remote),
            span_context: context,
            span_kind: kind(self.operation),
            name: self.name,
            start_time: self.start,
            // Clocks go back, spans do not.
            end_time: end.max(self.start),
            attributes: self.attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: self.links,
            status,
            instrumentation_scope: scope.clone(),
        }
    }
}

const fn kind(operation: Operation) -> SpanKind {
    match operation {
        Operation::Poll | Operation::Commit | Operation::Seek => SpanKind::Client,
        Operation::Process => SpanKind::Consumer,
        Operation::Send => SpanKind::Producer,
        Operation::Rebalance | Operation::Reset => SpanKind::Internal,
    }
}
