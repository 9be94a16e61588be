//! The ack map: what is settled above a lane's floor, and how often the unsettled
//! records were tried, as data that travels with the committed position.
//!
//! **Boundary**: data and its bytes ([`AckMap::encode`], [`AckMap::decode`]); the text
//! that Kafka stores is the caller's, and what a lane makes of a map is the lane's.
//! **Invariant**: a map never says more than is true. What does not fit is left out,
//! and [`Encoded::covered`] says from where on; what cannot be trusted is a [`Doubt`].

mod bits;
mod checksum;
mod decode;
mod encode;

pub(crate) use encode::bound;

use std::fmt;

use crate::{Epoch, OffsetRange, Position};

/// The most bytes a map ever has: 4,096 characters of base64, which is what brokers
/// accept of metadata by default.
pub const MAX_MAP_BYTES: usize = 3072;

/// The longest run of settled records in a map, and the largest offset span of a lane
/// whose plain bitset fits [`MAX_MAP_BYTES`] whatever else is in the map's head.
pub const MAX_MAP_SPAN: u64 = 24_000;

/// The least bytes in which a map is worth writing: its head takes up to 37.
pub const MIN_MAP_BYTES: usize = 96;

/// First bytes of every map.
const MAGIC: [u8; 2] = *b"ag";

/// The one version that exists.
const VERSION: u8 = 1;

/// Magic, version, flags, checksum.
const FIXED: usize = 8;

/// The head carries a topic id.
const TOPIC: u8 = 1;
/// The settled part is a bitset instead of run lengths.
const BITSET: u8 = 2;
/// Flags that a reader knows; with any other it cannot tell what follows.
const KNOWN: u8 = TOPIC | BITSET;

/// What a lane remembers across assignments besides its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AckMap {
    /// The committed position that the map belongs to.
    pub floor: Position,
    /// The lane's history.
    pub epoch: Epoch,
    /// Hash of the topic's id; 0 if that is not known.
    pub topic: u64,
    /// Settled runs at or above the floor: ascending, no two touching.
    pub settled: Vec<OffsetRange>,
    /// Unsettled runs that were tried before: ascending, no two sharing an offset.
    pub counters: Vec<Counters>,
}

/// How often the records of a run were tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    /// The records, all unsettled and with the same numbers.
    pub range: OffsetRange,
    /// Failed verdicts and expiries.
    pub attempts: u32,
    /// Hand-overs.
    pub deliveries: u32,
    /// Hand-overs that ended with their subscriber.
    pub lost: u32,
    /// Hand-overs that a failure below voided: no step towards exhaustion.
    pub voided: u32,
}

/// A map as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// At most as many as were allowed.
    pub bytes: Vec<u8>,
    /// Every settled record below this is in the bytes or below the floor.
    pub covered: Position,
}

/// Why a map is not used. Then everything from the position on is delivered again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// It does not begin like a map, or is not text that a map is written in: another
    /// program's.
    Magic,
    /// A newer gateway wrote it.
    Version {
        /// Its version.
        found: u8,
    },
    /// Its checksum does not match.
    Checksum,
    /// It belongs to another position.
    Floor {
        /// The position it belongs to.
        found: Position,
    },
    /// It belongs to another topic of the same name.
    Topic,
    /// It ends too early.
    Truncated,
    /// It is longer than any map, or goes on after its end.
    TooLong,
    /// Its numbers cannot be true.
    Lengths,
}

impl AckMap {
    /// A map that says nothing but where it belongs.
    #[must_use]
    pub const fn empty(floor: Position, epoch: Epoch, topic: u64) -> Self {
        Self {
            floor,
            epoch,
            topic,
            settled: Vec::new(),
            counters: Vec::new(),
        }
    }

    /// Checks that the map belongs to the committed `position` of the topic with the
    /// id hash `topic` (0: not known, which matches any).
    ///
    /// # Errors
    ///
    /// [`Doubt::Floor`] or [`Doubt::Topic`].
    pub fn belongs_to(&self, position: Position, topic: u64) -> Result<(), Doubt> {
        if self.topic != 0 && topic != 0 && self.topic != topic {
            Err(Doubt::Topic)
        } else if self.floor != position {
            Err(Doubt::Floor { found: self.floor })
        } else {
            Ok(())
        }
    }

    /// The end of the highest record that the map speaks of; the floor if of none.
    #[must_use]
    pub fn end(&self) -> Position {
        let settled = self.settled.last().map(|range| range.end());
        let tried = self.counters.last().map(|counters| counters.range.end());
        settled.max(tried).unwrap_or(self.floor).max(self.floor)
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic => f.write_str("another program's metadata"),
            Self::Version { found } => write!(f, "version {found}, newer than {VERSION}"),
            Self::Checksum => f.write_str("its checksum does not match"),
            Self::Floor { found } => write!(f, "it belongs to position {found}"),
            Self::Topic => f.write_str("it belongs to another topic of the same name"),
            Self::Truncated => f.write_str("it ends too early"),
            Self::TooLong => f.write_str("it is too long"),
            Self::Lengths => f.write_str("its numbers cannot be true"),
        }
    }
}

impl std::error::Error for Doubt {}

#[cfg(test)]
mod tests;
