//! [`Allowance`]: how many records may be traced because of trace ids that their producers
//! chose.
//!
//! Whether a record is traced follows from its trace's id, and who writes records chooses
//! that. Honest ids are spread evenly, so that of all records only the configured part is
//! traced; whoever chooses low ones would have each of its records traced. So what comes
//! earns places: four times what the ratio makes of it, and some for each second beside.
//!
//! **Boundary**: has no clock; it is told when a fetch was over. **Invariants**: what is
//! taken within any time is at most `BURST`, and `PER_SECOND` and `TIMES` times the
//! ratio of what came in that time; ids that are spread evenly are not held back.

use std::time::SystemTime;

/// Over what honest ids need. Evenly spread ids then use up what `BURST` holds about once in
/// 10^1000 tries.
const TIMES: f64 = 4.0;

/// Records a second that may be traced in any case: for topics where little comes, and
/// producers that say a trace of those records alone that are traced.
const PER_SECOND: f64 = 100.0;

/// The most that is saved up. As many records as one fetch has, nearly: those of one trace
/// may come together.
const BURST: f64 = 1000.0;

/// What may be taken now. One for each subscription of a gateway.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowance {
    room: f64,
    /// What one record earns.
    each: f64,
    /// When what time earns was added.
    last: Option<SystemTime>,
}

impl Allowance {
    /// Full, where the part `ratio` of all traces is recorded. `None` where whatever comes
    /// is allowed: four times the ratio is everything.
    #[must_use]
    pub fn new(ratio: f64) -> Option<Self> {
        let each = ratio * TIMES;
        (each < 1.0).then_some(Self {
            room: BURST,
            each,
            last: None,
        })
    }

    /// So many records have come in a fetch, traced or not. What they earn is there for them,
    /// however many they are.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub fn came(&mut self, records: usize) {
        self.room = self.room.min(BURST) + self.each * records as f64;
    }

    /// It is `at` now. A clock that goes back earns nothing.
    pub fn tick(&mut self, at: SystemTime) {
        let last = self.last.replace(at).unwrap_or(at);
        let passed = at.duration_since(last).unwrap_or_default();
        let earned = PER_SECOND * passed.as_secs_f64();
        self.room = self.room.max((self.room + earned).min(BURST));
    }

    /// Whether all is saved up that can be: nobody has taken more than comes for a while.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.room >= BURST
    }

    /// Takes room for one record, if there is any.
    pub fn take(&mut self) -> bool {
        let is_there = self.room >= 1.0;
        if is_there {
            self.room -= 1.0;
        }
        is_there
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(millis: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000) + Duration::from_millis(millis)
    }

    /// How many of `wanted` may be traced.
    fn take(allowance: &mut Allowance, wanted: usize) -> usize {
        (0..wanted).filter(|_| allowance.take()).count()
    }

    #[test]
    fn low_ids_alone_get_what_is_allowed_and_no_more() {
        // 100,000 records a second, all with chosen ids, for a minute.
        let mut allowance = Allowance::new(0.001).unwrap();
        let mut taken = 0;
        for fetch in 0..6000 {
            allowance.came(1000);
            allowance.tick(at(fetch * 10));
            taken += take(&mut allowance, 1000);
        }
        let most = 1000 + 60 * (100 + 4 * 100);
        let least = most - 1000;
        assert!((least..=most).contains(&taken), "{taken} of {most}");
    }

    #[test]
    fn ids_that_are_spread_evenly_are_not_held_back() {
        // 500,000 records a second at 1 %, in fetches of 1000, for a minute: time earns
        // nothing here, so the ratio has to do.
        let mut allowance = Allowance::new(0.01).unwrap();
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..30_000 {
            allowance.came(1000);
            allowance.tick(at(0));
            let wanted = (0..1000).filter(|_| random.f64() < 0.01).count();
            assert_eq!(take(&mut allowance, wanted), wanted);
        }
    }

    #[test]
    fn records_of_one_trace_that_come_together_are_not_torn_apart() {
        // Each trace has 1000 records; one in a thousand is recorded, the first of all too.
        let mut allowance = Allowance::new(0.001).unwrap();
        for trace in 0..5000 {
            allowance.came(1000);
            if trace % 1000 == 0 {
                assert_eq!(take(&mut allowance, 1000), 1000, "{trace}");
            }
        }
    }

    #[test]
    fn what_is_saved_up_is_bounded() {
        let mut allowance = Allowance::new(0.001).unwrap();
        for fetch in 0..1000 {
            allowance.came(10_000);
            allowance.tick(at(fetch * 1000));
        }
        assert!(allowance.is_full());
        // A burst, and what the last fetch earned.
        assert_eq!(take(&mut allowance, 100_000), 1000 + 40);
        assert!(!allowance.is_full());
    }

    #[test]
    fn clock_that_goes_back_earns_nothing_and_one_that_leaps_no_more_than_a_burst() {
        let mut allowance = Allowance::new(0.0001).unwrap();
        allowance.tick(at(10_000));
        assert_eq!(take(&mut allowance, 2000), 1000);
        allowance.tick(at(5000));
        assert_eq!(take(&mut allowance, 2000), 0);
        allowance.tick(at(6000));
        assert_eq!(take(&mut allowance, 2000), 100, "it goes on from there");
        allowance.tick(at(100_000_000));
        assert_eq!(take(&mut allowance, 2000), 1000);
    }

    #[test]
    fn where_a_quarter_or_more_is_recorded_nothing_is_held_back() {
        assert_eq!(Allowance::new(0.25), None);
        assert_eq!(Allowance::new(1.0), None);
        assert!(Allowance::new(0.249).is_some());
    }
}
