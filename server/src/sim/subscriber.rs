//! One session of a subscriber: opens a stream, takes batches, says what its manner
//! makes it say, and goes.

mod words;

use std::{collections::BTreeMap, time::Duration};

use ackgate_proto::v1;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use v1::{subscribe_request::Request as Ask, subscribe_response::Response as Tell};

use self::words::{reason, reply, verdict, wire, wire_credit};
use super::{
    dice::Dice,
    gateway::Gateway,
    history::{Ending, Event, History, Saying, Word},
    link::Link,
    manner::{Fate, Leaving, Manner},
    plan::{SUBSCRIPTION, TOPIC},
};
use crate::consumer::mutation::wire_lane;

/// Words in one message.
const TOGETHER: usize = 25;

/// How long the end of the stream is waited for after the last word.
const END_WITHIN: Duration = Duration::from_secs(20);

/// Something that the subscriber will do.
#[derive(Clone, Debug)]
enum Plan {
    Say(Vec<Word>),
    Grant((u32, u64)),
    Beat,
    Read,
    Leave,
    GiveUp,
}

/// A record as it was received.
#[derive(Clone, Copy, Debug)]
struct Got {
    lane: u64,
    offset: u64,
    delivery: u32,
}

/// One session.
pub(super) struct Session {
    id: u64,
    manner: Manner,
    dice: Dice,
    history: History,
    link: Link,
    plans: BTreeMap<(Instant, u64), Plan>,
    numbers: u64,
    got: Vec<Got>,
    said: Vec<Word>,
    reading: bool,
    /// It has never failed to read at once.
    prompt: bool,
    gone: bool,
    beat: Duration,
    /// When it last looked for a message in vain, or took one.
    looked: u64,
}

/// Runs one session to its end.
pub(super) async fn run(
    id: u64,
    gateway: Gateway,
    manner: Manner,
    dice: Dice,
    history: History,
    (default_deadline, beat): (Duration, Duration),
    leave: CancellationToken,
) {
    let deadline = manner.ack_deadline.unwrap_or(default_deadline);
    history.push(Event::Opening {
        session: id,
        gateway: gateway.id,
        credit: manner.credit,
        ack_deadline: u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX),
        confirm: manner.confirm,
    });
    let ended = |how| Event::Ended { session: id, how };
    let link = match Link::open(&gateway.service).await {
        Ok(link) => link,
        Err(status) => {
            history.push(ended(Ending::Told(Some(reason(&status)))));
            return;
        }
    };
    let open = v1::Open {
        subscription: SUBSCRIPTION.to_owned(),
        subscriber_id: format!("subscriber-{id}"),
        credit: Some(wire_credit(manner.credit)),
        max_message_bytes: manner.max_message_bytes,
        confirm: i32::try_from(manner.confirm).unwrap_or(0),
        ack_deadline: manner.ack_deadline.and_then(|d| d.try_into().ok()),
        ..v1::Open::default()
    };
    let now = history.now();
    let mut session = Session {
        id,
        manner,
        dice,
        history: history.clone(),
        link,
        plans: BTreeMap::new(),
        numbers: 0,
        got: Vec::new(),
        said: Vec::new(),
        reading: true,
        prompt: true,
        gone: false,
        beat,
        looked: now,
    };
    session.link.say(Ask::Open(open)).await;
    if session.manner.beats {
        session.plan(beat, Plan::Beat);
    }
    let life = session.manner.life;
    session.plan(life, Plan::Leave);
    let how = session.live(&gateway, &leave).await;
    history.push(ended(how));
}

impl Session {
    async fn live(&mut self, gateway: &Gateway, leave: &CancellationToken) -> Ending {
        loop {
            let next = self.plans.first_key_value().map(|((at, _), _)| *at);
            let entered = self.history.now();
            let was_reading = self.reading;
            tokio::select! {
                biased;
                () = gateway.died.cancelled() => {
                    self.take_unread();
                    return Ending::GatewayDied;
                }
                () = leave.cancelled(), if !self.gone => {
                    if self.leave() {
                        return Ending::Dropped;
                    }
                }
                () = tokio::time::sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {
                    let Some((_, plan)) = self.plans.pop_first() else { continue };
                    if self.carry_out(plan).await {
                        self.take_unread();
                        return Ending::Dropped;
                    }
                }
                message = self.link.next(), if self.reading => {
                    let now = self.history.now();
                    // It was looked for in vain and came just now, or may have waited.
                    let since = if now > entered { now } else { self.looked };
                    self.looked = now;
                    match message {
                        Some(Ok(tell)) => self.take(tell, since),
                        Some(Err(status)) => return Ending::Told(Some(reason(&status))),
                        None => return Ending::Told(None),
                    }
                    continue;
                }
            }
            if was_reading {
                self.looked = entered.max(self.looked);
            }
        }
    }

