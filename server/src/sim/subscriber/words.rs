//! What a subscriber says, true or not, and its form on the wire.

use std::time::Duration;

use ackgate_proto::v1;
use tonic::Status;
use tonic_types::StatusExt as _;

use super::{Got, Session};
use crate::{
    consumer::mutation::wire_lane,
    sim::history::{Reply, Saying, Told, Word},
};

impl Session {
    /// Verdicts on records, runs of neighbours as one if that is the manner.
    pub(super) fn words(&mut self, records: &[Got], saying: Saying) -> Vec<Word> {
        let ranges = self.dice.chance(self.manner.ranges);
        let numbers = self.dice.chance(self.manner.numbers);
        let mut words: Vec<Word> = Vec::new();
        for got in records {
            let delivery = numbers.then_some(got.delivery);
            if let Some(last) = words.last_mut()
                && ranges
                && last.lane == got.lane
                && last.last + 1 == got.offset
                && last.delivery == delivery
            {
                last.last = got.offset;
                continue;
            }
            words.push(Word {
                lane: got.lane,
                first: got.offset,
                last: got.offset,
                delivery,
                saying,
            });
        }
        words
    }

    /// Something wrong: a lane or an offset that was never received, another verdict
    /// than before, the same once more, a number that is not the delivery's.
    pub(super) fn lie(&mut self) -> Word {
        let dice = &mut self.dice;
        let got = if self.got.is_empty() {
            Got {
                lane: 1,
                offset: 0,
                delivery: 1,
            }
        } else {
            dice.pick(&self.got)
        };
        let saying = dice.pick(&[
            Saying::Acked,
            Saying::Acked,
            Saying::Rejected,
            Saying::Failed(None),
            Saying::Released,
        ]);
        let plain = Word {
            lane: got.lane,
            first: got.offset,
            last: got.offset,
            delivery: None,
            saying,
        };
        match dice.weighted(&[3, 2, 2, 2, 3, 2]) {
            0 if !self.said.is_empty() => dice.pick(&self.said),
            1 => Word {
                lane: dice.pick(&[0, 1, 2, 3, 4, got.lane + 1, u64::MAX]),
                ..plain
            },
            2 => Word {
                first: got.offset.saturating_sub(dice.between(0, 20)),
                last: got.offset + dice.between(0, 100),
                ..plain
            },
            3 => Word {
                first: 0,
                last: dice.pick(&[10, 1_000_000, i64::MAX.unsigned_abs()]),
                ..plain
            },
            4 => Word {
                delivery: Some(dice.count(1, got.delivery + 2)),
                ..plain
            },
            5 => Word {
                saying: Saying::Nonsense(dice.count(0, 2)),
                ..plain
            },
            _ => plain,
        }
    }
}

pub(super) fn wire(offset: u64) -> i64 {
    i64::try_from(offset).unwrap_or(i64::MAX)
}

pub(super) const fn wire_credit((records, bytes): (u32, u64)) -> v1::Credit {
    v1::Credit { records, bytes }
}

pub(super) fn verdict(word: &Word) -> v1::Verdict {
    let (outcome, retry_after) = match word.saying {
        Saying::Acked => (v1::Outcome::Acked.into(), None),
        Saying::Rejected => (v1::Outcome::Rejected.into(), None),
        Saying::Released => (v1::Outcome::Released.into(), None),
        Saying::Failed(after) => (
            v1::Outcome::Failed.into(),
            after.and_then(|ms| Duration::from_millis(ms).try_into().ok()),
        ),
        Saying::Nonsense(0) => (0, None),
        Saying::Nonsense(1) => (99, None),
        Saying::Nonsense(_) | Saying::Extend(_) => (
            v1::Outcome::Acked.into(),
            Duration::from_secs(1).try_into().ok(),
        ),
    };
    v1::Verdict {
        lane: word.lane,
        first_offset: wire(word.first),
        last_offset: (word.first != word.last).then(|| wire(word.last)),
        delivery: word.delivery,
        outcome,
        code: "sim".to_owned(),
        reason: String::new(),
        retry_after,
    }
}

pub(super) fn reply(answer: &v1::VerdictAnswer) -> Reply {
    let result = match answer.result() {
        v1::VerdictResult::Duplicate => Told::Duplicate,
        v1::VerdictResult::Conflict => Told::Conflict,
        v1::VerdictResult::Stale => Told::Stale,
        v1::VerdictResult::Fenced => Told::Fenced,
        v1::VerdictResult::Unknown => Told::Unknown,
        v1::VerdictResult::Expired => Told::Expired,
        v1::VerdictResult::Invalid | v1::VerdictResult::Unspecified => Told::Invalid,
    };
    Reply {
        lane: wire_lane(answer.lane),
        first: answer.first_offset,
        last: answer.last_offset,
        result,
    }
}

pub(in crate::sim) fn reason(status: &Status) -> String {
    status.get_error_details().error_info().map_or_else(
        || format!("{:?}", status.code()),
        |info| info.reason.clone(),
    )
}
