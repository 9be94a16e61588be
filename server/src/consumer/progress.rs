//! Lanes that make no progress though they could: a record that is out for too long without
//! a verdict, and records that could be handed out and are not.
//!
//! **Boundary**: a look from outside, now and then; nothing about records follows from it.
//! **Invariants**: what a look finds is told once when it begins and once when it is over; a
//! driver that has nothing out and nothing to hand out is not woken for it.

use std::time::Duration;

use ackgate_lane::{Generation, Position, Snapshot, Standing, Time};

use super::{
    driver::Driver,
    handle::{NoticeKind, Outbound},
    inputs::notice,
    lanes::Entry,
    reason::{Reason, ReasonKind, Weight},
    tell::tell,
};

/// The least time between two looks; also how soon the end of what was told is seen.
const AGAIN: Duration = Duration::from_secs(1);

/// What looks at a lane have found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Batches that were handed out, ever.
    pub(super) handed: u64,
    /// Since when it could hand out and did not, and where it stood then.
    idle: Option<(Time, Mark)>,
    /// What was told, and since when, in milliseconds since the Unix epoch.
    told: Option<(ReasonKind, i64)>,
}

/// Where a lane stands: it has made progress if this is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    fetched: Option<Position>,
    handed: u64,
}

impl Entry {
    fn mark(&self) -> Mark {
        Mark {
            fetched: self.fetched,
            handed: self.progress.handed,
        }
    }

    /// Since when this was told of the lane, if it was.
    pub(super) fn told_since(&self, kind: ReasonKind) -> Option<i64> {
        let told = self.progress.told.filter(|(told, _)| *told == kind);
        told.map(|(_, since_ms)| since_ms)
    }
}

impl Driver {
    /// Looks at all lanes, if it is time to.
    pub(super) fn watch_progress(&mut self, now: Time) {
        match self.look {
            Some(at) if at > now => return,
            // What is out now may be so for as long as that.
            None if self.lanes.len() > 0 => {
                self.look = Some(now.after(self.parts.stalled_after));
                return;
            }
            None => return,
            Some(_) => {}
        }
        let mut next: Option<Time> = None;
        for generation in self.lanes.generations() {
            let due = self.look_at(now, generation);
            next = [next, due].into_iter().flatten().min();
        }
        self.look = next.map(|at| at.max(now.after(AGAIN)));
    }

