//! [`Broadcast`]: a lane whose records go to every subscriber.
//!
//! It is made of lanes. The **trunk** receives the records, holds the window, the
//! floor, the commits, the dead letters and the drain, and hands every record to one
//! imaginary subscriber for as long as it takes. Each real subscriber has a **share**:
//! a lane of its own with the subscription's order, attempts and deadlines, fed by the
//! trunk. What a share decides is counted in the **tally**; when nobody owes a verdict
//! on a record any more, the counts become the imaginary subscriber's verdict.
//!
//! ```text
//! fetched ─► trunk ─┬─► share A ─► its verdicts ─┐
//!                   ├─► share B ─► its verdicts ─┼─► tally ─► verdict on the trunk
//!                   └─► share C ─► its verdicts ─┘            (commit, dead letter)
//! ```
//!
//! # The snapshot
//!
//! A record is fanned out when the lane takes it in, to the subscribers attached at
//! that time. Who joins later gets records from the next fan-out on. Records that meet
//! nobody wait.
//!
//! # The counts
//!
//! A failed, expired, released or lost delivery stays with its share, which delivers
//! it again to that subscriber alone (L14). When every subscriber of the snapshot has
//! acked, rejected, used up its attempts or gone:
//!
//! | counts | the record |
//! |---|---|
//! | any rejected or exhausted | is given up once, with the cause and numbers of the first that refused it |
//! | else any acked | settles |
//! | nobody answered | is fanned out anew to whoever is there, or waits (L6) |
//!
//! # Leaving
//!
//! - A goodbye withdraws the subscriber: what it decided keeps counting, what it owes
//!   is up to the others.
//! - A loss keeps its share for `absent_grace`. Under the same identity it gets what
//!   it owes, and nothing else twice. After that it is withdrawn and reported
//!   ([`Effect::Withdrawn`]).
//! - With `cut_off_after`, a subscriber that owes the record at the floor while the
//!   window is full, or a full ack map keeps records back, and gives no verdict for
//!   that long, is to be cut off ([`Effect::CutOff`]), which is a loss.
//!
//! # Order
//!
//! The subscription's order holds for each share. One subscriber's failure voids
//! nothing that another one has.

mod check;
mod deliver;
mod intake;
mod members;
mod pump;
mod share;
mod tally;
mod view;

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

pub use self::{members::Joined, share::Debt, tally::Counts};
use self::{share::Share, tally::Tally};
use crate::{
    Answered, Cause, CommitOutcome, Confirmation, DeadLetterOutcome, Effect, Epoch, Generation,
    Lane, Letter, Offset, OffsetRange, Order, Policy, Start, Subscriber, Time,
};

/// Who has all records of the trunk: nobody, but a lane knows only holders.
const TRUNK: Subscriber = Subscriber(u64::MAX);

/// What shapes a broadcast beyond the lanes it is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// Without a verdict for this long, a subscriber that keeps the window full is cut
    /// off; `None`: the lane waits for it.
    pub cut_off_after: Option<Duration>,
    /// How long what a lost subscriber owes is kept for it.
    pub absent_grace: Duration,
}

/// A member's last word on a record that it gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Who.
    pub subscriber: Subscriber,
    /// Why.
    pub cause: Cause,
    /// Attempts used at this subscriber, with the one that rejected it.
    pub attempts: u32,
    /// Hand-overs to this subscriber.
    pub deliveries: u32,
}

/// The state of one (topic, partition) while assigned, for all subscribers.
#[derive(Debug)]
pub struct Broadcast {
    /// What shares are made with.
    policy: Policy,
    sharing: Sharing,
    seed: u64,
    trunk: Lane,
    shares: BTreeMap<Subscriber, Share>,
    tally: Tally,
    /// Key order: the keys of unsettled records, for members to whom they are fanned out
    /// later.
    keys: BTreeMap<u64, u64>,
    /// Since when the window, or the ack map, has kept records back.
    full: Option<Time>,
    /// Something that the lane does not see, as bytes, keeps it from fetching.
    is_full_outside: bool,
    effects: VecDeque<Effect>,
    /// Verdicts of members that were applied, not yet taken.
    answered: Answered,
}

