//! Turns gathered verdicts into messages and sends them: the writing half of a
//! session, independent of the reading half so that neither waits for the other.

use std::{sync::Arc, time::Duration};

use ackgate_proto::v1;
use prost::Message as _;
use tokio::{sync::mpsc, time};
use v1::subscribe_request::Request;

use crate::{
    durable::Watcher,
    options::wire_duration,
    settler::{Answer, Gathered, MAX_EXTENSION, Run, Settler},
    stats::{Counters, add},
};

/// Most verdicts in a message if the gateway does not say.
pub(crate) const MAX_VERDICTS: usize = 10_000;

/// Largest verdict message in bytes: well below the 4 MiB that gRPC servers accept
/// by default, with room for one more verdict.
const MAX_SETTLE_BYTES: usize = 1 << 20;

/// Longest code and reason that the gateway keeps, in bytes.
const MAX_CODE: usize = 128;
const MAX_REASON: usize = 1_024;

/// How a session is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// The settler's number of it.
    pub(crate) session: u64,
    pub(crate) max_verdicts: usize,
    /// How long the goodbye may take.
    pub(crate) close_timeout: Duration,
    /// How often to give a sign of life.
    pub(crate) beat: Option<Duration>,
}

/// Sends what `settler` gathers until the session ends, or with the goodbye; and signs
/// of life, whether there is anything to gather or not.
pub(crate) async fn write(
    settler: Arc<Settler>,
    requests: mpsc::Sender<v1::SubscribeRequest>,
    terms: Terms,
) {
    let mut messages = Messages {
        sequence: 0,
        max_verdicts: terms.max_verdicts.clamp(1, MAX_VERDICTS),
    };
    let mut beat = terms.beat.map(|every| {
        let mut beat = time::interval_at(time::Instant::now() + every, every);
        beat.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
        beat
    });
    loop {
        let due = async {
            match &mut beat {
                Some(beat) => beat.tick().await,
                None => std::future::pending().await,
            }
        };
        let gathered = tokio::select! {
            gathered = settler.take(terms.session) => gathered,
            _ = due => {
                let beat = Some(Request::Beat(v1::Beat {}));
                if requests.send(v1::SubscribeRequest { request: beat }).await.is_err() {
                    return;
                }
                continue;
            }
        };
        let Some(mut gathered) = gathered else { return };
        let close = gathered.close;
        let mut watchers = std::mem::take(&mut gathered.watchers);
        let mut open = true;
        for (request, tally) in messages.build(gathered) {
            if let Some(waits) = settler.waits() {
                match &request {
                    Request::Settle(settle) => {
                        waits.open(settle.sequence, of(settle, &mut watchers));
                    }
                    // The goodbye ends all waits, so it waits for them, but for its own time.
                    Request::Close(_) if open => waits.idle(terms.close_timeout / 2).await,
                    Request::Close(_)
                    | Request::Open(_)
                    | Request::Credit(_)
                    | Request::Extend(_)
                    | Request::Beat(_) => {}
                }
            }
            let message = v1::SubscribeRequest {
                request: Some(request),
            };
            open = open && requests.send(message).await.is_ok();
            tally.count(settler.counters(), open);
        }
        if close || !open {
            return;
        }
    }
}

/// Takes those who wait for a verdict in `settle`.
fn of(settle: &v1::Settle, watchers: &mut Vec<Watcher>) -> Vec<Watcher> {
    let mut runs: Vec<(u64, i64, i64)> = settle
        .verdicts
        .iter()
        .map(|verdict| {
            let first = verdict.first_offset;
            (verdict.lane, first, verdict.last_offset.unwrap_or(first))
        })
        .collect();
    runs.sort_unstable();
    let (his, others) = std::mem::take(watchers).into_iter().partition(|watcher| {
        let Run { lane, first, .. } = watcher.run;
        let after = runs.partition_point(|run| (run.0, run.1) <= (lane, first));
        let run = after.checked_sub(1).and_then(|at| runs.get(at));
        run.is_some_and(|run| run.0 == lane && first <= run.2)
    });
    *watchers = others;
    his
}

/// Builds messages of one session, numbering those that are answered.
struct Messages {
    sequence: u64,
    max_verdicts: usize,
}

/// How many records a message answers, by verdict.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    acked: u64,
    rejected: u64,
    failed: u64,
    released: u64,
}

impl Messages {
    /// Extensions first: a verdict on the same record would make them late.
    fn build(&mut self, mut gathered: Gathered) -> Vec<(Request, Tally)> {
        let mut messages = Vec::new();
        if let Some((records, bytes)) = gathered.credit {
            let credit = v1::Credit { records, bytes };
            messages.push((Request::Credit(credit), Tally::default()));
        }
        self.extensions(std::mem::take(&mut gathered.extensions), &mut messages);
        self.verdicts(gathered.acks, gathered.answers, &mut messages);
        if gathered.close {
            messages.push((Request::Close(v1::Close {}), Tally::default()));
        }
        messages
    }

