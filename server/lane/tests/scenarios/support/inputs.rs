//! Inputs in one line each, every one followed by the check of the rules.

use std::time::Duration;

use ackgate_lane::{
    Answer, Cause, CommitOutcome, DeadLetterOutcome, Offset, OnExpired, Position, SeekOutcome,
    Subscriber, Target, Verdict, VerdictResult,
};

use super::{Bench, DEADLINE, at, range};

impl Bench {
    pub(crate) fn fetched(&mut self, first: u64, last: u64) -> &mut Self {
        self.lane.handle_fetched(self.now, range(first, last));
        self.checked();
        self
    }

    /// Records from `first` on with these keys.
    pub(crate) fn keyed(&mut self, first: u64, keys: &[Option<u64>]) -> &mut Self {
        let last = first + keys.len() as u64 - 1;
        self.lane
            .handle_fetched_keyed(self.now, range(first, last), keys);
        self.checked();
        self
    }

    pub(crate) fn end(&mut self, position: u64) -> &mut Self {
        self.lane.handle_end(self.now, Position::new(position));
        self.checked();
        self
    }

    /// Hands out `first` to `last` and reports them as sent; all must be ready for `to`.
    pub(crate) fn hand(&mut self, to: Subscriber, first: u64, last: u64) -> &mut Self {
        let before = self.lane.snapshot().in_flight;
        let deadline = Duration::from_millis(DEADLINE);
        self.lane
            .handle_dispatched(self.now, to, range(first, last), deadline);
        self.checked();
        let after = self.lane.snapshot().in_flight;
        assert_eq!(after - before, last - first + 1, "not all were ready");
        self.sent(to, first, last)
    }

    pub(crate) fn paused(&mut self, subscriber: Subscriber) -> &mut Self {
        self.lane.handle_subscriber_paused(self.now, subscriber);
        self.checked();
        self
    }

    pub(crate) fn gone(&mut self, oldest: u64) -> &mut Self {
        self.lane.handle_gone(self.now, Position::new(oldest));
        self.checked();
        self
    }

    /// Fetches `first` to `last`, of which nobody wants any; how many settled.
    pub(crate) fn filtered(&mut self, first: u64, last: u64) -> u64 {
        let range = range(first, last);
        self.lane.handle_fetched(self.now, range);
        let settled = self.lane.handle_filtered(self.now, range);
        self.checked();
        settled
    }

    /// Fetches `first` to `last`, whose content is refused; how many are given up.
    pub(crate) fn unfit(&mut self, first: u64, last: u64) -> u64 {
        let range = range(first, last);
        self.lane.handle_fetched(self.now, range);
        let given_up = self.lane.handle_unfit(self.now, range, Cause::Content);
        self.checked();
        given_up
    }

    /// `first` to `last`, fetched, have become too old; how many are taken out.
    pub(crate) fn expired(&mut self, first: u64, last: u64, then: OnExpired) -> u64 {
        let taken = self.lane.handle_expired(self.now, range(first, last), then);
        self.checked();
        taken
    }

    pub(crate) fn fenced(&mut self) -> &mut Self {
        self.lane.handle_fenced(self.now);
        self.checked();
        self
    }

    /// Hands out `first` to `last`, which must be ready, and reports them as sent.
    pub(crate) fn deliver(&mut self, to: Subscriber, first: u64, last: u64) -> &mut Self {
        self.dispatch(to, first, last);
        self.lane.handle_sent(self.now, to, range(first, last));
        self.checked();
        self
    }

    pub(crate) fn dispatch(&mut self, to: Subscriber, first: u64, last: u64) -> &mut Self {
        let mut next = first;
        while next <= last {
            let ready = self.lane.ready().expect("something is ready");
            assert_eq!(ready.range.first(), Offset::new(next), "{ready:?}");
            let end = ready.range.last().get().min(last);
            let deadline = Duration::from_millis(DEADLINE);
            self.lane
                .handle_dispatched(self.now, to, range(next, end), deadline);
            self.checked();
            next = end + 1;
            // The next run may begin after a gap.
            if let Some(ready) = self.lane.ready() {
                next = next.max(ready.range.first().get());
            }
        }
        self
    }

