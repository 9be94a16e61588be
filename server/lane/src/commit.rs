//! When a lane's floor is committed.
//!
//! **Boundary**: is told the floor and the time; the lane turns a position it
//! returns into an effect.
//! **Invariant**: positions asked for only grow (L1) and never exceed the floor they
//! were asked with (L2).

use std::time::Duration;

use crate::{CommitOutcome, Position, Time};

/// What has been committed, what has been asked for, and when to ask next.
#[derive(Debug)]
pub(crate) struct Commits {
    /// What Kafka has confirmed.
    confirmed: Option<Position>,
    /// Committing this or anything below would change nothing.
    base: Option<Position>,
    /// Asked for and not answered.
    asked: Option<Position>,
    /// Settlements since the last request.
    settlements: u64,
    /// Whether anything has settled at all: before that there is nothing to say.
    any: bool,
    /// The tick at which to ask.
    due: Option<Time>,
    /// The last request failed: only a tick brings the next, whatever settles.
    failed: bool,
    /// Ask without waiting for the tick.
    hurry: bool,
    /// The start itself has to be committed.
    pinned: bool,
}

impl Commits {
    /// Begins at `position`, which Kafka has if `committed`.
    pub(crate) const fn new(position: Option<Position>, committed: bool) -> Self {
        Self {
            confirmed: if committed { position } else { None },
            base: position,
            asked: None,
            settlements: 0,
            any: false,
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
            self.base = None;
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
            self.base.get_or_insert(position);
        }
    }

    /// `records` more have settled.
    pub(crate) const fn settled(&mut self, records: u64) {
        self.settlements = self.settlements.saturating_add(records);
        self.any = true;
    }

    /// The floor has moved though nothing settled: there is something to say.
    pub(crate) const fn moved(&mut self) {
        self.any = true;
    }

    /// The position to ask for now, if it is time.
    pub(crate) fn poll(
        &mut self,
        now: Time,
        floor: Position,
        interval: Duration,
        settlements: u64,
    ) -> Option<Position> {
        if self.asked.is_some() || !self.is_news(floor) {
            self.hurry &= self.asked.is_some();
            self.due = None;
            return None;
        }
        let due = *self.due.get_or_insert_with(|| next_tick(now, interval));
        let early = !self.failed && (self.hurry || self.settlements >= settlements);
        (early || due <= now).then(|| self.ask(floor))
    }

    /// The position to ask for at the end of a drain: also one that has been asked
    /// for and not been answered, since that request may fail with the revoke.
    pub(crate) fn last(&mut self, floor: Position) -> Option<Position> {
        (self.any && Some(floor) > self.base).then(|| self.ask(floor))
    }

    /// Takes the answer to a request for `position`.
    pub(crate) fn answered(&mut self, position: Position, outcome: CommitOutcome) {
        if self.asked == Some(position) {
            self.asked = None;
            self.failed = outcome == CommitOutcome::Failed;
        }
        if outcome == CommitOutcome::Done {
            self.confirmed = self.confirmed.max(Some(position));
            self.base = self.base.max(self.confirmed);
        }
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
    pub(crate) const fn asked(&self) -> Option<Position> {
        self.asked
    }

    fn is_news(&self, floor: Position) -> bool {
        self.any && Some(floor) > self.base.max(self.asked)
    }

    const fn ask(&mut self, floor: Position) -> Position {
        self.asked = Some(floor);
        self.settlements = 0;
        self.due = None;
        self.failed = false;
        self.hurry = false;
        floor
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

    fn poll(commits: &mut Commits, now: u64, floor: u64) -> Option<Position> {
        commits.poll(ms(now), at(floor), Duration::from_secs(1), 100)
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
        commits.settled(4);
        assert_eq!(poll(&mut commits, 10, 9), None);
        assert_eq!(commits.due(), Some(ms(1000)));
        assert_eq!(poll(&mut commits, 1000, 9), Some(at(9)));
        commits.settled(200);
        assert_eq!(poll(&mut commits, 1100, 209), None);
        commits.answered(at(9), CommitOutcome::Failed);
        assert_eq!(poll(&mut commits, 1200, 209), None);
        commits.settled(200);
        assert_eq!(poll(&mut commits, 1300, 409), None);
        assert_eq!(poll(&mut commits, 2000, 409), Some(at(409)));
        commits.answered(at(409), CommitOutcome::Done);
        assert_eq!(commits.confirmed(), Some(at(409)));
        assert_eq!(poll(&mut commits, 9000, 409), None);
    }

    #[test]
    fn hurry_does_not_wait_for_the_tick_but_for_the_outstanding_request() {
        let mut commits = Commits::new(Some(at(0)), false);
        commits.settled(5);
        commits.hurry();
        assert_eq!(poll(&mut commits, 10, 5), Some(at(5)));
        commits.settled(5);
        commits.hurry();
        assert_eq!(poll(&mut commits, 11, 10), None);
        commits.answered(at(5), CommitOutcome::Done);
        assert_eq!(poll(&mut commits, 12, 10), Some(at(10)));
        commits.answered(at(10), CommitOutcome::Done);
        commits.settled(5);
        assert_eq!(
            poll(&mut commits, 13, 15),
            None,
            "haste is over with the request"
        );
    }

    #[test]
    fn many_settlements_do_not_wait_for_the_tick() {
        let mut commits = Commits::new(Some(at(0)), false);
        commits.settled(99);
        assert_eq!(poll(&mut commits, 10, 99), None);
        commits.settled(1);
        assert_eq!(poll(&mut commits, 11, 100), Some(at(100)));
    }
}
