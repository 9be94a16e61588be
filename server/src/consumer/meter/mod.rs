//! [`Meter`]: what a driver counts of its work, for whoever scrapes it.
//!
//! Invariant: plain integers of the driver's own, written per batch, range or event and
//! read in a [picture](super::Measured); no count is shared, so none costs a lock, and none ever
//! goes back.

mod by;
mod client;
mod letters;
mod sets;

use ackgate_lane::{Answer, Answered, Ready, Times};

pub use self::{
    by::{By, Closed},
    client::Client,
    sets::{CommitResult, Ended, LetterOutcome, Problem, Rebalance, SeekReason},
};
pub(in crate::consumer) use self::{
    by::{MOST, closed},
    letters::Letters,
};
use super::counts::Counts;

/// Upper bounds of the classes of attempt numbers, each included.
pub const ATTEMPT_BOUNDS: [u32; 9] = [1, 2, 3, 4, 5, 10, 20, 50, 100];

/// Records and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// Records.
    pub records: u64,
    /// Bytes of encoded records.
    pub bytes: u64,
}

/// Numbers of attempts, by classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempts {
    /// How many there are in the class of each bound, and one class above all of them.
    pub counts: [u64; ATTEMPT_BOUNDS.len() + 1],
    /// All numbers together.
    pub total: u64,
}

/// Everything that a driver has counted since it began.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    /// What came from Kafka.
    pub fetched: Volume,
    /// What was given to subscribers, repeats included.
    pub delivered: Volume,
    /// Records among those that had been given out before.
    pub redelivered: u64,
    /// Which attempt each hand-over was.
    pub attempts: Attempts,
    /// Verdicts that were applied.
    pub answered: Answered,
    /// Answers to verdicts and extensions that changed nothing.
    pub problems: By<Problem>,
    /// Deliveries that are no longer out.
    pub ended: By<Ended>,
    /// Dead letters, by cause and outcome.
    pub(in crate::consumer) letters: Letters,
    /// What became of records without a subscriber's doing.
    pub counts: Counts,
    /// Breakers that opened.
    pub trips: u64,
    /// Readings that went on elsewhere.
    pub seeks: By<SeekReason>,
    /// Seeks that Kafka's client refused.
    pub seek_failures: u64,
    /// Commits of lanes, as they were answered.
    pub commits: By<CommitResult>,
    /// From asking for a lane's commit until its answer.
    pub commit_times: Times,
    /// How often commits, of however many lanes, were handed to Kafka's client.
    pub commit_batches: u64,
    /// Offsets by which committed positions have moved.
    pub committed_offsets: u64,
    /// What the group did.
    pub rebalances: By<Rebalance>,
    /// What Kafka's client has counted.
    pub client: Client,
}

impl Volume {
    pub(in crate::consumer) const fn note(&mut self, records: u64, bytes: u64) {
        self.records = self.records.saturating_add(records);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

impl Attempts {
    /// `many` hand-overs were this attempt.
    pub(in crate::consumer) fn note(&mut self, attempt: u32, many: u64) {
        let class = ATTEMPT_BOUNDS.partition_point(|bound| *bound < attempt);
        if let Some(count) = self.counts.get_mut(class) {
            *count = count.saturating_add(many);
        }
        let sum = u64::from(attempt).saturating_mul(many);
        self.total = self.total.saturating_add(sum);
    }

    fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count = count.saturating_add(more);
        }
        self.total = self.total.saturating_add(other.total);
    }
}

impl Meter {
    /// Every cause and outcome of dead letters, with its count.
    pub fn letters(&self) -> impl Iterator<Item = (ackgate_lane::Cause, LetterOutcome, u64)> + '_ {
        self.letters.each()
    }

    /// So many records of a run were handed out.
    pub(in crate::consumer) fn handed_out(&mut self, ready: &Ready, records: u64) {
        self.attempts.note(ready.attempt, records);
        if ready.delivery > 1 {
            self.redelivered = self.redelivered.saturating_add(records);
        }
    }

    /// Counts the parts of an answer that changed nothing.
    pub(in crate::consumer) fn note_problems(&mut self, parts: &[Answer]) {
        for problem in parts.iter().filter_map(|part| Problem::of(part.result)) {
            self.problems.note(problem, 1);
        }
    }

    /// Adds what `other` has counted.
    pub fn add(&mut self, other: &Self) {
        self.fetched
            .note(other.fetched.records, other.fetched.bytes);
        self.delivered
            .note(other.delivered.records, other.delivered.bytes);
        self.redelivered += other.redelivered;
        self.attempts.add(&other.attempts);
        self.answered.add(&other.answered);
        self.problems.add(&other.problems);
        self.ended.add(&other.ended);
        self.letters.add(&other.letters);
        self.counts.add(&other.counts);
        self.trips += other.trips;
        self.seeks.add(&other.seeks);
        self.seek_failures += other.seek_failures;
        self.commits.add(&other.commits);
        self.commit_times.add(&other.commit_times);
        self.commit_batches += other.commit_batches;
        self.committed_offsets += other.committed_offsets;
        self.rebalances.add(&other.rebalances);
        self.client.add(&other.client);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_classed_by_their_number_and_summed() {
        let mut attempts = Attempts::default();
        attempts.note(1, 5);
        attempts.note(6, 2);
        attempts.note(101, 1);
        assert_eq!(attempts.counts, [5, 0, 0, 0, 0, 2, 0, 0, 0, 1]);
        assert_eq!(attempts.total, 5 + 12 + 101);
    }

    #[test]
    fn sums_are_those_of_both() {
        let mut one = Meter::default();
        one.fetched.note(2, 20);
        one.ended.note(Ended::Lost, 3);
        one.counts.filtered = 4;
        let mut sum = one.clone();
        sum.add(&one);
        assert_eq!((sum.fetched.records, sum.fetched.bytes), (4, 40));
        assert_eq!(sum.ended.of(Ended::Lost), 6);
        assert_eq!(sum.counts.filtered, 8);
    }
}