    pub(crate) fn sent(&mut self, to: Subscriber, first: u64, last: u64) -> &mut Self {
        self.lane.handle_sent(self.now, to, range(first, last));
        self.checked();
        self
    }

    /// A verdict and its answers as (first, last, result).
    pub(crate) fn verdict(
        &mut self,
        from: Subscriber,
        (first, last): (u64, u64),
        delivery: Option<u32>,
        verdict: Verdict,
    ) -> Vec<(u64, u64, VerdictResult)> {
        let mut answers = Vec::new();
        let target = Target {
            range: range(first, last),
            delivery,
        };
        self.lane
            .handle_verdict(self.now, from, target, verdict, &mut answers);
        self.checked();
        plain(&answers)
    }

    /// A verdict that is applied to all of `first` to `last`.
    pub(crate) fn applied(
        &mut self,
        from: Subscriber,
        first: u64,
        last: u64,
        verdict: Verdict,
    ) -> &mut Self {
        let answers = self.verdict(from, (first, last), None, verdict);
        assert!(
            answers
                .iter()
                .all(|answer| answer.2 == VerdictResult::Applied),
            "{answers:?}"
        );
        self
    }

    pub(crate) fn ack(&mut self, from: Subscriber, first: u64, last: u64) -> &mut Self {
        self.applied(from, first, last, Verdict::Acked)
    }

    /// The one result of a verdict without a delivery number on one offset.
    pub(crate) fn result(
        &mut self,
        from: Subscriber,
        offset: u64,
        verdict: Verdict,
    ) -> VerdictResult {
        let answers = self.verdict(from, (offset, offset), None, verdict);
        assert_eq!(answers.len(), 1, "{answers:?}");
        answers[0].2
    }

    pub(crate) fn extend(
        &mut self,
        from: Subscriber,
        (first, last): (u64, u64),
        ms: u64,
    ) -> Vec<(u64, u64, VerdictResult)> {
        let mut answers = Vec::new();
        let target = Target {
            range: range(first, last),
            delivery: None,
        };
        self.lane.handle_extend(
            self.now,
            from,
            target,
            Duration::from_millis(ms),
            &mut answers,
        );
        self.checked();
        plain(&answers)
    }

    pub(crate) fn lost(&mut self, subscriber: Subscriber) -> &mut Self {
        self.lane.handle_subscriber_lost(self.now, subscriber);
        self.checked();
        self
    }

    pub(crate) fn closed(&mut self, subscriber: Subscriber) -> &mut Self {
        self.lane.handle_subscriber_closed(self.now, subscriber);
        self.checked();
        self
    }

    pub(crate) fn dead_letter(&mut self, offset: u64, outcome: DeadLetterOutcome) -> &mut Self {
        self.lane
            .handle_dead_letter(self.now, Offset::new(offset), outcome);
        self.checked();
        self
    }

    /// Answers the last request for `position`, if there was one.
    pub(crate) fn committed(&mut self, position: u64, outcome: CommitOutcome) -> &mut Self {
        self.note_asked();
        let asked = self.asked.iter().rev().find(|asked| asked.1 == position);
        let serial = asked.map_or(u64::MAX, |asked| asked.0);
        self.lane.handle_commit(self.now, serial, outcome);
        self.checked();
        self
    }

    pub(crate) fn sought(&mut self, outcome: SeekOutcome) -> &mut Self {
        self.lane.handle_seek(self.now, outcome);
        self.checked();
        self
    }

    pub(crate) fn drain(&mut self, deadline: u64) -> &mut Self {
        self.lane.begin_drain(self.now, at(deadline));
        self.checked();
        self
    }

    /// Waits for `ranges` to be durable.
    pub(crate) fn confirm(&mut self, token: u64, ranges: &[(u64, u64)]) -> &mut Self {
        let ranges = ranges.iter().map(|run| range(run.0, run.1)).collect();
        self.lane.confirm(self.now, token, ranges);
        self.checked();
        self
    }
}

fn plain(answers: &[Answer]) -> Vec<(u64, u64, VerdictResult)> {
    answers
        .iter()
        .map(|a| (a.range.first().get(), a.range.last().get(), a.result))
        .collect()
}
