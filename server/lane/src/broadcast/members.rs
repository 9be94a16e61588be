//! Who takes part: joining, leaving, being lost and coming back, being cut off.
//!
//! **Invariant**: what a member has decided is never undone by its leaving (L14), and
//! what it owes is never passed for its absence alone (L6).

use super::{
    Broadcast, Debt, Refusal,
    share::{Presence, Share},
    tally::Counts,
};
use crate::{
    Effect, Offset, Position, ResumeAnswer, ResumeResult, Subscriber, Target, Time, lane::Phase,
};

/// Lost members whose debts are kept. Beyond it the one that has been away longest is
/// counted out: subscribers that come and go for ever must not fill the memory.
const ABSENT: usize = 256;

/// What became of a subscriber's attaching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    /// It is new: records come from the next fan-out on.
    New,
    /// It was lost and gets what it owes.
    Back(Option<Debt>),
    /// It is there already, or the lane is ending.
    Unchanged,
}

impl Broadcast {
    /// `subscriber` takes part from now on. If it was lost less than `absent_grace`
    /// ago, it gets what it owes.
    pub fn handle_subscriber_joined(&mut self, now: Time, subscriber: Subscriber) -> Joined {
        if self.trunk.phase != Phase::Active {
            return Joined::Unchanged;
        }
        let of = self.identity();
        let seed = self.seed ^ subscriber.0.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let joined = match self.shares.get_mut(&subscriber) {
            Some(share) if matches!(share.presence, Presence::Absent { .. }) => {
                share.presence = Presence::Here;
                share.heard = now;
                Joined::Back(share.debt())
            }
            Some(_) => Joined::Unchanged,
            None => {
                let share = Share::new(self.policy, of, seed, now);
                self.shares.insert(subscriber, share);
                Joined::New
            }
        };
        self.pump(now);
        joined
    }

    /// `subscriber` has said goodbye: what it decided counts, what it owes is up to
    /// the others.
    pub fn handle_subscriber_closed(&mut self, now: Time, subscriber: Subscriber) {
        self.count_out(subscriber);
        self.pump(now);
    }

    /// `subscriber`'s stream has died: what is with it comes back (a delivery, no
    /// attempt) and stays its own for `absent_grace`. Returns what it owes.
    pub fn handle_subscriber_lost(&mut self, now: Time, subscriber: Subscriber) -> Option<Debt> {
        let share = self.shares.get_mut(&subscriber)?;
        if let Presence::Absent { .. } = share.presence {
            return share.debt();
        }
        share.lane.handle_subscriber_lost(now, subscriber);
        share.presence = Presence::Absent {
            until: now.after(self.sharing.absent_grace),
        };
        self.pump(now);
        let debt = self.shares.get_mut(&subscriber).and_then(|s| s.debt());
        if debt.is_none() {
            // Nothing is kept for it: coming back it is as good as new.
            self.shares.remove(&subscriber);
        }
        self.bound_absent(now);
        self.withdraw_overdue(now);
        debt
    }

    /// `subscriber` is back before it was lost and works on `named` alone: as
    /// [`Lane::handle_resumed`](crate::Lane::handle_resumed), for its own deliveries.
    pub fn handle_resumed(
        &mut self,
        now: Time,
        subscriber: Subscriber,
        named: &[Target],
        answers: &mut Vec<ResumeAnswer>,
    ) {
        match self.shares.get_mut(&subscriber) {
            Some(share) if self.trunk.phase != Phase::Done => {
                share.lane.handle_resumed(now, subscriber, named, answers);
            }
            Some(_) | None => answers.extend(named.iter().map(|target| ResumeAnswer {
                range: target.range,
                result: ResumeResult::Lost,
            })),
        }
        self.pump(now);
    }

    /// Counts out lost members whose time is over.
    pub(super) fn withdraw_overdue(&mut self, now: Time) {
        while let Some((until, subscriber)) = self.first_absent()
            && until <= now
        {
            self.withdraw(now, subscriber);
        }
    }

    fn bound_absent(&mut self, now: Time) {
        let absent = |share: &&Share| matches!(share.presence, Presence::Absent { .. });
        while self.shares.values().filter(absent).count() > ABSENT
            && let Some((_, subscriber)) = self.first_absent()
        {
            self.withdraw(now, subscriber);
        }
    }

