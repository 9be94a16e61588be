//! Records as a subscriber gets them.

use ackgate_proto::v1::{Batch, Outcome, Record, Verdict};

/// One record with everything that its batch said about it.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    /// The lane as verdicts name it.
    pub(crate) lane: u64,
    /// Where it comes from.
    pub(crate) partition: i32,
    /// Its offset.
    pub(crate) offset: i64,
    /// Number of the attempt.
    pub(crate) attempt: u32,
    /// Number of the delivery.
    pub(crate) delivery: u32,
    /// Everything else.
    pub(crate) record: Record,
}

impl Received {
    /// The value as text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(self.record.value.as_deref().unwrap_or_default()).unwrap()
    }

    /// A verdict on it.
    pub(crate) fn verdict(&self, outcome: Outcome) -> Verdict {
        Verdict {
            lane: self.lane,
            first_offset: self.offset,
            outcome: outcome.into(),
            ..Verdict::default()
        }
    }
}

/// The records of a batch.
pub(super) fn unpack(batch: Batch) -> impl Iterator<Item = Received> {
    let Batch {
        lane,
        partition,
        records,
        redeliveries,
        ..
    } = batch;
    records.into_iter().map(move |record| {
        let offset = record.offset;
        let (attempt, delivery) = redeliveries
            .iter()
            .find(|run| (run.first_offset..=run.last_offset).contains(&offset))
            .map_or((1, 1), |run| (run.attempt, run.delivery));
        Received {
            lane,
            partition,
            offset,
            attempt,
            delivery,
            record,
        }
    })
}
