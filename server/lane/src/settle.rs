//! How a record reaches its end: acked, or given up and its dead letter confirmed.
//!
//! **Invariant**: a record settles once (L5), and a given-up one only after Kafka has
//! confirmed its dead letter, unless the policy drops it (L3).

use crate::{
    Cause, DeadLetterOutcome, Effect, Lane, Offset, OffsetRange, OnReject, OnUnwritten, Order,
    Position, Subscriber, Time, atomic,
    lane::Phase,
    slot::{Outcome, Slot, State},
};

impl Lane {
    /// Takes the answer to [`Effect::DeadLetter`]. Returns why the record was given up
    /// if it has settled by this.
    pub fn handle_dead_letter(
        &mut self,
        now: Time,
        offset: Offset,
        outcome: DeadLetterOutcome,
    ) -> Option<Cause> {
        if self.phase == Phase::Done {
            return None;
        }
        if self.policy.exactly_once {
            self.handle_letter_apart(now, offset, outcome);
            return None;
        }
        let mut settled = None;
        if let Some((_, slot)) = self.window.run_at(offset)
            && let State::DeadLettering {
                cause,
                tries,
                retry,
                parked,
            } = slot.state
        {
            let record = OffsetRange::one(offset);
            match outcome {
                DeadLetterOutcome::Stored => {
                    self.settle(record, Outcome::Refused);
                    settled = Some(cause);
                }
                DeadLetterOutcome::Failed if retry.is_none() => {
                    self.letter_failed(now, record, slot, cause, tries.saturating_add(1));
                }
                DeadLetterOutcome::Postponed if retry.is_none() => {
                    let delay = self.jitter.delay(&self.policy.dead_letter_backoff, 1);
                    let state = State::DeadLettering {
                        cause,
                        tries,
                        retry: Some(now.after(delay)),
                        parked,
                    };
                    self.window.set(record, slot.with(state));
                }
                DeadLetterOutcome::Failed | DeadLetterOutcome::Postponed => {}
            }
        }
        self.end_turn(now);
        settled
    }

    /// The dead letter of `record` could not be written, `tries` times now.
    fn letter_failed(
        &mut self,
        now: Time,
        record: OffsetRange,
        slot: Slot,
        cause: Cause,
        tries: u32,
    ) {
        let backoff = &self.policy.dead_letter_backoff;
        let (parked, delay) = match self.policy.on_unwritten {
            OnUnwritten::Discard { tries: most } if tries >= most => {
                let offset = record.first();
                self.effects.push(Effect::Discarded {
                    offset,
                    cause,
                    tries,
                });
                return self.settle(record, Outcome::Refused);
            }
            // Spread over the second half of the longest backoff.
            OnUnwritten::Park { tries: most } if tries >= most => {
                if slot.state.is_failing() || tries == 1 {
                    let offset = record.first();
                    self.effects.push(Effect::Parked {
                        offset,
                        cause,
                        tries,
                    });
                }
                let spread = self.jitter.delay(backoff, u32::MAX) / 2;
                (true, backoff.max / 2 + spread)
            }
            OnUnwritten::Block | OnUnwritten::Park { .. } | OnUnwritten::Discard { .. } => {
                (false, self.jitter.delay(backoff, tries))
            }
        };
        let state = State::DeadLettering {
            cause,
            tries,
            retry: Some(now.after(delay)),
            parked,
        };
        self.window.set(record, slot.with(state));
    }

    /// Closes the breaker if it is open; whether it was. What was given up meanwhile is
    /// dead-lettered without being counted: the operator has seen it.
    pub fn reset_breaker(&mut self, now: Time) -> bool {
        if self.phase == Phase::Done || !self.gauge.reset() {
            return false;
        }
        self.each_run_from(Offset::new(0), |lane, piece, slot| {
            if let State::Held { cause } = slot.state
                && lane.route(cause) == OnReject::DeadLetter
            {
                lane.ask_for_dead_letter(piece, slot, cause, (0, false));
            }
        });
        self.end_turn(now);
        true
    }

    /// `subscriber` has acked `piece`.
    pub(crate) fn ack(&mut self, piece: OffsetRange, slot: Slot, subscriber: Subscriber) {
        match self.policy.order {
            Order::None | Order::Key { .. } | Order::Lane { skip_acked: true } => {
                self.settle(piece, Outcome::Acked);
            }
            Order::Lane { skip_acked: false } => {
                self.window
                    .set(piece, slot.with(State::Acked { subscriber }));
            }
        }
    }

    /// `piece` gets no further delivery.
    pub(crate) fn give_up(
        &mut self,
        piece: OffsetRange,
        slot: Slot,
        cause: Cause,
        subscriber: Option<Subscriber>,
    ) {
        match self.policy.order {
            Order::None | Order::Key { .. } => self.dispose(piece, slot, cause),
            // A failure below may still void this, and its body be forgotten by the
            // seek: nothing leaves the lane before everything below is decided.
            Order::Lane { .. } => {
                self.window
                    .set(piece, slot.with(State::Refused { cause, subscriber }));
            }
        }
    }

