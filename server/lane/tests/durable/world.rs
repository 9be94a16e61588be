//! A lane, a Kafka that keeps what was committed, and a subscriber that says anything.

mod follow;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use ackgate_lane::{
    AckMap, Backoff, CommitOutcome, DeadLetterOutcome, Epoch, Generation, Lane, MapStart, Offset,
    OffsetRange, OnReject, Order, Policy, Position, SeekOutcome, Start, Subscriber, Target, Time,
    Verdict, VerdictResult, Window,
};

use crate::Step;

const ME: Subscriber = Subscriber(1);

fn policy(order: Order) -> Policy {
    let none = Backoff {
        initial: Duration::ZERO,
        factor: 1.0,
        max: Duration::ZERO,
    };
    Policy {
        order,
        ack_deadline: Duration::from_secs(30),
        max_attempts: 50,
        max_deliveries: 200,
        backoff: none,
        on_reject: OnReject::DeadLetter,
        dead_letter_backoff: none,
        on_unwritten: ackgate_lane::OnUnwritten::Block,
        breaker: ackgate_lane::Breaker::default(),
        window: Window {
            records: 500,
            span: 2000,
        },
        commit_interval: Duration::from_millis(500),
        commit_settlements: 50,
        exactly_once: false,
    }
}

/// What Kafka has.
#[derive(Clone, Debug, Default)]
struct Kafka {
    position: u64,
    map: Option<AckMap>,
}

pub(crate) struct World {
    policy: Policy,
    most: usize,
    limit: usize,
    kafka: Kafka,
    lane: Lane,
    now: Time,
    next: u64,
    /// The end of the log.
    end: u64,
    out: BTreeSet<u64>,
    asked: Vec<(u64, Kafka, usize)>,
    letters: BTreeSet<u64>,
    seek: Option<u64>,
    answered: BTreeSet<u64>,
    /// What each wait is for.
    waits: BTreeMap<u64, BTreeSet<u64>>,
    token: u64,
    durable: BTreeSet<u64>,
    pub(crate) counts: BTreeMap<&'static str, u64>,
}

impl World {
    pub(crate) fn new(order: Order, most: usize) -> Self {
        let policy = policy(order);
        Self {
            policy,
            most,
            limit: usize::MAX,
            kafka: Kafka::default(),
            lane: lane(policy, most, &Kafka::default()),
            now: Time::default(),
            next: 0,
            end: 0,
            out: BTreeSet::new(),
            asked: Vec::new(),
            letters: BTreeSet::new(),
            seek: None,
            answered: BTreeSet::new(),
            waits: BTreeMap::new(),
            token: 0,
            durable: BTreeSet::new(),
            counts: BTreeMap::new(),
        }
    }

    pub(crate) fn run(&mut self, step: Step) {
        match step {
            Step::Fetch(count) => {
                let count = count.min(u64::from(self.lane.room()));
                if count > 0 && self.seek.is_none() {
                    self.lane
                        .handle_fetched(self.now, range(self.next, self.next + count));
                    self.next += count;
                    self.end = self.end.max(self.next);
                }
            }
            Step::Dispatch(count) => self.dispatch(count),
            Step::Say(at, count, verdict, durable) => self.say(at, count, verdict, durable),
            Step::Letter(stored) => {
                if let Some(offset) = self.letters.pop_first() {
                    if stored {
                        self.answered.insert(offset);
                    }
                    let outcome = if stored {
                        DeadLetterOutcome::Stored
                    } else {
                        DeadLetterOutcome::Failed
                    };
                    self.lane
                        .handle_dead_letter(self.now, Offset::new(offset), outcome);
                }
            }
            Step::Commit(works) => self.commit(works),
            Step::Seek => {
                if let Some(to) = self.seek.take() {
                    self.next = to;
                    self.lane.handle_seek(self.now, SeekOutcome::Done);
                }
            }
            Step::Wait(ms) => {
                let end = self.now.after(Duration::from_millis(ms));
                while let Some(time) = self.lane.poll_timeout().filter(|time| *time <= end) {
                    self.now = self.now.max(time);
                    self.lane.handle_timeout(self.now);
                    self.follow();
                }
                self.now = end;
            }
            Step::Limit(limit) => self.limit = limit,
            Step::Drain => {
                self.lane.begin_drain(self.now, self.now);
                self.follow();
                while !self.asked.is_empty() {
                    self.commit(true);
                    self.follow();
                }
                self.restart();
            }
            Step::Kill(arrived) => {
                while arrived && !self.asked.is_empty() {
                    self.take_commit();
                }
                self.restart();
            }
        }
        self.follow();
    }

