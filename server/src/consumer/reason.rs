//! Why a lane makes no progress, in words: the one place from which every surface has them
//! (`ackgate lanes`, `/readyz`, the log, metrics).
//!
//! **Boundary**: a picture of one moment. Whether a lane holds is the lane's affair, and
//! whether it is stalled that of [`super::progress`]; nothing is decided here.

use ackgate_lane::{Hold, Snapshot, Standing, Time};

use super::{driver::Driver, lanes::Entry, standstill::Why};

/// Why a lane makes no progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The kind of reason.
    pub kind: ReasonKind,
    /// The record that it is about, if it is about one.
    pub offset: Option<u64>,
    /// Since when, in milliseconds since the Unix epoch, where that is known.
    pub since_ms: Option<i64>,
    /// In words, without control characters.
    pub text: String,
}

/// Kinds of reasons: a closed set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReasonKind {
    /// The partition cannot be read until an operator acts.
    Unreadable,
    /// A dead letter cannot be written.
    DeadLetterBlocked,
    /// Its breaker is open.
    BreakerOpen,
    /// A record was given up, and `on_reject` is `hold`.
    Rejected,
    /// A record is out for too long without a verdict.
    Unanswered,
    /// Records could be handed out, and are not.
    Undelivered,
    /// The group was not heard for a whole session.
    GroupFenced,
    /// The group was not heard for a while: nothing new is handed out.
    GroupSilent,
    /// It is given up.
    Draining,
    /// Too few subscribers, or too soon after the group was joined.
    Cohort,
    /// Broadcast: a subscriber is away and owes the record at the floor.
    SubscriberAway,
    /// A failed record waits for its next attempt.
    Backoff,
    /// Records are read again.
    Seeking,
    /// The dead letter of the record at the floor is being written.
    DeadLetterUnderWay,
    /// The group has given this gateway none.
    NoLanes,
    /// Nobody is attached that takes records.
    NoSubscriber,
    /// Nobody who may take its records has credit left.
    NoCredit,
    /// It belongs to one subscriber at a time, and to none now.
    Lease,
    /// Its window is full of records without a verdict.
    WindowFull,
    /// Records are not old enough yet.
    MinAge,
    /// It is not fetched for want of memory.
    Memory,
    /// Nothing is ready: what is there waits for an earlier record of its key.
    BehindKey,
}

/// What a kind of reason means for those who watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Ordinary: it goes on by itself.
    Waits,
    /// It makes no progress though it could.
    Stalled,
    /// It holds until something outside is mended.
    Held,
}

impl ReasonKind {
    /// All of them.
    pub const ALL: [Self; 22] = [
        Self::Unreadable,
        Self::DeadLetterBlocked,
        Self::BreakerOpen,
        Self::Rejected,
        Self::Unanswered,
        Self::Undelivered,
        Self::GroupFenced,
        Self::GroupSilent,
        Self::Draining,
        Self::Cohort,
        Self::SubscriberAway,
        Self::Backoff,
        Self::Seeking,
        Self::DeadLetterUnderWay,
        Self::NoLanes,
        Self::NoSubscriber,
        Self::NoCredit,
        Self::Lease,
        Self::WindowFull,
        Self::MinAge,
        Self::Memory,
        Self::BehindKey,
    ];

    /// The stable code.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::DeadLetterBlocked => "dead-letter-blocked",
            Self::BreakerOpen => "breaker-open",
            Self::Rejected => "rejected",
            Self::Unanswered => "unanswered",
            Self::Undelivered => "undelivered",
            Self::GroupFenced => "group-fenced",
            Self::GroupSilent => "group-silent",
            Self::Draining => "draining",
            Self::Cohort => "cohort",
            Self::SubscriberAway => "subscriber-away",
            Self::Backoff => "backoff",
            Self::Seeking => "seeking",
            Self::DeadLetterUnderWay => "dead-letter-under-way",
            Self::NoLanes => "no-lanes",
            Self::NoSubscriber => "no-subscriber",
            Self::NoCredit => "no-credit",
            Self::Lease => "lease",
            Self::WindowFull => "window-full",
            Self::MinAge => "min-age",
            Self::Memory => "memory",
            Self::BehindKey => "behind-key",
        }
    }

    /// What it means for those who watch.
    #[must_use]
    pub const fn weight(self) -> Weight {
        match self {
            Self::Unreadable
            | Self::DeadLetterBlocked
            | Self::BreakerOpen
            | Self::Rejected
            | Self::GroupFenced
            | Self::GroupSilent => Weight::Held,
            Self::Unanswered | Self::Undelivered => Weight::Stalled,
            Self::Draining
            | Self::Cohort
            | Self::SubscriberAway
            | Self::Backoff
            | Self::Seeking
            | Self::DeadLetterUnderWay
            | Self::NoLanes
            | Self::NoSubscriber
            | Self::NoCredit
            | Self::Lease
            | Self::WindowFull
            | Self::MinAge
            | Self::Memory
            | Self::BehindKey => Weight::Waits,
        }
    }

    /// A reason of this kind.
    pub(super) fn because(self, text: impl Into<String>) -> Reason {
        let text: String = text.into();
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        Reason {
            kind: self,
            offset: None,
            since_ms: None,
            text: text.chars().map(plain).collect(),
        }
    }
}

