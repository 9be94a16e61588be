//! [`Gate`]: chunks of one lane whose records are too young to be handed out, or are
//! not to be before a time of their own.
//!
//! A record passes once it is `min_age` old by its timestamp, to the millisecond, or
//! once it has waited `min_age` since it arrived, whichever comes first: so a producer
//! whose clock is ahead, or a gateway's clock that steps back, delays a record by
//! `min_age` at most (FC-114). Records pass in offset order; an older one behind a
//! young one waits for it.
//!
//! A record with a time of its own passes at that time of the wall clock, however that
//! steps; its lane's later records wait behind it, other lanes do not.
//!
//! **Invariant**: what is counted is what is held in memory. A part of a chunk is
//! copied when it passes, and the whole buffer counts until its last record has.

use std::{collections::VecDeque, time::Duration};

use ackgate_lane::Time;
use bytes::Bytes;

use super::age;
use crate::broker::{Chunk, RecordIndex};

/// Records beyond which nothing more is fetched while some are held: enough to go on
/// with while the next ones come.
const READ_AHEAD: u32 = 64;

/// The wall clock is looked at this often while something waits, since it may step.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What waits, in offset order.
#[derive(Debug, Default)]
pub(in crate::consumer) struct Gate {
    held: VecDeque<Held>,
    records: u64,
    bytes: u64,
    due: Option<Time>,
}

#[derive(Debug)]
struct Held {
    chunk: Chunk,
    arrived: Time,
    /// For each record the time before which it does not pass, in milliseconds since
    /// the Unix epoch; `None`: their age decides.
    not_before: Option<Vec<i64>>,
    /// Records that have passed.
    passed: usize,
}

impl Gate {
    /// Bytes held.
    pub(in crate::consumer) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Records that wait.
    pub(in crate::consumer) const fn records(&self) -> u64 {
        self.records
    }

    /// The timestamp of the first record that waits, and when it came.
    pub(in crate::consumer) fn oldest(&self) -> Option<(i64, Time)> {
        let front = self.held.front()?;
        let record = front.chunk.records.get(front.passed)?;
        Some((record.timestamp_ms, front.arrived))
    }

    /// How many more records may be fetched, given that `room` may otherwise.
    pub(in crate::consumer) fn room(&self, room: u32) -> u32 {
        let held = u32::try_from(self.records).unwrap_or(u32::MAX);
        if held == 0 {
            return room;
        }
        room.saturating_sub(held)
            .min(READ_AHEAD.saturating_sub(held))
    }

    /// Whether nothing waits.
    pub(in crate::consumer) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether so much waits that nothing more is to come.
    pub(in crate::consumer) fn is_full(&self) -> bool {
        self.records >= READ_AHEAD.into()
    }

    /// When the next record may pass, or the clock is to be looked at again.
    pub(in crate::consumer) const fn due(&self) -> Option<Time> {
        self.due
    }

    /// Forgets everything: it will be read again, or belongs to another gateway.
    pub(in crate::consumer) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Holds records until they are old enough.
    pub(super) fn hold(&mut self, chunk: Chunk, now: Time) {
        self.keep(chunk, now, None);
    }

    /// Holds records until the time of each, in milliseconds since the Unix epoch.
    pub(super) fn hold_until(&mut self, chunk: Chunk, now: Time, not_before: Vec<i64>) {
        self.keep(chunk, now, Some(not_before));
    }

    fn keep(&mut self, chunk: Chunk, now: Time, not_before: Option<Vec<i64>>) {
        self.records += chunk.records.len() as u64;
        self.bytes += chunk.bytes.len() as u64;
        self.held.push_back(Held {
            chunk,
            arrived: now,
            not_before,
            passed: 0,
        });
    }

    /// The next records that may pass, at most those of one chunk. `None` if the first
    /// may not, or there is none; then [`Self::due`] tells when to ask again.
    pub(super) fn release(&mut self, now: Time, wall_ms: i64, min_age: Duration) -> Option<Chunk> {
        self.due = None;
        let front = self.held.front_mut()?;
        let waiting = front.chunk.records.get(front.passed..).unwrap_or_default();
        let waited = now.since(front.arrived);
        let times = front.not_before.as_deref();
        let left = |(at, record): (usize, &RecordIndex)| {
            if let Some(times) = times {
                let time = times.get(front.passed + at).copied().unwrap_or(0);
                let left = u64::try_from(time.saturating_sub(wall_ms)).unwrap_or(0);
                return Duration::from_millis(left);
            }
            let age = age(record.timestamp_ms, wall_ms).map_or(min_age, |age| age.max(waited));
            min_age.saturating_sub(age)
        };
        let each = || waiting.iter().enumerate();
        let old_enough = each().take_while(|one| left(*one).is_zero()).count();
        if old_enough == 0 {
            let wait = each().next().map_or(LOOK_AGAIN, left).min(LOOK_AGAIN);
            self.due = Some(now.after(wait));
            return None;
        }
        self.records = self.records.saturating_sub(old_enough as u64);
        let is_last = old_enough == waiting.len();
        let chunk = front.part(old_enough);
        if is_last {
            let size = front.chunk.bytes.len() as u64;
            self.bytes = self.bytes.saturating_sub(size);
            self.held.pop_front();
        }
        Some(chunk)
    }
}

