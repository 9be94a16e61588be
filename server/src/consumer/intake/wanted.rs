//! Broadcast: what one subscriber wants of what is fanned out to all.

use ackgate_lane::{Offset, OffsetRange, Time};

use super::{Tally, sift::decode};
use crate::{
    consumer::lanes::Entry,
    filter::{Filter, Subject},
};

impl Tally {
    /// The longest beginning of `range`, at most `most` records, of which `filter` says
    /// the same, and whether that is yes. What it says nothing about is wanted.
    pub(in crate::consumer) fn leading_run(
        &mut self,
        now: Time,
        entry: &Entry,
        filter: &Filter,
        range: OffsetRange,
        most: usize,
    ) -> (OffsetRange, bool) {
        let mut run = OffsetRange::one(range.first());
        let mut wanted = None;
        for index in entry.bodies.within(range).take(most) {
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
        let Some(record) = entry.bodies.record(offset).and_then(decode) else {
            return true;
        };
        let subject = Subject {
            topic: &entry.partition.topic,
            partition: entry.partition.partition,
            record: &record,
        };
        filter.matches(&subject).unwrap_or_else(|failure| {
            self.counts.filter_failures += 1;
            if let Some(episode) = self.filter_failures.again(now) {
                tracing::warn!(
                    topic = %entry.partition.topic,
                    partition = entry.partition.partition,
                    offset = offset.get(),
                    episode, %failure,
                    "a subscriber's filter says nothing about a record: it gets it"
                );
            }
            true
        })
    }
}
