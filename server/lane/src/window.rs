//! Received records as ordered runs of equal slots, with the counts and indexes that
//! keep every question about them cheap.
//!
//! **Boundary**: holds whatever slots it is given; which moves are legal is the
//! lane's business.
//! **Invariant**: runs are non-empty, disjoint and never equal to a run they touch;
//! counts and indexes say what a walk over the runs would say.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    Offset, OffsetRange, Subscriber, Time,
    deadline::Deadlines,
    slot::{Slot, State},
};

/// Runs by first offset, and what follows from them.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// First offset to the rest of the run.
    runs: BTreeMap<u64, Run>,
    /// First offsets of the runs that may be handed out to anyone.
    ready: BTreeSet<u64>,
    /// The same of the runs that only one subscriber may take.
    ready_for: BTreeMap<Subscriber, BTreeSet<u64>>,
    /// First offsets of the runs that are given up and not settled.
    given_up: BTreeSet<u64>,
    /// Times at which runs change by themselves.
    deadlines: Deadlines,
    /// Records that each subscriber has, dispatched or out.
    holders: BTreeMap<Subscriber, u64>,
    /// Records by kind.
    counts: Counts,
    /// Runs of settled records.
    settled_runs: usize,
}

/// A run without its first offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    /// Offset after the last record.
    end: u64,
    /// What all of its records are.
    slot: Slot,
}

/// How many records of a kind there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Not settled, with those that are to be read again.
    pub(crate) unsettled: u64,
    /// Dispatched or out.
    pub(crate) in_flight: u64,
    /// Waiting for their not-before time.
    pub(crate) delayed: u64,
    /// To be read again after a seek.
    pub(crate) unread: u64,
    /// Given up and not settled.
    pub(crate) given_up: u64,
    /// The part of those that waits for what lies below.
    pub(crate) refused: u64,
    /// Whose dead letter is being written.
    pub(crate) dead_lettering: u64,
    /// Whose dead letter could not be written, and for which the lane waits.
    pub(crate) failing: u64,
    /// Set aside, since their dead letters could not be written.
    pub(crate) parked: u64,
    /// Waiting for an operator.
    pub(crate) held: u64,
    /// Waiting for an earlier record of their key.
    pub(crate) behind: u64,
}

impl Counts {
    /// The fields that `state` belongs to.
    fn add(&mut self, state: State, records: u64) {
        self.change(state, |count| *count += records);
    }

    fn remove(&mut self, state: State, records: u64) {
        self.change(state, |count| *count = count.saturating_sub(records));
    }

    fn change(&mut self, state: State, mut change: impl FnMut(&mut u64)) {
        if !matches!(state, State::Settled { .. }) {
            change(&mut self.unsettled);
        }
        if state.holder().is_some() {
            change(&mut self.in_flight);
        }
        if state.is_given_up() {
            change(&mut self.given_up);
        }
        if matches!(state, State::Refused { .. }) {
            change(&mut self.refused);
        }
        if matches!(state, State::Delayed { .. }) {
            change(&mut self.delayed);
        }
        if matches!(state, State::Unread { .. }) {
            change(&mut self.unread);
        }
        if matches!(state, State::Behind) {
            change(&mut self.behind);
        }
        if matches!(state, State::DeadLettering { retry: None, .. }) {
            change(&mut self.dead_lettering);
        }
        if state.is_failing() {
            change(&mut self.failing);
        }
        if matches!(state, State::DeadLettering { parked: true, .. }) {
            change(&mut self.parked);
        }
        if matches!(state, State::Held { .. }) {
            change(&mut self.held);
        }
    }
}

impl Window {
    /// Gives every offset of `range` the slot `slot`, whatever was there before.
    pub(crate) fn set(&mut self, range: OffsetRange, slot: Slot) {
        self.remove(range);
        let (mut first, mut end) = (range.first().get(), range.end().get());
        if let Some((&left, run)) = self.runs.range(..first).next_back()
            && run.end == first
            && run.slot == slot
        {
            self.take(left);
            first = left;
        }
        if let Some(right) = self.runs.get(&end).copied()
            && right.slot == slot
        {
            self.take(end);
            end = right.end;
        }
        self.place(first, Run { end, slot });
    }

