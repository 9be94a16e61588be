//! [`Held`]: which deliveries a program has and has not answered, as runs.
//!
//! Invariant: a verdict counts only for what is in here, and takes it out; so each
//! delivery is answered once at most, and what did not survive a reconnect not at all.

use std::collections::{BTreeMap, btree_map::Entry};

use crate::settler::Run;

/// Runs by lane, delivery number and first offset; neighbours are one.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Last offsets.
    runs: BTreeMap<(u64, u32, i64), i64>,
}

impl Held {
    /// Takes in a run of deliveries.
    pub(crate) fn insert(&mut self, run: Run) {
        let mut whole = run;
        if let Some(before) = self.at_or_before(run.lane, run.delivery, run.first)
            && before.last >= run.first.saturating_sub(1)
        {
            whole.first = before.first;
            whole.last = whole.last.max(before.last);
        }
        while let Some(next) = self.first_within(whole) {
            self.remove(next);
            whole.last = whole.last.max(next.last);
        }
        if let Some(next) = whole.last.checked_add(1)
            && let Entry::Occupied(after) = self.runs.entry((run.lane, run.delivery, next))
        {
            whole.last = after.remove();
        }
        self.runs
            .insert((whole.lane, whole.delivery, whole.first), whole.last);
    }

    /// Takes out what is held of `run`, calling `each` with the parts. Returns how many
    /// records that were.
    pub(crate) fn take(&mut self, run: Run, mut each: impl FnMut(Run)) -> u64 {
        let mut taken = 0;
        if let Some(before) = self.at_or_before(run.lane, run.delivery, run.first)
            && before.first < run.first
            && before.last >= run.first
        {
            self.remove(before);
            let kept = Run {
                last: run.first - 1,
                ..before
            };
            let rest = Run {
                first: run.first,
                ..before
            };
            self.put(kept);
            self.put(rest);
        }
        while let Some(part) = self.first_within(run) {
            self.remove(part);
            let part = if part.last > run.last {
                self.put(Run {
                    first: run.last + 1,
                    ..part
                });
                Run {
                    last: run.last,
                    ..part
                }
            } else {
                part
            };
            taken += part.len();
            each(part);
        }
        taken
    }

    /// Forgets everything of a lane at and above an offset, whatever its delivery number.
    /// Returns how many records that were.
    pub(crate) fn void(&mut self, lane: u64, first: i64) -> u64 {
        let of_lane = (lane, 0, i64::MIN)..=(lane, u32::MAX, i64::MAX);
        let mut numbers: Vec<u32> = self.runs.range(of_lane).map(|(key, _)| key.1).collect();
        numbers.dedup();
        let above = |delivery| Run {
            lane,
            delivery,
            first,
            last: i64::MAX,
        };
        let void = |delivery| self.take(above(delivery), |_| {});
        numbers.into_iter().map(void).sum()
    }

    /// Whether the record is held under this number.
    pub(crate) fn has(&self, lane: u64, delivery: u32, offset: i64) -> bool {
        self.at_or_before(lane, delivery, offset)
            .is_some_and(|run| run.last >= offset)
    }

    /// All runs, by lane, delivery and offset.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Run> {
        self.runs
            .iter()
            .map(|(&(lane, delivery, first), &last)| Run {
                lane,
                delivery,
                first,
                last,
            })
    }

    /// Whether anything of the lane is held.
    pub(crate) fn has_lane(&self, lane: u64) -> bool {
        let of_lane = (lane, 0, i64::MIN)..=(lane, u32::MAX, i64::MAX);
        self.runs.range(of_lane).next().is_some()
    }

    /// How many records are held.
    pub(crate) fn len(&self) -> u64 {
        self.runs().map(Run::len).sum()
    }

    fn put(&mut self, run: Run) {
        self.runs
            .insert((run.lane, run.delivery, run.first), run.last);
    }

    fn remove(&mut self, run: Run) {
        self.runs.remove(&(run.lane, run.delivery, run.first));
    }

    fn at_or_before(&self, lane: u64, delivery: u32, first: i64) -> Option<Run> {
        let below = (lane, delivery, i64::MIN)..=(lane, delivery, first);
        let (&(lane, delivery, first), &last) = self.runs.range(below).next_back()?;
        Some(Run {
            lane,
            delivery,
            first,
            last,
        })
    }

    /// The lowest run that begins within `run`.
    fn first_within(&self, run: Run) -> Option<Run> {
        let within = (run.lane, run.delivery, run.first)..=(run.lane, run.delivery, run.last);
        let (&(lane, delivery, first), &last) = self.runs.range(within).next()?;
        Some(Run {
            lane,
            delivery,
            first,
            last,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(first: i64, last: i64) -> Run {
        Run {
            lane: 7,
            delivery: 1,
            first,
            last,
        }
    }

    fn plain(held: &Held) -> Vec<(i64, i64)> {
        held.runs().map(|run| (run.first, run.last)).collect()
    }

    fn taken(held: &mut Held, of: Run) -> Vec<(i64, i64)> {
        let mut parts = Vec::new();
        held.take(of, |part| parts.push((part.first, part.last)));
        parts
    }

    #[test]
    fn neighbours_and_overlaps_become_one_run() {
        let mut held = Held::default();
        for (first, last) in [(4, 5), (0, 1), (8, 9), (2, 3), (5, 8)] {
            held.insert(run(first, last));
        }
        assert_eq!(plain(&held), [(0, 9)]);
        held.insert(run(11, 12));
        held.insert(Run {
            delivery: 2,
            ..run(0, 0)
        });
        assert_eq!(plain(&held), [(0, 9), (11, 12), (0, 0)]);
        assert_eq!(held.len(), 13);
    }

    #[test]
    fn what_is_taken_is_taken_once() {
        let mut held = Held::default();
        held.insert(run(0, 9));
        assert_eq!(taken(&mut held, run(3, 4)), [(3, 4)]);
        assert_eq!(plain(&held), [(0, 2), (5, 9)]);
        assert_eq!(taken(&mut held, run(3, 4)), []);
        assert_eq!(taken(&mut held, run(-5, 6)), [(0, 2), (5, 6)]);
        assert!(held.has(7, 1, 7) && !held.has(7, 1, 6) && !held.has(7, 2, 7));
        assert_eq!(taken(&mut held, run(9, i64::MAX)), [(9, 9)]);
        assert_eq!(plain(&held), [(7, 8)]);
        assert!(held.has_lane(7) && !held.has_lane(8));
    }

    #[test]
    fn going_back_in_a_lane_voids_every_number_above() {
        let mut held = Held::default();
        held.insert(run(0, 9));
        held.insert(Run {
            delivery: 3,
            ..run(5, 6)
        });
        held.insert(Run {
            lane: 8,
            ..run(0, 9)
        });
        assert_eq!(held.void(7, 4), 6 + 2);
        assert_eq!(plain(&held), [(0, 3), (0, 9)]);
    }
}
