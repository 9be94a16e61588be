//! [`Watched`]: what is remembered of a lane for those who watch it: how far its log was
//! read, since when it is behind and its floor stands, when a commit was asked for; and
//! the lag that follows from it.
//!
//! **Boundary**: measures; no decision looks at it.

use std::time::Duration;

use ackgate_lane::{OffsetRange, Position, Snapshot, Time};

use super::{intake, lanes::Entry};
use crate::broker::Head;

/// What is remembered of a lane.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// Up to where the log was read, whatever a seek has taken back.
    reached: Option<Position>,
    /// The end of what may be read, as last heard.
    readable: Option<Position>,
    /// Since when there has been something to read.
    behind: Option<Time>,
    /// The floor, and since when it has been there with something unsettled.
    floor: Option<Position>,
    since: Time,
    /// The timestamp of the record at the floor, from before its body was let go of.
    stamp: Option<(Position, i64)>,
    /// The last commit that was asked for, and when.
    asked: Option<(u64, Time)>,
    /// Up to where commits are counted: what Kafka has confirmed, or where reading began.
    counted: Option<Position>,
}

/// How far a lane is behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lag {
    /// Records that are not settled: exactly those that were received, and at most so many
    /// beyond.
    pub(super) records: u64,
    /// The age of the oldest of them.
    pub(super) age: Duration,
    /// For how long the floor has stood.
    pub(super) stood: Duration,
}

impl Watched {
    /// A lane begins at `start`, whether or not Kafka has that as committed.
    pub(super) fn begin(start: Option<Position>, now: Time) -> Self {
        Self {
            reached: start,
            counted: start,
            since: now,
            ..Self::default()
        }
    }

    /// Records are read, the first of them at `position`: if it was not known where reading
    /// begins, then there.
    pub(super) fn read_from(&mut self, position: Option<Position>) {
        self.counted = self.counted.or(position);
    }

    /// The log was read up to `position`: records, its end, or where it begins now.
    pub(super) fn read_to(&mut self, now: Time, position: Position) {
        self.reached = self.reached.max(Some(position));
        self.follow_log(now);
    }

    /// The log ends there.
    pub(super) fn ends(&mut self, now: Time, head: Head) {
        self.readable = Some(head.readable);
        self.follow_log(now);
    }

    /// What lies between what was read and the end of what may be: offsets, of which some
    /// may be markers or gaps.
    fn unread(&self) -> u64 {
        let (Some(reached), Some(readable)) = (self.reached, self.readable) else {
            return 0;
        };
        readable.get().saturating_sub(reached.get())
    }

    fn follow_log(&mut self, now: Time) {
        if self.unread() == 0 {
            self.behind = None;
        } else {
            self.behind.get_or_insert(now);
        }
    }

    /// Commit `serial` has been asked for.
    pub(super) const fn asks(&mut self, now: Time, serial: u64) {
        self.asked = Some((serial, now));
    }

    /// Commit `serial` was answered; how long that took, if it is the one asked for last.
    pub(super) fn answered(&mut self, now: Time, serial: u64) -> Option<Duration> {
        let asked = self.asked.take_if(|(asked, _)| *asked == serial);
        asked.map(|(_, at)| now.since(at))
    }

    /// Kafka has confirmed `position`; by how many offsets that is more than before, the
    /// first time from where reading began, where that is known.
    pub(super) fn confirmed(&mut self, position: Position) -> u64 {
        let before = self.counted.replace(position);
        before.map_or(0, |before| position.get().saturating_sub(before.get()))
    }
}

impl Entry {
    /// The end of the log: as last heard, and no less than what has been read since.
    pub(super) fn log_end(&self) -> Option<Position> {
        let heard = Some(self.head?);
        heard.max(self.watched.reached).max(self.lane.floor())
    }

    /// Looks where the floor is. Once for each turn in which the lane had a part.
    pub(super) fn follow_floor(&mut self, now: Time) {
        let floor = self.lane.floor();
        let is_empty = self.bodies.retained() == 0 && self.lane.snapshot().unsettled == 0;
        if floor != self.watched.floor || is_empty {
            self.watched.floor = floor;
            self.watched.since = now;
        }
    }

    /// The bodies are about to be let go of, and what they tell of the floor with them.
    pub(super) fn keep_stamp(&mut self) {
        if let Some(stamp) = self.stamp_at_floor() {
            self.watched.stamp = Some(stamp);
        }
    }

