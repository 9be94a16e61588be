//! What the oracle knows of single things: lanes, deliveries, sessions, and what was
//! said about records.

use super::Place;
use crate::sim::history::{Event, Saying, Told};

/// An assignment.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    pub(super) gateway: u64,
    pub(super) partition: i32,
    pub(super) start: u64,
    /// It begins where another tool moved the group.
    pub(super) is_reset: bool,
    /// When it came.
    pub(super) assigned: usize,
    /// Settled before it came, as was committed.
    pub(super) settled: Vec<(u64, u64)>,
    /// Tried before it came.
    pub(super) tried: Vec<(u64, u64, u32, u32)>,
    /// When it went.
    pub(super) revoked: Option<(usize, u64)>,
}

/// A hand-over as its receiver saw it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivery {
    pub(super) index: usize,
    pub(super) session: u64,
    pub(super) delivery: u32,
    pub(super) since: u64,
    pub(super) bytes: u64,
}

/// Something said about a record by a session that had received it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub(super) index: usize,
    pub(super) at: u64,
    pub(super) session: u64,
    pub(super) saying: Saying,
    pub(super) delivery: Option<u32>,
    /// Nothing was on its way to the session unread.
    pub(super) prompt: bool,
    pub(super) became: Became,
}

/// What became of a part of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Became {
    /// It was, as the answer at this index says.
    Applied(usize),
    /// It was not.
    Refused(Told),
    /// Nobody was told.
    Untold,
}

/// A session.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) gateway: u64,
    pub(super) deadline: u64,
    pub(super) confirm: u32,
    /// The largest message that it takes; 0: as is usual.
    pub(super) accepts: u64,
    /// With the times from which they counted.
    pub(super) credits: Vec<(u64, (u32, u64))>,
    /// Without a stream: what its last call asked for, and has brought.
    pub(super) draw: Option<Draw>,
    /// Said goodbye or ended.
    pub(super) over: Option<usize>,
}

/// A call that takes records: counts of records and bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draw {
    pub(super) most: (u32, u64),
    pub(super) brought: (u32, u64),
}

impl Session {
    /// Whether a call that takes records is under way.
    pub(super) fn is_calling(&self) -> bool {
        let now = self.credits.last().map(|(_, credit)| *credit);
        self.draw.is_some() && now != Some((0, 0))
    }
}

impl Lane {
    /// Whether a record was settled before the lane came, as was committed.
    pub(super) fn had_settled(&self, offset: u64) -> bool {
        let mut settled = self.settled.iter();
        settled.any(|(first, last)| (*first..=*last).contains(&offset))
    }

    /// Attempts and deliveries before the lane came, as was committed.
    pub(super) fn had_tried(&self, offset: u64) -> (u32, u32) {
        let mut tried = self.tried.iter();
        let of = tried.find(|(first, last, ..)| (*first..=*last).contains(&offset));
        of.map_or((0, 0), |(_, _, attempts, deliveries)| {
            (*attempts, *deliveries)
        })
    }
}

impl Session {
    /// Whether it would take a record.
    pub(super) fn is_eligible(&self) -> bool {
        let credit = self.credits.last().map_or((0, 0), |(_, credit)| *credit);
        self.over.is_none() && credit.0 > 0 && credit.1 > 0
    }
}

impl Delivery {
    /// Until when its holder certainly has it if nothing is said: it may expire from
    /// then on. `claims` and `all` are those about its record.
    pub(super) fn safe_until(&self, deadline: u64, claims: &[Claim], all: &[Self]) -> u64 {
        let plain = self.since + deadline;
        let newer = |at: u64| {
            all.iter().any(|other| {
                other.session == self.session && other.delivery > self.delivery && other.since <= at
            })
        };
        let extends: Vec<(u64, bool)> = claims
            .iter()
            .filter(|claim| claim.session == self.session && claim.index > self.index)
            .filter_map(|claim| match claim.saying {
                Saying::Extend(by) => {
                    let applied = matches!(claim.became, Became::Applied(_));
                    Some((claim.at + by, applied && !newer(claim.at)))
                }
                _ => None,
            })
            .collect();
        match extends.as_slice() {
            [] => plain,
            [(until, true)] => *until,
            // Some may not have been applied, or to another delivery: the least.
            several => several
                .iter()
                .map(|(until, _)| *until)
                .fold(plain, u64::min),
        }
    }
}

/// A delivery and its place.
pub(super) fn delivery(index: usize, event: &Event) -> Option<(Place, Delivery)> {
    let Event::Delivered {
        session,
        lane,
        offset,
        delivery,
        since,
        bytes,
        ..
    } = event
    else {
        return None;
    };
    let delivery = Delivery {
        index,
        session: *session,
        delivery: *delivery,
        since: *since,
        bytes: *bytes,
    };
    Some(((*lane, *offset), delivery))
}
