//! [`Lease`]: a record that was pulled, and the verdicts on it.

use std::{fmt, sync::Arc, time::Duration};

use ackgate_proto::v1;

use crate::{Record, TraceContext, options::wire_duration};

/// Most bytes of a verdict's code and reason.
const MOST_CODE: usize = 128;
const MOST_REASON: usize = 1024;

/// A record that a [`Puller`](crate::Puller) has, until its lease is over.
///
/// Its verdicts are values: they count once [`Puller::settle`](crate::Puller::settle) has
/// sent them. Dropping a lease says nothing.
#[derive(Clone)]
pub struct Lease {
    lane: Arc<Lane>,
    record: v1::Record,
    attempt: u32,
    number: u32,
}

#[derive(Debug)]
struct Lane {
    number: u64,
    topic: Arc<str>,
    partition: i32,
    epoch: u64,
    /// The gateway's spans, in offset order.
    traces: Vec<v1::RecordTrace>,
}

/// What is to be said about a lease.
#[derive(Clone, Debug)]
#[must_use = "a verdict counts once it is settled"]
pub struct LeaseVerdict {
    lane: Arc<Lane>,
    wire: v1::Verdict,
}

impl Lease {
    pub(crate) fn all_of(mut batch: v1::Batch) -> Vec<Self> {
        batch.traces.sort_by_key(|trace| trace.offset);
        let lane = Arc::new(Lane {
            number: batch.lane,
            topic: batch.topic.into(),
            partition: batch.partition,
            epoch: batch.epoch,
            traces: batch.traces,
        });
        let runs = batch.redeliveries;
        let records = batch.records.into_iter().map(|record| {
            let holds = |run: &&v1::Redelivery| {
                (run.first_offset..=run.last_offset).contains(&record.offset)
            };
            let run = runs.iter().find(holds);
            Self {
                lane: Arc::clone(&lane),
                attempt: run.map_or(1, |run| run.attempt.max(1)),
                number: run.map_or(1, |run| run.delivery.max(1)),
                record,
            }
        });
        records.collect()
    }

    /// Returns the record.
    #[must_use]
    pub const fn record(&self) -> Record<'_> {
        Record(&self.record)
    }

    /// Returns the record's topic.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.lane.topic
    }

    /// Returns the record's partition.
    #[must_use]
    pub fn partition(&self) -> i32 {
        self.lane.partition
    }

    /// Returns the number of the lane's history.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.lane.epoch
    }

    /// Returns which attempt this is: 1 plus the failed verdicts and expiries so far.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Returns which delivery this is: 1 plus the earlier hand-overs.
    #[must_use]
    pub const fn delivery_number(&self) -> u32 {
        self.number
    }

    /// Returns the trace that the work on the record belongs to, as
    /// [`Delivery::trace_context`](crate::Delivery::trace_context) does.
    #[must_use]
    pub fn trace_context(&self) -> Option<TraceContext> {
        TraceContext::of(&self.lane.traces, self.record())
    }

    /// Says that the record is done.
    pub fn acked(&self) -> LeaseVerdict {
        self.verdict(v1::Outcome::Acked)
    }

    /// Refuses the record for good: it becomes a dead letter, with `code` (at most 128
    /// bytes) and `reason` (at most 1 KiB); longer ones are cut.
    pub fn rejected(&self, code: impl Into<String>, reason: impl Into<String>) -> LeaseVerdict {
        self.verdict(v1::Outcome::Rejected).with(code, reason)
    }

    /// Says that it did not work this time: the record comes again after the
    /// subscription's backoff. Uses an attempt.
    pub fn failed(&self, code: impl Into<String>, reason: impl Into<String>) -> LeaseVerdict {
        self.verdict(v1::Outcome::Failed).with(code, reason)
    }

    /// As [`failed`](Self::failed), and not again before `retry_after`, at most 1 h.
    pub fn failed_after(
        &self,
        code: impl Into<String>,
        reason: impl Into<String>,
        retry_after: Duration,
    ) -> LeaseVerdict {
        let mut verdict = self.failed(code, reason);
        verdict.wire.retry_after = Some(wire_duration(retry_after));
        verdict
    }

    /// Gives the record back untouched: again at once, elsewhere if possible.
    pub fn released(&self) -> LeaseVerdict {
        self.verdict(v1::Outcome::Released)
    }

    fn verdict(&self, outcome: v1::Outcome) -> LeaseVerdict {
        LeaseVerdict {
            lane: Arc::clone(&self.lane),
            wire: v1::Verdict {
                lane: self.lane.number,
                first_offset: self.record.offset,
                delivery: Some(self.number),
                outcome: outcome.into(),
                ..v1::Verdict::default()
            },
        }
    }

    pub(crate) fn lane(&self) -> (u64, &Arc<str>, i32) {
        self.lane.name()
    }

    pub(crate) fn extension(&self) -> v1::Extension {
        v1::Extension {
            lane: self.lane.number,
            first_offset: self.record.offset,
            last_offset: None,
        }
    }
}

