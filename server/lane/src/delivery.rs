//! From hand-over to return: dispatched, sent, and the ways back that are no verdict.
//!
//! **Invariant**: each record that is dispatched is returned exactly once (L8), and is
//! ready again only after its verdict, expiry or loss and its not-before time (L10).

use std::time::Duration;

use crate::{
    Cause, Lane, Offset, OffsetRange, Order, Position, Return, Subscriber, Time,
    lane::Phase,
    slot::{Slot, State},
};

/// When a record that came back may go out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// At once.
    No,
    /// After a backoff that grows with its attempts.
    Backoff,
    /// After this long.
    For(Duration),
}

impl Lane {
    /// `range`, the beginning of what `ready` returned, goes to `subscriber`, whose
    /// deadline for it is `ack_deadline` from the hand-over to the transport.
    /// Offsets that were not ready are passed over.
    pub fn handle_dispatched(
        &mut self,
        now: Time,
        subscriber: Subscriber,
        range: OffsetRange,
        ack_deadline: Duration,
    ) {
        if self.phase == Phase::Done {
            return;
        }
        self.each_piece(range, |lane, piece, slot| {
            if matches!(slot.state, State::Ready { .. }) {
                let slot = Slot {
                    deliveries: slot.deliveries.saturating_add(1),
                    ..slot
                };
                lane.keys.give(piece, Some(subscriber));
                lane.maps.note_handed_out(piece);
                lane.window.set(
                    piece,
                    slot.with(State::Dispatched {
                        subscriber,
                        ack_deadline,
                    }),
                );
            }
        });
        self.end_turn(now);
    }

    /// What was dispatched has been handed to the transport: deadlines start.
    /// Offsets that are no longer dispatched to `subscriber` are passed over.
    pub fn handle_sent(&mut self, now: Time, subscriber: Subscriber, range: OffsetRange) {
        if self.phase == Phase::Done {
            return;
        }
        self.each_piece(range, |lane, piece, slot| {
            if let State::Dispatched {
                subscriber: to,
                ack_deadline,
            } = slot.state
                && to == subscriber
            {
                let deadline = now.after(ack_deadline);
                lane.window.set(
                    piece,
                    slot.with(State::Out {
                        subscriber,
                        sent: now,
                        deadline,
                    }),
                );
            }
        });
        self.end_turn(now);
    }

    /// Takes back everything that is out to `subscriber`, whose stream has died:
    /// no attempt is used, the delivery counts.
    pub fn handle_subscriber_lost(&mut self, now: Time, subscriber: Subscriber) {
        self.take_back(now, subscriber, Return::Lost);
    }

    /// Takes back everything that is out to anybody: Kafka may have given the lane to
    /// another gateway, which hands the same records out. As if all had been lost.
    pub fn handle_fenced(&mut self, now: Time) {
        if self.phase == Phase::Done || self.window.counts().in_flight == 0 {
            return;
        }
        self.each_run_from(Offset::new(0), |lane, piece, slot| {
            if let Some(subscriber) = slot.state.holder() {
                lane.lose_delivery(now, piece, slot, subscriber, Return::Lost);
            }
        });
        self.end_turn(now);
    }

    /// Takes back everything that is out to `subscriber`, who has said goodbye: as
    /// if it had released it.
    pub fn handle_subscriber_closed(&mut self, now: Time, subscriber: Subscriber) {
        self.take_back(now, subscriber, Return::Verdict);
    }

    /// The record, ready to go out, is larger than its subscriber accepts: it goes
    /// the way of rejected records with cause oversize.
    pub fn handle_oversize(&mut self, now: Time, offset: Offset) {
        if self.phase == Phase::Done {
            return;
        }
        if let Some((_, slot)) = self.window.run_at(offset)
            && matches!(slot.state, State::Ready { .. })
        {
            self.give_up(OffsetRange::one(offset), slot, Cause::Oversize, None);
        }
        self.end_turn(now);
    }

    /// Of the records that are out, the one that was handed to the transport first, by
    /// whom it is had and since when. Extensions change nothing about that.
    #[must_use]
    pub fn oldest_out(&self) -> Option<(Offset, Subscriber, Time)> {
        if self.window.counts().in_flight == 0 {
            return None;
        }
        let out = self
            .window
            .runs()
            .filter_map(|(range, slot)| match slot.state {
                State::Out {
                    subscriber, sent, ..
                } => Some((range.first(), subscriber, sent)),
                State::Ready { .. }
                | State::Behind
                | State::Dispatched { .. }
                | State::Delayed { .. }
                | State::Unread { .. }
                | State::Acked { .. }
                | State::Refused { .. }
                | State::DeadLettering { .. }
                | State::Held { .. }
                | State::Settled { .. } => None,
            });
        out.min_by_key(|(offset, _, sent)| (*sent, *offset))
    }

