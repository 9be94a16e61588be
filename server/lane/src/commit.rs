//! When a lane's floor and its ack map are committed.
//!
//! **Boundary**: is told the floor, the time and a fingerprint of the map; the lane
//! turns a serial number it returns into an effect.
//! **Invariant**: positions asked for never go back (L1) and never exceed the floor they
//! were asked with (L2); what Kafka has already is not asked for again.

use std::time::Duration;

use crate::{CommitOutcome, Encoded, Position, Time, maps};

/// What has been committed, what has been asked for, and when to ask next.
#[derive(Debug)]
pub(crate) struct Commits {
    /// What Kafka has confirmed.
    confirmed: Option<Position>,
    /// Committing this or anything below would change nothing, with this map.
    base: Base,
    /// Asked for and not answered.
    asked: Option<Asked>,
    /// Asked for before that and not answered either: only at the end of a drain.
    before: Option<Asked>,
    /// Number of the last request.
    serial: u64,
    /// Settlements since the last request.
    settlements: u64,
    /// Whether there is anything to say: not before something has settled, or has
    /// been tried where maps are written.
    any: bool,
    /// The map may differ from what was last asked for.
    changed: bool,
    /// The tick at which to ask.
    due: Option<Time>,
    /// The last request failed: only a tick brings the next, whatever settles.
    failed: bool,
    /// Ask without waiting for the tick.
    hurry: bool,
    /// The start itself has to be committed.
    pinned: bool,
}

/// What Kafka has, as far as is known.
#[derive(Clone, Copy, Debug)]
struct Base {
    position: Option<Position>,
    /// Of the map; 0 for none.
    fingerprint: u64,
    /// Settled records below this are in the map or below the position.
    covered: Option<Position>,
}

/// One request.
#[derive(Clone, Copy, Debug)]
struct Asked {
    serial: u64,
    position: Position,
    fingerprint: u64,
    covered: Position,
}

impl Commits {
    /// Begins at `position`, which Kafka has if `committed`.
    pub(crate) const fn new(position: Option<Position>, committed: bool) -> Self {
        Self {
            confirmed: if committed { position } else { None },
            base: Base {
                position,
                fingerprint: 0,
                covered: position,
            },
            asked: None,
            before: None,
            serial: 0,
            settlements: 0,
            any: false,
            changed: false,
            due: None,
            failed: false,
            hurry: false,
            pinned: false,
        }
    }

    /// The position where reading begins is itself worth a commit, at once.
    pub(crate) fn pin(&mut self) {
        if self.confirmed.is_none() {
            self.pinned = true;
            self.base.position = None;
            self.any = true;
            self.hurry = true;
        }
    }

    /// What has settled by now is asked for without waiting for the tick, once no
    /// request is outstanding.
    pub(crate) const fn hurry(&mut self) {
        self.hurry = true;
    }

    /// Reading begins at `position`, if that was not known before.
    pub(crate) fn begin_at(&mut self, position: Position) {
        if !self.pinned {
            self.base.position.get_or_insert(position);
        }
    }

    /// Kafka has a map with this fingerprint, which covers what is settled below
    /// `covered`.
    pub(crate) const fn begin_with(&mut self, fingerprint: u64, covered: Position) {
        self.base.fingerprint = fingerprint;
        self.base.covered = Some(covered);
    }

    /// The floor has moved though nothing settled: there is something to say.
    pub(crate) const fn moved(&mut self) {
        self.any = true;
    }

    /// `records` more have settled; `mapped`: the map may say so.
    /// Without maps only the position ever says so.
    pub(crate) const fn settled(&mut self, records: u64, mapped: bool) {
        self.settlements = self.settlements.saturating_add(records);
        self.any = true;
        self.changed |= mapped;
        if !mapped {
            // The map that Kafka has, from before maps were turned off, does not say so.
            self.base.covered = self.base.position;
        }
    }

    /// Counters have changed that the map may carry.
    pub(crate) const fn tried(&mut self) {
        self.any = true;
        self.changed = true;
    }

    /// Whether it is time to ask.
    pub(crate) fn is_due(
        &mut self,
        now: Time,
        floor: Position,
        interval: Duration,
        settlements: u64,
    ) -> bool {
        if self.asked.is_some() || !self.is_news(floor) {
            self.hurry &= self.asked.is_some();
            self.due = None;
            return false;
        }
        let due = *self.due.get_or_insert_with(|| next_tick(now, interval));
        let early = !self.failed && (self.hurry || self.settlements >= settlements);
        early || due <= now
    }

