//! Going on after a broken stream: what is named to the gateway, and what its answer
//! leaves of it.

use std::collections::{BTreeMap, HashMap};

use ackgate_proto::v1;

use crate::{held::Held, settler::Run};

/// Most runs that a gateway takes. What is beyond is delivered again.
const MOST_RUNS: usize = 10_000;

/// A lane as records name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LaneName {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) epoch: u64,
}

/// What is worked on, as the gateway is told. Of two deliveries of one record it is
/// the later one: the earlier is over.
pub(crate) fn manifest(
    runs: impl Iterator<Item = Run>,
    lanes: &HashMap<u64, LaneName>,
) -> Vec<v1::Held> {
    let mut runs: Vec<Run> = runs.collect();
    runs.sort_unstable_by_key(|run| (std::cmp::Reverse(run.delivery), run.lane, run.first));
    let mut named = Held::default();
    let mut held = Vec::new();
    for run in runs {
        let Some(name) = lanes.get(&run.lane) else {
            continue;
        };
        let mut part = None;
        for offset in run.first..=run.last {
            if named.has(run.lane, 0, offset) {
                held.extend(part.take().map(|part| to_wire(part, name)));
            } else {
                let one = Run {
                    first: offset,
                    last: offset,
                    ..run
                };
                let open = part.get_or_insert(one);
                open.last = offset;
            }
        }
        held.extend(part.map(|part| to_wire(part, name)));
        named.insert(Run { delivery: 0, ..run });
        if held.len() >= MOST_RUNS {
            held.truncate(MOST_RUNS);
            break;
        }
    }
    held
}

fn to_wire(run: Run, name: &LaneName) -> v1::Held {
    v1::Held {
        topic: name.topic.clone(),
        partition: name.partition,
        epoch: name.epoch,
        first_offset: run.first,
        last_offset: run.last,
        delivery: Some(run.delivery),
    }
}

/// What became of a part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It goes on under this lane.
    Kept(u64),
    /// The record has its verdict.
    Settled,
    /// It comes again, here or elsewhere.
    Lost,
}

/// The gateway's answer to a manifest.
#[derive(Debug, Default)]
pub(crate) struct Fates {
    /// By topic and partition: last offset and fate of each part, by first offset.
    parts: HashMap<(String, i32), BTreeMap<i64, (i64, Fate)>>,
}

impl Fates {
    pub(crate) fn new(answers: Vec<v1::ResumeAnswer>) -> Self {
        let mut fates = Self::default();
        for answer in answers {
            let fate = match answer.result() {
                v1::ResumeResult::Kept => Fate::Kept(answer.lane),
                v1::ResumeResult::Settled => Fate::Settled,
                v1::ResumeResult::Lost | v1::ResumeResult::Unspecified => Fate::Lost,
            };
            fates
                .parts
                .entry((answer.topic, answer.partition))
                .or_default()
                .insert(answer.first_offset, (answer.last_offset, fate));
        }
        fates
    }

    /// Calls `each` with the parts of `run` in order. What has no answer is lost.
    pub(crate) fn of(&self, run: Run, name: &LaneName, mut each: impl FnMut(Run, Fate)) {
        let none = BTreeMap::new();
        let parts = self
            .parts
            .get(&(name.topic.clone(), name.partition))
            .unwrap_or(&none);
        let mut next = run.first;
        let from = parts
            .range(..=run.first)
            .next_back()
            .map_or(run.first, |(first, _)| *first);
        for (&first, &(last, fate)) in parts.range(from..=run.last) {
            let (first, last) = (first.max(next), last.min(run.last));
            if first > last {
                continue;
            }
            if next < first {
                each(part(run, next, first - 1), Fate::Lost);
            }
            each(part(run, first, last), fate);
            next = last.saturating_add(1);
        }
        if next <= run.last {
            each(part(run, next, run.last), Fate::Lost);
        }
    }
}

const fn part(run: Run, first: i64, last: i64) -> Run {
    Run { first, last, ..run }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> LaneName {
        LaneName {
            topic: "orders".to_owned(),
            partition: 3,
            epoch: 1,
        }
    }

    fn run(delivery: u32, first: i64, last: i64) -> Run {
        Run {
            lane: 7,
            delivery,
            first,
            last,
        }
    }

    #[test]
    fn of_two_deliveries_of_a_record_the_later_is_named() {
        let lanes = HashMap::from([(7, name())]);
        let runs = [run(1, 0, 9), run(2, 4, 5), run(1, 20, 20)];
        let held = manifest(runs.into_iter(), &lanes);
        let plain: Vec<_> = held
            .iter()
            .map(|run| (run.first_offset, run.last_offset, run.delivery))
            .collect();
        assert_eq!(
            plain,
            [
                (4, 5, Some(2)),
                (0, 3, Some(1)),
                (6, 9, Some(1)),
                (20, 20, Some(1))
            ]
        );
    }

    #[test]
    fn what_has_no_answer_is_lost() {
        let answer = |first_offset, last_offset, result: v1::ResumeResult, lane| v1::ResumeAnswer {
            topic: "orders".to_owned(),
            partition: 3,
            first_offset,
            last_offset,
            result: result.into(),
            lane,
        };
        let fates = Fates::new(vec![
            answer(2, 4, v1::ResumeResult::Kept, 9),
            answer(6, 99, v1::ResumeResult::Settled, 0),
        ]);
        let mut parts = Vec::new();
        fates.of(run(1, 0, 8), &name(), |part, fate| {
            parts.push((part.first, part.last, fate));
        });
        assert_eq!(
            parts,
            [
                (0, 1, Fate::Lost),
                (2, 4, Fate::Kept(9)),
                (5, 5, Fate::Lost),
                (6, 8, Fate::Settled)
            ]
        );
        let other = LaneName {
            partition: 4,
            ..name()
        };
        let mut parts = Vec::new();
        fates.of(run(1, 3, 3), &other, |part, fate| {
            parts.push((part.first, part.last, fate));
        });
        assert_eq!(parts, [(3, 3, Fate::Lost)]);
    }
}