    /// Forgets every offset of `range`.
    pub(crate) fn remove(&mut self, range: OffsetRange) {
        let (first, end) = (range.first().get(), range.end().get());
        while let Some((at, run)) = self.overlapping(first, end) {
            self.take(at);
            if at < first {
                self.place(
                    at,
                    Run {
                        end: first,
                        slot: run.slot,
                    },
                );
            }
            if end < run.end {
                self.place(end, run);
            }
        }
    }

    /// The lowest part of `within` that is in the window, uniform.
    pub(crate) fn piece(&self, within: OffsetRange) -> Option<(OffsetRange, Slot)> {
        let (at, run) = self.overlapping(within.first().get(), within.end().get())?;
        let run_range = range_of(at, run)?;
        Some((run_range.intersection(within)?, run.slot))
    }

    /// The whole run that holds `offset`.
    pub(crate) fn run_at(&self, offset: Offset) -> Option<(OffsetRange, Slot)> {
        let (&at, &run) = self.runs.range(..=offset.get()).next_back()?;
        range_of(at, run)
            .filter(|range| range.contains(offset))
            .map(|range| (range, run.slot))
    }

    /// The lowest run.
    pub(crate) fn front(&self) -> Option<(OffsetRange, Slot)> {
        let (&at, &run) = self.runs.first_key_value()?;
        range_of(at, run).map(|range| (range, run.slot))
    }

    /// The lowest run that may be handed out, to whomever.
    pub(crate) fn ready(&self) -> Option<(OffsetRange, Slot)> {
        let owned = self.ready_for.values().filter_map(BTreeSet::first);
        self.run_from(*owned.chain(self.ready.first()).min()?)
    }

    /// The lowest run that may be handed out to `subscriber`.
    pub(crate) fn ready_for(&self, subscriber: Subscriber) -> Option<(OffsetRange, Slot)> {
        let owned = self.ready_for.get(&subscriber).and_then(BTreeSet::first);
        self.run_from(*owned.into_iter().chain(self.ready.first()).min()?)
    }

