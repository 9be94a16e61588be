//! [`Published`]: what is counted of the records that go to one cluster, for whoever
//! scrapes it.
//!
//! Streams write to it once for each run of results and each turn of records, so that
//! records cost it nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use super::ledger::Answered;
use crate::broker::Why;

/// What became of records, and how many bytes were taken.
#[derive(Debug, Default)]
pub struct Published {
    written: AtomicU64,
    refused: AtomicU64,
    timed_out: AtomicU64,
    unavailable: AtomicU64,
    bytes: AtomicU64,
}

/// Counts at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Confirmed by Kafka.
    pub written: u64,
    /// Not written, and never will be as they are.
    pub refused: u64,
    /// Without an answer in time: they may have been written.
    pub timed_out: u64,
    /// Not written, since Kafka or the gateway could not take them then.
    pub unavailable: u64,
    /// Bytes of keys, values and headers that were handed over to be written.
    pub bytes: u64,
}

impl Published {
    /// Bytes have been handed over.
    pub(super) fn took(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Records have been answered.
    pub(super) fn answered<'a>(&self, records: impl IntoIterator<Item = &'a Answered>) {
        let mut counted = Counted::default();
        for record in records {
            let count = match &record.outcome {
                Ok(_placed) => &mut counted.written,
                Err(unwritten) => match unwritten.why {
                    Why::TimedOut => &mut counted.timed_out,
                    Why::Unavailable => &mut counted.unavailable,
                    Why::Invalid
                    | Why::NotAllowed
                    | Why::NotFound
                    | Why::Denied
                    | Why::TooLarge
                    | Why::Refused => &mut counted.refused,
                },
            };
            *count += 1;
        }
        for (total, more) in [
            (&self.written, counted.written),
            (&self.refused, counted.refused),
            (&self.timed_out, counted.timed_out),
            (&self.unavailable, counted.unavailable),
        ] {
            if more > 0 {
                total.fetch_add(more, Ordering::Relaxed);
            }
        }
    }

    /// The counts of now.
    #[must_use]
    pub fn counted(&self) -> Counted {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counted {
            written: of(&self.written),
            refused: of(&self.refused),
            timed_out: of(&self.timed_out),
            unavailable: of(&self.unavailable),
            bytes: of(&self.bytes),
        }
    }
}
