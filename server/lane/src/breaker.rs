//! Too many records given up: when a lane stops until an operator says to go on.
//!
//! **Boundary**: counts what it is told; the lane decides what waits meanwhile.
//! **Invariant**: from its opening to its reset it admits nothing, and with a limit on
//! the run it never admits more than that without an ack between.

use std::collections::VecDeque;

/// How many records may be given up. Nothing given: any number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breaker {
    /// So many one after another without an ack between, 1 or more.
    pub run: Option<u32>,
    /// So large a part of the last ones that were acked or given up.
    pub ratio: Option<Ratio>,
}

/// A part of the last records that were acked or given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    /// In thousandths, 1 to 1000.
    pub part: u16,
    /// Of so many records, 1 or more; with fewer nothing is concluded.
    pub of: u32,
}

/// What opened a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trip {
    /// So many records were given up one after another.
    Run {
        /// How many.
        records: u32,
    },
    /// Too large a part of the last records was given up.
    Ratio {
        /// How many were.
        given_up: u32,
        /// Of so many.
        of: u32,
    },
}

/// What has been acked and given up of late.
#[derive(Debug)]
pub(crate) struct Gauge {
    limits: Breaker,
    /// Given up since the last ack.
    run: u32,
    /// The last records, as runs: given up or acked, and how many.
    recent: VecDeque<(bool, u32)>,
    /// Records in `recent`.
    seen: u32,
    /// Those of them that were given up.
    given_up: u32,
    trip: Option<Trip>,
}

impl Gauge {
    /// A closed one that has seen nothing.
    pub(crate) const fn new(limits: Breaker) -> Self {
        Self {
            limits,
            run: 0,
            recent: VecDeque::new(),
            seen: 0,
            given_up: 0,
            trip: None,
        }
    }

    /// What opened it, while it is open.
    pub(crate) const fn trip(&self) -> Option<Trip> {
        self.trip
    }

    /// Whether there is anything to count.
    const fn is_off(&self) -> bool {
        self.limits.run.is_none() && self.limits.ratio.is_none()
    }

    /// `records` are to be given up: how many of them, from the first on, may be. The
    /// last of those may be the one that opens it.
    pub(crate) fn admit(&mut self, records: u64) -> u64 {
        if self.is_off() {
            return records;
        }
        let mut admitted = 0;
        while admitted < records && self.trip.is_none() {
            admitted += 1;
            self.run = self.run.saturating_add(1);
            self.note(true, 1);
            self.trip = self.judge();
        }
        admitted
    }

    /// `records` were acked.
    pub(crate) fn acked(&mut self, records: u64) {
        if !self.is_off() && records > 0 {
            self.run = 0;
            self.note(false, u32::try_from(records).unwrap_or(u32::MAX));
        }
    }

    /// Closes it and forgets what it has seen; whether it was open.
    pub(crate) fn reset(&mut self) -> bool {
        let was_open = self.trip.is_some();
        if was_open {
            *self = Self::new(self.limits);
        }
        was_open
    }

    fn judge(&self) -> Option<Trip> {
        let records = self.run;
        if self.limits.run.is_some_and(|most| records >= most) {
            return Some(Trip::Run { records });
        }
        let Ratio { part, of } = self.limits.ratio?;
        let is_full = self.seen >= of;
        let too_many = u64::from(self.given_up) * 1000 >= u64::from(part) * u64::from(of);
        (is_full && too_many).then_some(Trip::Ratio {
            given_up: self.given_up,
            of,
        })
    }

    /// Adds the newest and lets go of the oldest.
    fn note(&mut self, is_given_up: bool, records: u32) {
        let Some(Ratio { of, .. }) = self.limits.ratio else {
            return;
        };
        let records = records.min(of);
        match self.recent.back_mut() {
            Some((kind, run)) if *kind == is_given_up => *run += records,
            Some(_) | None => self.recent.push_back((is_given_up, records)),
        }
        self.seen += records;
        self.given_up += if is_given_up { records } else { 0 };
        while self.seen > of
            && let Some((kind, run)) = self.recent.front_mut()
        {
            let gone = (self.seen - of).min(*run);
            *run -= gone;
            self.seen -= gone;
            self.given_up -= if *kind { gone } else { 0 };
            if *run == 0 {
                self.recent.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_run(run: u32) -> Gauge {
        Gauge::new(Breaker {
            run: Some(run),
            ratio: None,
        })
    }

    fn by_ratio(part: u16, of: u32) -> Gauge {
        Gauge::new(Breaker {
            run: None,
            ratio: Some(Ratio { part, of }),
        })
    }

    #[test]
    fn without_limits_everything_is_admitted_and_nothing_kept() {
        let mut gauge = Gauge::new(Breaker::default());
        assert_eq!(gauge.admit(u64::MAX), u64::MAX);
        gauge.acked(7);
        assert_eq!((gauge.trip(), gauge.recent.len()), (None, 0));
        assert!(!gauge.reset());
    }

    #[test]
    fn the_record_that_fills_the_run_is_the_last_one_admitted() {
        let mut gauge = by_run(100);
        assert_eq!(gauge.admit(99), 99);
        assert_eq!(gauge.trip(), None);
        assert_eq!(gauge.admit(10), 1);
        assert_eq!(gauge.trip(), Some(Trip::Run { records: 100 }));
        assert_eq!(gauge.admit(1), 0);
        gauge.acked(1);
        assert_eq!(gauge.admit(1), 0, "an ack does not close it");
        assert!(gauge.reset());
        assert_eq!(gauge.admit(1000), 100);
    }

    #[test]
    fn an_ack_ends_the_run() {
        let mut gauge = by_run(3);
        for _ in 0..10 {
            assert_eq!(gauge.admit(2), 2);
            gauge.acked(1);
        }
        assert_eq!(gauge.trip(), None);
    }

    #[test]
    fn a_ratio_concludes_nothing_before_it_has_seen_enough() {
        let mut gauge = by_ratio(500, 10);
        assert_eq!(gauge.admit(9), 9);
        assert_eq!(gauge.trip(), None);
        assert_eq!(gauge.admit(9), 1);
        let trip = Trip::Ratio {
            given_up: 10,
            of: 10,
        };
        assert_eq!(gauge.trip(), Some(trip));
    }

    #[test]
    fn only_the_last_records_count_for_the_ratio() {
        let mut gauge = by_ratio(500, 10);
        gauge.admit(4);
        gauge.acked(1_000_000_000_000);
        assert_eq!((gauge.seen, gauge.given_up), (10, 0));
        assert_eq!(gauge.admit(4), 4);
        gauge.acked(1);
        assert_eq!(gauge.trip(), None, "four of ten");
        assert_eq!(gauge.admit(5), 1);
        assert_eq!(
            gauge.trip(),
            Some(Trip::Ratio {
                given_up: 5,
                of: 10
            })
        );
        assert!(gauge.recent.len() <= 4);
    }

    #[test]
    fn all_of_them_is_a_ratio_too() {
        let mut gauge = by_ratio(1000, 5);
        gauge.acked(1);
        assert_eq!(gauge.admit(10), 5, "the ack has gone out of sight");
    }
}