    /// Lane order: acts on the decided records from the floor up to the first
    /// undecided one; no failure can come below those any more.
    pub(crate) fn advance_prefix(&mut self) {
        if !self.policy.order.is_lane() {
            return;
        }
        let mut all_settled = true;
        let mut at = self.window.front();
        while let Some((run, slot)) = at {
            match slot.state {
                State::Acked { .. } if all_settled => self.settle(run, Outcome::Acked),
                State::Refused { cause, .. } => {
                    self.dispose(run, slot, cause);
                    all_settled &= self.route(cause) == OnReject::Drop;
                }
                State::Acked { .. } | State::Settled { .. } => {}
                State::DeadLettering { .. } | State::Held { .. } => all_settled = false,
                State::Ready { .. }
                | State::Behind
                | State::Dispatched { .. }
                | State::Out { .. }
                | State::Delayed { .. }
                | State::Unread { .. } => break,
            }
            at = OffsetRange::new(run.end().offset(), Position::new(u64::MAX))
                .and_then(|rest| self.window.piece(rest));
        }
    }

    /// Asks for the dead letter of each record of `range`, after so many failed tries
    /// and set aside or not.
    pub(crate) fn ask_for_dead_letter(
        &mut self,
        range: OffsetRange,
        slot: Slot,
        cause: Cause,
        (tries, parked): (u32, bool),
    ) {
        self.window.set(
            range,
            slot.with(State::DeadLettering {
                cause,
                tries,
                retry: None,
                parked,
            }),
        );
        if self.policy.exactly_once {
            self.await_commit();
            return;
        }
        let attempts = atomic::attempts(slot, cause);
        for offset in (range.first().get()..range.end().get()).map(Offset::new) {
            let deliveries = slot.deliveries;
            self.effects.push(Effect::DeadLetter {
                offset,
                cause,
                attempts,
                deliveries,
            });
        }
    }

    /// The records of `range` need nothing more.
    pub(crate) fn settle(&mut self, range: OffsetRange, outcome: Outcome) {
        self.commits.settled(range.len(), self.maps.are_on());
        self.end_records(range, outcome);
    }

    /// The same of given-up records that Kafka knows of already.
    pub(crate) fn settle_told(&mut self, range: OffsetRange) {
        self.end_records(range, Outcome::Refused);
    }

    fn end_records(&mut self, range: OffsetRange, outcome: Outcome) {
        self.effects.settled(range);
        self.keys.settled(range);
        self.maps.note_settled(range);
        self.confirmations.look();
        if outcome == Outcome::Acked {
            self.gauge.acked(range.len());
        }
        self.window.set(range, Slot::settled(outcome));
    }

    /// Forgets settled records that no unsettled one holds back any more. Only at
    /// the end of a turn: until then a walk over the window must find them. Those
    /// that are still to be read again stay, so that they can be passed over.
    pub(crate) fn raise_floor(&mut self) {
        let Some(next) = self.next else { return };
        while let Some((front, slot)) = self.window.front()
            && let State::Settled { outcome } = slot.state
            && let Some(done) = front.below(next)
        {
            self.window.remove(done);
            match outcome {
                Outcome::Refused => self.refusals.note(done),
                Outcome::Filtered => self.refusals.note_filtered(done),
                Outcome::Acked | Outcome::Gone => {}
            }
        }
    }

    /// Where records go that are given up for `cause`.
    const fn route(&self, cause: Cause) -> OnReject {
        match cause {
            // Those that are to be dropped are not given up at all.
            Cause::Expired => OnReject::DeadLetter,
            Cause::Rejected
            | Cause::AttemptsExhausted
            | Cause::DeliveriesExhausted
            | Cause::Oversize
            | Cause::Content => self.policy.on_reject,
        }
    }

    /// Does with given-up records what the policy says.
    fn dispose(&mut self, range: OffsetRange, slot: Slot, cause: Cause) {
        match self.route(cause) {
            OnReject::DeadLetter => self.give_up_counted(range, slot, cause),
            OnReject::Drop => {
                for offset in (range.first().get()..range.end().get()).map(Offset::new) {
                    self.effects.push(Effect::Dropped { offset, cause });
                }
                self.settle(range, Outcome::Refused);
            }
            OnReject::Hold => self.window.set(range, slot.with(State::Held { cause })),
        }
    }

    /// Asks for dead letters as long as the breaker is closed; the rest waits for an
    /// operator.
    fn give_up_counted(&mut self, range: OffsetRange, slot: Slot, cause: Cause) {
        let was_open = self.gauge.trip().is_some();
        let admitted = self.gauge.admit(range.len());
        let end = Position::new(range.first().get().saturating_add(admitted));
        if let Some(admitted) = range.below(end) {
            self.ask_for_dead_letter(admitted, slot, cause, (0, false));
        }
        if let Some(rest) = range.at_or_above(end) {
            self.window.set(rest, slot.with(State::Held { cause }));
        }
        if let Some(trip) = self.gauge.trip().filter(|_| !was_open) {
            self.effects.push(Effect::Tripped { trip });
        }
    }
}