    fn withdraw(&mut self, now: Time, subscriber: Subscriber) {
        let debt = self.shares.get(&subscriber).and_then(Share::debt);
        if let Some(Debt { range, records }) = debt
            && self.trunk.phase != Phase::Done
        {
            self.effects.push_back(Effect::Withdrawn {
                subscriber,
                range,
                records,
            });
        }
        self.count_out(subscriber);
        self.pump(now);
    }

    /// The absent member whose time is over first.
    fn first_absent(&self) -> Option<(Time, Subscriber)> {
        let until = |(&subscriber, share): (&Subscriber, &Share)| match share.presence {
            Presence::Absent { until } => Some((until, subscriber)),
            Presence::Here | Presence::CutOff => None,
        };
        self.shares.iter().filter_map(until).min()
    }

    /// Keeps an eye on who holds a full window, or a full map: behind either of them
    /// nobody gets anything new.
    pub(super) fn watch_window(&mut self, now: Time) {
        let is_kept_back = self.trunk.window.has_ready() && self.trunk.ready().is_none();
        let is_full = self.is_full_outside || self.trunk.room() == 0 || is_kept_back;
        // While nothing is handed out it is no subscriber's fault.
        if !is_full || self.trunk.phase != Phase::Active || self.is_stopped() {
            self.full = None;
            return;
        }
        self.full.get_or_insert(now);
        while let Some((at, subscriber)) = self.first_cut_off()
            && at <= now
        {
            if let Some(share) = self.shares.get_mut(&subscriber) {
                share.presence = Presence::CutOff;
                self.effects.push_back(Effect::CutOff { subscriber });
            }
        }
    }

    /// The member that is to be cut off first, and when.
    fn first_cut_off(&self) -> Option<(Time, Subscriber)> {
        let (full, after) = (self.full?, self.sharing.cut_off_after?);
        let floor = self.trunk.floor()?.offset();
        self.shares
            .iter()
            .filter(|(_, share)| share.is_here() && share.owes(floor) && share.could_answer())
            .map(|(&subscriber, share)| (share.heard.max(full).after(after), subscriber))
            .min()
    }

    /// When something about members is due.
    pub(super) fn members_due(&self) -> Option<Time> {
        if self.trunk.phase == Phase::Done {
            return None;
        }
        let shares = self.shares.values().filter_map(Share::due).min();
        let absent = self.first_absent().map(|(time, _)| time);
        let cut_off = self.first_cut_off().map(|(time, _)| time);
        [shares, absent, cut_off].into_iter().flatten().min()
    }

    /// What `subscriber` owes, if it is a member and owes anything.
    #[must_use]
    pub fn debt(&self, subscriber: Subscriber) -> Option<Debt> {
        self.shares.get(&subscriber).and_then(Share::debt)
    }

    /// Who owes what, and until when it is waited for if it is not there; ordered by
    /// subscriber.
    #[must_use]
    pub fn members(&self) -> Vec<(Subscriber, Option<Debt>, Option<Time>)> {
        let shown = |(&subscriber, share): (&Subscriber, &Share)| {
            let until = match share.presence {
                Presence::Absent { until } => Some(until),
                Presence::Here | Presence::CutOff => None,
            };
            (subscriber, share.debt(), until)
        };
        self.shares.iter().map(shown).collect()
    }

    /// Who refused the unsettled record at `offset` first, and how.
    #[must_use]
    pub fn refusal(&self, offset: Offset) -> Option<Refusal> {
        self.tally.refusal(offset)
    }

    /// What has been said about the unsettled record at `offset` so far.
    #[must_use]
    pub fn counts(&self, offset: Offset) -> Option<Counts> {
        self.tally.counts(offset)
    }

    /// An absent member that owes the record at `floor`.
    pub(super) fn awaited(&self, floor: Position) -> Option<(Subscriber, Time)> {
        let owes = |(&subscriber, share): (&Subscriber, &Share)| match share.presence {
            Presence::Absent { until } if share.owes(floor.offset()) => Some((subscriber, until)),
            Presence::Absent { .. } | Presence::Here | Presence::CutOff => None,
        };
        self.shares.iter().find_map(owes)
    }
}
