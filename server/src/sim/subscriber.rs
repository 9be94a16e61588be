//! One session of a subscriber: opens a stream, takes batches, says what its manner
//! makes it say, and goes.

mod taking;
mod words;

use std::{collections::BTreeMap, time::Duration};

use ackgate_proto::v1;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use v1::subscribe_request::Request as Ask;

pub(super) use self::words::reason;
use self::words::{reply, verdict, wire, wire_credit};
use super::{
    calls::Calls,
    dice::Dice,
    gateway::Gateway,
    history::{Ending, Event, History, Saying, Word},
    link::Link,
    manner::{Leaving, Manner},
    plan::SUBSCRIPTION,
};
use crate::consumer::mutation::wire_lane;

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
        accepts: manner.max_message_bytes,
    });
    let ended = |how| Event::Ended { session: id, how };
    let mut dice = dice;
    let opened = match manner.pulls {
        None => Link::open(&gateway.service).await,
        Some(ways) => {
            let calls = Calls::new(&gateway.service, &history, id, ways, dice.fork());
            Ok(Link::Calls(Box::new(calls)))
        }
    };
    let link = match opened {
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
    let prompt = manner.pulls.is_none_or(|it| it.is_prompt());
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
        prompt,
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
                    let since = self.link.handed_over().unwrap_or(since);
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
                if !self.link.close() {
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
        let since = self.link.handed_over().unwrap_or(self.looked);
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
}
