//! Gives a lane and the model the same inputs.

mod compare;
mod follow;
mod saw;

use std::{collections::BTreeSet, time::Duration};

use ackgate_lane::{
    Answer, Backoff, Breaker, Broadcast, DeadLetterOutcome, Epoch, Generation, MapStart, Offset,
    OffsetRange, OnReject, OnUnwritten, Order, Policy, Position, Sharing, Start, Subscriber,
    Target, Time, Verdict, VerdictResult, Window,
};

use crate::{
    Command, Word,
    model::{Fate, Model},
};

pub(crate) use self::saw::Saw;

const DEADLINE: u64 = 500;
const GRACE: u64 = 2_000;

pub(crate) struct Harness {
    lane: Broadcast,
    model: Model,
    is_exact: bool,
    now: u64,
    settled: BTreeSet<u64>,
    /// Asked for and not answered.
    letters: Vec<u64>,
    committed: u64,
    pub(crate) saw: Saw,
}

impl Harness {
    pub(crate) fn new(order: Order, on_unwritten: OnUnwritten, breaker: Breaker) -> Self {
        // No wait at all: what comes back is ready at the next look.
        let backoff = Backoff {
            initial: Duration::ZERO,
            factor: 1.0,
            max: Duration::ZERO,
        };
        let policy = Policy {
            order,
            ack_deadline: Duration::from_millis(DEADLINE),
            max_attempts: 2,
            max_deliveries: 1_000,
            backoff,
            on_reject: OnReject::DeadLetter,
            dead_letter_backoff: backoff,
            on_unwritten,
            breaker,
            window: Window {
                records: 1_000,
                span: 1_000,
            },
            commit_interval: Duration::from_millis(100),
            commit_settlements: 5,
            exactly_once: false,
        };
        let sharing = Sharing {
            cut_off_after: None,
            absent_grace: Duration::from_millis(GRACE),
        };
        let start = Start {
            generation: Generation(1),
            epoch: Epoch(0),
            position: Some(Position::new(0)),
            committed: true,
            seed: 3,
            map: MapStart::default(),
        };
        let (discard_at, park_at) = match on_unwritten {
            OnUnwritten::Block => (u32::MAX, u32::MAX),
            OnUnwritten::Park { tries } => (u32::MAX, tries),
            OnUnwritten::Discard { tries } => (tries, u32::MAX),
        };
        let model = Model {
            max_attempts: policy.max_attempts,
            discard_at,
            park_at,
            ..Model::default()
        };
        Self {
            lane: Broadcast::new(policy, sharing, start),
            model,
            // The model knows no breaker.
            is_exact: order == Order::None && breaker == Breaker::default(),
            now: 0,
            settled: BTreeSet::new(),
            letters: Vec::new(),
            committed: 0,
            saw: Saw::default(),
        }
    }

    pub(crate) fn run(&mut self, command: &Command) {
        match *command {
            Command::Fetch(count, gap) => {
                let first = self.model.next + gap;
                let range = OffsetRange::new(Offset::new(first), Position::new(first + count));
                let range = range.expect("not empty");
                // Few keys, and every fourth record has none.
                let key = |offset: u64| (!offset.is_multiple_of(4)).then_some(offset % 3);
                let keys: Vec<Option<u64>> = (first..first + count).map(key).collect();
                self.lane.handle_fetched_keyed(self.time(), range, &keys);
                self.model.fetch(first, count);
            }
            Command::Join(who) => {
                self.saw.returned_to_debts += u64::from(self.model.absent.contains_key(&who));
                let (now, who_is) = (self.time(), Subscriber(who));
                self.lane.handle_subscriber_joined(now, who_is);
                self.model.join(who);
            }
            Command::Close(who) => {
                self.lane
                    .handle_subscriber_closed(self.time(), Subscriber(who));
                let before = self.model.with_fate(Fate::Open);
                let had: BTreeSet<u64> = self.decided_nothing(&before, who);
                self.model.close(who);
                let after = self.model.with_fate(Fate::Open);
                self.saw.again_to_others += had.intersection(&after).count() as u64;
            }
            Command::Lose(who) => {
                self.lane
                    .handle_subscriber_lost(self.time(), Subscriber(who));
                self.model.lose(who, self.now + GRACE);
            }
            Command::Take(who, count) => self.take(who, count),
            Command::Say(who, skip, count, word) => self.say(who, skip, count, word),
            Command::Pass(ms) => self.pass(ms),
            Command::Letter(is_stored) => self.letter(is_stored),
            Command::Reset => {
                self.lane.reset_breaker(self.time());
            }
        }
        self.settle_down();
    }

