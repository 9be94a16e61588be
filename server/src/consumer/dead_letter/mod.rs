//! Builds the dead letter of a record: its key, value and headers byte for byte, its
//! timestamp, and behind them provenance headers under a reserved prefix.
//!
//! Boundary: what a copy contains and where it goes. When one is written, and what
//! follows from the answer, is the lane's and `letters`'.

use std::{sync::Arc, time::SystemTime};

use ackgate_client::TraceContext;
use ackgate_lane::{Cause, Counts, Offset};
use ackgate_proto::v1;
use bytes::Bytes;
use opentelemetry::trace::SpanContext;

use super::{
    bodies::History,
    intake,
    lanes::{Entry, Note},
};
use crate::{
    broker::Outgoing,
    config,
    headers::{self, DEAD_LETTER as PREFIX},
    telemetry::traces,
};

mod alias;
mod form;
mod origin;
#[cfg(test)]
mod tests;
mod write;

use alias::Facts;
use form::Form;
use origin::Origin;
pub(super) use write::write;

/// A header as it is written.
type Header = (String, Option<Bytes>);

/// What is known of a record that is given up.
#[derive(Clone, Debug)]
pub(super) struct GivenUp {
    pub(super) offset: Offset,
    pub(super) cause: Cause,
    pub(super) attempts: u32,
    pub(super) deliveries: u32,
}

/// A dead letter that can take several forms, because its topic may not take the
/// largest of them.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    /// The record without anything that was added to it.
    record: Outgoing,
    /// The partition that the record was read from.
    source: i32,
    partition: config::LetterPartition,
    provenance: Vec<(&'static str, String)>,
    aliases: Vec<Header>,
}

impl Letter {
    /// Leaves one header `traceparent`: of several that of the record that counts. Without
    /// one that is well formed `own` is what the letter says of its trace.
    pub(super) fn keep_one_trace(&mut self, own: Option<&SpanContext>) {
        let headers = &mut self.record.headers;
        let last = |headers: &[Header]| {
            headers
                .iter()
                .rposition(|(name, value)| traces::is_parent(name) && value.is_some())
        };
        let is_well_formed = TraceContext::of_headers(
            headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_deref())),
        )
        .is_some();
        if is_well_formed {
            let counts = last(headers);
            let mut index = 0;
            headers.retain(|(name, _)| {
                index += 1;
                !traces::is_parent(name) || counts == Some(index - 1)
            });
        } else if let Some(own) = own {
            headers.retain(|(name, _)| !traces::is_parent(name));
            let value = traces::traceparent(own).into();
            headers.push((traces::PARENT.to_owned(), Some(value)));
        }
    }
}

/// The names of causes in headers, logs and metrics.
#[must_use]
pub(super) const fn cause_name(cause: Cause) -> &'static str {
    match cause {
        Cause::Rejected => "rejected",
        Cause::AttemptsExhausted => "attempts-exhausted",
        Cause::DeliveriesExhausted => "deliveries-exhausted",
        Cause::Oversize => "oversize",
        Cause::Content => "content",
        Cause::Expired => "expired",
    }
}

/// Builds the dead letter; `None` if the record's body is not at hand. `refuser` is
/// the subscriber that gave it up, where each has its own say.
pub(super) fn build(
    subscription: &config::Subscription,
    dead_letter: &config::DeadLetter,
    entry: &Entry,
    given_up: &GivenUp,
    refuser: Option<Arc<str>>,
) -> Option<Letter> {
    let record = intake::decode(entry.bodies.record(given_up.offset)?)?;
    let origin = Origin::of(&record, &entry.partition, given_up.offset, subscription);
    let history = entry.bodies.history(given_up.offset);
    let note = entry.note(given_up.offset);
    let mut provenance = provenance(subscription, given_up, &origin, history, note, refuser);
    if let Some(Counts {
        acked, rejected, ..
    }) = entry.lane.counts(given_up.offset)
    {
        provenance.push(("counts", format!("acked={acked} rejected={rejected}")));
    }
    let timestamp_type = v1::TimestampType::try_from(record.timestamp_type)
        .unwrap_or(v1::TimestampType::Unspecified);
    let aliases = alias::headers(
        &dead_letter.copying.aliases,
        &Facts {
            origin: &origin,
            subscription: &subscription.name,
            group: &subscription.group,
            cause: cause_name(given_up.cause),
            reason: note.map_or("", |note| &note.reason),
            deliveries: given_up.deliveries,
            timestamp_type,
        },
    );
    let own = headers::own(record.headers, |header| &header.key);
    Some(Letter {
        record: Outgoing {
            topic: dead_letter.topic.clone(),
            partition: None,
            key: record.key,
            value: record.value,
            headers: own.map(|header| (header.key, header.value)).collect(),
            timestamp_ms: (timestamp_type != v1::TimestampType::Unspecified)
                .then_some(record.timestamp_ms),
        },
        source: entry.partition.partition,
        partition: dead_letter.copying.partition,
        provenance,
        aliases,
    })
}

/// The dead letter as it goes with a commit, after its topic has refused so many larger
/// forms of it. Its partition is the record's own, also where the topic has fewer.
pub(super) fn after_refusals(letter: &Letter, refusals: u32) -> Outgoing {
    let mut form = Form::Whole;
    for _ in 0..refusals {
        form = form.smaller(letter).unwrap_or(form);
    }
    Outgoing {
        partition: match letter.partition {
            config::LetterPartition::Key => None,
            config::LetterPartition::Same => Some(letter.source),
        },
        ..letter.in_form(form, None)
    }
}

fn provenance(
    subscription: &config::Subscription,
    given_up: &GivenUp,
    origin: &Origin,
    history: Option<History>,
    note: Option<&Note>,
    refuser: Option<Arc<str>>,
) -> Vec<(&'static str, String)> {
    let subscriber = note
        .map(|note| note.subscriber.to_string())
        .or_else(|| refuser.map(|name| name.to_string()))
        .or_else(|| history.as_ref().map(|history| history.last_to.to_string()));
    let said =
        |of: fn(&Note) -> &Arc<str>| note.map(|note| of(note).to_string()).unwrap_or_default();
    let mut headers = vec![
        ("topic", origin.topic.clone()),
        ("partition", origin.partition.to_string()),
        ("offset", origin.offset.to_string()),
        ("timestamp", origin.timestamp_ms.to_string()),
        ("group", subscription.group.clone()),
        ("subscription", subscription.name.clone()),
        ("cause", cause_name(given_up.cause).to_owned()),
        ("code", said(|note| &note.code)),
        ("reason", said(|note| &note.reason)),
        ("attempts", given_up.attempts.to_string()),
        ("deliveries", given_up.deliveries.to_string()),
        ("subscriber", subscriber.unwrap_or_default()),
        (headers::DEDUPE_ID, origin.dedupe_id.clone()),
    ];
    if let Some(round) = origin.round {
        headers.push((headers::ROUND, round.to_string()));
    }
    if let Some(history) = history {
        headers.push(("first-delivery", rfc3339(history.first)));
        headers.push(("last-delivery", rfc3339(history.last)));
    }
    headers
}

fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}

/// One of the gateway's own headers.
fn header(name: &str, value: impl Into<Bytes>) -> Header {
    (format!("{PREFIX}{name}"), Some(value.into()))
}