impl Lane {
    const fn name(&self) -> (u64, &Arc<str>, i32) {
        (self.number, &self.topic, self.partition)
    }
}

impl LeaseVerdict {
    fn with(mut self, code: impl Into<String>, reason: impl Into<String>) -> Self {
        self.wire.code = cut(code.into(), MOST_CODE);
        self.wire.reason = cut(reason.into(), MOST_REASON);
        self
    }

    pub(crate) fn lane(&self) -> (u64, &Arc<str>, i32) {
        self.lane.name()
    }

    /// Appends it to others, as part of the last one's run if it says the same of the next
    /// record.
    pub(crate) fn join(self, others: &mut Vec<v1::Verdict>) {
        if let Some(last) = others.last_mut() {
            let end = last.last_offset.unwrap_or(last.first_offset);
            let same = v1::Verdict {
                first_offset: self.wire.first_offset,
                last_offset: None,
                ..last.clone()
            };
            if end.checked_add(1) == Some(self.wire.first_offset) && same == self.wire {
                last.last_offset = Some(self.wire.first_offset);
                return;
            }
        }
        others.push(self.wire);
    }
}

/// The longest beginning of `text` within `most` bytes.
fn cut(mut text: String, most: usize) -> String {
    text.truncate(text.floor_char_boundary(most));
    text
}

impl fmt::Debug for Lease {
    /// Without the record: it does not belong in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("topic", &self.lane.topic)
            .field("partition", &self.lane.partition)
            .field("offset", &self.record.offset)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn leases(offsets: &[i64]) -> Vec<Lease> {
        let record = |offset: &i64| v1::Record {
            offset: *offset,
            ..v1::Record::default()
        };
        Lease::all_of(v1::Batch {
            lane: 7,
            topic: "orders".to_owned(),
            records: offsets.iter().map(record).collect(),
            redeliveries: vec![v1::Redelivery {
                first_offset: 5,
                last_offset: 5,
                attempt: 2,
                delivery: 3,
            }],
            traces: vec![v1::RecordTrace {
                offset: 4,
                traceparent: TRACE.to_owned(),
                tracestate: String::new(),
            }],
            ..v1::Batch::default()
        })
    }

    #[test]
    fn equal_verdicts_on_records_that_follow_each_other_are_one_run() {
        let leases = leases(&[1, 2, 4, 5, 6]);
        assert_eq!((leases[3].attempt(), leases[3].delivery_number()), (2, 3));
        let mut wire = Vec::new();
        for lease in &leases {
            lease.acked().join(&mut wire);
        }
        leases[4].released().join(&mut wire);
        let runs: Vec<_> = wire
            .iter()
            .map(|it| (it.first_offset, it.last_offset, it.delivery))
            .collect();
        assert_eq!(
            runs,
            [
                (1, Some(2), Some(1)),
                (4, None, Some(1)),
                (5, None, Some(3)),
                (6, None, Some(1)),
                (6, None, Some(1)),
            ]
        );
    }

    #[test]
    fn lease_of_a_traced_record_has_the_gateways_span() {
        let leases = leases(&[1, 4]);
        let context = leases[1].trace_context().expect("a context");
        assert_eq!(context.to_string(), TRACE);
        assert_eq!(leases[0].trace_context(), None);
    }

    #[test]
    fn code_and_reason_are_cut_at_a_character() {
        let [lease, ..] = &leases(&[1])[..] else {
            panic!("one record")
        };
        let verdict = lease.rejected("é".repeat(100), "x".repeat(2000));
        assert_eq!(verdict.wire.code.len(), 128);
        assert_eq!(verdict.wire.reason.len(), 1024);
        let verdict = lease.rejected(format!("x{}", "é".repeat(100)), "");
        assert_eq!(verdict.wire.code.len(), 127);
    }
}