    fn dispatch(&mut self, count: u64) {
        let Some(ready) = self.lane.ready_for(ME) else {
            return;
        };
        let end = ready
            .range
            .end()
            .get()
            .min(ready.range.first().get() + count);
        let run = range(ready.range.first().get(), end);
        for offset in run.first().get()..end {
            assert!(
                !self.durable.contains(&offset),
                "L12: {offset} was confirmed as durable and comes again"
            );
            self.out.insert(offset);
        }
        self.lane
            .handle_dispatched(self.now, ME, run, Duration::from_secs(3600));
        self.lane.handle_sent(self.now, ME, run);
    }

    fn say(&mut self, at: usize, count: u64, verdict: Verdict, durable: bool) {
        let Some(&first) = self.out.iter().nth(at % self.out.len().max(1)) else {
            return;
        };
        let target = Target {
            range: range(first, first + count),
            delivery: None,
        };
        let mut answers = Vec::new();
        self.lane
            .handle_verdict(self.now, ME, target, verdict, &mut answers);
        let applied = answers
            .iter()
            .filter(|answer| answer.result == VerdictResult::Applied);
        let ranges: Vec<OffsetRange> = applied.map(|answer| answer.range).collect();
        let offsets = ranges.iter().flat_map(|run| offsets(*run));
        let decided = matches!(verdict, Verdict::Acked | Verdict::Rejected);
        if verdict == Verdict::Acked {
            self.answered
                .extend(offsets.clone().filter(|offset| self.out.contains(offset)));
        }
        if durable && !ranges.is_empty() {
            self.token += 1;
            let wait = offsets.filter(|offset| self.out.contains(offset));
            let wait = if decided {
                wait.collect()
            } else {
                BTreeSet::new()
            };
            self.waits.insert(self.token, wait);
            let ranges = if decided { ranges } else { Vec::new() };
            self.lane.confirm(self.now, self.token, ranges);
        }
    }

    fn commit(&mut self, works: bool) {
        let Some((serial, _, size)) = self.asked.first().cloned() else {
            return;
        };
        let outcome = if !works {
            self.asked.remove(0);
            CommitOutcome::Failed
        } else if size > self.limit {
            self.asked.remove(0);
            self.count("too large");
            CommitOutcome::MetadataTooLarge
        } else {
            self.take_commit();
            CommitOutcome::Done
        };
        self.lane.handle_commit(self.now, serial, outcome);
    }

    fn take_commit(&mut self) {
        let (_, kafka, size) = self.asked.remove(0);
        if size <= self.limit {
            assert!(kafka.position >= self.kafka.position, "L1");
            self.kafka = kafka;
        }
    }

    fn restart(&mut self) {
        self.lane = lane(self.policy, self.most, &self.kafka);
        assert_eq!(self.lane.snapshot().map.doubt, None);
        self.next = self.kafka.position;
        self.out.clear();
        self.asked.clear();
        self.letters.clear();
        self.waits.clear();
        self.seek = None;
        self.count("restart");
    }

    pub(crate) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// All faults end: everything settles, is confirmed and committed.
    pub(crate) fn complete(&mut self) {
        self.limit = usize::MAX;
        let end = self.end;
        for _ in 0..2000 {
            if self.kafka.position >= end {
                assert!(self.waits.is_empty(), "unanswered: {:?}", self.waits);
                return;
            }
            if self.next < end {
                self.run(Step::Fetch(end - self.next));
            }
            self.run(Step::Dispatch(1000));
            while !self.out.is_empty() {
                self.run(Step::Say(0, 500, Verdict::Acked, false));
            }
            self.run(Step::Letter(true));
            self.run(Step::Seek);
            self.run(Step::Commit(true));
            self.run(Step::Wait(300));
        }
        panic!("never completed: {:?}", self.lane.snapshot());
    }
}

fn lane(policy: Policy, most: usize, kafka: &Kafka) -> Lane {
    Lane::new(
        policy,
        Start {
            generation: Generation(1),
            epoch: Epoch(1),
            position: Some(Position::new(kafka.position)),
            committed: kafka.position > 0 || kafka.map.is_some(),
            seed: 1,
            map: MapStart {
                most_bytes: most,
                restored: kafka.map.clone(),
                ..MapStart::default()
            },
        },
    )
}

fn range(first: u64, end: u64) -> OffsetRange {
    OffsetRange::new(Offset::new(first), Position::new(end)).expect("not empty")
}

fn offsets(run: OffsetRange) -> std::ops::Range<u64> {
    run.first().get()..run.end().get()
}

fn settled(kafka: &Kafka) -> BTreeSet<u64> {
    let runs = kafka.map.iter().flat_map(|map| &map.settled);
    runs.flat_map(|run| offsets(*run)).collect()
}
