//! Gives each command to the lane and its reference and compares them.

use std::time::Duration;

use ackgate_lane::{
    CommitOutcome, DeadLetterOutcome, Effect, Epoch, Generation, Lane, Offset, OffsetRange,
    OnReject, Policy, Position, Return, SeekOutcome, Start, Subscriber, Target, Time, Verdict,
    VerdictResult, invariants,
};

use crate::{
    commands::{Command, Number, Spot},
    reference::{Did, Is, Reference},
    world::World,
};

pub(crate) struct Harness {
    policy: Policy,
    seed: u64,
    lane: Lane,
    /// The lane of the generation before, which must have no say any more.
    old: Option<Lane>,
    generation: u64,
    reference: Reference,
    world: World,
    now: Time,
    /// Dispatched and not reported as sent.
    unsent: Vec<(u64, (u64, u64))>,
    /// Not-before times that verdicts asked for, by offset (L10).
    not_before: std::collections::BTreeMap<u64, Time>,
    pub(crate) trace: Vec<Effect>,
    pub(crate) answers: Vec<VerdictResult>,
}

fn range(offsets: (u64, u64)) -> OffsetRange {
    OffsetRange::new(Offset::new(offsets.0), Position::new(offsets.1)).expect("not empty")
}

fn start(generation: u64, position: u64, seed: u64) -> Start {
    Start {
        generation: Generation(generation),
        epoch: Epoch(0),
        position: Some(Position::new(position)),
        committed: generation > 1,
        seed,
    }
}

impl Harness {
    pub(crate) fn new(policy: Policy, seed: u64) -> Self {
        Self {
            policy,
            seed,
            lane: Lane::new(policy, start(1, 0, seed)),
            old: None,
            generation: 1,
            reference: Reference::new(policy, 0),
            world: World::default(),
            now: Time::default(),
            unsent: Vec::new(),
            not_before: std::collections::BTreeMap::new(),
            trace: Vec::new(),
            answers: Vec::new(),
        }
    }

    pub(crate) fn run(&mut self, command: &Command) {
        match *command {
            Command::Append { count, gaps } => self.world.append(count, gaps),
            Command::Fetch { count } => self.fetch(count),
            Command::FetchAgain { back, count } => self.fetch_again(back, count),
            Command::Dispatch {
                to,
                count,
                deadline,
            } => self.dispatch(to, count, deadline),
            Command::Sent { index } => self.sent(index),
            Command::Say {
                from,
                at,
                length,
                delivery,
                verdict,
                by,
            } => {
                let first = self.spot(at);
                let delivery = match delivery {
                    Number::Any => None,
                    Number::Exactly(number) => Some(number),
                    Number::Current => self.reference.records.get(&first).map(|r| r.deliveries),
                };
                let from = match at {
                    Spot::Out(_) => self.world.out.get(&first).copied().unwrap_or(from),
                    Spot::Again(_) => self.former_holder(first).unwrap_or(from),
                    Spot::Floor(_) => from,
                };
                self.say(from, (first, first + length), delivery, verdict, by);
            }
            Command::Lost { subscriber } => self.gone(subscriber, Return::Lost),
            Command::Closed { subscriber } => self.gone(subscriber, Return::Verdict),
            Command::Oversize => self.oversize(),
            Command::Wait { ms } => self.wait(Duration::from_millis(ms)),
            Command::Oversleep { ms } => {
                self.now = self.now.after(Duration::from_millis(ms));
                self.timeout();
            }
            Command::Letter { index, stored } => {
                let letter = self.world.letters.iter().nth(index).copied();
                if let Some(offset) = letter {
                    self.letter(offset, stored);
                }
            }
            Command::Commit { done } => self.commit(done),
            Command::Seek { done } => self.seek(done),
            Command::Vanish { index } => self.vanish(index),
            Command::Drain { ms } => self.drain(self.now.after(Duration::from_millis(ms))),
        }
        if self.world.drained {
            self.reassign();
        }
    }

    fn oversize(&mut self) {
        if let Some(ready) = self.lane.ready() {
            let offset = ready.range.first();
            self.lane.handle_oversize(self.now, offset);
            self.reference.oversize(self.now, offset.get());
            self.compare();
        }
    }