    fn extensions(
        &mut self,
        gathered: std::collections::BTreeMap<(u64, i64), (i64, Duration)>,
        messages: &mut Vec<(Request, Tally)>,
    ) {
        let mut by_duration: Vec<(Duration, Run)> = gathered
            .into_iter()
            .map(|((lane, first), (last, by))| {
                (
                    by,
                    Run {
                        lane,
                        delivery: 0,
                        first,
                        last,
                    },
                )
            })
            .collect();
        by_duration.sort_unstable();
        for group in by_duration.chunk_by(|a, b| a.0 == b.0) {
            let Some(by) = group.first().map(|(by, _)| (*by).min(MAX_EXTENSION)) else {
                continue;
            };
            let runs = joined(group.iter().map(|(_, run)| *run).collect());
            for part in runs.chunks(self.max_verdicts) {
                let extensions = part.iter().map(|run| v1::Extension {
                    lane: run.lane,
                    first_offset: run.first,
                    last_offset: (run.last != run.first).then_some(run.last),
                });
                let extend = v1::Extend {
                    sequence: self.next_sequence(),
                    extensions: extensions.collect(),
                    by: Some(wire_duration(by)),
                };
                messages.push((Request::Extend(extend), Tally::default()));
            }
        }
    }

    fn verdicts(
        &mut self,
        acks: Vec<Run>,
        answers: Vec<(Run, Answer)>,
        messages: &mut Vec<(Request, Tally)>,
    ) {
        let acks = joined(acks).into_iter().map(|run| (run, None));
        let answers = answers.into_iter().map(|(run, answer)| (run, Some(answer)));
        let (mut verdicts, mut bytes, mut tally) = (Vec::new(), 0, Tally::default());
        for (run, answer) in acks.chain(answers) {
            tally.note(run.len(), answer.as_ref());
            let verdict = verdict(run, answer);
            bytes += verdict.encoded_len() + 4;
            verdicts.push(verdict);
            if verdicts.len() >= self.max_verdicts || bytes >= MAX_SETTLE_BYTES {
                let settle = self.settle(std::mem::take(&mut verdicts));
                messages.push((settle, std::mem::take(&mut tally)));
                bytes = 0;
            }
        }
        if !verdicts.is_empty() {
            messages.push((self.settle(verdicts), tally));
        }
    }

    fn settle(&mut self, verdicts: Vec<v1::Verdict>) -> Request {
        Request::Settle(v1::Settle {
            sequence: self.next_sequence(),
            verdicts,
        })
    }

    const fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }
}

impl Tally {
    const fn note(&mut self, records: u64, answer: Option<&Answer>) {
        match answer {
            None => self.acked += records,
            Some(Answer::Rejected { .. }) => self.rejected += records,
            Some(Answer::Failed { .. }) => self.failed += records,
            Some(Answer::Released) => self.released += records,
        }
    }

    fn count(self, counters: &Counters, sent: bool) {
        if sent {
            add(&counters.acked, self.acked);
            add(&counters.rejected, self.rejected);
            add(&counters.failed, self.failed);
            add(&counters.released, self.released);
        } else {
            let lost = self.acked + self.rejected + self.failed + self.released;
            add(&counters.stale_answers, lost);
        }
    }
}

/// Joins runs given in any order.
fn joined(mut runs: Vec<Run>) -> Vec<Run> {
    // Run orders by lane, delivery, first offset.
    runs.sort_unstable();
    runs.dedup_by(|next, kept| kept.join(*next));
    runs
}

fn verdict(run: Run, answer: Option<Answer>) -> v1::Verdict {
    let mut verdict = v1::Verdict {
        lane: run.lane,
        first_offset: run.first,
        last_offset: (run.last != run.first).then_some(run.last),
        delivery: Some(run.delivery),
        ..v1::Verdict::default()
    };
    match answer {
        None => verdict.set_outcome(v1::Outcome::Acked),
        Some(Answer::Released) => verdict.set_outcome(v1::Outcome::Released),
        Some(Answer::Rejected { code, reason }) => {
            verdict.set_outcome(v1::Outcome::Rejected);
            (verdict.code, verdict.reason) = (cut(code, MAX_CODE), cut(reason, MAX_REASON));
        }
        Some(Answer::Failed {
            code,
            reason,
            retry_after,
        }) => {
            verdict.set_outcome(v1::Outcome::Failed);
            (verdict.code, verdict.reason) = (cut(code, MAX_CODE), cut(reason, MAX_REASON));
            verdict.retry_after = retry_after.map(wire_duration);
        }
    }
    verdict
}

/// The longest beginning of `text` that fits, so that a long reason never costs
/// the verdict.
fn cut(mut text: String, max: usize) -> String {
    text.truncate(text.floor_char_boundary(max));
    text
}