impl Broadcast {
    /// Begins a lane without members.
    #[must_use]
    pub fn new(policy: Policy, sharing: Sharing, start: Start) -> Self {
        let trunk = Policy {
            order: Order::None,
            // The imaginary subscriber fails at nothing; real ones do in their shares.
            max_attempts: u32::MAX,
            max_deliveries: u32::MAX,
            ..policy
        };
        Self {
            policy,
            sharing,
            seed: start.seed,
            trunk: Lane::new(trunk, start),
            shares: BTreeMap::new(),
            tally: Tally::default(),
            keys: BTreeMap::new(),
            full: None,
            is_full_outside: false,
            effects: VecDeque::new(),
            answered: Answered::default(),
        }
    }

    /// As [`Lane::handle_dead_letter`]; the cause is that of the first refusal.
    pub fn handle_dead_letter(
        &mut self,
        now: Time,
        offset: Offset,
        outcome: DeadLetterOutcome,
    ) -> Option<Cause> {
        let refusal = self.tally.refusal(offset);
        let settled = self.trunk.handle_dead_letter(now, offset, outcome);
        self.pump(now);
        settled.map(|cause| refusal.map_or(cause, |refusal| refusal.cause))
    }

    /// As [`Lane::reset_breaker`].
    pub fn reset_breaker(&mut self, now: Time) -> bool {
        let was_open = self.trunk.reset_breaker(now);
        self.pump(now);
        was_open
    }

    /// As [`Lane::handle_commit`].
    pub fn handle_commit(&mut self, now: Time, serial: u64, outcome: CommitOutcome) {
        self.trunk.handle_commit(now, serial, outcome);
        self.pump(now);
    }

    /// As [`Lane::commit_map`].
    #[must_use]
    pub fn commit_map(&self, serial: u64) -> Option<&[u8]> {
        self.trunk.commit_map(serial)
    }

    /// As [`Lane::commit_letters`]; each tells of its first refusal.
    #[must_use]
    pub fn commit_letters(&self, serial: u64) -> Vec<Letter> {
        let letters = self.trunk.commit_letters(serial).iter();
        letters
            .map(|letter| match self.tally.refusal(letter.offset) {
                Some(refusal) => Letter {
                    offset: letter.offset,
                    cause: refusal.cause,
                    attempts: refusal.attempts,
                    deliveries: refusal.deliveries,
                },
                None => *letter,
            })
            .collect()
    }

    /// As [`Lane::confirm`]: a record is settled once everybody has answered for it,
    /// so that is what the confirmation of one subscriber's verdict waits for.
    pub fn confirm(&mut self, now: Time, token: u64, ranges: Vec<OffsetRange>) {
        self.trunk.confirm(now, token, ranges);
        self.pump(now);
    }

    /// As [`Lane::poll_confirmation`].
    pub fn poll_confirmation(&mut self) -> Option<Confirmation> {
        self.trunk.poll_confirmation()
    }

    /// As [`Lane::commit_start`].
    pub fn commit_start(&mut self, now: Time) {
        self.trunk.commit_start(now);
        self.pump(now);
    }

    /// As [`Lane::commit_soon`].
    pub fn commit_soon(&mut self, now: Time) {
        self.trunk.commit_soon(now);
        self.pump(now);
    }

    /// As [`Lane::handle_timeout`].
    pub fn handle_timeout(&mut self, now: Time) {
        for share in self.shares.values_mut() {
            share.lane.handle_timeout(now);
        }
        self.pump(now);
        self.withdraw_overdue(now);
        // Last: what shares return at a drain's deadline comes before its end.
        self.trunk.handle_timeout(now);
        self.pump(now);
    }

    /// As [`Lane::begin_drain`]: ends early once nothing is with any subscriber.
    pub fn begin_drain(&mut self, now: Time, deadline: Time) {
        for share in self.shares.values_mut() {
            share.lane.begin_drain(now, deadline);
        }
        self.pump(now);
        self.trunk.begin_drain(now, deadline);
        self.pump(now);
    }

    /// Whether something that the lane does not see, as the bytes retained, keeps it
    /// from fetching more: a window that is full for another reason.
    pub fn handle_full(&mut self, now: Time, is_full: bool) {
        self.is_full_outside = is_full;
        self.pump(now);
    }

    /// As [`Lane::take_answered`], for every member's own verdicts.
    pub fn take_answered(&mut self) -> Answered {
        std::mem::take(&mut self.answered)
    }

    /// The next thing to do; call until `None` after every input.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    fn identity(&self) -> (Generation, Epoch) {
        (self.trunk.generation(), self.trunk.epoch())
    }
}
