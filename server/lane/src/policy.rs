//! What a lane may do: limits, retries and order, fixed for its life.

use std::time::Duration;

use crate::Breaker;

/// How records of a lane may overtake each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// They may: only a failed record itself waits.
    None,
    /// Those of one key may not, null keys apart: one record of a key is out at a time,
    /// and a failed one keeps its place.
    Key {
        /// The part of `window.records` that the records of one key may fill, in
        /// thousandths, at most 1000. Those beyond do not count against it, so that a
        /// key that makes no progress leaves room to the others.
        share: u16,
    },
    /// They may not: a failure voids what is out above it, and after the backoff
    /// the lane seeks back to its floor and delivers everything from there again.
    Lane {
        /// After the seek, do not deliver again what was acked above the failure.
        skip_acked: bool,
    },
}

impl Order {
    /// Whether nothing of the lane may overtake.
    pub(crate) const fn is_lane(self) -> bool {
        matches!(self, Self::Lane { .. })
    }
}

/// What happens to a rejected or exhausted record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnReject {
    /// It settles once Kafka has confirmed its dead letter.
    DeadLetter,
    /// It settles at once; counted and logged by the driver.
    Drop,
    /// The lane holds there until an operator acts.
    Hold,
}

/// What happens to a record that was too old before it was ever handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnExpired {
    /// It settles once Kafka has confirmed its dead letter, whatever [`OnReject`] says.
    DeadLetter,
    /// It settles at once.
    Drop,
}

/// What happens to a given-up record whose dead letter cannot be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnUnwritten {
    /// The lane hands out nothing new until it is written, and tries again for ever.
    #[default]
    Block,
    /// After so many failed writes, 1 or more, the record is set aside: it stays
    /// unsettled and is tried again at the longest backoff, and the lane goes on with
    /// what may overtake it.
    Park {
        /// Failed writes; until then as with `Block`.
        tries: u32,
    },
    /// After so many failed writes, 1 or more, it settles without a dead letter.
    Discard {
        /// Failed writes; until then as with `Block`.
        tries: u32,
    },
}

/// Delays between attempts: full jitter over `initial` x `factor`^n, at most `max`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// Upper bound of the first delay.
    pub initial: Duration,
    /// Growth per attempt, at least 1.
    pub factor: f64,
    /// Upper bound of every delay.
    pub max: Duration,
}

/// Limits of what is received and not settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// In records.
    pub records: u32,
    /// From the floor to the highest offset received.
    pub span: u64,
}

/// Everything that shapes a lane's decisions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    /// Order among the lane's records.
    pub order: Order,
    /// Time for a verdict where the session asked for none of its own.
    pub ack_deadline: Duration,
    /// Failed verdicts and expiries before a record is exhausted, 1 or more.
    pub max_attempts: u32,
    /// Hand-overs before a record is exhausted, 1 or more.
    pub max_deliveries: u32,
    /// Delays between attempts.
    pub backoff: Backoff,
    /// What happens to rejected and exhausted records.
    pub on_reject: OnReject,
    /// Delays between tries of a dead letter that could not be written.
    pub dead_letter_backoff: Backoff,
    /// What happens while one cannot be written.
    pub on_unwritten: OnUnwritten,
    /// How many records may be given up before the lane stops.
    pub breaker: Breaker,
    /// Limits of what is received and not settled.
    pub window: Window,
    /// A position is committed at most this often; all lanes of a gateway commit
    /// at the same multiples of it, so that one request serves them.
    pub commit_interval: Duration,
    /// Settlements after which a commit does not wait for the interval.
    pub commit_settlements: u64,
    /// Dead letters are stored by the commits that say that their records are settled:
    /// see [`Lane::commit_letters`](crate::Lane::commit_letters).
    pub exactly_once: bool,
}