    /// Asks at a later tick what would be due now.
    pub(crate) fn put_off(&mut self, now: Time, interval: Duration) {
        self.failed = true;
        self.hurry = false;
        self.due = Some(next_tick(now, interval));
    }

    /// Asks for `floor` and the map with `fingerprint`, which covers what is settled
    /// below `covered`: the request's number, or `None` if Kafka has just that.
    pub(crate) fn ask(
        &mut self,
        floor: Position,
        fingerprint: u64,
        covered: Position,
    ) -> Option<u64> {
        self.settlements = 0;
        self.changed = false;
        self.due = None;
        self.failed = false;
        self.hurry = false;
        if !self.is_told(floor, fingerprint) {
            if Some(floor) == self.base.position {
                // Settled records that an equal map has no room for are not in Kafka's
                // either, whatever that covered when it was committed.
                self.base.covered = Some(covered);
            }
            return None;
        }
        self.serial += 1;
        self.before = self.asked.replace(Asked {
            serial: self.serial,
            position: floor,
            fingerprint,
            covered,
        });
        Some(self.serial)
    }

    /// Whether committing `floor` and the map with `fingerprint` would tell something.
    fn is_told(&self, floor: Position, fingerprint: u64) -> bool {
        // Without a map an equal position has nothing new to say.
        let is_equal = Some(floor) == self.base.position
            && (fingerprint == self.base.fingerprint || fingerprint == 0);
        !is_equal && Some(floor) >= self.base.position
    }

    /// Whether committing `floor` and `map` would tell Kafka something.
    pub(crate) fn would_say(&self, floor: Position, map: Option<&Encoded>) -> bool {
        self.is_told(floor, maps::fingerprint_of(map))
    }

    /// Whether the end of a drain has something to ask for: also what has been asked
    /// for and not been answered, since that request may fail with the revoke.
    pub(crate) fn has_last(&self, floor: Position) -> bool {
        let news = self.changed || self.asked.is_some() || Some(floor) > self.base.position;
        self.any && news
    }

    /// Takes the answer to request `serial`; `false` if there is no such request.
    pub(crate) fn answered(&mut self, serial: u64, outcome: CommitOutcome) -> bool {
        let is = |asked: &Asked| asked.serial == serial;
        let asked = if self.asked.as_ref().is_some_and(is) {
            self.failed = outcome == CommitOutcome::Failed;
            self.asked.take()
        } else if self.before.as_ref().is_some_and(is) {
            self.before.take()
        } else {
            None
        };
        let Some(asked) = asked else { return false };
        match outcome {
            CommitOutcome::Done => {
                self.confirmed = self.confirmed.max(Some(asked.position));
                if Some(asked.position) >= self.base.position {
                    self.base = Base {
                        position: Some(asked.position),
                        fingerprint: asked.fingerprint,
                        covered: Some(asked.covered),
                    };
                }
            }
            // Kafka may have either map now.
            CommitOutcome::Failed | CommitOutcome::MetadataTooLarge => self.changed = true,
        }
        true
    }

    /// When to poll next.
    pub(crate) const fn due(&self) -> Option<Time> {
        self.due
    }

    /// What Kafka has confirmed.
    pub(crate) const fn confirmed(&self) -> Option<Position> {
        self.confirmed
    }

    /// What has been asked for and not been answered.
    pub(crate) fn asked(&self) -> Option<Position> {
        self.asked.map(|asked| asked.position)
    }

    /// The number of the request that has not been answered, and below what everything
    /// settled is covered by it.
    pub(crate) fn last_asked(&self) -> Option<(u64, Position)> {
        self.asked.map(|asked| (asked.serial, asked.covered))
    }

    /// Below this everything settled is known to Kafka, unless something is news.
    pub(crate) const fn covered(&self) -> Option<Position> {
        self.base.covered
    }

    /// Whether committing `floor`, or its map, may tell Kafka something.
    pub(crate) fn is_news(&self, floor: Position) -> bool {
        let asked = self.asked.map(|asked| asked.position);
        self.any && (self.changed || Some(floor) > self.base.position.max(asked))
    }
}