    fn plan(&mut self, after: Duration, plan: Plan) {
        self.numbers += 1;
        self.plans
            .insert((Instant::now() + after, self.numbers), plan);
    }

    /// Does something; whether the stream is dropped with it.
    async fn carry_out(&mut self, plan: Plan) -> bool {
        match plan {
            Plan::Say(words) => !self.say(words).await,
            Plan::Grant(credit) => {
                self.manner.credit = credit;
                self.history.push(Event::Credit {
                    session: self.id,
                    credit,
                });
                let begun = self.history.now();
                let said = self.link.say(Ask::Credit(wire_credit(credit))).await;
                self.prompt &= begun == self.history.now();
                !said
            }
            Plan::Beat => {
                self.plan(self.beat, Plan::Beat);
                !self.link.say(Ask::Beat(v1::Beat {})).await
            }
            Plan::Read => {
                self.reading = true;
                false
            }
            Plan::Leave => self.leave(),
            Plan::GiveUp => true,
        }
    }

    /// Begins to go; whether the stream is dropped at once.
    fn leave(&mut self) -> bool {
        if self.gone {
            return false;
        }
        self.gone = true;
        self.plans.clear();
        let polite = self.manner.leaving == Leaving::Close;
        self.history.push(Event::Goodbye {
            session: self.id,
            polite,
        });
        match self.manner.leaving {
            Leaving::Close => {
                if !self.link.try_say(Ask::Close(v1::Close {})) {
                    return true;
                }
            }
            Leaving::HalfClose => self.link.half_close(),
            Leaving::Reset => self.link.reset(),
            Leaving::Drop => {
                self.take_unread();
                return true;
            }
        }
        self.reading = true;
        self.plan(END_WITHIN, Plan::GiveUp);
        false
    }

    fn take_unread(&mut self) {
        self.gone = true;
        let since = self.looked;
        while let Some(tell) = self.link.unread() {
            self.take(tell, since);
        }
    }

    async fn say(&mut self, words: Vec<Word>) -> bool {
        self.numbers += 1;
        let sequence = self.numbers;
        let seen = |word: &Word| Word {
            lane: wire_lane(word.lane),
            ..word.clone()
        };
        self.history.push(Event::Said {
            session: self.id,
            sequence,
            words: words.iter().map(seen).collect(),
            prompt: self.prompt,
        });
        let ask = match words.first().map(|word| word.saying) {
            Some(Saying::Extend(by)) => Ask::Extend(v1::Extend {
                sequence,
                extensions: words
                    .iter()
                    .map(|word| v1::Extension {
                        lane: word.lane,
                        first_offset: wire(word.first),
                        last_offset: Some(wire(word.last)),
                    })
                    .collect(),
                by: Duration::from_millis(by).try_into().ok(),
            }),
            _ => Ask::Settle(v1::Settle {
                sequence,
                verdicts: words.iter().map(verdict).collect(),
            }),
        };
        self.said.extend(words);
        let begun = self.history.now();
        let said = self.link.say(ask).await;
        self.prompt &= begun == self.history.now();
        said
    }

    fn take(&mut self, tell: Tell, since: u64) {
        let session = self.id;
        match tell {
            Tell::Opened(opened) => self.history.push(Event::Opened {
                session,
                subscriber: opened.subscriber_id,
            }),
            Tell::Batch(batch) => self.take_batch(&batch, since),
            Tell::Settled(settled) => {
                let replies = settled.answers.iter().map(reply).collect();
                self.history.push(Event::Answered {
                    session,
                    sequence: settled.sequence,
                    replies,
                });
            }
            Tell::LaneEvent(news) => {
                let range = news
                    .first_offset
                    .map(|first| (first, news.last_offset.unwrap_or(first)));
                self.history.push(Event::LaneNews {
                    session,
                    lane: wire_lane(news.lane),
                    kind: news.kind().as_str_name().to_owned(),
                    range,
                });
            }
            Tell::Drain(_) | Tell::Ping(_) => {}
        }
    }