    /// Whether anything may be handed out, to whomever.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty() || !self.ready_for.is_empty()
    }

    /// All runs that may be handed out to `subscriber`: its own, then anyone's.
    pub(crate) fn ready_runs(
        &self,
        subscriber: Subscriber,
    ) -> impl Iterator<Item = OffsetRange> + '_ {
        let owned = self.ready_for.get(&subscriber).into_iter().flatten();
        let run = |&at: &u64| range_of(at, *self.runs.get(&at)?);
        owned.chain(&self.ready).filter_map(run)
    }

    /// The lowest record that is given up and not settled.
    pub(crate) fn lowest_given_up(&self) -> Option<Offset> {
        self.given_up.first().map(|&first| Offset::new(first))
    }

    /// The lowest record whose dead letter could not be written and for which the lane
    /// waits, and when it is tried again.
    pub(crate) fn lowest_failing(&self) -> Option<(Offset, Option<Time>)> {
        let (run, slot) = self
            .given_up_runs()
            .find(|(_, slot)| slot.state.is_failing())?;
        Some((run.first(), slot.state.timer()))
    }

    /// The lowest record that waits for its dead letter.
    pub(crate) fn lowest_dead_lettering(&self) -> Option<Offset> {
        let waits = |slot: Slot| matches!(slot.state, State::DeadLettering { .. });
        let (run, _) = self.given_up_runs().find(|(_, slot)| waits(*slot))?;
        Some(run.first())
    }

    /// All runs that are given up and not settled, in offset order.
    pub(crate) fn given_up_runs(&self) -> impl Iterator<Item = (OffsetRange, Slot)> + '_ {
        let run = |&first: &u64| self.run_from(first);
        self.given_up.iter().filter_map(run)
    }

    /// The run whose time has come at `now`.
    pub(crate) fn due(&self, now: Time) -> Option<(OffsetRange, Slot)> {
        self.run_from(self.deadlines.due(now)?)
    }

    /// When the next run changes by itself.
    pub(crate) fn soonest(&self) -> Option<Time> {
        self.deadlines.soonest()
    }

    /// The counts.
    pub(crate) const fn counts(&self) -> Counts {
        self.counts
    }

    /// Whether `subscriber` has records.
    pub(crate) fn holds(&self, subscriber: Subscriber) -> bool {
        self.holders.contains_key(&subscriber)
    }

    /// The lowest-numbered subscriber that has records.
    pub(crate) fn first_holder(&self) -> Option<Subscriber> {
        self.holders
            .first_key_value()
            .map(|(&subscriber, _)| subscriber)
    }

    /// All runs in offset order.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (OffsetRange, Slot)> {
        self.runs
            .iter()
            .filter_map(|(&first, &run)| Some((range_of(first, run)?, run.slot)))
    }

    /// How many runs are settled.
    pub(crate) const fn settled_runs(&self) -> usize {
        self.settled_runs
    }

    /// How many runs there are.
    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

    /// What is wrong with the window itself, if anything.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let mut walked = Self::default();
        let mut before: Option<Run> = None;
        let mut end = 0;
        for (&first, &run) in &self.runs {
            if run.end <= first || first < end {
                return Some("runs are empty or overlap");
            }
            if first == end && before.is_some_and(|before| before.slot == run.slot) {
                return Some("equal runs touch");
            }
            walked.place(first, run);
            (before, end) = (Some(run), run.end);
        }
        if walked.counts != self.counts
            || walked.holders != self.holders
            || walked.settled_runs != self.settled_runs
        {
            return Some("counts differ from the runs");
        }
        if walked.ready != self.ready
            || walked.ready_for != self.ready_for
            || walked.given_up != self.given_up
            || walked.deadlines != self.deadlines
        {
            return Some("indexes differ from the runs");
        }
        None
    }

    /// The run that begins at `first`.
    fn run_from(&self, first: u64) -> Option<(OffsetRange, Slot)> {
        let &run = self.runs.get(&first)?;
        range_of(first, run).map(|range| (range, run.slot))
    }

    /// The lowest run that shares an offset with `first..end`.
    fn overlapping(&self, first: u64, end: u64) -> Option<(u64, Run)> {
        if let Some((&at, &run)) = self.runs.range(..=first).next_back()
            && run.end > first
            && at < end
        {
            return Some((at, run));
        }
        let (&at, &run) = self.runs.range(first..).next()?;
        (at < end).then_some((at, run))
    }

    fn place(&mut self, first: u64, run: Run) {
        let (state, records) = (run.slot.state, run.end - first);
        self.counts.add(state, records);
        if let Some(subscriber) = state.holder() {
            *self.holders.entry(subscriber).or_default() += records;
        }
        if let Some(time) = state.timer() {
            self.deadlines.add(time, first);
        }
        if let State::Ready { owner, .. } = state {
            match owner {
                None => self.ready.insert(first),
                Some(owner) => self.ready_for.entry(owner).or_default().insert(first),
            };
        }
        if state.is_given_up() {
            self.given_up.insert(first);
        }
        self.settled_runs += usize::from(matches!(state, State::Settled { .. }));
        self.runs.insert(first, run);
    }

    fn take_ready(&mut self, owner: Option<Subscriber>, first: u64) {
        let Some(owner) = owner else {
            self.ready.remove(&first);
            return;
        };
        if let Some(owned) = self.ready_for.get_mut(&owner) {
            owned.remove(&first);
            if owned.is_empty() {
                self.ready_for.remove(&owner);
            }
        }
    }

    fn take(&mut self, first: u64) {
        let Some(run) = self.runs.remove(&first) else {
            return;
        };
        let (state, records) = (run.slot.state, run.end - first);
        self.counts.remove(state, records);
        if let Some(subscriber) = state.holder()
            && let Some(held) = self.holders.get_mut(&subscriber)
        {
            *held = held.saturating_sub(records);
            if *held == 0 {
                self.holders.remove(&subscriber);
            }
        }
        if let Some(time) = state.timer() {
            self.deadlines.remove(time, first);
        }
        if let State::Ready { owner, .. } = state {
            self.take_ready(owner, first);
        }
        if state.is_given_up() {
            self.given_up.remove(&first);
        }
        self.settled_runs -= usize::from(matches!(state, State::Settled { .. }));
    }
}

fn range_of(first: u64, run: Run) -> Option<OffsetRange> {
    OffsetRange::new(Offset::new(first), crate::Position::new(run.end))
}

#[cfg(test)]
mod tests;
