//! [`Batch`]: records of one lane as they came in, for programs that work on many
//! at once.

use std::{fmt, sync::Arc, time::Duration, vec};

use ackgate_proto::v1;

use crate::{
    Delivery, Record,
    delivery::{Origin, dropped},
    resume::LaneName,
    settler::{Answer, Run, Settler},
    stats::add,
};

/// Records of one lane, in offset order, that came in one message.
///
/// Take deliveries out of it as an iterator, or answer all that are left at once:
/// [`ack_all`](Self::ack_all) costs a handful of numbers, whatever the size.
/// **Dropping a batch fails what is left in it**, as dropping each delivery would.
#[must_use = "a batch dropped without a verdict is failed"]
pub struct Batch {
    origin: Arc<Origin>,
    left: vec::IntoIter<v1::Record>,
    numbers: Numbers,
    /// The session in which what is left was last known to be the program's.
    session: u64,
    /// Whether the program has it: only then is dropping it a verdict.
    in_hand: bool,
}

/// Attempt and delivery numbers that differ from 1, in offset order.
#[derive(Clone, Debug)]
struct Numbers(Vec<v1::Redelivery>);

impl Batch {
    /// Takes in what came in `session`.
    pub(crate) fn new(settler: Arc<Settler>, session: u64, batch: v1::Batch) -> Self {
        let v1::Batch {
            lane,
            topic,
            partition,
            epoch,
            records,
            mut redeliveries,
            mut traces,
        } = batch;
        traces.sort_by_key(|trace| trace.offset);
        redeliveries.sort_by_key(|run| run.first_offset);
        let origin = Origin {
            settler,
            lane,
            name: LaneName {
                topic,
                partition,
                epoch,
            },
            traces,
        };
        let batch = Self {
            origin: Arc::new(origin),
            left: records.into_iter(),
            numbers: Numbers(redeliveries),
            session,
            in_hand: false,
        };
        let mut runs = Vec::with_capacity(1);
        batch.runs(|run| runs.push(run));
        batch.origin.settler.handed(&runs, &batch.origin.name);
        batch
    }

    /// Gives it to the program.
    pub(crate) fn into_hand(mut self) -> Self {
        self.in_hand = true;
        self
    }