    /// The deadline of `piece` has passed.
    pub(crate) fn expire(&mut self, now: Time, piece: OffsetRange, slot: Slot) {
        let Some(subscriber) = slot.state.holder() else {
            return;
        };
        self.effects.returned(subscriber, piece, Return::Expired);
        self.ended.note(piece, subscriber, slot.deliveries, true);
        let slot = Slot {
            attempts: slot.attempts.saturating_add(1),
            ..slot
        };
        self.come_back(now, piece, slot, Wait::Backoff, Some(subscriber));
    }

    /// `piece` is no longer out; `slot` counts its last delivery already. It is given
    /// up or goes out again after `wait`; until then `late` may still answer.
    pub(crate) fn come_back(
        &mut self,
        now: Time,
        piece: OffsetRange,
        slot: Slot,
        wait: Wait,
        late: Option<Subscriber>,
    ) {
        if wait == Wait::No || late.is_some() {
            // It had the record and has done nothing with it: its key may move.
            self.keys.give(piece, None);
        }
        if self.maps.are_on() {
            self.commits.tried();
        }
        if let Some(cause) = self.exhausted(slot) {
            self.give_up(piece, slot, cause, late);
            return;
        }
        let until = match wait {
            Wait::No => now,
            Wait::For(delay) => now.after(delay),
            Wait::Backoff => now.after(self.jitter.delay(&self.policy.backoff, slot.attempts)),
        };
        match self.policy.order {
            Order::None | Order::Key { .. } if wait == Wait::No => {
                self.make_ready(piece, slot, late);
            }
            Order::None | Order::Key { .. } => self
                .window
                .set(piece, slot.with(State::Delayed { until, late })),
            Order::Lane { .. } => {
                self.window.set(piece, slot.with(State::Unread { late }));
                self.note_failure(piece.first(), until);
            }
        }
    }

    /// Why the record may not be handed out again, if so.
    pub(crate) const fn exhausted(&self, slot: Slot) -> Option<Cause> {
        if slot.attempts >= self.policy.max_attempts {
            Some(Cause::AttemptsExhausted)
        } else if slot.own_deliveries() >= self.policy.max_deliveries {
            Some(Cause::DeliveriesExhausted)
        } else {
            None
        }
    }

    /// Calls `each` with every uniform part of `range` that the window holds, in
    /// offset order. `each` may change what it is given and what lies below.
    pub(crate) fn each_piece(
        &mut self,
        range: OffsetRange,
        mut each: impl FnMut(&mut Self, OffsetRange, Slot),
    ) {
        let mut rest = Some(range);
        while let Some((piece, slot)) = rest.and_then(|rest| self.window.piece(rest)) {
            rest = rest.and_then(|rest| rest.at_or_above(piece.end()));
            each(self, piece, slot);
        }
    }

    /// Calls `each` with every run of the window from `first` on.
    pub(crate) fn each_run_from(
        &mut self,
        first: Offset,
        each: impl FnMut(&mut Self, OffsetRange, Slot),
    ) {
        if let Some(range) = OffsetRange::new(first, Position::new(u64::MAX)) {
            self.each_piece(range, each);
        }
    }

    fn take_back(&mut self, now: Time, subscriber: Subscriber, why: Return) {
        if self.phase == Phase::Done {
            return;
        }
        self.give_up_keys(subscriber);
        if !self.window.holds(subscriber) {
            return;
        }
        self.each_run_from(Offset::new(0), |lane, piece, slot| {
            if slot.state.holder() == Some(subscriber) {
                lane.lose_delivery(now, piece, slot, subscriber, why);
            }
        });
        self.end_turn(now);
    }

    /// `subscriber` has `piece` no more and has said nothing about it.
    pub(crate) fn lose_delivery(
        &mut self,
        now: Time,
        piece: OffsetRange,
        slot: Slot,
        subscriber: Subscriber,
        why: Return,
    ) {
        self.effects.returned(subscriber, piece, why);
        self.ended.note(piece, subscriber, slot.deliveries, false);
        let lost = slot.lost.saturating_add(u32::from(why == Return::Lost));
        self.come_back(now, piece, Slot { lost, ..slot }, Wait::No, None);
    }
}