    fn vanish(&mut self, index: usize) {
        let records = self.reference.records.iter();
        let unread = records
            .filter(|(_, record)| record.is == Is::Unread)
            .nth(index);
        let otherwise = self.reference.floor() + index as u64;
        self.world
            .vanish(unread.map_or(otherwise, |(&offset, _)| offset));
    }

    fn drain(&mut self, deadline: Time) {
        self.lane.begin_drain(self.now, deadline);
        self.reference.drain(self.now, deadline);
        self.compare();
    }

    fn spot(&self, at: Spot) -> u64 {
        let floor = self.reference.floor();
        match at {
            Spot::Out(index) if !self.world.out.is_empty() => {
                let index = index % self.world.out.len();
                self.world.out.keys().nth(index).copied().unwrap_or(floor)
            }
            Spot::Again(index) => {
                let again = |offset: &u64| self.former_holder(*offset).is_some();
                let offsets: Vec<u64> = self
                    .reference
                    .records
                    .keys()
                    .copied()
                    .filter(again)
                    .collect();
                offsets
                    .get(index % offsets.len().max(1))
                    .copied()
                    .unwrap_or(floor)
            }
            Spot::Out(_) => floor,
            Spot::Floor(delta) => floor.saturating_add_signed(delta),
        }
    }

    /// Who had the record last and has it no more.
    fn former_holder(&self, offset: u64) -> Option<u64> {
        let record = self.reference.records.get(&offset)?;
        let over = record
            .over
            .last()
            .filter(|_| !matches!(record.is, Is::Settled(_)));
        over.map(|&(subscriber, ..)| subscriber)
    }

    fn fetch(&mut self, count: u64) {
        // While a seek is awaited the consumer passes nothing in.
        if self.world.seek.is_some() {
            return;
        }
        let room = u64::from(self.lane.room());
        for run in self.world.fetch(count.min(room)) {
            self.lane.handle_fetched(self.now, range(run));
            self.reference.fetched(self.now, run.0, run.1);
            self.compare();
        }
    }

    fn fetch_again(&mut self, back: u64, count: u64) {
        let first = self.reference.next.saturating_sub(back);
        let end = (first + count).min(self.reference.next);
        if first < end && self.world.seek.is_none() {
            self.lane.handle_fetched(self.now, range((first, end)));
            self.reference.fetched(self.now, first, end);
            self.compare();
        }
    }

    fn dispatch(&mut self, to: u64, count: u64, deadline: u64) {
        let Some(ready) = self.lane.ready() else {
            return;
        };
        let to = ready.owner.map_or(to, |owner| owner.0);
        let first = ready.range.first().get();
        let offsets = (first, (first + count).min(ready.range.end().get()));
        for offset in offsets.0..offsets.1 {
            let record = &self.reference.records[&offset];
            assert_eq!(record.is, Is::Ready, "{offset} is not ready");
            assert_eq!(record.attempts + 1, ready.attempt, "attempt of {offset}");
            assert_eq!(
                record.deliveries + 1,
                ready.delivery,
                "delivery of {offset}"
            );
            let not_before = self.not_before.remove(&offset).unwrap_or_default();
            assert!(not_before <= self.now, "L10: {offset} before its time");
        }
        let deadline = Duration::from_millis(deadline);
        self.lane
            .handle_dispatched(self.now, Subscriber(to), range(offsets), deadline);
        self.reference.dispatched(self.now, to, offsets, deadline);
        self.world.hand_over(to, offsets);
        self.unsent.push((to, offsets));
        self.compare();
    }

    fn sent(&mut self, index: usize) {
        if index < self.unsent.len() {
            let (to, offsets) = self.unsent.remove(index);
            self.lane
                .handle_sent(self.now, Subscriber(to), range(offsets));
            self.reference.sent(self.now, to, offsets);
            self.compare();
        }
    }