impl Reason {
    pub(super) const fn of(mut self, offset: u64) -> Self {
        self.offset = Some(offset);
        self
    }

    pub(super) const fn since(mut self, since_ms: i64) -> Self {
        self.since_ms = Some(since_ms);
        self
    }
}

impl Driver {
    /// Why the lane makes no progress, if it does not; the weightiest reason.
    pub(super) fn reason(&self, now: Time, entry: &Entry, lane: &Snapshot) -> Option<Reason> {
        self.held(entry, lane)
            .or_else(|| self.group(now))
            .or_else(|| draining(entry))
            .or_else(|| self.unanswered(now, entry))
            .or_else(|| self.awaits(now, lane))
            .or_else(|| self.untaken(entry))
            .or_else(|| self.unfetched(entry, lane))
            .or_else(|| self.undelivered(now, entry, lane))
            .or_else(|| behind(entry, lane))
    }

    fn held(&self, entry: &Entry, lane: &Snapshot) -> Option<Reason> {
        if let Some(stood) = &entry.standstill {
            let kind = match stood.why {
                Why::DeadLetter => ReasonKind::DeadLetterBlocked,
                Why::Breaker => ReasonKind::BreakerOpen,
                Why::Unreadable => ReasonKind::Unreadable,
            };
            return Some(kind.because(stood.detail.as_str()).since(stood.since_ms));
        }
        let Some(Hold::Operator { offset }) = lane.hold else {
            return None;
        };
        let offset = offset.get();
        let text = format!("the record at {offset} was given up, and on_reject is hold");
        let reason = ReasonKind::Rejected.because(text).of(offset);
        Some(match entry.told_since(ReasonKind::Rejected) {
            Some(since_ms) => reason.since(since_ms),
            None => reason,
        })
    }

    /// What keeps all lanes of the subscription, or has taken them: its group does not
    /// answer.
    pub(super) fn group(&self, now: Time) -> Option<Reason> {
        // Its lanes go with the group. Then it is told until the group is heard again.
        let has_left = self.membership.consumer().is_none();
        if has_left || (self.lanes.len() == 0 && !self.fence.is_silent(now)) {
            return None;
        }
        let silence = self.fence.silence(now);
        let (kind, follows) = match self.fence.standing() {
            Standing::Sound => return None,
            Standing::Doubtful => (
                ReasonKind::GroupSilent,
                "nothing new is handed out until it answers",
            ),
            Standing::Fenced => (
                ReasonKind::GroupFenced,
                "others may have the lanes, and what was out is void",
            ),
        };
        let text = format!("no answer from the group's coordinator: {follows}");
        let since = Time(now.0.saturating_sub(silence));
        Some(kind.because(text).since(self.wall_of(now, since)))
    }

    /// Why a subscription that has joined its group has no lanes.
    pub(super) fn laneless(&self) -> Option<Reason> {
        if self.lanes.len() > 0 || self.membership.consumer().is_none() {
            return None;
        }
        let kind = ReasonKind::NoLanes;
        Some(match self.cohort_waits() {
            Some(text) => ReasonKind::Cohort.because(text),
            None => kind.because(
                "its group has given this gateway no lanes: it is joining or being balanced, or \
                 others have them all",
            ),
        })
    }

    /// What the lane itself waits for.
    fn awaits(&self, now: Time, lane: &Snapshot) -> Option<Reason> {
        match lane.hold? {
            Hold::Backoff { offset, until } => {
                let at = self.written(now, until);
                let offset = offset.get();
                let text = format!("the record at {offset} failed and is tried again at {at}");
                Some(ReasonKind::Backoff.because(text).of(offset))
            }
            Hold::Seeking => {
                let text = "records are read again after a failure: the seek has not been answered";
                Some(ReasonKind::Seeking.because(text))
            }
            Hold::Subscriber {
                offset,
                subscriber,
                until,
            } => {
                let at = self.written(now, until);
                let offset = offset.get();
                let text = format!(
                    "subscriber {} is away and owes the record at {offset}: the others decide \
                     without it from {at} on",
                    subscriber.0
                );
                Some(ReasonKind::SubscriberAway.because(text).of(offset))
            }
            Hold::DeadLetter { offset, .. } => {
                let offset = offset.get();
                let text = format!("the dead letter of the record at {offset} is being written");
                Some(ReasonKind::DeadLetterUnderWay.because(text).of(offset))
            }
            // Told before, with more.
            Hold::Breaker { .. } | Hold::Operator { .. } | Hold::Draining { .. } => None,
        }
    }

