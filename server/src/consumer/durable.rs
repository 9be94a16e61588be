//! Answers that wait until what they confirm is durable (L12).
//!
//! **Boundary**: when that is, the lanes say; here is whom to tell, and what.
//! **Invariant**: each message that waits holds its place among the session's unread
//! answers, so what is remembered is bounded by the places.

use std::collections::BTreeMap;

use ackgate_lane::{
    Answer, Confirmation, Confirmed, Generation, OffsetRange, Subscriber, Time, Verdict,
    VerdictResult,
};

use super::{
    driver::Driver,
    handle::{Ticket, VerdictAnswer},
    inputs::answer_on,
};

/// What one message did to one lane.
#[derive(Debug)]
pub(super) struct Deed {
    generation: Generation,
    /// The lane as the subscriber knows it.
    lane: u64,
    /// Acked and rejected: to be settled and covered by a commit.
    decided: Vec<OffsetRange>,
    /// Failed and released: the next commit will do.
    returned: Vec<OffsetRange>,
}

/// What one message did.
#[derive(Debug, Default)]
pub(super) struct Deeds(Vec<Deed>);

/// A message that waits.
#[derive(Debug)]
struct Pending {
    subscriber: Subscriber,
    sequence: u64,
    answers: Vec<VerdictAnswer>,
    ticket: Option<Ticket>,
    /// Lanes that have not confirmed their part.
    deeds: Vec<Deed>,
}

/// All messages that wait.
#[derive(Debug, Default)]
pub(super) struct Durable {
    pending: BTreeMap<u64, Pending>,
    last: u64,
}

impl Deeds {
    /// Notes what `verdict` did to a lane. What repeats an equal verdict counts too:
    /// its subscriber may not have heard of the first.
    pub(super) fn note(
        &mut self,
        generation: Generation,
        lane: u64,
        verdict: Verdict,
        parts: &[Answer],
    ) {
        let done = |part: &&Answer| {
            matches!(
                part.result,
                VerdictResult::Applied | VerdictResult::Duplicate
            )
        };
        for part in parts.iter().filter(done) {
            let deed = match self.0.iter().position(|deed| deed.generation == generation) {
                Some(at) => self.0.get_mut(at),
                None => {
                    self.0.push(Deed {
                        generation,
                        lane,
                        decided: Vec::new(),
                        returned: Vec::new(),
                    });
                    self.0.last_mut()
                }
            };
            let Some(deed) = deed else { continue };
            match verdict {
                Verdict::Acked | Verdict::Rejected => join(&mut deed.decided, part.range),
                Verdict::Failed { .. } | Verdict::Released => join(&mut deed.returned, part.range),
            }
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Durable {
    /// Whether the subscriber is to be told something yet.
    pub(super) fn owes(&self, subscriber: Subscriber) -> bool {
        self.pending.values().any(|of| of.subscriber == subscriber)
    }

    /// The subscriber has gone: nobody is to be told.
    pub(super) fn forget(&mut self, subscriber: Subscriber) {
        self.pending.retain(|_, of| of.subscriber != subscriber);
    }
}

impl Driver {
    /// Answers a message once everything it did is durable.
    pub(super) fn answer_when_durable(
        &mut self,
        now: Time,
        (subscriber, sequence): (Subscriber, u64),
        answers: Vec<VerdictAnswer>,
        deeds: Deeds,
        ticket: Option<Ticket>,
    ) {
        self.durable.last += 1;
        let token = self.durable.last;
        for deed in &deeds.0 {
            if let Some(entry) = self.lanes.touch(deed.generation) {
                entry.lane.confirm(now, token, deed.decided.clone());
            }
        }
        let pending = Pending {
            subscriber,
            sequence,
            answers,
            ticket,
            deeds: deeds.0,
        };
        self.durable.pending.insert(token, pending);
    }

    /// Passes on what a lane has confirmed.
    pub(super) fn confirmed(&mut self, generation: Generation) {
        while let Some(Confirmation { token, result }) = self
            .lanes
            .get_mut(generation)
            .and_then(|entry| entry.lane.poll_confirmation())
        {
            // Whoever has gone is not told.
            let Some(pending) = self.durable.pending.get_mut(&token) else {
                continue;
            };
            match result {
                Confirmed::Void { range } => {
                    let deed = pending
                        .deeds
                        .iter()
                        .find(|deed| deed.generation == generation);
                    let lane = deed.map(|deed| deed.lane);
                    let stale = lane.map(|lane| answer_on(lane, range, VerdictResult::Stale));
                    pending.answers.extend(stale);
                }
                Confirmed::Durable => {
                    pending.deeds.retain(|deed| deed.generation != generation);
                    self.answer_if_complete(token);
                }
            }
        }
    }

    /// The lane has gone: what it has not confirmed by now, it never will.
    pub(super) fn fence_unconfirmed(&mut self, generation: Generation) {
        let mut over = Vec::new();
        for (&token, pending) in &mut self.durable.pending {
            let (gone, left): (Vec<Deed>, Vec<Deed>) = std::mem::take(&mut pending.deeds)
                .into_iter()
                .partition(|deed| deed.generation == generation);
            pending.deeds = left;
            for deed in gone {
                let ranges = deed.decided.iter().chain(&deed.returned);
                let fenced = ranges.map(|r| answer_on(deed.lane, *r, VerdictResult::Fenced));
                pending.answers.extend(fenced);
                over.push(token);
            }
        }
        for token in over {
            self.answer_if_complete(token);
        }
    }

    fn answer_if_complete(&mut self, token: u64) {
        let is_complete = |of: &Pending| of.deeds.is_empty();
        if !self.durable.pending.get(&token).is_some_and(is_complete) {
            return;
        }
        if let Some(of) = self.durable.pending.remove(&token) {
            self.answer(of.subscriber, of.sequence, of.answers, true, of.ticket);
        }
    }
}

fn join(ranges: &mut Vec<OffsetRange>, next: OffsetRange) {
    if let Some(last) = ranges.last_mut()
        && last.end() == next.first().position()
        && let Some(joined) = OffsetRange::new(last.first(), next.end())
    {
        *last = joined;
    } else {
        ranges.push(next);
    }
}
