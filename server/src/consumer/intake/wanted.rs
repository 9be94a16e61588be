//! Broadcast: what one subscriber wants of what is fanned out to all.

use ackgate_lane::{Offset, OffsetRange, Subscriber, Time};

use super::{
    Tally,
    sift::{From, decode},
};
use crate::{consumer::lanes::Entry, filter::Filter};

/// Records that are looked at in one go: others have their turn as well.
const AT_ONCE: usize = 1024;

impl Tally {
    /// The beginning of `range`, which is ready for `subscriber`, that `filter` says yes
    /// to. If that is nothing, the beginning of `ready` that it says no to is passed
    /// over, and its number of records is the error.
    pub(in crate::consumer) fn trim(
        &mut self,
        now: Time,
        entry: &mut Entry,
        filter: &Filter,
        subscriber: Subscriber,
        (range, ready): (OffsetRange, OffsetRange),
    ) -> Result<OffsetRange, u64> {
        let (run, is_wanted) = self.leading_run(now, entry, filter, range);
        if is_wanted {
            return Ok(run);
        }
        let (run, _) = self.leading_run(now, entry, filter, ready);
        let passed_over = entry.lane.handle_unwanted(now, subscriber, run);
        self.counts.unwanted += passed_over;
        Err(passed_over)
    }

    /// The longest beginning of `range` of which `filter` says the same, and whether that
    /// is yes. What it says nothing about is wanted.
    fn leading_run(
        &mut self,
        now: Time,
        entry: &Entry,
        filter: &Filter,
        range: OffsetRange,
    ) -> (OffsetRange, bool) {
        let mut run = OffsetRange::one(range.first());
        let mut wanted = None;
        for index in entry.bodies.within(range).take(AT_ONCE) {
            let offset = Offset::new(index.offset);
            let is_wanted = self.wants(now, entry, filter, offset);
            if *wanted.get_or_insert(is_wanted) != is_wanted {
                break;
            }
            if let Some(longer) = OffsetRange::inclusive(range.first(), offset) {
                run = longer;
            }
        }
        (run, wanted.unwrap_or(true))
    }

    fn wants(&mut self, now: Time, entry: &Entry, filter: &Filter, offset: Offset) -> bool {
        let Some(mut record) = entry.bodies.record(offset).and_then(decode) else {
            return true;
        };
        let of = From {
            partition: &entry.partition,
            retry: entry.retry,
        };
        of.ask(filter, &mut record).unwrap_or_else(|error| {
            self.counts.filter_failures += 1;
            if let Some(count) = self.filter_failures.again(now) {
                tracing::warn!(
                    subscription = self.name,
                    topic = %entry.partition.topic,
                    partition = entry.partition.partition,
                    offset = offset.get(),
                    count, %error,
                    "a subscriber's filter says nothing about a record: it gets it"
                );
            }
            true
        })
    }
}
