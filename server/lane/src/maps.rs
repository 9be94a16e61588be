//! A lane's ack map: built when a commit is due, taken back at the start.
//!
//! **Invariant**: what a lane hands out never makes its settled part outgrow the room
//! that a commit has for it: near that bound only older records go out.

use std::collections::VecDeque;

use crate::{
    AckMap, Counters, Doubt, Encoded, Epoch, Lane, Letter, MIN_MAP_BYTES, OffsetRange, Position,
    ackmap, atomic,
    slot::{Outcome, Slot, State},
};

/// What a lane is told of ack maps when it begins. The default: none are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapStart {
    /// The most bytes of a map in one commit; below [`MIN_MAP_BYTES`] only the
    /// position is committed.
    pub most_bytes: usize,
    /// Hash of the topic's id; 0 if it is not known.
    pub topic: u64,
    /// What was read from the commit where the lane begins.
    pub restored: Option<AckMap>,
    /// Why nothing could be read, if something was there.
    pub doubt: Option<Doubt>,
}

/// A lane's ack map as operators see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapView {
    /// The most bytes of a map in one commit, less after a broker has refused one; 0:
    /// only the position is committed.
    pub most_bytes: usize,
    /// At least as much as the settled part takes now.
    pub bytes: usize,
    /// Only records up to the highest one handed out or settled may go out.
    pub is_full: bool,
    /// Why the map that was found at the start was not used.
    pub doubt: Option<Doubt>,
}

/// What a lane keeps for its maps.
#[derive(Debug)]
pub(crate) struct Maps {
    most: usize,
    topic: u64,
    doubt: Option<Doubt>,
    /// Nothing above this has settled.
    settled_end: Position,
    /// Nothing above this has been handed out, now or before a restart. May lie below
    /// what has settled: policy settles records that nobody was handed.
    handed_out: Position,
    /// The next commit goes without a map.
    alone: bool,
    /// The maps of the last requests by number: two, since a drain may end, and ask, in
    /// the turn that asked for another.
    asked: VecDeque<(u64, Vec<u8>)>,
}

impl Maps {
    pub(crate) const fn new(most: usize, topic: u64, doubt: Option<Doubt>) -> Self {
        Self {
            most: if most < MIN_MAP_BYTES { 0 } else { most },
            topic,
            doubt,
            settled_end: Position::new(0),
            handed_out: Position::new(0),
            alone: false,
            asked: VecDeque::new(),
        }
    }

    /// Whether maps are written.
    pub(crate) const fn are_on(&self) -> bool {
        self.most > 0
    }

    /// Whether the next commit goes without a map, whatever it would say.
    pub(crate) const fn is_alone(&self) -> bool {
        self.alone
    }

    /// The same, once.
    pub(crate) const fn take_alone(&mut self) -> bool {
        std::mem::replace(&mut self.alone, false)
    }

    pub(crate) fn note_settled(&mut self, range: OffsetRange) {
        self.settled_end = self.settled_end.max(range.end());
    }

    pub(crate) fn note_handed_out(&mut self, range: OffsetRange) {
        self.handed_out = self.handed_out.max(range.end());
    }

    /// A broker has refused a map: the next commit goes without one, later ones with
    /// half as much. Returns how much that is.
    pub(crate) const fn shrink(&mut self) -> usize {
        let half = self.most / 2;
        self.most = if half < MIN_MAP_BYTES { 0 } else { half };
        self.alone = true;
        self.most
    }
}

impl Lane {
    /// The map that commit `serial` carries, as bytes; `None` if it carries none or is
    /// none of the last two.
    #[must_use]
    pub fn commit_map(&self, serial: u64) -> Option<&[u8]> {
        let mut asked = self.maps.asked.iter();
        asked
            .find(|(of, _)| *of == serial)
            .map(|(_, bytes)| bytes.as_slice())
    }

    /// Begins with what an earlier assignment left, if it belongs here; the epoch that
    /// the lane is in.
    pub(crate) fn restore(&mut self, position: Option<Position>, map: AckMap) -> Epoch {
        let belongs = match position {
            Some(position) => map.belongs_to(position, self.maps.topic),
            None => Err(Doubt::Floor { found: map.floor }),
        };
        if let Err(doubt) = belongs {
            self.maps.doubt = Some(doubt);
            // Somebody moved the position, or made the topic anew: another history.
            return Epoch(map.epoch.0.saturating_add(1));
        }
        if let Some(encoded) = map.encode(usize::MAX) {
            self.commits
                .begin_with(fingerprint(&encoded.bytes), Position::new(u64::MAX));
        }
        let end = map.end();
        (self.maps.settled_end, self.maps.handed_out) = (end, end);
        for tried in map.counters {
            let slot = Slot {
                attempts: tried.attempts,
                deliveries: tried.deliveries,
                lost: tried.lost,
                voided: tried.voided,
                state: State::Unread { late: None },
            };
            self.window.set(tried.range, slot);
        }
        for range in map.settled {
            self.window.set(range, Slot::settled(Outcome::Acked));
            // It may have been promised; so whatever is committed must say it again.
            self.confirmations.promise(range.end());
        }
        map.epoch
    }

