//! [`Traces`]: what is traced of one lane's records, from the fetch to the commit.
//!
//! **Invariants**: an entry lives as long as its record is unsettled; a span is recorded
//! once; a delivery that was never handed over leaves none. Spans of one record are of one
//! trace, whichever attempt, subscriber or dead letter they tell of: their parent is the
//! producer's span or, without one, the first delivery.

use std::{collections::BTreeMap, time::SystemTime};

use ackgate_lane::{Offset, OffsetRange, Position, Ready, Subscriber};
use ackgate_proto::v1;
use opentelemetry::{Value, trace::SpanContext};

use super::end::End;
use crate::{
    broker::TopicPartition,
    telemetry::traces::{
        MAX_LINKS, Operation, Place, RecordTrace, Span, Tracer, names, traceparent,
    },
};

/// Subscribers of a broadcast whose last span of a record is remembered, for the link from
/// the next one.
pub(super) const MAX_LAST: usize = 16;

/// The traced records of a lane.
#[derive(Debug, Default)]
pub(in crate::consumer) struct Traces {
    records: BTreeMap<u64, Traced>,
    /// The last spans of settled records whose position is not committed yet, for the links
    /// of that commit.
    settled: Vec<(u64, SpanContext)>,
    /// What has been committed. Exactly once, records below it may be settled after that.
    committed: u64,
}

#[derive(Debug)]
struct Traced {
    of: RecordTrace,
    /// The fetch that brought it.
    poll: Option<SpanContext>,
    /// The parent of whatever is done with it.
    root: Option<SpanContext>,
    /// The last delivery of all, or of each subscriber where each has its own.
    last: Vec<(Option<Subscriber>, SpanContext)>,
    open: Vec<Open>,
    letter: Option<Span>,
    _place: Place,
}

/// A delivery without a verdict.
#[derive(Debug)]
struct Open {
    subscriber: Subscriber,
    span: Span,
    sent: bool,
    _place: Place,
}

/// A part of a batch that goes out.
#[derive(Clone, Copy, Debug)]
pub(in crate::consumer) struct Delivered<'a> {
    pub(in crate::consumer) range: OffsetRange,
    pub(in crate::consumer) numbers: Ready,
    pub(in crate::consumer) subscriber: Subscriber,
    pub(in crate::consumer) name: &'a str,
    /// Whether each subscriber has deliveries of its own.
    pub(in crate::consumer) is_broadcast: bool,
}

/// How a delivery ended, and when.
#[derive(Clone, Copy, Debug)]
pub(in crate::consumer) struct Ended<'a> {
    pub(in crate::consumer) range: OffsetRange,
    pub(in crate::consumer) subscriber: Subscriber,
    pub(in crate::consumer) how: End,
    /// The subscriber's code; empty if there is none.
    pub(in crate::consumer) code: &'a str,
    pub(in crate::consumer) at: SystemTime,
}

impl Traces {
    /// Whether no record of the lane is traced: then there is nothing to tell.
    pub(in crate::consumer) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Whether the record at `offset` is traced already.
    pub(super) fn knows(&self, offset: u64) -> bool {
        self.records.contains_key(&offset)
    }

    /// Takes records that a fetch has brought, again perhaps.
    pub(super) fn fetched(&mut self, tracer: &Tracer, of: Vec<RecordTrace>, poll: &SpanContext) {
        for trace in of {
            if let Some(known) = self.records.get_mut(&trace.offset) {
                known.poll = Some(poll.clone());
            } else if let Some(place) = tracer.place() {
                let traced = Traced {
                    poll: Some(poll.clone()),
                    root: trace.parent.as_ref().map(|it| it.span.clone()),
                    of: trace,
                    last: Vec::new(),
                    open: Vec::new(),
                    letter: None,
                    _place: place,
                };
                self.records.insert(traced.of.offset, traced);
            }
        }
    }

