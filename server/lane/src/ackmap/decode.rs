//! From bytes to a map, or a doubt.
//!
//! **Invariant**: memory is bounded by the length of what is read, whatever it says.

use super::{
    AckMap, BITSET, Counters, Doubt, FIXED, KNOWN, MAGIC, MAX_MAP_BYTES, MAX_MAP_SPAN, TOPIC,
    VERSION, bits::Reader, checksum,
};
use crate::{Epoch, Offset, OffsetRange, Position};

impl AckMap {
    /// Reads a map.
    ///
    /// # Errors
    ///
    /// What is wrong with it; any doubt is one.
    pub fn decode(bytes: &[u8]) -> Result<Self, Doubt> {
        if !bytes.starts_with(&MAGIC) {
            return Err(Doubt::Magic);
        }
        let mut reader = Reader::new(bytes);
        let head: [u8; FIXED] = reader
            .take(FIXED)?
            .try_into()
            .map_err(|_other_length| Doubt::Truncated)?;
        let [_, _, version, flags, checksum @ ..] = head;
        // A newer version may be longer, and have its checksum elsewhere.
        if version > VERSION {
            return Err(Doubt::Version { found: version });
        }
        if bytes.len() > MAX_MAP_BYTES {
            return Err(Doubt::TooLong);
        }
        let body = bytes.get(FIXED..).unwrap_or_default();
        if checksum::crc32(&[&[version, flags], body]) != u32::from_le_bytes(checksum) {
            return Err(Doubt::Checksum);
        }
        if version != VERSION || flags & !KNOWN != 0 {
            return Err(Doubt::Lengths);
        }
        Self::body(&mut reader, flags)
    }

    fn body(reader: &mut Reader<'_>, flags: u8) -> Result<Self, Doubt> {
        let topic = if flags & TOPIC == 0 {
            0
        } else {
            let id = reader.take(8)?.try_into();
            u64::from_le_bytes(id.map_err(|_other_length| Doubt::Truncated)?)
        };
        let floor = Position::new(reader.number()?);
        if floor.get() > i64::MAX.unsigned_abs() {
            return Err(Doubt::Lengths);
        }
        let epoch = Epoch(reader.number()?);
        let settled = if flags & BITSET == 0 {
            run_lengths(reader, floor)?
        } else {
            bitset(reader, floor)?
        };
        let counters = counters(reader, floor)?;
        if reader.left() > 0 {
            return Err(Doubt::TooLong);
        }
        Ok(Self {
            floor,
            epoch,
            topic,
            settled,
            counters,
        })
    }
}

/// A count of items that take at least `least` bytes each.
fn count(reader: &mut Reader<'_>, least: usize) -> Result<usize, Doubt> {
    let count = usize::try_from(reader.number()?).map_err(|_too_large| Doubt::Lengths)?;
    if count > reader.left() / least {
        return Err(Doubt::Truncated);
    }
    Ok(count)
}

/// The next run, which begins `gap` or more offsets after `end`.
fn run(reader: &mut Reader<'_>, end: Position) -> Result<OffsetRange, Doubt> {
    let (gap, length) = (reader.number()?, reader.number()?);
    let first = end.get().checked_add(gap).ok_or(Doubt::Lengths)?;
    let after = first.checked_add(length).ok_or(Doubt::Lengths)?;
    if length > MAX_MAP_SPAN || after > i64::MAX.unsigned_abs() {
        return Err(Doubt::Lengths);
    }
    OffsetRange::new(Offset::new(first), Position::new(after)).ok_or(Doubt::Lengths)
}

fn run_lengths(reader: &mut Reader<'_>, floor: Position) -> Result<Vec<OffsetRange>, Doubt> {
    let count = count(reader, 2)?;
    let mut runs: Vec<OffsetRange> = Vec::with_capacity(count);
    for _ in 0..count {
        let last = runs.last().map(|last| last.end());
        let range = run(reader, last.unwrap_or(floor))?;
        if last == Some(range.first().position()) {
            return Err(Doubt::Lengths);
        }
        runs.push(range);
    }
    Ok(runs)
}

fn bitset(reader: &mut Reader<'_>, floor: Position) -> Result<Vec<OffsetRange>, Doubt> {
    let size = count(reader, 1)?;
    let set = reader.take(size)?;
    let mut runs: Vec<OffsetRange> = Vec::new();
    let bits = set
        .iter()
        .flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1));
    for (offset, bit) in (floor.get()..).map(Offset::new).zip(bits) {
        if !bit {
            continue;
        }
        match runs.last_mut() {
            Some(last) if last.end() == offset.position() => {
                *last = OffsetRange::inclusive(last.first(), offset).ok_or(Doubt::Lengths)?;
            }
            Some(_) | None => runs.push(OffsetRange::one(offset)),
        }
    }
    Ok(runs)
}

fn counters(reader: &mut Reader<'_>, floor: Position) -> Result<Vec<Counters>, Doubt> {
    let count = count(reader, 6)?;
    let mut runs = Vec::with_capacity(count);
    let mut end = floor;
    for _ in 0..count {
        let range = run(reader, end)?;
        end = range.end();
        runs.push(Counters {
            range,
            attempts: reader.small()?,
            deliveries: reader.small()?,
            lost: reader.small()?,
            voided: reader.small()?,
        });
    }
    Ok(runs)
}