    /// Why nobody takes its records.
    fn untaken(&self, entry: &Entry) -> Option<Reason> {
        if let Some(text) = self.cohort_waits() {
            return Some(ReasonKind::Cohort.because(text));
        }
        if !self.subscribers.any_eligible() {
            let text = match self.subscribers.len() {
                0 => "no subscriber is attached".to_owned(),
                1 => "the subscriber is paused: it has given no credit".to_owned(),
                all => format!("all {all} subscribers are paused: they have given no credit"),
            };
            return Some(ReasonKind::NoSubscriber.because(text));
        }
        if entry.is_unclaimed() {
            let text = "the lane belongs to no subscriber: it waits for its next holder";
            return Some(ReasonKind::Lease.because(text));
        }
        let generation = entry.lane.generation();
        let mut with_room = self.subscribers.with_room(generation).into_iter();
        let takes = |id| entry.may_take(id) && entry.lane.ready_for(id).is_some();
        if entry.lane.has_ready() && !with_room.any(takes) {
            let text = match entry.lease {
                Some(_) => "the credit of the lane's holder is used up",
                None => "the credit of those who may take what is ready is used up",
            };
            return Some(ReasonKind::NoCredit.because(text));
        }
        None
    }

    /// Why nothing more is fetched.
    fn unfetched(&self, entry: &Entry, lane: &Snapshot) -> Option<Reason> {
        let young = entry.gate.records();
        if entry.lane.has_ready() {
            return None;
        }
        if young > 0 && lane.unsettled == 0 {
            let text =
                format!("{young} records are not to be handed out yet (min_age, not-before)");
            return Some(ReasonKind::MinAge.because(text));
        }
        if entry.starved {
            let text = "nothing is fetched for want of memory: the gateway's `memory` is used up";
            return Some(ReasonKind::Memory.because(text));
        }
        if lane.unsettled > 0 && (entry.full || entry.lane.room() == 0) {
            let unsettled = lane.unsettled;
            let text = format!("its window is full: {unsettled} records are not settled");
            return Some(ReasonKind::WindowFull.because(text));
        }
        None
    }

    /// A moment of the lanes, in milliseconds since the Unix epoch.
    pub(super) fn wall_of(&self, now: Time, at: Time) -> i64 {
        let wall = self.parts.wall.now_ms();
        let millis = |of: std::time::Duration| i64::try_from(of.as_millis()).unwrap_or(i64::MAX);
        if at > now {
            wall.saturating_add(millis(at.since(now)))
        } else {
            wall.saturating_sub(millis(now.since(at)))
        }
    }

    /// As RFC 3339 writes it.
    fn written(&self, now: Time, at: Time) -> String {
        let ms = u64::try_from(self.wall_of(now, at)).unwrap_or_default();
        let at = std::time::UNIX_EPOCH + std::time::Duration::from_millis(ms);
        humantime::format_rfc3339_millis(at).to_string()
    }
}

fn draining(entry: &Entry) -> Option<Reason> {
    entry.lane.is_draining().then(|| {
        ReasonKind::Draining.because(
            "the lane leaves this gateway: nothing new is handed out, and verdicts on what is out \
             are waited for",
        )
    })
}

/// What key order alone keeps back.
fn behind(entry: &Entry, lane: &Snapshot) -> Option<Reason> {
    if lane.behind == 0 || entry.lane.has_ready() {
        return None;
    }
    let text = format!(
        "records that wait for an earlier one of their key: {}",
        lane.behind
    );
    Some(ReasonKind::BehindKey.because(text))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn codes_are_told_apart_and_words_steer_no_terminal() {
        let codes: BTreeSet<_> = ReasonKind::ALL.iter().map(|kind| kind.code()).collect();
        assert_eq!(codes.len(), ReasonKind::ALL.len());
        let reason = ReasonKind::Memory.because("a\u{1b}[2Jb\nc");
        assert_eq!(reason.text, "a [2Jb c");
    }

    #[test]
    fn every_kind_has_a_row_in_the_operator_guide() {
        let guide = include_str!("../../README.md");
        for kind in ReasonKind::ALL {
            assert!(
                guide.contains(&format!("| `{}` |", kind.code())),
                "{kind:?}"
            );
        }
    }
}
