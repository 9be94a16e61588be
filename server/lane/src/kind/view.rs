//! What a lane of either kind says of itself.

use crate::{
    Counts, Epoch, Generation, Kind, Letter, Offset, OffsetRange, Position, Ready, Refusal,
    Snapshot, Stop, Subscriber, Time,
};

impl Kind {
    /// As [`Lane::commit_map`](crate::Lane::commit_map).
    #[must_use]
    pub fn commit_map(&self, serial: u64) -> Option<&[u8]> {
        both!(self.commit_map(serial))
    }

    /// As [`Lane::commit_letters`](crate::Lane::commit_letters).
    #[must_use]
    pub fn commit_letters(&self, serial: u64) -> Vec<Letter> {
        match self {
            Self::Competing(lane) => lane.commit_letters(serial).to_vec(),
            Self::Broadcast(lane) => lane.commit_letters(serial),
        }
    }

    /// When to call [`Self::handle_timeout`] next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        both!(self.poll_timeout())
    }

    /// The next run to hand out to `subscriber`, if there is one and the lane may.
    #[must_use]
    pub fn ready_for(&self, subscriber: Subscriber) -> Option<Ready> {
        both!(self.ready_for(subscriber))
    }

    /// Whether something may be handed out, to whomever.
    #[must_use]
    pub fn has_ready(&self) -> bool {
        both!(self.has_ready())
    }

    /// As [`Lane::ready_runs`](crate::Lane::ready_runs).
    pub fn ready_runs(&self, subscriber: Subscriber) -> impl Iterator<Item = OffsetRange> + '_ {
        let lane = match self {
            Self::Competing(lane) => Some(&**lane),
            Self::Broadcast(lane) if lane.is_stopped() => None,
            Self::Broadcast(lane) => lane.share_of(subscriber),
        };
        lane.into_iter()
            .flat_map(move |lane| lane.ready_runs(subscriber))
    }

    /// As [`Lane::owes`](crate::Lane::owes).
    #[must_use]
    pub fn owes(&self, subscriber: Subscriber) -> bool {
        both!(self.owes(subscriber))
    }

    /// As [`Lane::oldest_out`](crate::Lane::oldest_out).
    #[must_use]
    pub fn oldest_out(&self) -> Option<(Offset, Subscriber, Time)> {
        both!(self.oldest_out())
    }

    /// As [`Lane::stop`](crate::Lane::stop).
    #[must_use]
    pub fn stop(&self) -> Option<Stop> {
        both!(self.stop())
    }

    /// Whether a drain has begun, or ended.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        both!(self.is_draining())
    }

    /// Whether a drain has ended.
    #[must_use]
    pub fn is_done(&self) -> bool {
        both!(self.is_done())
    }

    /// Whether every subscriber gets every record.
    #[must_use]
    pub const fn is_broadcast(&self) -> bool {
        matches!(self, Self::Broadcast(_))
    }

    /// How many more records may be fetched now, within the window.
    #[must_use]
    pub fn room(&self) -> u32 {
        both!(self.room())
    }

    /// As [`Lane::floor`](crate::Lane::floor).
    #[must_use]
    pub fn floor(&self) -> Option<Position> {
        both!(self.floor())
    }

    /// The lane as operators see it.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        both!(self.snapshot())
    }

    /// The assignment that this lane is.
    #[must_use]
    pub fn generation(&self) -> Generation {
        both!(self.generation())
    }

    /// The history that this lane belongs to.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        both!(self.epoch())
    }

    /// As [`Broadcast::counts`](crate::Broadcast::counts); `None` for a competing lane.
    #[must_use]
    pub fn counts(&self, offset: Offset) -> Option<Counts> {
        match self {
            Self::Competing(_) => None,
            Self::Broadcast(lane) => lane.counts(offset),
        }
    }

    /// As [`Broadcast::refusal`](crate::Broadcast::refusal); `None` for a competing lane.
    #[must_use]
    pub fn refusal(&self, offset: Offset) -> Option<Refusal> {
        match self {
            Self::Competing(_) => None,
            Self::Broadcast(lane) => lane.refusal(offset),
        }
    }
}
