//! Numbers with a meaning of their own, so that none is taken for another.

use std::{fmt, time::Duration};

/// Offset of a record in its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(u64);

/// The next offset to read or to commit: never that of the last record read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(u64);

/// Number of one assignment of a lane to this gateway; fences late input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

/// Number of the lane's history as operators see it; a reset starts a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// Number of a subscriber: the same over all its streams, for as long as anything is out
/// to it; unique within its subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subscriber(pub u64);

/// Time since some fixed start, the same for all lanes of a gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub Duration);

/// A run of offsets, never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OffsetRange {
    first: Offset,
    end: Position,
}

impl Offset {
    /// Names the record at `offset`.
    #[must_use]
    pub const fn new(offset: u64) -> Self {
        Self(offset)
    }

    /// The plain number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The position after this record.
    #[must_use]
    pub const fn next(self) -> Position {
        Position(self.0.saturating_add(1))
    }

    /// The position of this record.
    #[must_use]
    pub const fn position(self) -> Position {
        Position(self.0)
    }
}

impl Position {
    /// Names the position whose next record is at `offset` or above.
    #[must_use]
    pub const fn new(offset: u64) -> Self {
        Self(offset)
    }

    /// The plain number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The offset at this position.
    #[must_use]
    pub const fn offset(self) -> Offset {
        Offset(self.0)
    }
}

impl Time {
    /// This time moved on by `by`, saturating.
    #[must_use]
    pub const fn after(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by))
    }

    /// How long ago `earlier` was; zero if it lies ahead.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl OffsetRange {
    /// The run from `first` up to and without `end`; `None` if that is empty.
    #[must_use]
    pub fn new(first: Offset, end: Position) -> Option<Self> {
        (first.0 < end.0).then_some(Self { first, end })
    }

    /// The run from `first` to `last`, included; `None` if that is empty.
    #[must_use]
    pub fn inclusive(first: Offset, last: Offset) -> Option<Self> {
        Self::new(first, last.next())
    }

    /// The single offset.
    #[must_use]
    pub const fn one(offset: Offset) -> Self {
        Self {
            first: offset,
            end: offset.next(),
        }
    }

    /// First offset of the run.
    #[must_use]
    pub const fn first(self) -> Offset {
        self.first
    }

    /// Last offset of the run.
    #[must_use]
    pub const fn last(self) -> Offset {
        Offset(self.end.0 - 1)
    }

    /// The position after the run.
    #[must_use]
    pub const fn end(self) -> Position {
        self.end
    }

    /// How many offsets the run spans, 1 or more.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a run is never empty")]
    pub const fn len(self) -> u64 {
        self.end.0 - self.first.0
    }

    /// Whether the run holds `offset`.
    #[must_use]
    pub const fn contains(self, offset: Offset) -> bool {
        self.first.0 <= offset.0 && offset.0 < self.end.0
    }

    /// The part from `position` on; `None` if nothing is left.
    #[must_use]
    pub fn at_or_above(self, position: Position) -> Option<Self> {
        Self::new(self.first.max(position.offset()), self.end)
    }

    /// The part below `position`; `None` if there is none.
    #[must_use]
    pub fn below(self, position: Position) -> Option<Self> {
        Self::new(self.first, self.end.min(position))
    }

    /// The part that both runs share.
    #[must_use]
    pub fn intersection(self, other: Self) -> Option<Self> {
        Self::new(self.first.max(other.first), self.end.min(other.end))
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for OffsetRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last())
    }
}
