//! The state of one record and its history, shared by a whole run of records.
//!
//! **Boundary**: knows what a state means, not how a lane moves between them.

use std::time::Duration;

use crate::{Cause, Subscriber, Time};

/// Everything the lane knows about a record besides its offset.
///
/// Two neighbours with equal slots are one run, so a slot holds nothing that tells
/// ordinary records apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Where the record is.
    pub(crate) state: State,
    /// Failed verdicts and expiries so far.
    pub(crate) attempts: u32,
    /// Hand-overs so far; also the number of the current delivery.
    pub(crate) deliveries: u32,
    /// Hand-overs that ended because the subscriber was gone.
    pub(crate) lost: u32,
    /// Hand-overs that a failure below voided. They are not the record's fault, so
    /// they do not bring it nearer to exhaustion.
    pub(crate) voided: u32,
}

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// May be handed out. `late` held it until its deadline passed and may still answer.
    /// Key order: `owner` has the key, so only it may take the record.
    Ready {
        late: Option<Subscriber>,
        owner: Option<Subscriber>,
    },
    /// Key order: an earlier record of its key is not settled.
    Behind,
    /// On its way to the transport: no deadline runs yet.
    Dispatched {
        subscriber: Subscriber,
        ack_deadline: Duration,
    },
    /// Handed to the transport.
    Out {
        subscriber: Subscriber,
        sent: Time,
        deadline: Time,
    },
    /// Not to be handed out before `until`.
    Delayed {
        until: Time,
        late: Option<Subscriber>,
    },
    /// Lane order: to be read again after a seek. `late` may answer until the seek is asked for.
    Unread { late: Option<Subscriber> },
    /// Lane order: acked above an unsettled record, so a failure below may void it.
    Acked { subscriber: Subscriber },
    /// Lane order: given up above an unsettled record, so a failure below may void it.
    Refused {
        cause: Cause,
        subscriber: Option<Subscriber>,
    },
    /// Waits for its dead letter; `retry` is the time of the next try after a failed one.
    /// `parked`: it has failed so often that the lane goes on without it.
    DeadLettering {
        cause: Cause,
        tries: u32,
        retry: Option<Time>,
        parked: bool,
    },
    /// Waits for an operator: by policy, or because the breaker is open.
    Held { cause: Cause },
    /// Needs nothing more.
    Settled { outcome: Outcome },
}

/// How a record was settled, as far as later verdicts on it must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// By an ack.
    Acked,
    /// By its dead letter, or dropped.
    Refused,
    /// By policy, without ever being handed out by this lane.
    Filtered,
    /// It is no longer in the log.
    Gone,
}

impl Slot {
    /// A record that was never handed out.
    pub(crate) const fn fresh(state: State) -> Self {
        Self {
            state,
            attempts: 0,
            deliveries: 0,
            lost: 0,
            voided: 0,
        }
    }

    /// A settled record; its history is forgotten so that it merges with its neighbours.
    pub(crate) const fn settled(outcome: Outcome) -> Self {
        Self::fresh(State::Settled { outcome })
    }

    /// The same record in another state.
    pub(crate) const fn with(self, state: State) -> Self {
        Self { state, ..self }
    }

    /// Hand-overs that count towards `max_deliveries`.
    pub(crate) const fn own_deliveries(self) -> u32 {
        self.deliveries.saturating_sub(self.voided)
    }
}

impl State {
    /// May be handed out to anyone.
    pub(crate) const READY: Self = Self::Ready {
        late: None,
        owner: None,
    };

    /// The subscriber that has the record now.
    pub(crate) const fn holder(self) -> Option<Subscriber> {
        match self {
            Self::Dispatched { subscriber, .. } | Self::Out { subscriber, .. } => Some(subscriber),
            Self::Ready { .. }
            | Self::Behind
            | Self::Delayed { .. }
            | Self::Unread { .. }
            | Self::Acked { .. }
            | Self::Refused { .. }
            | Self::DeadLettering { .. }
            | Self::Held { .. }
            | Self::Settled { .. } => None,
        }
    }

    /// How long the record has been out; none before the notice that it was sent.
    pub(crate) fn time_out(self, now: Time) -> Duration {
        if let Self::Out { sent, .. } = self {
            now.since(sent)
        } else {
            Duration::ZERO
        }
    }

    /// The subscriber whose deadline has passed and who may still answer.
    pub(crate) const fn late(self) -> Option<Subscriber> {
        match self {
            Self::Ready { late, .. } | Self::Delayed { late, .. } | Self::Unread { late } => late,
            Self::Behind
            | Self::Dispatched { .. }
            | Self::Out { .. }
            | Self::Acked { .. }
            | Self::Refused { .. }
            | Self::DeadLettering { .. }
            | Self::Held { .. }
            | Self::Settled { .. } => None,
        }
    }

    /// Key order: who alone may take the record, ready as it is.
    pub(crate) const fn owner(self) -> Option<Subscriber> {
        if let Self::Ready { owner, .. } = self {
            owner
        } else {
            None
        }
    }

    /// The terminal decision on the record, if there is one.
    pub(crate) const fn decided(self) -> Option<Outcome> {
        match self {
            Self::Acked { .. } => Some(Outcome::Acked),
            Self::Refused { .. } | Self::DeadLettering { .. } | Self::Held { .. } => {
                Some(Outcome::Refused)
            }
            Self::Settled { outcome } => Some(outcome),
            Self::Ready { .. }
            | Self::Behind
            | Self::Dispatched { .. }
            | Self::Out { .. }
            | Self::Delayed { .. }
            | Self::Unread { .. } => None,
        }
    }

    /// When something happens to the record by itself.
    pub(crate) const fn timer(self) -> Option<Time> {
        match self {
            Self::Out { deadline: time, .. } | Self::Delayed { until: time, .. } => Some(time),
            Self::DeadLettering { retry, .. } => retry,
            Self::Ready { .. }
            | Self::Behind
            | Self::Dispatched { .. }
            | Self::Unread { .. }
            | Self::Acked { .. }
            | Self::Refused { .. }
            | Self::Held { .. }
            | Self::Settled { .. } => None,
        }
    }

    /// Whether its record is lost if a seek has taken its body and the log no longer
    /// has it.
    pub(crate) const fn needs_body(self) -> bool {
        matches!(self, Self::Unread { .. } | Self::Refused { .. })
    }

    /// Whether its dead letter could not be written, and the lane waits for it.
    pub(crate) const fn is_failing(self) -> bool {
        matches!(self, Self::DeadLettering { tries, parked: false, .. } if tries > 0)
    }

    /// Whether the record is given up and not settled yet.
    pub(crate) const fn is_given_up(self) -> bool {
        matches!(
            self,
            Self::Refused { .. } | Self::DeadLettering { .. } | Self::Held { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn voided_deliveries_do_not_count_towards_exhaustion() {
        let slot = Slot {
            deliveries: 5,
            voided: 3,
            ..Slot::fresh(State::READY)
        };
        assert_eq!(slot.own_deliveries(), 2);
    }

    #[test]
    fn settling_forgets_the_history_so_that_runs_merge() {
        assert_eq!(
            Slot::settled(Outcome::Acked),
            Slot::fresh(State::Settled {
                outcome: Outcome::Acked
            })
        );
    }
}