    fn say(
        &mut self,
        from: u64,
        offsets: (u64, u64),
        delivery: Option<u32>,
        verdict: Option<Verdict>,
        by: u64,
    ) {
        let target = Target {
            range: range(offsets),
            delivery,
        };
        let by = Duration::from_millis(by);
        let mut answers = Vec::new();
        if let (Some(old), Some(verdict)) = (&mut self.old, verdict) {
            old.handle_verdict(self.now, Subscriber(from), target, verdict, &mut answers);
            assert!(
                answers.iter().all(|a| a.result == VerdictResult::Fenced),
                "L4: {answers:?}"
            );
            assert_eq!(
                old.poll_effect(),
                None,
                "L4: an effect of an old generation"
            );
            self.answers
                .extend(answers.drain(..).map(|answer| answer.result));
        }
        match verdict {
            Some(verdict) => {
                let from = Subscriber(from);
                self.lane
                    .handle_verdict(self.now, from, target, verdict, &mut answers);
            }
            None => {
                self.lane
                    .handle_extend(self.now, Subscriber(from), target, by, &mut answers);
            }
        }
        let expected = self
            .reference
            .verdict(self.now, from, offsets, delivery, verdict, by);
        let mut end = 0;
        for answer in &answers {
            assert!(
                answer.range.first().get() >= end,
                "answers overlap: {answers:?}"
            );
            end = answer.range.end().get();
        }
        if expected.is_empty() {
            let all = VerdictResult::Unknown;
            assert!(matches!(answers[..], [a] if a.result == all && a.range == target.range));
        }
        self.answers
            .extend(answers.iter().map(|answer| answer.result));
        for &(offset, result) in &expected {
            let answer = answers
                .iter()
                .find(|a| a.range.contains(Offset::new(offset)));
            assert_eq!(
                answer.map(|a| a.result),
                Some(result),
                "answer for {offset}"
            );
            if result == VerdictResult::Applied {
                self.note_applied(offset, verdict);
            }
        }
        self.compare();
    }

    fn note_applied(&mut self, offset: u64, verdict: Option<Verdict>) {
        match verdict {
            Some(Verdict::Acked) => {
                self.world.answered.insert(offset);
            }
            Some(Verdict::Failed {
                retry_after: Some(delay),
            }) => {
                self.not_before.insert(offset, self.now.after(delay));
            }
            Some(Verdict::Failed { retry_after: None } | Verdict::Released | Verdict::Rejected)
            | None => {}
        }
    }

    fn gone(&mut self, subscriber: u64, why: Return) {
        if why == Return::Lost {
            self.lane
                .handle_subscriber_lost(self.now, Subscriber(subscriber));
        } else {
            self.lane
                .handle_subscriber_closed(self.now, Subscriber(subscriber));
        }
        self.reference.gone(self.now, subscriber, why);
        self.compare();
    }

    fn letter(&mut self, offset: u64, stored: bool) {
        self.world.letters.remove(&offset);
        let outcome = if stored {
            DeadLetterOutcome::Stored
        } else {
            DeadLetterOutcome::Failed
        };
        if stored {
            self.world.answered.insert(offset);
        }
        self.lane
            .handle_dead_letter(self.now, Offset::new(offset), outcome);
        self.reference.letter(self.now, offset, outcome);
        self.compare();
    }

    fn commit(&mut self, done: bool) {
        if self.world.commits.is_empty() {
            return;
        }
        let position = self.world.commits.remove(0);
        let outcome = if done {
            CommitOutcome::Done
        } else {
            CommitOutcome::Failed
        };
        if done {
            assert!(self.world.committed <= position, "L1");
            self.world.committed = position;
        }
        self.lane
            .handle_commit(self.now, Position::new(position), outcome);
        self.reference.commit(self.now, position, outcome);
        self.compare();
    }

    fn seek(&mut self, done: bool) {
        let Some(to) = self.world.seek.take() else {
            return;
        };
        let outcome = if done {
            SeekOutcome::Done
        } else {
            SeekOutcome::Failed
        };
        if done {
            self.world.position = to;
        }
        self.lane.handle_seek(self.now, outcome);
        self.reference.seek(self.now, outcome);
        self.compare();
    }

    fn wait(&mut self, by: Duration) {
        let end = self.now.after(by);
        while let Some(time) = self.lane.poll_timeout().filter(|time| *time <= end) {
            self.now = self.now.max(time);
            self.timeout();
        }
        self.now = end;
    }