/// The first multiple of `interval` after `now`, so that all lanes tick together.
fn next_tick(now: Time, interval: Duration) -> Time {
    let step = interval.as_nanos();
    if step == 0 {
        return now;
    }
    let nanos = (now.0.as_nanos() / step + 1).saturating_mul(step);
    // Saturates after 584 years.
    Time(Duration::from_nanos(
        u64::try_from(nanos).unwrap_or(u64::MAX),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time(Duration::from_millis(ms))
    }

    fn at(offset: u64) -> Position {
        Position::new(offset)
    }

    fn poll(commits: &mut Commits, now: u64, floor: u64) -> Option<u64> {
        commits
            .is_due(ms(now), at(floor), Duration::from_secs(1), 100)
            .then(|| commits.ask(at(floor), 0, at(floor)))
            .flatten()
    }

    #[test]
    fn ticks_are_multiples_of_the_interval_after_now() {
        assert_eq!(next_tick(ms(0), Duration::from_secs(1)), ms(1000));
        assert_eq!(next_tick(ms(999), Duration::from_secs(1)), ms(1000));
        assert_eq!(next_tick(ms(1000), Duration::from_secs(1)), ms(2000));
        assert_eq!(next_tick(ms(7), Duration::ZERO), ms(7));
    }

    #[test]
    fn one_request_is_outstanding_and_a_failed_one_waits_for_the_tick() {
        let mut commits = Commits::new(Some(at(5)), true);
        assert_eq!(poll(&mut commits, 10, 9), None);
        commits.settled(4, false);
        assert_eq!(poll(&mut commits, 10, 9), None);
        assert_eq!(commits.due(), Some(ms(1000)));
        assert_eq!(poll(&mut commits, 1000, 9), Some(1));
        commits.settled(200, false);
        assert_eq!(poll(&mut commits, 1100, 209), None);
        assert!(commits.answered(1, CommitOutcome::Failed));
        assert_eq!(poll(&mut commits, 1200, 209), None);
        commits.settled(200, false);
        assert_eq!(poll(&mut commits, 1300, 409), None);
        assert_eq!(poll(&mut commits, 2000, 409), Some(2));
        assert!(!commits.answered(1, CommitOutcome::Done), "answered before");
        assert!(commits.answered(2, CommitOutcome::Done));
        assert_eq!(commits.confirmed(), Some(at(409)));
        assert_eq!(poll(&mut commits, 9000, 409), None);
    }

    #[test]
    fn hurry_does_not_wait_for_the_tick_but_for_the_outstanding_request() {
        let mut commits = Commits::new(Some(at(0)), false);
        commits.settled(5, false);
        commits.hurry();
        assert_eq!(poll(&mut commits, 10, 5), Some(1));
        commits.settled(5, false);
        commits.hurry();
        assert_eq!(poll(&mut commits, 11, 10), None);
        commits.answered(1, CommitOutcome::Done);
        assert_eq!(poll(&mut commits, 12, 10), Some(2));
        commits.answered(2, CommitOutcome::Done);
        commits.settled(5, false);
        assert_eq!(
            poll(&mut commits, 13, 15),
            None,
            "haste is over with the request"
        );
    }

    #[test]
    fn many_settlements_do_not_wait_for_the_tick() {
        let mut commits = Commits::new(Some(at(0)), false);
        commits.settled(99, false);
        assert_eq!(poll(&mut commits, 10, 99), None);
        commits.settled(1, false);
        assert_eq!(poll(&mut commits, 11, 100), Some(1));
    }

    #[test]
    fn a_map_that_changed_is_asked_for_at_the_same_position_and_an_equal_one_is_not() {
        let mut commits = Commits::new(Some(at(7)), true);
        commits.settled(1, true);
        assert!(commits.is_due(ms(1000), at(7), Duration::ZERO, 100));
        assert_eq!(commits.ask(at(7), 11, at(9)), Some(1));
        commits.answered(1, CommitOutcome::Done);
        assert!(!commits.is_news(at(7)));
        commits.tried();
        assert!(commits.is_news(at(7)));
        assert_eq!(commits.ask(at(7), 11, at(9)), None, "Kafka has it");
        assert_eq!(commits.ask(at(6), 12, at(9)), None, "L1");
        assert_eq!(commits.ask(at(7), 12, at(9)), Some(2));
    }
}
