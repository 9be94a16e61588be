//! [`Bodies`]: the encoded records of one lane that are not settled yet, in the
//! chunks in which they were fetched.
//!
//! **Invariant**: a chunk is kept until its last record is settled, and its bytes
//! count in full until then: what is counted is what is held in memory.

use std::{collections::BTreeMap, sync::Arc, time::SystemTime};

use ackgate_lane::{Offset, OffsetRange, Position};
use bytes::Bytes;

use crate::broker::{Chunk, RecordIndex};

/// One hand-over of a part of a chunk.
#[derive(Clone, Debug)]
struct HandOver {
    range: OffsetRange,
    at: SystemTime,
    to: Arc<str>,
}

#[derive(Debug)]
struct Stored {
    records: Vec<RecordIndex>,
    bytes: Bytes,
    /// Records not settled yet.
    live: usize,
    /// For the dead letters' headers; in order of time.
    hand_overs: Vec<HandOver>,
}

/// When and to whom a record was handed over, first and last.
#[derive(Clone, Debug)]
pub(super) struct History {
    pub(super) first: SystemTime,
    pub(super) last: SystemTime,
    pub(super) last_to: Arc<str>,
}

/// Records and bytes of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) records: u64,
    pub(super) bytes: u64,
}

/// Retained records of one lane, by the first offset of their chunk.
#[derive(Debug, Default)]
pub(super) struct Bodies {
    chunks: BTreeMap<u64, Stored>,
    retained: u64,
}

impl Stored {
    /// Indexes of the records within `range`.
    fn within(&self, range: OffsetRange) -> std::ops::Range<usize> {
        let from = self
            .records
            .partition_point(|r| r.offset < range.first().get());
        let to = self
            .records
            .partition_point(|r| r.offset < range.end().get());
        from..to.max(from)
    }

    fn start_of(&self, index: usize) -> usize {
        index
            .checked_sub(1)
            .and_then(|i| self.records.get(i))
            .map_or(0, |r| r.end as usize)
    }

    fn slice(&self, indexes: &std::ops::Range<usize>) -> Bytes {
        let start = self.start_of(indexes.start);
        let end = self.start_of(indexes.end);
        self.bytes.slice(start..end.max(start))
    }
}

impl Bodies {
    /// Bytes held.
    pub(super) const fn retained(&self) -> u64 {
        self.retained
    }

    /// Keeps a chunk's records, which lie above all that are kept.
    pub(super) fn insert(&mut self, chunk: Chunk) {
        let Some(first) = chunk.records.first().map(|r| r.offset) else {
            return;
        };
        self.retained += chunk.bytes.len() as u64;
        let live = chunk.records.len();
        let stored = Stored {
            records: chunk.records,
            bytes: chunk.bytes,
            live,
            hand_overs: Vec::new(),
        };
        if let Some(old) = self.chunks.insert(first, stored) {
            self.retained = self.retained.saturating_sub(old.bytes.len() as u64);
        }
    }

    /// Chunks that hold a part of `range`.
    fn touching(&self, range: OffsetRange) -> impl Iterator<Item = (&u64, &Stored)> {
        let begin = self
            .chunks
            .range(..=range.first().get())
            .next_back()
            .map_or_else(|| range.first().get(), |(first, _)| *first);
        self.chunks.range(begin..range.end().get())
    }

    /// Records and bytes of `range`.
    pub(super) fn size(&self, range: OffsetRange) -> Size {
        let mut size = Size::default();
        for (_, stored) in self.touching(range) {
            let within = stored.within(range);
            size.records += within.len() as u64;
            size.bytes += (stored.start_of(within.end) - stored.start_of(within.start)) as u64;
        }
        size
    }

