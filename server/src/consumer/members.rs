//! Subscribers of a broadcast come, go and come back: what lanes are told about it
//! and what they tell.

use std::{sync::Arc, time::Duration};

use ackgate_lane::{Debt, Generation, Joined, OffsetRange, Subscriber, Time, Verdict};

use super::{
    driver::Driver,
    handle::{Departure, NoticeKind, Outbound},
    inputs::notice,
    mutation::{self, Mutation},
    tell::tell,
};
use crate::config::Delivery;

/// How much longer than what it owes a lost subscriber's name is remembered: its end
/// is told, and written into dead letters, by name.
const NAMED: Duration = Duration::from_secs(60);

impl Driver {
    /// The subscriber takes part in all lanes from now on.
    pub(super) fn member_joined(&mut self, subscriber: Subscriber) {
        let now = self.now();
        for generation in self.lanes.generations() {
            let Some(entry) = self.lanes.touch(generation) else {
                continue;
            };
            if let Joined::Back(Some(debt)) = entry.lane.handle_subscriber_joined(now, subscriber) {
                let detail = format!(
                    "subscriber {} is back and gets the {} records that it owes",
                    self.name(subscriber),
                    debt.records
                );
                self.tell_debt(generation, NoticeKind::Recovered, debt.range, &detail);
            }
        }
    }

    /// The subscribers that are here take part in a lane that begins.
    pub(super) fn members_join(&mut self, generation: Generation, now: Time) {
        for subscriber in self.subscribers.ids() {
            if let Some(entry) = self.lanes.touch(generation) {
                entry.lane.handle_subscriber_joined(now, subscriber);
            }
        }
    }

    /// **L6**: leaving is never an ack. What lanes keep for a lost subscriber is told;
    /// returns until when. Leases go with it.
    pub(super) fn take_back(&mut self, subscriber: Subscriber, how: Departure) -> Option<Time> {
        let now = self.now();
        let mut keep = None;
        for generation in self.lanes.generations() {
            let Some(entry) = self.lanes.touch(generation) else {
                continue;
            };
            entry.waiting.remove(&subscriber);
            match how {
                Departure::Closed => {
                    entry.lane.handle_subscriber_closed(now, subscriber);
                    entry.lane.commit_soon(now);
                }
                Departure::Lost => {
                    if mutation::is_on(Mutation::AckOnLoss) {
                        let target = mutation::everything();
                        let (acked, mut parts) = (Verdict::Acked, Vec::new());
                        let lane = &mut entry.lane;
                        lane.handle_verdict(now, subscriber, target, acked, &mut parts);
                    }
                    let debt = entry.lane.handle_subscriber_lost(now, subscriber);
                    if let (Some(debt), Delivery::Broadcast(sharing)) =
                        (debt, self.parts.subscription.delivery)
                    {
                        let grace = sharing.absent_grace;
                        keep = Some(now.after(grace).after(NAMED));
                        self.member_lost(generation, subscriber, debt, grace);
                    }
                }
            }
        }
        self.end_leases_of(subscriber);
        keep
    }

    fn member_lost(
        &self,
        generation: Generation,
        subscriber: Subscriber,
        debt: Debt,
        grace: Duration,
    ) {
        let detail = format!(
            "subscriber {} is gone and owes verdicts on {} records: waiting for it for {}",
            self.name(subscriber),
            debt.records,
            humantime::format_duration(grace)
        );
        self.tell_debt(generation, NoticeKind::Held, debt.range, &detail);
    }

    /// A lost subscriber has not come back in time.
    pub(super) fn withdrawn(
        &self,
        generation: Generation,
        subscriber: Subscriber,
        range: OffsetRange,
        records: u64,
    ) {
        let detail = format!(
            "subscriber {} did not come back in time: the others decide on the {records} records \
             that it owed",
            self.name(subscriber)
        );
        self.tell_debt(generation, NoticeKind::Recovered, range, &detail);
    }

    fn tell_debt(
        &self,
        generation: Generation,
        kind: NoticeKind,
        range: OffsetRange,
        detail: &str,
    ) {
        let Some(entry) = self.lanes.get(generation) else {
            return;
        };
        let (first_offset, last_offset) = (range.first().get(), range.last().get());
        if matches!(kind, NoticeKind::Held) {
            tell!(warn, self, entry;
                first_offset, last_offset, detail,
                "a subscriber of the broadcast owes verdicts"
            );
        } else {
            tell!(info, self, entry;
                first_offset, last_offset, detail,
                "a subscriber of the broadcast owes verdicts no more"
            );
        }
        let news = notice(entry.label(), kind, Some(range), detail);
        self.subscribers.announce(&Outbound::Lane(news));
    }

    /// The subscriber's name for people.
    pub(super) fn name(&self, subscriber: Subscriber) -> Arc<str> {
        let name = self.subscribers.name(subscriber);
        name.unwrap_or_else(|| Arc::from("whose name is forgotten"))
    }
}