    /// Looks at a lane; when to look again, if there is something to watch.
    fn look_at(&mut self, now: Time, generation: Generation) -> Option<Time> {
        let entry = self.lanes.get(generation)?;
        let lane = entry.lane.snapshot();
        let could = self.could_deliver(entry, &lane);
        let mark = entry.mark();
        let oldest = entry.lane.oldest_out();
        let entry = self.lanes.get_mut(generation)?;
        let same = entry.progress.idle.filter(|(_, before)| *before == mark);
        entry.progress.idle = could.then(|| same.unwrap_or((now, mark)));
        let idle = entry.progress.idle;

        let entry = self.lanes.get(generation)?;
        let reason = self.reason(now, entry, &lane);
        self.tell_progress(now, generation, reason);

        let after = self.parts.stalled_after;
        let told = self.lanes.get(generation)?.progress.told;
        [
            oldest.map(|(_, _, sent)| sent.after(after)),
            idle.map(|(since, _)| since.after(after)),
            told.map(|_| now.after(AGAIN)),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Tells the log when a lane begins to make no progress, and when it goes on.
    fn tell_progress(&mut self, now: Time, generation: Generation, reason: Option<Reason>) {
        let wall = self.wall_of(now, now);
        let Some(entry) = self.lanes.get_mut(generation) else {
            return;
        };
        // Those that stand still are told where that is found.
        let episode = reason.as_ref().filter(|reason| {
            reason.kind == ReasonKind::Rejected || reason.kind.weight() == Weight::Stalled
        });
        let was = entry.progress.told;
        let Some(reason) = episode else {
            entry.progress.told = None;
            let ended = reason.is_none_or(|reason| reason.kind.weight() == Weight::Waits);
            if let Some((kind, since_ms)) = was.filter(|_| ended) {
                tell!(info, self, entry;
                    reason = kind.code(),
                    age_ms = wall.saturating_sub(since_ms),
                    "lane goes on"
                );
                if kind == ReasonKind::Rejected {
                    let news = notice(entry.label(), NoticeKind::Recovered, None, "");
                    self.subscribers.announce(&Outbound::Lane(news));
                }
            }
            return;
        };
        if was.is_some_and(|(kind, _)| kind == reason.kind) {
            return;
        }
        let since_ms = reason.since_ms.unwrap_or(wall);
        entry.progress.told = Some((reason.kind, since_ms));
        tell!(warn, self, entry;
            offset = reason.offset,
            reason = reason.kind.code(),
            age_ms = wall.saturating_sub(since_ms),
            detail = reason.text,
            "lane makes no progress"
        );
        if reason.kind == ReasonKind::Rejected {
            let news = notice(entry.label(), NoticeKind::Held, None, &reason.text);
            self.subscribers.announce(&Outbound::Lane(news));
        }
    }

    /// The record that is out for longest, if that is too long.
    pub(super) fn unanswered(&self, now: Time, entry: &Entry) -> Option<Reason> {
        let (offset, subscriber, sent) = entry.lane.oldest_out()?;
        if now.since(sent) < self.parts.stalled_after {
            return None;
        }
        let offset = offset.get();
        let (who, away) = match self.subscribers.name(subscriber) {
            Some(name) if self.subscribers.get(subscriber).is_some() => {
                (format!("subscriber {name:?}"), "")
            }
            Some(name) => (format!("subscriber {name:?}"), ", which is away,"),
            None => ("a subscriber that is away".to_owned(), ""),
        };
        let text = format!("the record at {offset} is out to {who}{away} without a verdict");
        let since = self.wall_of(now, sent);
        Some(ReasonKind::Unanswered.because(text).of(offset).since(since))
    }

    /// Records that could be handed out, and have not been for too long.
    pub(super) fn undelivered(&self, now: Time, entry: &Entry, lane: &Snapshot) -> Option<Reason> {
        let (since, mark) = entry.progress.idle?;
        let is_long = now.since(since) >= self.parts.stalled_after;
        if !is_long || mark != entry.mark() || !self.could_deliver(entry, lane) {
            return None;
        }
        let text = if entry.lane.has_ready() {
            "records are ready and somebody has credit, and none is handed out"
        } else {
            "there are records beyond what was fetched, and Kafka delivers none"
        };
        let reason = ReasonKind::Undelivered.because(text);
        let reason = reason.since(self.wall_of(now, since));
        Some(match lane.next {
            Some(next) => reason.of(next.get()),
            None => reason,
        })
    }

    /// Whether something could be handed out, now or as soon as it is fetched.
    fn could_deliver(&self, entry: &Entry, lane: &Snapshot) -> bool {
        let stands = entry.failed || entry.standstill.is_some() || entry.lane.is_draining();
        if stands || !self.eligible || self.fence.standing() != Standing::Sound {
            return false;
        }
        let generation = entry.lane.generation();
        let takers = self.subscribers.with_room(generation);
        let mut takers = takers.into_iter().filter(|id| entry.may_take(*id));
        if entry.lane.has_ready() {
            // Those that wait for a fuller batch wait for no longer than they asked for.
            return entry.waiting.is_empty()
                && takers.any(|id| {
                    entry.lane.ready_for(id).is_some_and(|ready| {
                        let first = ackgate_lane::OffsetRange::one(ready.range.first());
                        let bytes = entry.bodies.size(first).bytes;
                        self.subscribers.allowance(id, bytes, ready.alone).is_some()
                    })
                });
        }
        let read = entry.fetched.max(lane.next).max(entry.start);
        let is_behind = read.is_some() && entry.head > read && entry.at_end.is_none();
        let may_fetch = entry.granted.records > 0 && entry.granted.bytes > 0 && !entry.starved;
        let waits = lane.hold.is_some() || entry.gate.records() > 0;
        is_behind && may_fetch && !waits && takers.next().is_some()
    }
}