    /// The longest beginning of `range` with at most `records` records and `bytes`
    /// bytes; at least one record, however large.
    pub(super) fn cut(&self, range: OffsetRange, records: u64, bytes: u64) -> (OffsetRange, Size) {
        let mut size = Size::default();
        let mut end = range.first().next();
        for (_, stored) in self.touching(range) {
            let within = stored.within(range);
            let base = stored.start_of(within.start) as u64;
            let room = bytes.saturating_sub(size.bytes);
            let most = usize::try_from(records.saturating_sub(size.records)).unwrap_or(usize::MAX);
            let candidates = stored.records.get(within.clone()).unwrap_or_default();
            let fits = candidates
                .partition_point(|r| u64::from(r.end) - base <= room)
                .min(most);
            let taken = if size.records == 0 { fits.max(1) } else { fits };
            if let Some(last) = taken.checked_sub(1).and_then(|i| candidates.get(i)) {
                size.records += taken as u64;
                size.bytes += u64::from(last.end) - base;
                end = Offset::new(last.offset).next();
            }
            if taken < candidates.len() {
                break;
            }
        }
        (OffsetRange::new(range.first(), end).unwrap_or(range), size)
    }

    /// Appends the encoded records of `range` to `slices`.
    pub(super) fn slices(&self, range: OffsetRange, slices: &mut Vec<Bytes>) {
        for (_, stored) in self.touching(range) {
            let within = stored.within(range);
            if !within.is_empty() {
                slices.push(stored.slice(&within));
            }
        }
    }

    /// The records of `range`.
    pub(super) fn within(&self, range: OffsetRange) -> impl Iterator<Item = &RecordIndex> {
        self.touching(range).flat_map(move |(_, stored)| {
            stored.records.get(stored.within(range)).unwrap_or_default()
        })
    }

    /// Offsets within `range` that exist.
    pub(super) fn offsets(&self, range: OffsetRange) -> Vec<Offset> {
        self.within(range)
            .map(|record| Offset::new(record.offset))
            .collect()
    }

    /// The encoded record at `offset`, with its field key and length.
    pub(super) fn record(&self, offset: Offset) -> Option<Bytes> {
        let mut slices = Vec::with_capacity(1);
        self.slices(OffsetRange::one(offset), &mut slices);
        slices.pop()
    }

    /// Remembers that `range` was handed over.
    pub(super) fn handed_over(&mut self, range: OffsetRange, at: SystemTime, to: &Arc<str>) {
        let firsts: Vec<u64> = self.touching(range).map(|(first, _)| *first).collect();
        for first in firsts {
            if let Some(stored) = self.chunks.get_mut(&first) {
                stored.hand_overs.push(HandOver {
                    range,
                    at,
                    to: Arc::clone(to),
                });
            }
        }
    }

    /// When and to whom the record at `offset` was handed over.
    pub(super) fn history(&self, offset: Offset) -> Option<History> {
        let (_, stored) = self.touching(OffsetRange::one(offset)).next()?;
        let mut of = stored
            .hand_overs
            .iter()
            .filter(|h| h.range.contains(offset));
        let first = of.next()?;
        let last = of.next_back().unwrap_or(first);
        Some(History {
            first: first.at,
            last: last.at,
            last_to: Arc::clone(&last.to),
        })
    }

    /// Lets go of settled records.
    pub(super) fn release(&mut self, range: OffsetRange) {
        let touched: Vec<(u64, usize)> = self
            .touching(range)
            .map(|(first, stored)| (*first, stored.within(range).len()))
            .collect();
        for (first, settled) in touched {
            if let Some(stored) = self.chunks.get_mut(&first) {
                stored.live = stored.live.saturating_sub(settled);
                if stored.live == 0 {
                    self.retained = self.retained.saturating_sub(stored.bytes.len() as u64);
                    self.chunks.remove(&first);
                }
            }
        }
    }

    /// Lets go of chunks that lie below the floor: all of their records are settled.
    pub(super) fn release_below(&mut self, floor: Position) {
        while let Some(entry) = self.chunks.first_entry() {
            let last = entry.get().records.last().map_or(0, |r| r.offset);
            if last >= floor.get() {
                break;
            }
            self.retained = self.retained.saturating_sub(entry.get().bytes.len() as u64);
            entry.remove();
        }
    }

    /// Forgets everything: what is unsettled will be fetched again.
    pub(super) fn clear(&mut self) {
        self.chunks.clear();
        self.retained = 0;
    }
}
