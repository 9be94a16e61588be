//! Gives each command to the lane and its reference and compares them.

mod broken;
mod compare;
mod inputs;

use std::time::Duration;

use ackgate_lane::{
    AckMap, Effect, Epoch, Generation, Lane, MAX_MAP_BYTES, MapStart, Offset, OffsetRange,
    OnReject, Policy, Position, ResumeResult, Return, Start, Time, Verdict, VerdictResult,
};

use crate::{
    commands::{Command, Number, Spot},
    reference::{Is, Reference},
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
    pub(crate) resumed: Vec<ResumeResult>,
}

fn range(offsets: (u64, u64)) -> OffsetRange {
    OffsetRange::new(Offset::new(offsets.0), Position::new(offsets.1)).expect("not empty")
}

fn start(generation: u64, position: u64, seed: u64, map: MapStart) -> Start {
    Start {
        generation: Generation(generation),
        epoch: Epoch(0),
        position: Some(Position::new(position)),
        committed: generation > 1,
        seed,
        map,
    }
}

/// Two of three runs write maps.
const fn has_maps(seed: u64) -> bool {
    !seed.is_multiple_of(3)
}

fn maps(seed: u64, restored: Option<AckMap>) -> MapStart {
    MapStart {
        most_bytes: if has_maps(seed) { MAX_MAP_BYTES } else { 0 },
        restored,
        ..MapStart::default()
    }
}

impl Harness {
    pub(crate) fn new(policy: Policy, seed: u64) -> Self {
        Self {
            policy,
            seed,
            lane: Lane::new(policy, start(1, 0, seed, maps(seed, None))),
            old: None,
            generation: 1,
            reference: Reference::new(policy, 0, has_maps(seed), None),
            world: World::default(),
            now: Time::default(),
            unsent: Vec::new(),
            not_before: std::collections::BTreeMap::new(),
            trace: Vec::new(),
            answers: Vec::new(),
            resumed: Vec::new(),
        }
    }

    pub(crate) fn run(&mut self, command: &Command) {
        match *command {
            Command::Append { count, gaps } => self.world.append(count, gaps),
            Command::Fetch { count } => self.fetch(count),
            Command::Sift { count, which, how } => self.sift(count, which, how),
            Command::Expire { count, how } => self.expire(count, how),
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
                let from = self.whose(at, first).unwrap_or(from);
                self.say(from, (first, first + length), delivery, verdict, by);
            }
            Command::Lost { subscriber } => self.gone(subscriber, Return::Lost),
            Command::Closed { subscriber } => self.gone(subscriber, Return::Verdict),
            Command::Resumed {
                subscriber,
                named,
                wrong,
                also,
            } => {
                let also = also.map(|at| (at, self.spot(at)));
                let his = also.and_then(|(at, offset)| self.whose(at, offset));
                let also = also.map(|(_, offset)| offset);
                self.resumed(his.unwrap_or(subscriber), named, wrong, also);
            }
            Command::Fenced => self.fenced(),
            Command::End => self.end(),
            Command::Gone { count } => self.gone_from_the_log(count),
            Command::Paused { subscriber } => self.paused(subscriber),
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
            Command::Reset => self.reset(),
            Command::Commit { done } => self.commit(done),
            Command::Seek { done } => self.seek(done),
            Command::Vanish { index } => self.vanish(index),
            Command::Drain { ms } => self.drain(self.now.after(Duration::from_millis(ms))),
        }
        if self.world.drained {
            self.reassign();
        }
    }

    /// Dead letters that went with commits.
    pub(crate) fn letters_stored(&self) -> usize {
        self.world.stored.len()
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

    /// Who has, or had, the record at `offset`, which lies at `at`.
    fn whose(&self, at: Spot, offset: u64) -> Option<u64> {
        match at {
            Spot::Out(_) => self.world.out.get(&offset).copied(),
            Spot::Again(_) => self.former_holder(offset),
            Spot::Floor(_) => None,
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

    /// The lane is assigned again, from the committed position and map alone.
    fn reassign(&mut self) {
        let pending = self.world.commits.len();
        assert!(pending <= 2, "{pending} commits outstanding");
        let none = self.policy.exactly_once && self.generation.is_multiple_of(2);
        self.world.reassign(none);
        self.generation += 1;
        let map = self.world.map.as_ref();
        let map = map.map(|bytes| AckMap::decode(bytes).expect("a sound map"));
        let start = start(
            self.generation,
            self.world.committed,
            self.seed ^ self.generation,
            maps(self.seed, map.clone()),
        );
        self.old = Some(std::mem::replace(
            &mut self.lane,
            Lane::new(self.policy, start),
        ));
        self.reference = Reference::new(
            self.policy,
            self.world.committed,
            has_maps(self.seed),
            map.as_ref(),
        );
        self.unsent.clear();
        self.not_before.clear();
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
                self.letter(offset, Some(true));
            }
            self.reset();
            self.commit(true);
            self.fetch(100);
            while let Some(ready) = self.lane.ready() {
                let to = ready.owner.map_or(1, |owner| owner.0);
                self.dispatch(to, 100, 1000);
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
                && self.reference.count(|is| matches!(is, Is::Held(_))) > 0
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
