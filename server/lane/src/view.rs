//! What a lane shows of itself.

use crate::{
    Lane, MapView, Offset, OffsetRange, OnReject, Order, Position, Subscriber, Time, Trip,
    lane::Phase,
    rewind::Rewind,
    slot::{Slot, State},
};

/// A run of records that may be handed out now, uniform in its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The run; any non-empty part of it from its first offset on may be taken.
    pub range: OffsetRange,
    /// The attempt this hand-over would be, 1 or more.
    pub attempt: u32,
    /// The delivery this hand-over would be, 1 or more.
    pub delivery: u32,
    /// Hand it out with nothing else in the batch: it may have killed subscribers.
    pub alone: bool,
    /// Only this subscriber may take it. Lane order: it has records of the lane out. Key
    /// order: it has the record's key.
    pub owner: Option<Subscriber>,
}

/// What a lane waits for that is not a verdict; each has a way forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// The record at the floor failed, its backoff ends at `until`, and nothing else
    /// is out or may go out. In lane order the seek back comes then.
    Backoff {
        /// The failed record.
        offset: Offset,
        /// When it may be delivered again.
        until: Time,
    },
    /// A seek has been asked for and not been answered.
    Seeking,
    /// The breaker is open: an operator must reset it.
    Breaker {
        /// What opened it.
        trip: Trip,
    },
    /// A dead letter could not be written, is tried again at `retry`, and nothing is
    /// handed out before; or the one at the floor is not confirmed yet.
    DeadLetter {
        /// The record.
        offset: Offset,
        /// The next try, if the last one failed.
        retry: Option<Time>,
    },
    /// Broadcast: a subscriber that is not there owes the record at the floor. It
    /// comes back, or is counted out at `until`.
    Subscriber {
        /// The record.
        offset: Offset,
        /// Who owes it.
        subscriber: Subscriber,
        /// When the others decide without it.
        until: Time,
    },
    /// `on_reject = hold`: an operator must act.
    Operator {
        /// The record.
        offset: Offset,
    },
    /// The drain goes on until `deadline` at most.
    Draining {
        /// The end of it.
        deadline: Time,
    },
}

/// Why a lane hands nothing out, whoever is there to take it, until something outside
/// changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The record's dead letter cannot be written.
    DeadLetter {
        /// The lowest such record.
        offset: Offset,
    },
    /// The breaker is open.
    Breaker {
        /// What opened it.
        trip: Trip,
    },
}

/// A lane as operators see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The floor: lowest unsettled offset, else the next offset to fetch.
    pub floor: Option<Position>,
    /// What Kafka has confirmed.
    pub committed: Option<Position>,
    /// The next offset to fetch.
    pub next: Option<Position>,
    /// Records received and not settled.
    pub unsettled: u64,
    /// Records out.
    pub in_flight: u64,
    /// Records waiting for their not-before time.
    pub delayed: u64,
    /// Key order: records waiting for an earlier one of their key.
    pub behind: u64,
    /// Given-up records waiting for their dead letters, also for the breaker to close.
    pub dead_lettering: u64,
    /// Given-up records that were set aside, since their dead letters could not be
    /// written.
    pub parked: u64,
    /// Why nothing is handed out, whoever is there.
    pub stop: Option<Stop>,
    /// What it waits for, if not for verdicts.
    pub hold: Option<Hold>,
    /// Its ack map.
    pub map: MapView,
}

/// Lost deliveries from which on a record goes out with nothing beside it.
const ALONE: u32 = 3;

impl Lane {
    /// The next run to hand out, if there is one and the lane may.
    #[must_use]
    pub fn ready(&self) -> Option<Ready> {
        if self.phase != Phase::Active || self.is_stopped() {
            return None;
        }
        self.describe(self.window.ready()?)
    }

    /// The next run to hand out to `subscriber`, if there is one and the lane may.
    #[must_use]
    pub fn ready_for(&self, subscriber: Subscriber) -> Option<Ready> {
        if self.phase != Phase::Active || self.is_stopped() {
            return None;
        }
        self.describe(self.window.ready_for(subscriber)?)
            .filter(|ready| ready.owner.is_none_or(|owner| owner == subscriber))
    }

    /// What there is to know about handing out a run of ready records.
    fn describe(&self, (range, slot): (OffsetRange, Slot)) -> Option<Ready> {
        let range = self.within_map(range)?;
        if self.is_held_back(range.first()) {
            return None;
        }
        let alone = slot.lost >= ALONE;
        Some(Ready {
            range: if alone {
                OffsetRange::one(range.first())
            } else {
                range
            },
            attempt: slot.attempts.saturating_add(1),
            delivery: slot.deliveries.saturating_add(1),
            alone,
            owner: match self.policy.order {
                Order::None => None,
                Order::Key { .. } => slot.state.owner(),
                Order::Lane { .. } => self.window.first_holder(),
            },
        })
    }

    /// Whether something may be handed out, to whomever.
    #[must_use]
    pub fn has_ready(&self) -> bool {
        self.phase == Phase::Active
            && !self.is_stopped()
            && self.window.has_ready()
            && (!self.policy.order.is_lane() || self.ready().is_some())
    }