    fn timeout(&mut self) {
        self.lane.handle_timeout(self.now);
        self.reference.timeout(self.now);
        self.compare();
        let next = self.lane.poll_timeout();
        assert!(
            next.is_none_or(|time| time > self.now),
            "L13: {next:?} comes again and again"
        );
    }

    /// The lane is assigned again, from the committed position alone.
    fn reassign(&mut self) {
        let pending = self.world.commits.len();
        assert!(pending <= 2, "{pending} commits outstanding");
        self.world.reassign();
        self.generation += 1;
        let start = start(
            self.generation,
            self.world.committed,
            self.seed ^ self.generation,
        );
        self.old = Some(std::mem::replace(
            &mut self.lane,
            Lane::new(self.policy, start),
        ));
        self.reference = Reference::new(self.policy, self.world.committed);
        self.unsent.clear();
        self.not_before.clear();
    }

    /// Takes the effects of the last input and compares everything there is to see.
    fn compare(&mut self) {
        let mut done: Vec<Did> = Vec::new();
        while let Some(effect) = self.lane.poll_effect() {
            self.trace.push(effect);
            done.extend(self.world.carry_out(effect));
        }
        let expected = self.reference.did();
        let mut missing = done.clone();
        let extra: Vec<_> = expected
            .iter()
            .filter(|did| match missing.iter().position(|done| done == *did) {
                Some(index) => {
                    missing.swap_remove(index);
                    false
                }
                None => true,
            })
            .collect();
        assert!(
            missing.is_empty() && extra.is_empty(),
            "only the lane did {missing:?}, only its reference did {extra:?}"
        );
        if let Err(violation) = invariants::check(&self.lane) {
            panic!("{violation}");
        }
        let (lane, reference) = (&self.lane, &self.reference);
        let snapshot = lane.snapshot();
        assert_eq!(
            lane.floor().map(Position::get),
            Some(reference.floor()),
            "floor"
        );
        assert_eq!(u64::from(lane.room()), reference.room(), "room");
        assert_eq!(
            snapshot.next.map(Position::get),
            Some(reference.next),
            "next"
        );
        assert_eq!(snapshot.unsettled, reference.unsettled(), "unsettled");
        assert_eq!(snapshot.in_flight, reference.in_flight(), "in flight");
        assert_eq!(
            snapshot.in_flight,
            self.world.out.len() as u64,
            "L8: credit taken"
        );
        assert_eq!(
            snapshot.delayed,
            reference.count(|is| matches!(is, Is::Delayed(_))),
            "delayed"
        );
        let ready = lane.ready().map(|ready| {
            let owner = ready.owner.map(|owner| owner.0);
            (
                ready.range.first().get(),
                ready.attempt,
                ready.delivery,
                ready.alone,
                owner,
            )
        });
        assert_eq!(ready, reference.ready(), "ready");
        assert!(
            self.world.commits.len() <= 1 || reference.is_done(),
            "commits outstanding"
        );
    }

    /// All faults end: everything settles and the committed position reaches the end.
    pub(crate) fn complete(&mut self) {
        self.world.append(1, 0);
        for _ in 0..500 {
            if self.world.committed == self.world.end {
                return;
            }
            self.seek(true);
            while let Some(&offset) = self.world.letters.first() {
                self.letter(offset, true);
            }
            self.commit(true);
            self.fetch(100);
            while self.lane.ready().is_some() {
                self.dispatch(1, 100, 1000);
            }
            while !self.unsent.is_empty() {
                self.sent(0);
            }
            let out: Vec<_> = self.world.out.iter().map(|(&o, &s)| (o, s)).collect();
            for (offset, holder) in out {
                self.say(holder, (offset, offset + 1), None, Some(Verdict::Acked), 0);
            }
            self.wait(Duration::from_millis(700));
            if self.world.drained {
                self.reassign();
            }
            if self.policy.on_reject == OnReject::Hold
                && self.reference.count(|is| *is == Is::Held) > 0
            {
                return;
            }
        }
        panic!(
            "never completed: {:?}, {:?}",
            self.lane.snapshot(),
            self.world
        );
    }
}