    /// A part of a batch goes out: its spans are named to the subscriber.
    pub(in crate::consumer) fn handed_out(
        &mut self,
        tracer: &Tracer,
        place: &TopicPartition,
        part: Delivered<'_>,
        batch: &mut Vec<v1::RecordTrace>,
    ) {
        let now = SystemTime::now();
        for (offset, traced) in self.records.range_mut(within(part.range)) {
            let Some(room) = tracer.place() else {
                return;
            };
            let topic = Some(&*place.topic);
            let Some(mut span) = tracer.begin_in(traced.of.trace, Operation::Process, topic, now)
            else {
                return;
            };
            traced.describe(&mut span, place);
            span.set(names::SUBSCRIBER, part.name.to_owned());
            span.set_number(names::ATTEMPT, part.numbers.attempt.into());
            span.set_number(names::DELIVERY, part.numbers.delivery.into());
            if let Some(root) = &traced.root {
                span.set_parent(root);
            }
            let state = traced.of.parent.as_ref().and_then(|it| it.state.clone());
            let tracestate = state.as_deref().unwrap_or_default().to_owned();
            span.set_state(state);
            if let Some(poll) = &traced.poll {
                span.link(poll);
            }
            let whose = part.is_broadcast.then_some(part.subscriber);
            if let Some((_, before)) = traced.last.iter().find(|(of, _)| *of == whose) {
                span.link(before);
            }
            batch.push(v1::RecordTrace {
                offset: i64::try_from(*offset).unwrap_or(i64::MAX),
                traceparent: traceparent(span.context()),
                tracestate,
            });
            traced
                .open
                .retain(|open| open.subscriber != part.subscriber);
            traced.open.push(Open {
                subscriber: part.subscriber,
                span,
                sent: false,
                _place: room,
            });
        }
    }

    /// A part of a batch has been handed over.
    pub(in crate::consumer) fn sent(&mut self, of: Subscriber, range: OffsetRange, at: SystemTime) {
        for traced in self.records.range_mut(within(range)).map(|(_, it)| it) {
            let mut open = traced.open.iter_mut();
            if let Some(open) = open.find(|open| open.subscriber == of && !open.sent) {
                open.span.start_at(at);
                open.sent = true;
                root(&mut traced.root, &mut open.span);
            }
        }
    }

    /// Deliveries have ended.
    pub(in crate::consumer) fn ended(
        &mut self,
        tracer: &Tracer,
        is_broadcast: bool,
        end: Ended<'_>,
    ) {
        for traced in self.records.range_mut(within(end.range)).map(|(_, it)| it) {
            let mut open = traced.open.iter();
            let Some(index) = open.position(|open| open.subscriber == end.subscriber) else {
                continue;
            };
            let Open { mut span, sent, .. } = traced.open.swap_remove(index);
            // A verdict may be there before the news that what it is on has gone out.
            if !sent && !end.how.is_verdict() {
                continue;
            }
            root(&mut traced.root, &mut span);
            let whose = is_broadcast.then_some(end.subscriber);
            traced.last.retain(|(of, _)| *of != whose);
            if traced.last.len() >= MAX_LAST {
                traced.last.remove(0);
            }
            traced.last.push((whose, span.context().clone()));
            close(tracer, span, end);
        }
    }

    /// Records are settled, or were before: nothing more is told of them but their commit.
    pub(super) fn settled(&mut self, tracer: &Tracer, range: OffsetRange) {
        let offsets: Vec<u64> = self
            .records
            .range(within(range))
            .map(|(at, _)| *at)
            .collect();
        for offset in offsets {
            let Some(traced) = self.records.remove(&offset) else {
                continue;
            };
            let last = traced.last.last().map(|(_, last)| last.clone());
            let last = traced.end_all(tracer).or(last);
            if let Some(last) = last
                && offset >= self.committed
                && self.settled.len() < MAX_LINKS
            {
                self.settled.push((offset, last));
            }
        }
    }

    /// The lane goes: whatever is open has come to its end.
    pub(super) fn gone(&mut self, tracer: &Tracer) {
        for (_, traced) in std::mem::take(&mut self.records) {
            traced.end_all(tracer);
        }
    }

    /// The spans that a commit of this position makes durable.
    pub(super) fn committing(&self, position: Position) -> Vec<SpanContext> {
        let below = |(offset, _): &&(u64, SpanContext)| *offset < position.get();
        let settled = self.settled.iter().filter(below).map(|(_, last)| last);
        // Exactly once, records are settled by the commit that their dead letters go with.
        let going = self.records.range(..position.get()).map(|(_, it)| it);
        let going = going.filter(|traced| traced.letter.is_some());
        let going = going.filter_map(|traced| Some(&traced.last.last()?.1));
        settled.chain(going).take(MAX_LINKS).cloned().collect()
    }