    /// Every run that may be handed out to `subscriber` now, in no certain order. The
    /// numbers of one may differ from those of the next.
    pub fn ready_runs(&self, subscriber: Subscriber) -> impl Iterator<Item = OffsetRange> + '_ {
        let may = self.ready_for(subscriber).is_some();
        self.window.ready_runs(subscriber).take_while(move |_| may)
    }

    /// Whether anything is left for `subscriber`: it has records of the lane, or there
    /// are such as may be handed to it, now or later. What others have, and what is
    /// given up, does not count.
    #[must_use]
    pub fn owes(&self, subscriber: Subscriber) -> bool {
        self.rewind != Rewind::None
            || self.window.runs().any(|(_, slot)| match slot.state {
                State::Ready { owner, .. } => owner.is_none_or(|owner| owner == subscriber),
                State::Behind | State::Delayed { .. } | State::Unread { .. } => true,
                State::Dispatched { .. } | State::Out { .. } => {
                    slot.state.holder() == Some(subscriber)
                }
                State::Acked { .. }
                | State::Refused { .. }
                | State::DeadLettering { .. }
                | State::Held { .. }
                | State::Settled { .. } => false,
            })
    }

    /// Why nothing is handed out, whoever is there, although the assignment goes on.
    #[must_use]
    pub fn stop(&self) -> Option<Stop> {
        if self.phase == Phase::Done {
            return None;
        }
        if let Some(trip) = self.gauge.trip() {
            return Some(Stop::Breaker { trip });
        }
        if !self.is_stopped() {
            return None;
        }
        let failing = self.window.lowest_failing().map(|(offset, _)| offset);
        let offset = failing.or_else(|| self.window.lowest_dead_lettering())?;
        Some(Stop::DeadLetter { offset })
    }

    /// As [`Self::stop`], without looking for the record.
    pub(crate) const fn is_stopped(&self) -> bool {
        let counts = self.window.counts();
        let waiting = counts.given_up - counts.refused - counts.held;
        self.gauge.trip().is_some()
            || counts.failing > 0
            || (self.letters.are_failing() && waiting > 0)
    }

    /// Whether a drain has begun, or ended.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.phase != Phase::Active
    }

    /// Whether a drain has ended.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// How many more records may be fetched now, within the window.
    #[must_use]
    pub fn room(&self) -> u32 {
        if self.phase != Phase::Active || self.rewind != Rewind::None {
            return 0;
        }
        let counts = self.window.counts();
        let held = counts
            .unsettled
            .saturating_sub(counts.unread + self.keys.beyond());
        let records = u64::from(self.policy.window.records).saturating_sub(held);
        let span = match (self.floor(), self.next) {
            (Some(floor), Some(next)) => floor
                .get()
                .saturating_add(self.policy.window.span)
                .saturating_sub(next.get()),
            (None, _) | (_, None) => self.policy.window.span,
        };
        u32::try_from(records.min(span)).unwrap_or(u32::MAX)
    }

    /// The floor: the lowest unsettled offset received, else the next to fetch;
    /// `None` until the lane has a position. It never goes back.
    #[must_use]
    pub fn floor(&self) -> Option<Position> {
        // While records are read again some lie at or above the next to fetch.
        let lowest = self
            .window
            .front()
            .map(|(range, _)| range.first().position());
        lowest.map_or(self.next, |lowest| self.next.map(|next| next.min(lowest)))
    }

    /// The lane as operators see it.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let counts = self.window.counts();
        Snapshot {
            floor: self.floor(),
            committed: self.commits.confirmed(),
            next: self.next,
            unsettled: counts.unsettled,
            in_flight: counts.in_flight,
            delayed: counts.delayed,
            behind: counts.behind,
            dead_lettering: self.awaiting_letters(),
            parked: counts.parked,
            stop: self.stop(),
            hold: self.hold(),
            map: self.map_view(),
        }
    }

    /// When to call [`Self::handle_timeout`] next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let drain = match self.phase {
            Phase::Active => None,
            Phase::Draining { deadline } => Some(deadline),
            Phase::Done => return None,
        };
        [
            self.window.soonest(),
            self.rewind_due(),
            self.commits.due(),
            drain,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// How many things the lane remembers one by one: its memory, up to a factor.
    #[doc(hidden)]
    #[must_use]
    pub fn tracked(&self) -> usize {
        self.window.len() + self.keys.len() + self.ended.len() + self.refusals.len()
    }

    /// Given-up records that wait for their dead letters and are not set aside.
    fn awaiting_letters(&self) -> u64 {
        let counts = self.window.counts();
        let held_by_policy = if self.policy.on_reject == OnReject::Hold {
            counts.held
        } else {
            0
        };
        counts.given_up - counts.refused - counts.parked - held_by_policy
    }

    pub(crate) fn hold(&self) -> Option<Hold> {
        if let Phase::Draining { deadline } = self.phase {
            return Some(Hold::Draining { deadline });
        }
        if self.phase == Phase::Done {
            return None;
        }
        match self.stop() {
            Some(Stop::Breaker { trip }) => return Some(Hold::Breaker { trip }),
            Some(Stop::DeadLetter { offset }) => {
                let retry = self.window.lowest_failing().and_then(|(_, retry)| retry);
                return Some(Hold::DeadLetter { offset, retry });
            }
            None => {}
        }
        let (front, slot) = self.window.front()?;
        let offset = front.first();
        if let State::DeadLettering { retry, .. } = slot.state {
            return Some(Hold::DeadLetter { offset, retry });
        }
        if let State::Held { .. } = slot.state {
            return Some(Hold::Operator { offset });
        }
        if self.window.counts().in_flight > 0 {
            return None;
        }
        match (self.rewind, slot.state) {
            (Rewind::Seeking { .. }, _) => Some(Hold::Seeking),
            (Rewind::Waiting { until, .. }, _) => Some(Hold::Backoff { offset, until }),
            (Rewind::None, State::Delayed { until, .. }) if self.ready().is_none() => {
                Some(Hold::Backoff { offset, until })
            }
            (Rewind::None, _) => None,
        }
    }
}
