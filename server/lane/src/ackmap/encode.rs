//! From a map to bytes, within a bound.
//!
//! ```text
//! "ag" version flags checksum[4] [topic[8]] floor epoch settled counters
//! settled:  count, then per run: offsets since the end of the last one, length
//!           or, if flagged: bytes, then one bit per offset from the floor on
//! counters: count, then per run: offsets since the end of the last one, length,
//!           attempts, deliveries, lost, voided
//! ```
//!
//! Numbers without a size are variable. The checksum covers all but the magic and itself.

use super::{
    AckMap, BITSET, Counters, Encoded, FIXED, MAGIC, MAX_MAP_BYTES, MAX_MAP_SPAN, TOPIC, VERSION,
    bits, checksum,
};
use crate::Position;

/// The settled part in the shorter of its two forms.
struct Settled {
    bytes: Vec<u8>,
    bitset: bool,
    covered: Position,
}

impl AckMap {
    /// The map in at most `most` bytes (and [`MAX_MAP_BYTES`]); `None` if not even the
    /// head fits.
    ///
    /// What is settled comes first, from the floor up as far as there is room. Of the
    /// counters those of the most tried records are kept.
    #[must_use]
    pub fn encode(&self, most: usize) -> Option<Encoded> {
        let most = most.min(MAX_MAP_BYTES);
        let mut body = Vec::with_capacity(64);
        let mut flags = 0;
        if self.topic != 0 {
            flags |= TOPIC;
            body.extend_from_slice(&self.topic.to_le_bytes());
        }
        bits::put(&mut body, self.floor.get());
        bits::put(&mut body, self.epoch.0);
        // Both counts are always there; a count takes 2 bytes or less.
        let room = most.checked_sub(FIXED + body.len() + 1)?;
        let settled = self.settled(room)?;
        if settled.bitset {
            flags |= BITSET;
        }
        body.extend_from_slice(&settled.bytes);
        let room = most.saturating_sub(FIXED + body.len());
        self.counters(room, &mut body);
        let checksum = checksum::crc32(&[&[VERSION, flags], &body]);
        let mut bytes = Vec::with_capacity(FIXED + body.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[VERSION, flags]);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes.extend_from_slice(&body);
        Some(Encoded {
            bytes,
            covered: settled.covered,
        })
    }

    fn settled(&self, room: usize) -> Option<Settled> {
        let runs = self.run_lengths(room)?;
        let plain = self.bitset(room);
        Some(match plain {
            Some(plain)
                if (plain.covered, runs.bytes.len()) > (runs.covered, plain.bytes.len()) =>
            {
                plain
            }
            Some(_) | None => runs,
        })
    }

    fn run_lengths(&self, room: usize) -> Option<Settled> {
        let mut runs = Vec::new();
        let (mut count, mut end) = (0_u64, self.floor);
        // Up to here no record is missing, whatever comes after.
        let mut covered = Position::new(u64::MAX);
        for range in &self.settled {
            let before = runs.len();
            bits::put(&mut runs, range.first().get().saturating_sub(end.get()));
            bits::put(&mut runs, range.len());
            if runs.len() + bits::length(count + 1) > room || range.len() > MAX_MAP_SPAN {
                runs.truncate(before);
                covered = range.first().position();
                break;
            }
            (count, end) = (count + 1, range.end());
        }
        let mut bytes = Vec::with_capacity(runs.len() + 2);
        bits::put(&mut bytes, count);
        bytes.extend_from_slice(&runs);
        (bytes.len() <= room).then_some(Settled {
            bytes,
            bitset: false,
            covered,
        })
    }

    fn bitset(&self, room: usize) -> Option<Settled> {
        let last = self.settled.last()?.end();
        let wanted = last.get().saturating_sub(self.floor.get()).div_ceil(8);
        // Two bytes say how many follow.
        let size = usize::try_from(wanted)
            .unwrap_or(usize::MAX)
            .min(room.checked_sub(2)?);
        let mut set = vec![0_u8; size];
        let end = Position::new(
            self.floor
                .get()
                .saturating_add(u64::try_from(size).unwrap_or(0).saturating_mul(8)),
        );
        let inside = self.settled.iter().map_while(|range| range.below(end));
        for offset in inside.flat_map(|range| range.first().get()..range.end().get()) {
            let at = offset - self.floor.get();
            if let Some(byte) = usize::try_from(at / 8).ok().and_then(|at| set.get_mut(at)) {
                *byte |= 1 << (at % 8);
            }
        }
        let mut bytes = Vec::with_capacity(size + 2);
        bits::put(&mut bytes, u64::try_from(size).unwrap_or(0));
        bytes.extend_from_slice(&set);
        Some(Settled {
            bytes,
            bitset: true,
            covered: if last <= end {
                Position::new(u64::MAX)
            } else {
                end
            },
        })
    }

    /// Appends the counters that fit into `room`, those of the most tried records first.
    fn counters(&self, room: usize, body: &mut Vec<u8>) {
        let mut ranked: Vec<&Counters> = self.counters.iter().collect();
        ranked.sort_by_key(|run| {
            let Counters {
                attempts,
                lost,
                deliveries,
                ..
            } = **run;
            std::cmp::Reverse((attempts, lost, deliveries))
        });
        // Two bytes count them; a third never is needed, as a run takes six.
        let mut left = room.saturating_sub(2);
        ranked.retain(|run| {
            let size = self.size(run);
            let fits = size <= left && run.range.len() <= MAX_MAP_SPAN;
            left -= if fits { size } else { 0 };
            fits
        });
        ranked.sort_by_key(|run| run.range.first());
        bits::put(body, u64::try_from(ranked.len()).unwrap_or(0));
        let mut end = self.floor;
        for run in ranked {
            let gap = run.range.first().get().saturating_sub(end.get());
            bits::put(body, gap);
            bits::put(body, run.range.len());
            for number in [run.attempts, run.deliveries, run.lost, run.voided] {
                bits::put(body, u64::from(number));
            }
            end = run.range.end();
        }
    }

    /// At most this many bytes: the gap to the run before is no longer than that to
    /// the floor.
    fn size(&self, run: &Counters) -> usize {
        let gap = run.range.first().get().saturating_sub(self.floor.get());
        let numbers = [run.attempts, run.deliveries, run.lost, run.voided];
        let numbers = numbers.into_iter().map(u64::from);
        [gap, run.range.len()]
            .into_iter()
            .chain(numbers)
            .map(bits::length)
            .sum()
    }
}

/// An upper bound of the settled part: of `runs` runs that end before `end`.
pub(crate) fn bound(floor: Position, end: Position, runs: usize) -> usize {
    let span = end.get().saturating_sub(floor.get());
    let plain = usize::try_from(span.div_ceil(8)).unwrap_or(usize::MAX);
    let lengths = runs.saturating_mul(2 * bits::length(span));
    plain.min(lengths).saturating_add(MAX_HEAD)
}

/// Everything but the runs: fixed part, topic, floor, epoch and the two counts.
const MAX_HEAD: usize = FIXED + 8 + 9 + 9 + 3 + 2;