    /// A commit of this position has succeeded: nothing links to what it passed again.
    pub(super) fn committed(&mut self, position: Position) {
        self.committed = self.committed.max(position.get());
        self.settled.retain(|(offset, _)| *offset >= position.get());
    }

    /// A dead letter of the record at `offset` is written from now on to `topic`. Returns
    /// what the letter says of its trace if the record itself says nothing.
    pub(super) fn letter(
        &mut self,
        tracer: &Tracer,
        offset: Offset,
        place: &TopicPartition,
        (topic, cause): (&str, &'static str),
    ) -> Option<SpanContext> {
        let traced = self.records.get_mut(&offset.get())?;
        let now = SystemTime::now();
        let mut span = tracer.begin_in(traced.of.trace, Operation::Send, Some(topic), now)?;
        if let Some((_, last)) = traced.last.last() {
            span.set_parent(last);
        } else if let Some(root) = &traced.root {
            span.set_parent(root);
        }
        span.set(names::CAUSE, cause);
        span.set(names::SOURCE_TOPIC, place.topic.to_string());
        span.set(names::SOURCE_PARTITION, place.partition.to_string());
        span.set_number(names::SOURCE_OFFSET, offset.get());
        let context = span.context().clone();
        traced.letter = Some(span);
        traced.of.parent.is_none().then_some(context)
    }

    /// A dead letter was answered: where it lies now, as far as that is known, or why not.
    pub(super) fn letter_answered(
        &mut self,
        tracer: &Tracer,
        offset: Offset,
        result: Result<Option<(i32, i64)>, &'static str>,
    ) {
        let traced = self.records.get_mut(&offset.get());
        let Some(mut span) = traced.and_then(|traced| traced.letter.take()) else {
            return;
        };
        match result {
            Ok(Some((partition, offset))) => {
                span.set(names::PARTITION, partition.to_string());
                span.set(names::OFFSET, offset);
            }
            Ok(None) => {}
            Err(error) => span.fail(error),
        }
        tracer.end(span, SystemTime::now());
    }
}

impl Traced {
    /// Says which record a span is about.
    fn describe(&self, span: &mut Span, place: &TopicPartition) {
        span.set(names::PARTITION, place.partition.to_string());
        span.set_number(names::OFFSET, self.of.offset);
        match self.of.body {
            Some(bytes) => span.set_number(names::BODY_SIZE, bytes as u64),
            None => span.set(names::TOMBSTONE, Value::Bool(true)),
        }
    }

    /// Ends what was handed over and never answered. Returns the last of them.
    fn end_all(mut self, tracer: &Tracer) -> Option<SpanContext> {
        let mut last = None;
        let now = SystemTime::now();
        for Open {
            mut span,
            sent,
            subscriber,
            ..
        } in self.open
        {
            if sent {
                root(&mut self.root, &mut span);
                last = Some(span.context().clone());
                let end = Ended {
                    range: OffsetRange::one(Offset::new(self.of.offset)),
                    subscriber,
                    how: End::Void,
                    code: "",
                    at: now,
                };
                close(tracer, span, end);
            }
        }
        last
    }
}

/// The first delivery of a record without a producer's span is the parent of all others.
fn root(root: &mut Option<SpanContext>, span: &mut Span) {
    match root {
        None => *root = Some(span.context().clone()),
        Some(root) if !span.has_parent() && root.span_id() != span.context().span_id() => {
            span.set_parent(root);
        }
        Some(_) => {}
    }
}

fn close(tracer: &Tracer, mut span: Span, end: Ended<'_>) {
    span.set(names::VERDICT, end.how.name());
    if !end.code.is_empty() {
        span.set(names::CODE, end.code.to_owned());
    }
    if end.how.is_error() {
        span.fail(end.how.name());
    }
    tracer.end(span, end.at);
}

fn within(range: OffsetRange) -> std::ops::Range<u64> {
    range.first().get()..range.end().get()
}