    fn take_batch(&mut self, batch: &v1::Batch, since: u64) {
        let mut fresh = Vec::new();
        for record in &batch.records {
            let numbers = batch
                .redeliveries
                .iter()
                .find(|run| (run.first_offset..=run.last_offset).contains(&record.offset));
            let (attempt, delivery) = numbers.map_or((1, 1), |run| (run.attempt, run.delivery));
            let offset = u64::try_from(record.offset).expect("no negative offsets");
            let expected = super::cluster::value(batch.partition, offset);
            self.history.push(Event::Delivered {
                session: self.id,
                lane: wire_lane(batch.lane),
                epoch: batch.epoch,
                partition: batch.partition,
                offset,
                attempt,
                delivery,
                bytes: prost::Message::encoded_len(record) as u64,
                since,
                prompt: self.prompt,
                intact: batch.topic == TOPIC && record.value.as_ref() == Some(&expected),
            });
            fresh.push(Got {
                lane: batch.lane,
                offset,
                delivery,
            });
        }
        self.got.extend(fresh.iter().copied());
        if self.gone {
            return;
        }
        self.decide(&fresh);
        if self.dice.chance(self.manner.lies) {
            let lie = self.lie();
            let delay = self.dice.ms(0, 3000);
            self.plan(delay, Plan::Say(vec![lie]));
        }
        if self.dice.chance(self.manner.credits) {
            let records = self.dice.pick(&[0, 1, 2, 10, 500]);
            let bytes = self.dice.pick(&[1, 500, 100_000, 1 << 20]);
            let delay = self.dice.ms(0, 3000);
            self.plan(delay, Plan::Grant((records, bytes)));
            // Nobody is silent for ever.
            let later = delay + self.dice.ms(1000, 8000);
            self.plan(later, Plan::Grant((20, 1 << 20)));
        }
        if self.dice.chance(self.manner.pauses) {
            self.reading = false;
            self.prompt = false;
            let pause = self.dice.ms(10, 40_000);
            self.plan(pause, Plan::Read);
        }
    }

    /// Decides what becomes of the records of a batch.
    fn decide(&mut self, fresh: &[Got]) {
        let together = self.dice.chance(self.manner.together);
        let shared = self.manner.fate(&mut self.dice);
        let mut groups: BTreeMap<usize, (Fate, Vec<Got>)> = BTreeMap::new();
        for (index, got) in fresh.iter().enumerate() {
            let (group, fate) = if together {
                (0, shared)
            } else {
                (index, self.manner.fate(&mut self.dice))
            };
            groups
                .entry(group)
                .or_insert((fate, Vec::new()))
                .1
                .push(*got);
        }
        let mut now = Vec::new();
        for (fate, records) in groups.into_values() {
            let (after, saying) = self.timing(fate);
            let Some(saying) = saying else { continue };
            let words = self.words(&records, saying);
            if fate == Fate::Extend {
                self.plan(after, Plan::Say(words.clone()));
                let ack = |word: Word| Word {
                    saying: Saying::Acked,
                    ..word
                };
                let later = after + self.dice.ms(500, 12_000);
                let acks: Vec<Word> = words.into_iter().map(ack).collect();
                self.speak(later, acks);
            } else if after.is_zero() {
                now.extend(words);
            } else {
                self.speak(after, words);
            }
        }
        self.speak(Duration::ZERO, now);
    }

    fn speak(&mut self, after: Duration, words: Vec<Word>) {
        for part in words.chunks(TOGETHER) {
            self.plan(after, Plan::Say(part.to_vec()));
        }
    }

    fn timing(&mut self, fate: Fate) -> (Duration, Option<Saying>) {
        let dice = &mut self.dice;
        match fate {
            Fate::AckNow => (Duration::ZERO, Some(Saying::Acked)),
            Fate::AckLater => (dice.ms(1, 4000), Some(Saying::Acked)),
            Fate::Fail => (dice.ms(0, 500), Some(Saying::Failed(None))),
            Fate::FailWithDelay => {
                let delay = dice.pick(&[0, 50, 1000, 5000, 15_000]);
                (dice.ms(0, 500), Some(Saying::Failed(Some(delay))))
            }
            Fate::Reject => (dice.ms(0, 500), Some(Saying::Rejected)),
            Fate::Release => (dice.ms(0, 500), Some(Saying::Released)),
            Fate::Extend => {
                let by = dice.between(1, 8000);
                (dice.ms(0, 400), Some(Saying::Extend(by)))
            }
            Fate::Late => {
                let saying = dice.pick(&[
                    Saying::Acked,
                    Saying::Rejected,
                    Saying::Failed(None),
                    Saying::Failed(Some(3000)),
                    Saying::Released,
                ]);
                (dice.ms(300, 20_000), Some(saying))
            }
            Fate::Never => (Duration::ZERO, None),
        }
    }
}