    /// The part of `range`, ready to go out, that may go out while the map is as full
    /// as it is.
    ///
    /// What settles below the settled end makes the map no longer than its bound. So the
    /// record at the floor may always go out, also where records that nobody was handed,
    /// as filtered ones, have filled the map above it.
    pub(crate) fn within_map(&self, range: OffsetRange) -> Option<OffsetRange> {
        if self.map_is_full() {
            range.below(self.maps.handed_out.max(self.maps.settled_end))
        } else {
            Some(range)
        }
    }

    pub(crate) fn map_view(&self) -> MapView {
        MapView {
            most_bytes: self.maps.most,
            bytes: if self.maps.are_on() {
                self.map_bound()
            } else {
                0
            },
            is_full: self.map_is_full(),
            doubt: self.maps.doubt,
        }
    }

    /// The map to commit with `floor`, if one is to be and the position does not go
    /// `alone`; and below what everything settled is known to Kafka then. `letters`, in
    /// offset order, count as settled.
    pub(crate) fn map_for(
        &self,
        floor: Position,
        alone: bool,
        letters: &[Letter],
    ) -> (Option<Encoded>, Position) {
        if !self.maps.are_on() || alone {
            return (None, floor);
        }
        match self.ack_map(floor, letters).encode(self.maps.most) {
            Some(encoded) => {
                let covered = encoded.covered.max(floor);
                (Some(encoded), covered)
            }
            None => (None, floor),
        }
    }

    /// Keeps the map of request `serial` until it has been taken.
    pub(crate) fn keep_map(&mut self, serial: u64, map: Option<Encoded>) {
        let asked = &mut self.maps.asked;
        asked.retain(|(of, _)| of + 1 == serial);
        asked.extend(map.map(|map| (serial, map.bytes)));
    }

    fn ack_map(&self, floor: Position, letters: &[Letter]) -> AckMap {
        let mut map = AckMap::empty(floor, self.epoch, self.maps.topic);
        for (run, slot) in self.window.runs() {
            let Some(range) = run.at_or_above(floor) else {
                continue;
            };
            if matches!(slot.state, State::Settled { .. }) {
                add_settled(&mut map.settled, range);
                continue;
            }
            for (part, is_letter) in atomic::parts(range, letters) {
                if is_letter {
                    add_settled(&mut map.settled, part);
                } else if slot.deliveries > 0 || slot.attempts > 0 {
                    add_tried(&mut map.counters, part, slot);
                }
            }
        }
        map
    }

    /// An upper bound of the map's settled part, without a look at it.
    fn map_bound(&self) -> usize {
        let floor = self.floor().unwrap_or(Position::new(0));
        let end = self.maps.settled_end.max(floor);
        ackmap::bound(floor, end, self.window.settled_runs())
    }

    fn map_is_full(&self) -> bool {
        self.maps.are_on()
            && self.window.settled_runs() > 0
            && self.map_bound().saturating_mul(5) >= self.maps.most.saturating_mul(4)
    }
}

fn add_settled(settled: &mut Vec<OffsetRange>, range: OffsetRange) {
    if let Some(last) = settled.last_mut()
        && last.end() == range.first().position()
        && let Some(joined) = OffsetRange::new(last.first(), range.end())
    {
        *last = joined;
    } else {
        settled.push(range);
    }
}

/// Records in different states often have the same numbers.
fn add_tried(tried: &mut Vec<Counters>, range: OffsetRange, slot: Slot) {
    let next = Counters {
        range,
        attempts: slot.attempts,
        deliveries: slot.deliveries,
        lost: slot.lost,
        voided: slot.voided,
    };
    if let Some(last) = tried.last_mut()
        && last.range.end() == range.first().position()
        && let Some(joined) = OffsetRange::new(last.range.first(), range.end())
        && (Counters { range, ..*last }) == next
    {
        last.range = joined;
    } else {
        tried.push(next);
    }
}

/// The fingerprint of a map; 0 for none.
pub(crate) fn fingerprint_of(map: Option<&Encoded>) -> u64 {
    map.map_or(0, |map| fingerprint(&map.bytes))
}

/// Tells maps apart, never 0 (FNV-1a). Equal ones are not committed twice.
pub(crate) fn fingerprint(bytes: &[u8]) -> u64 {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Offset;

    #[test]
    fn neighbours_with_equal_numbers_are_one_entry() {
        let run = |first, end| {
            OffsetRange::new(Offset::new(first), Position::new(end)).expect("not empty")
        };
        let tried = |attempts| Slot {
            attempts,
            deliveries: 1,
            ..Slot::fresh(State::Ready {
                late: None,
                owner: None,
            })
        };
        let mut counters = Vec::new();
        add_tried(&mut counters, run(0, 5), tried(1));
        add_tried(&mut counters, run(5, 9), tried(1));
        add_tried(&mut counters, run(9, 10), tried(2));
        add_tried(&mut counters, run(12, 13), tried(2));
        let ranges: Vec<_> = counters.iter().map(|run| run.range).collect();
        assert_eq!(ranges, [run(0, 9), run(9, 10), run(12, 13)]);
    }
}