    fn stamp_at_floor(&self) -> Option<(Position, i64)> {
        let floor = self.lane.floor()?;
        let at = OffsetRange::one(floor.offset());
        let record = self.bodies.within(at).next()?;
        Some((floor, record.timestamp_ms))
    }

    /// How far the lane is behind. `lane` is as it is now.
    pub(super) fn lag(&self, lane: &Snapshot, now: Time, wall_ms: i64) -> Lag {
        let Watched { floor, stamp, .. } = self.watched;
        let unread = self.watched.unread();
        let waiting = self.gate.records();
        let age_of = |timestamp| intake::age(timestamp, wall_ms);
        let (stood, age) = if lane.unsettled > 0 {
            let stood = now.since(self.watched.since);
            let kept = stamp.filter(|(at, _)| Some(*at) == floor);
            let stamp = self.stamp_at_floor().or(kept);
            let age = stamp.and_then(|(_, timestamp)| age_of(timestamp));
            (stood, age.unwrap_or(stood))
        } else if let Some((timestamp, arrived)) = self.gate.oldest() {
            let waited = now.since(arrived);
            (Duration::ZERO, age_of(timestamp).unwrap_or(waited))
        } else {
            let behind = self.watched.behind.map(|since| now.since(since));
            (Duration::ZERO, behind.unwrap_or_default())
        };
        Lag {
            records: lane
                .unsettled
                .saturating_add(waiting)
                .saturating_add(unread),
            age,
            stood,
        }
    }
}

#[cfg(test)]
mod tests {
    use ackgate_lane::Generation;

    use super::*;

    fn at(ms: u64) -> Time {
        Time(Duration::from_millis(ms))
    }

    fn head(end: u64, readable: u64) -> Head {
        Head {
            generation: Generation(1),
            end: Position::new(end),
            readable: Position::new(readable),
        }
    }

    #[test]
    fn markers_at_the_end_are_no_lag_once_the_end_was_reached() {
        let mut watched = Watched::begin(Some(Position::new(0)), at(0));
        watched.ends(at(10), head(7, 7));
        assert_eq!(watched.unread(), 7, "some of them may be markers");
        watched.read_to(at(20), Position::new(6));
        assert_eq!(watched.unread(), 1);
        // The consumer has found nothing more below 7.
        watched.read_to(at(30), Position::new(7));
        assert_eq!((watched.unread(), watched.behind), (0, None));
    }

    #[test]
    fn an_unfinished_transaction_is_no_lag_and_an_old_end_is_none_below_zero() {
        let mut watched = Watched::begin(Some(Position::new(5)), at(0));
        watched.ends(at(1), head(9, 5));
        assert_eq!(watched.unread(), 0);
        watched.read_to(at(2), Position::new(12));
        assert_eq!(watched.unread(), 0, "statistics are a second old");
    }

    #[test]
    fn a_lane_is_behind_since_it_first_had_something_to_read() {
        let mut watched = Watched::begin(Some(Position::new(0)), at(0));
        watched.ends(at(100), head(3, 3));
        watched.ends(at(200), head(5, 5));
        watched.read_to(at(300), Position::new(3));
        assert_eq!(watched.behind, Some(at(100)));
        watched.read_to(at(400), Position::new(5));
        watched.ends(at(500), head(6, 6));
        assert_eq!(watched.behind, Some(at(500)));
    }

    #[test]
    fn a_commit_is_timed_by_its_number_and_counts_what_it_moved() {
        let mut watched = Watched::begin(Some(Position::new(10)), at(0));
        watched.asks(at(100), 1);
        assert_eq!(watched.answered(at(150), 2), None);
        let took = watched.answered(at(160), 1);
        assert_eq!(took, Some(Duration::from_millis(60)));
        assert_eq!(watched.answered(at(170), 1), None);
        assert_eq!(watched.confirmed(Position::new(14)), 4);
        assert_eq!(watched.confirmed(Position::new(14)), 0);
        let mut unknown = Watched::begin(None, at(0));
        assert_eq!(unknown.confirmed(Position::new(12)), 0, "from where?");
        assert_eq!(unknown.confirmed(Position::new(15)), 3);
        let mut late = Watched::begin(None, at(0));
        late.read_from(Some(Position::new(20)));
        late.read_from(Some(Position::new(30)));
        assert_eq!(
            late.confirmed(Position::new(34)),
            14,
            "from its first record"
        );
    }
}
