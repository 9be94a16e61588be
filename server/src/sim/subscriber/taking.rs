//! What a subscriber does with what it is told: writes it down, and decides.

use std::{collections::BTreeMap, time::Duration};

use ackgate_proto::v1;
use v1::subscribe_response::Response as Tell;

use super::{Got, Plan, Session, reply};
use crate::{
    consumer::mutation::wire_lane,
    sim::{
        cluster,
        history::{Event, Saying, Word},
        manner::Fate,
        plan::TOPIC,
    },
};

/// Words in one message.
const TOGETHER: usize = 25;

impl Session {
    pub(super) fn take(&mut self, tell: Tell, since: u64) {
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
            let expected = cluster::value(batch.partition, offset);
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