    /// Open records that nobody but `who` has anything to do with.
    fn decided_nothing(&self, open: &BTreeSet<u64>, who: u64) -> BTreeSet<u64> {
        let alone = |offset: &&u64| {
            let cells = &self.model.records[offset].cells;
            cells.len() == 1 && cells.contains_key(&who)
        };
        open.iter().filter(alone).copied().collect()
    }

    fn take(&mut self, who: u64, count: u64) {
        let mut left = count;
        while left > 0
            && let Some(ready) = self.lane.ready_for(Subscriber(who))
        {
            let end = ready.range.first().get() + left.min(ready.range.len());
            let range = OffsetRange::new(ready.range.first(), Position::new(end));
            let range = range.expect("not empty");
            let deadline = Duration::from_millis(DEADLINE);
            let (now, to) = (self.time(), Subscriber(who));
            self.lane.handle_dispatched(now, to, range, deadline);
            self.lane.handle_sent(now, to, range);
            for offset in range.first().get()..end {
                if self.is_exact {
                    assert!(
                        self.model.ready(who).contains(&offset),
                        "L14: {offset} is not for {who}: {:?}",
                        self.model.records.get(&offset)
                    );
                }
                self.model.take(who, offset, self.now + DEADLINE);
            }
            left -= range.len();
        }
    }

    fn say(&mut self, who: u64, skip: u64, count: u64, word: Word) {
        let first = self.model.floor() + skip;
        let range = OffsetRange::new(Offset::new(first), Position::new(first + count));
        let target = Target {
            range: range.expect("not empty"),
            delivery: None,
        };
        let verdict = match word {
            Word::Ack => Verdict::Acked,
            Word::Reject => Verdict::Rejected,
            Word::Fail => Verdict::Failed { retry_after: None },
            Word::Release => Verdict::Released,
        };
        let mut answers: Vec<Answer> = Vec::new();
        let (now, from) = (self.time(), Subscriber(who));
        self.lane
            .handle_verdict(now, from, target, verdict, &mut answers);
        let applied = |offset: u64| {
            let of = |answer: &&Answer| answer.range.contains(Offset::new(offset));
            let answer = answers.iter().find(of);
            answer.is_some_and(|answer| answer.result == VerdictResult::Applied)
        };
        for offset in first..first + count {
            if !self.model.records.contains_key(&offset) {
                continue;
            }
            let counts = self.model.say(who, offset, word);
            // One answer covers a run with what lies between, so only this way round;
            // that nothing else changed is compared.
            if self.is_exact && counts {
                assert!(applied(offset), "{word:?} of {who} on {offset}");
            }
        }
        self.model.follow();
    }

    fn pass(&mut self, ms: u64) {
        let end = self.now + ms;
        while let Some(time) = self.lane.poll_timeout()
            && time.0.as_millis() <= u128::from(end)
        {
            let at = u64::try_from(time.0.as_millis()).expect("small times");
            self.now = self.now.max(at);
            self.settle_down();
            assert!(self.lane.poll_timeout() > Some(time) || self.lane.poll_timeout().is_none());
        }
        self.now = end;
    }

    fn letter(&mut self, is_stored: bool) {
        if self.letters.is_empty() {
            return;
        }
        let offset = self.letters.remove(0);
        let outcome = if is_stored {
            DeadLetterOutcome::Stored
        } else {
            DeadLetterOutcome::Failed
        };
        self.lane
            .handle_dead_letter(self.time(), Offset::new(offset), outcome);
        if is_stored {
            self.model.stored(offset);
        } else {
            self.model.unwritten(offset);
        }
    }

    fn time(&self) -> Time {
        Time(Duration::from_millis(self.now))
    }
}