impl Held {
    /// The next `count` records; the chunk itself if that is all of it.
    fn part(&mut self, count: usize) -> Chunk {
        let records = &self.chunk.records;
        let (from, to) = (self.passed, self.passed + count);
        self.passed = to;
        if from == 0 && to == records.len() {
            return self.chunk.clone();
        }
        let end = |at: usize| {
            let record = at.checked_sub(1).and_then(|at| records.get(at));
            record.map_or(0, |record| record.end)
        };
        let (start, stop) = (end(from), end(to));
        let part = self.chunk.bytes.slice(start as usize..stop as usize);
        Chunk {
            generation: self.chunk.generation,
            seek: self.chunk.seek,
            records: records
                .get(from..to)
                .unwrap_or_default()
                .iter()
                .map(|record| RecordIndex {
                    end: record.end - start,
                    ..*record
                })
                .collect(),
            bytes: Bytes::copy_from_slice(&part),
            polled: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use ackgate_lane::Generation;

    use super::*;

    /// A chunk of records with these timestamps from `first` on, 10 bytes each.
    fn chunk(first: u64, timestamps: &[i64]) -> Chunk {
        let records = (first..).zip(timestamps).zip(1..);
        Chunk {
            generation: Generation(1),
            seek: 0,
            records: records
                .map(|((offset, timestamp), n)| RecordIndex {
                    offset,
                    key: None,
                    timestamp_ms: *timestamp,
                    end: n * 10,
                })
                .collect(),
            bytes: Bytes::from(vec![7; timestamps.len() * 10]),
            polled: None,
        }
    }

    fn at(ms: u64) -> Time {
        Time(Duration::from_millis(ms))
    }

    const MIN: Duration = Duration::from_millis(500);
    const NONE: [u64; 0] = [];

    fn offsets(chunk: Option<Chunk>) -> Vec<u64> {
        let chunk = chunk.into_iter().flat_map(|chunk| {
            assert_eq!(
                chunk.records.last().map(|r| r.end as usize),
                Some(chunk.bytes.len()),
                "ends count from the part's begin"
            );
            chunk.records
        });
        chunk.map(|record| record.offset).collect()
    }

    #[test]
    fn a_record_exactly_old_enough_passes_and_one_a_millisecond_younger_waits() {
        let mut gate = Gate::default();
        gate.hold(chunk(0, &[9_500, 9_501, 9_000]), at(0));
        assert_eq!(offsets(gate.release(at(0), 10_000, MIN)), [0]);
        assert_eq!(offsets(gate.release(at(0), 10_000, MIN)), NONE);
        assert_eq!(gate.due(), Some(at(1)), "behind it an older one waits too");
        assert_eq!((gate.records, gate.bytes()), (2, 30), "the buffer is there");
        assert_eq!(offsets(gate.release(at(1), 10_001, MIN)), [1, 2]);
        assert_eq!((gate.records, gate.bytes(), gate.due()), (0, 0, None));
    }

    #[test]
    fn fc_114_no_clock_holds_a_record_longer_than_min_age_from_its_arrival() {
        // FC-114
        let hour = 3_600_000;
        let mut gate = Gate::default();
        gate.hold(chunk(0, &[hour + 10_000]), at(100));
        assert_eq!(offsets(gate.release(at(100), 10_000, MIN)), NONE);
        assert_eq!(gate.due(), Some(at(600)));
        // The wall clock steps back by an hour meanwhile.
        assert_eq!(offsets(gate.release(at(599), 10_499 - hour, MIN)), NONE);
        assert_eq!(offsets(gate.release(at(600), 10_500 - hour, MIN)), [0]);
    }

    #[test]
    fn fc_114_a_clock_that_steps_forward_is_noticed_within_a_second() {
        // FC-114
        let mut gate = Gate::default();
        let long = Duration::from_secs(3600);
        gate.hold(chunk(0, &[10_000]), at(0));
        assert_eq!(offsets(gate.release(at(0), 10_000, long)), NONE);
        assert_eq!(gate.due(), Some(at(1000)));
        assert_eq!(offsets(gate.release(at(1000), 4_000_000, long)), [0]);
    }

    #[test]
    fn records_with_a_time_of_their_own_pass_then_and_in_order() {
        let mut gate = Gate::default();
        // What age they have means nothing.
        gate.hold_until(chunk(0, &[1; 3]), at(0), vec![0, 10_300, 10_100]);
        gate.hold_until(chunk(3, &[1; 2]), at(0), vec![0, 0]);
        let min = Duration::from_secs(3600);
        assert_eq!(offsets(gate.release(at(0), 10_000, min)), [0]);
        assert_eq!(offsets(gate.release(at(0), 10_000, min)), NONE);
        assert_eq!(gate.due(), Some(at(300)));
        assert_eq!(offsets(gate.release(at(299), 10_299, min)), NONE);
        assert_eq!(offsets(gate.release(at(300), 10_300, min)), [1, 2]);
        assert_eq!(offsets(gate.release(at(300), 10_300, min)), [3, 4]);
        assert_eq!((gate.records, gate.bytes()), (0, 0));
    }

    #[test]
    fn records_without_a_timestamp_are_not_held_back() {
        let mut gate = Gate::default();
        gate.hold(chunk(0, &[0, -1]), at(0));
        assert_eq!(offsets(gate.release(at(0), 10_000, MIN)), [0, 1]);
    }

    #[test]
    fn only_a_small_read_ahead_is_fetched_while_something_waits() {
        let mut gate = Gate::default();
        assert_eq!(gate.room(2000), 2000);
        gate.hold(chunk(0, &[10_000; 10]), at(0));
        assert_eq!(gate.room(2000), READ_AHEAD - 10);
        assert_eq!(gate.room(12), 2);
        assert!(!gate.is_full());
        gate.hold(chunk(10, &[10_000; 60]), at(0));
        assert_eq!(gate.room(2000), 0);
        assert!(gate.is_full());
        gate.clear();
        assert_eq!((gate.room(5), gate.bytes(), gate.due()), (5, 0, None));
    }
}