    /// Returns the topic of every record.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.origin.name.topic
    }

    /// Returns the partition of every record.
    #[must_use]
    pub fn partition(&self) -> i32 {
        self.origin.name.partition
    }

    /// Returns the number of the lane's history.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.origin.name.epoch
    }

    /// Returns how many records are left.
    #[must_use]
    pub fn len(&self) -> usize {
        self.left.as_slice().len()
    }

    /// Returns whether no record is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the records that are left, without taking them out.
    pub fn records(&self) -> impl ExactSizeIterator<Item = Record<'_>> {
        self.left.as_slice().iter().map(Record)
    }

    /// Returns attempt and delivery number of the record at `offset`.
    #[must_use]
    pub fn numbers(&self, offset: i64) -> (u32, u32) {
        self.numbers.of(offset)
    }

    /// Keeps the first `count` records and returns a batch of the others, which may
    /// be empty.
    pub fn split_off(&mut self, count: usize) -> Self {
        let mut first: Vec<_> = std::mem::take(&mut self.left).collect();
        let rest = first.split_off(count.min(first.len()));
        self.left = first.into_iter();
        Self {
            origin: Arc::clone(&self.origin),
            left: rest.into_iter(),
            numbers: self.numbers.clone(),
            session: self.session,
            in_hand: self.in_hand,
        }
    }

    /// Acks all that is left.
    pub fn ack_all(mut self) {
        let settler = Arc::clone(&self.origin.settler);
        self.take_runs(|run| settler.ack(run));
    }

    /// Rejects all that is left; see [`Delivery::reject`].
    pub fn reject_all(mut self, code: impl Into<String>, reason: impl Into<String>) {
        self.answer(&Answer::Rejected {
            code: code.into(),
            reason: reason.into(),
        });
    }

    /// Fails all that is left; see [`Delivery::fail`].
    pub fn fail_all(mut self, code: impl Into<String>, reason: impl Into<String>) {
        let (code, reason) = (code.into(), reason.into());
        self.answer(&Answer::Failed {
            code,
            reason,
            retry_after: None,
        });
    }

    /// Releases all that is left; see [`Delivery::release`].
    pub fn release_all(mut self) {
        self.answer(&Answer::Released);
    }

    /// Gives no verdict on all that is left; see [`Delivery::leave`].
    pub fn leave_all(mut self) {
        self.in_hand = false;
        let settler = Arc::clone(&self.origin.settler);
        self.take_runs(|run| settler.leave(run));
    }

    /// Asks for more time for all that is left; see [`Delivery::extend`].
    pub fn extend(&self, by: Duration) {
        if !by.is_zero() {
            self.runs(|run| self.origin.settler.extend(run, by));
        }
    }

    /// Drops what the gateway did not keep over a reconnect, once `session` is open; 0:
    /// none is. It comes again, or has its verdict.
    pub(crate) fn keep(&mut self, session: u64) {
        if self.session == session {
            return;
        }
        self.session = session;
        let records: Vec<_> = std::mem::take(&mut self.left).collect();
        let before = records.len();
        let number = |offset| self.numbers.of(offset).1;
        let settler = &self.origin.settler;
        let kept = settler.retain(self.origin.lane, records, number);
        let dropped = u64::try_from(before - kept.len()).unwrap_or(u64::MAX);
        add(&settler.counters().discarded, dropped);
        self.left = kept.into_iter();
    }

    pub(crate) fn settler(&self) -> &Settler {
        &self.origin.settler
    }

    /// Drops what is left without a verdict: it was never in the program's hands.
    pub(crate) fn discard(mut self) {
        let count = u64::try_from(self.len()).unwrap_or(u64::MAX);
        add(&self.origin.settler.counters().discarded, count);
        self.left = Vec::new().into_iter();
    }

    fn answer(&mut self, answer: &Answer) {
        let settler = Arc::clone(&self.origin.settler);
        self.take_runs(|run| settler.answer(run, answer));
    }

    fn take_runs(&mut self, each: impl FnMut(Run)) {
        self.runs(each);
        self.left = Vec::new().into_iter();
    }

    /// Calls `each` with the longest runs of what is left.
    fn runs(&self, mut each: impl FnMut(Run)) {
        let mut open: Option<Run> = None;
        for record in self.left.as_slice() {
            let (lane, offset) = (self.origin.lane, record.offset);
            let (_, delivery) = self.numbers.of(offset);
            let next = Run {
                lane,
                delivery,
                first: offset,
                last: offset,
            };
            if open.as_mut().is_some_and(|run| run.join(next)) {
                continue;
            }
            if let Some(run) = open.replace(next) {
                each(run);
            }
        }
        if let Some(run) = open {
            each(run);
        }
    }
}

impl Numbers {
    fn of(&self, offset: i64) -> (u32, u32) {
        let after = self.0.partition_point(|run| run.first_offset <= offset);
        match after.checked_sub(1).and_then(|index| self.0.get(index)) {
            Some(run) if offset <= run.last_offset => (run.attempt.max(1), run.delivery.max(1)),
            Some(_) | None => (1, 1),
        }
    }
}

impl Iterator for Batch {
    type Item = Delivery;

    fn next(&mut self) -> Option<Delivery> {
        let record = self.left.next()?;
        let (attempt, number) = self.numbers.of(record.offset);
        Some(Delivery {
            origin: Arc::clone(&self.origin),
            record,
            attempt,
            number,
            answered: false,
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.left.size_hint()
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if self.in_hand && !self.is_empty() {
            self.answer(&dropped());
        }
    }
}

impl fmt::Debug for Batch {
    /// Without records: they do not belong in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("topic", &self.origin.name.topic)
            .field("partition", &self.origin.name.partition)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
