//! The lanes of a consumer and what is told about them.
//!
//! Invariant: each commit that was asked for is answered once, also when its lane
//! goes, and no event of a lane follows the one that tells of its end.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        mpsc::{RecvTimeoutError, sync_channel},
    },
    time::{Duration, Instant},
};

use ackgate_lane::Generation;
use rdkafka::consumer::BaseConsumer;
use tracing::debug;

use super::{
    commit::{Answer, Committer, Placed},
    error as errors,
    health::Health,
    inbox::Inbox,
    lane::Lane,
    outbox::Outbox,
    past::Past,
    prefetch::Prefetch,
    rebalance::Context,
    start::{Begin, PATIENCE, Start},
    stats::Stats,
    transaction::Settings,
};
use crate::{
    broker::{Assigned, Commit, Error, ErrorKind, Event, TopicPartition},
    config::StartAt,
    telemetry::{episode::Episode, traces::Sampling},
};

/// Far below `max.poll.interval.ms`, 300 s by default.
const MOST_PATIENCE: Duration = Duration::from_secs(120);

/// How often it is looked for commits while the last words are waited for.
const LOOK: Duration = Duration::from_millis(10);

/// What a consumer works by.
#[derive(Debug)]
pub(super) struct Plan {
    /// The consumer group.
    pub(super) group: String,
    /// The retry topic included.
    pub(super) topics: Vec<String>,
    /// The one of them that is read from its beginning and may be missing.
    pub(super) retry: Option<String>,
    pub(super) start: StartAt,
    /// Bytes that may be fetched ahead.
    pub(super) prefetch: u64,
    /// The user's own properties, the later the stronger.
    pub(super) own: Vec<(String, String)>,
    /// How long a revoke waits for the last positions.
    pub(super) revoke_wait: Duration,
    /// Exactly once: how commits are made.
    pub(super) atomic: Option<Settings>,
    /// Which records are traced; `None`: none.
    pub(super) sampling: Option<Sampling>,
}

impl Plan {
    /// Where lanes begin whose group has no committed position.
    pub(super) fn begins(&self) -> Begin<'_> {
        Begin {
            at: self.start,
            whole: self.retry.as_deref(),
            patience: self.patience(),
        }
    }

    /// How long committed positions are looked up. A transaction that a member left open
    /// keeps them back until Kafka has aborted it: at its time-out, for which it looks
    /// every ten seconds.
    fn patience(&self) -> Duration {
        let open = self.atomic.as_ref().map(|of| of.timeout);
        open.map_or(PATIENCE, |open| (PATIENCE + open).min(MOST_PATIENCE))
    }
}

/// What the thread and its callbacks share. Both run on the same thread, so the
/// lock is never waited for.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) lanes: Vec<Lane>,
    pub(super) outbox: Outbox,
    pub(super) health: Health,
    /// Positions that wait for the committer.
    pub(super) commits: BTreeMap<Generation, Commit>,
    pub(super) committer: Committer,
    /// What was read before, also by former consumers.
    pub(super) past: Past,
    /// Limits of what is fetched ahead, once they are planned.
    pub(super) limits: Option<Prefetch>,
    /// Lanes that could not be moved.
    pub(super) moves: Episode,
}

impl Core {
    /// Takes statistics; `uncommitted`: unfinished transactions are read too.
    pub(super) fn observe(&mut self, stats: &Stats, uncommitted: bool) {
        if let Some(age) = stats.contact {
            self.outbox.send(Event::Contact { age });
        }
        let mut heads = Vec::new();
        for lane in &mut self.lanes {
            let TopicPartition { topic, partition } = &lane.partition;
            let log = stats.log(topic, *partition);
            if let Some(head) = log.and_then(|log| lane.observe(log, uncommitted)) {
                heads.push(head);
            }
            if let Some(event) = end_of(lane) {
                self.outbox.send(event);
            }
        }
        if !heads.is_empty() {
            self.outbox.send(Event::Heads(heads));
        }
        self.outbox.send(Event::Client(Box::new(stats.client)));
    }

    /// Takes what the runtime has asked for.
    pub(super) fn accept(&mut self, inbox: &Inbox) -> bool {
        let Some((mut orders, commits)) = inbox.take() else {
            return false;
        };
        for lane in &mut self.lanes {
            if let Some(order) = orders.remove(&lane.generation) {
                lane.obey(order);
            }
        }
        for (generation, order) in orders {
            if let Some((_, seek)) = order.seek {
                let result = Err(errors::fenced());
                self.outbox.send(Event::Sought {
                    generation,
                    seek,
                    result,
                });
            }
        }
        self.commits
            .extend(commits.into_iter().map(|c| (c.generation, c)));
        true
    }

    /// Tells how commits went.
    pub(super) fn answer(&mut self, answers: Vec<Answer>) {
        for (commit, result) in answers {
            let mut lanes = self.lanes.iter();
            let Some(lane) = lanes.find(|lane| lane.generation == commit.generation) else {
                // It went before its commit was answered.
                continue;
            };
            if result.is_ok() {
                self.past.committed(&lane.partition);
            }
            if result.is_ok()
                && let Some(state) = self.health.joined()
            {
                self.outbox.send(Event::Cluster(state));
            }
            self.outbox.send(Event::Committed { commit, result });
        }
    }

    /// Starts a commit if one waits and none runs.
    pub(super) fn commit(&mut self, consumer: &Arc<BaseConsumer<Context>>) -> bool {
        let answers = self.committer.poll();
        let progress = !answers.is_empty();
        self.answer(answers);
        if self.committer.busy() || self.commits.is_empty() {
            return progress;
        }
        let placed: Vec<Placed> = self
            .lanes
            .iter()
            .filter_map(|lane| {
                let commit = self.commits.remove(&lane.generation)?;
                Some((commit, lane.partition.clone()))
            })
            .collect();
        self.fence();
        let refused = self.committer.begin(consumer, placed);
        self.answer(refused);
        true
    }

    /// Answers commits of lanes that are not here.
    pub(super) fn fence(&mut self) {
        for commit in std::mem::take(&mut self.commits).into_values() {
            self.outbox.send(Event::Committed {
                commit,
                result: Err(errors::fenced()),
            });
        }
    }

    pub(super) fn seek(&mut self, consumer: &BaseConsumer<Context>) -> bool {
        let mut progress = false;
        for lane in &mut self.lanes {
            if let Some(sought) = lane.try_seek(consumer) {
                progress = true;
                self.outbox.send(Event::Sought {
                    generation: lane.generation,
                    seek: sought.seek,
                    result: sought.result,
                });
            }
        }
        progress
    }

    /// Gives up all lanes at once; nothing of them can be committed.
    pub(super) fn abandon(&mut self) {
        let generations: Vec<Generation> = self.lanes.iter().map(|l| l.generation).collect();
        if !generations.is_empty() {
            self.lose(&generations);
            self.depart(&generations);
        }
        self.fence();
    }
}

/// What a rebalance does.
impl Core {
    /// Takes lanes in and tells of them.
    pub(super) fn arrive(&mut self, arrivals: Vec<(Lane, Start)>) {
        let told = arrivals
            .iter()
            .map(|(lane, start)| Assigned {
                partition: lane.partition.clone(),
                generation: lane.generation,
                start: start.position(),
                committed: matches!(start, Start::Committed(..)),
                metadata: start.metadata(),
                anew: match start {
                    Start::Anew(_, why) => Some(why.clone()),
                    Start::Committed(..) | Start::At(_) | Start::Found(_) | Start::Nowhere => None,
                },
            })
            .collect();
        if let Some(state) = self.health.joined() {
            self.outbox.send(Event::Cluster(state));
        }
        self.outbox.send(Event::Assigned(told));
        for (mut lane, start) in arrivals {
            self.past.begins(&lane.partition, &start);
            if start == Start::Nowhere {
                lane.fail();
                self.outbox.send(Event::LaneFailed {
                    generation: lane.generation,
                    error: no_start(&lane),
                });
            }
            self.lanes.push(lane);
        }
    }

    /// Says that lanes go and waits for the positions to commit, up to `wait`. Exactly
    /// once commits go on meanwhile: before its last words a lane has to know what
    /// became of the letters that it has sent.
    pub(super) fn last_words(
        &mut self,
        consumer: Option<&Arc<BaseConsumer<Context>>>,
        inbox: &Inbox,
        generations: &[Generation],
        wait: Duration,
    ) -> Vec<Commit> {
        let deadline = Instant::now() + wait;
        let (reply, answer) = sync_channel(1);
        self.outbox.send(Event::Revoking {
            generations: generations.to_vec(),
            lost: false,
            reply,
        });
        self.outbox.drain(deadline);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let look = if self.committer.is_atomic() {
                left.min(LOOK)
            } else {
                left
            };
            match answer.recv_timeout(look) {
                Ok(commits) => return commits,
                Err(RecvTimeoutError::Timeout) if look < left => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    debug!("no positions came for the lanes that go");
                    return Vec::new();
                }
            }
            if let Some(consumer) = consumer {
                self.accept(inbox);
                self.commit(consumer);
                self.outbox.flush();
            }
        }
    }

    /// Says that lanes have gone to others already.
    pub(super) fn lose(&mut self, generations: &[Generation]) {
        let (reply, _) = sync_channel(1);
        let generations = generations.to_vec();
        self.outbox.send(Event::Revoking {
            generations,
            lost: true,
            reply,
        });
    }

    /// Commits what waits for the lanes that go, and `last` on top.
    pub(super) fn commit_last(
        &mut self,
        consumer: &Arc<BaseConsumer<Context>>,
        generations: &[Generation],
        last: Vec<Commit>,
        deadline: Instant,
    ) {
        // The last words came last, so they replace what still waits.
        let mut commits: BTreeMap<Generation, Commit> = generations
            .iter()
            .filter_map(|generation| Some((*generation, self.commits.remove(generation)?)))
            .collect();
        for commit in last {
            let generation = commit.generation;
            if generations.contains(&generation) {
                commits.insert(generation, commit);
            } else {
                self.commits.insert(generation, commit);
            }
        }
        let placed = self
            .lanes
            .iter()
            .filter_map(|lane| {
                let commit = commits.remove(&lane.generation)?;
                Some((commit, lane.partition.clone()))
            })
            .collect();
        // One request at a time, so that an earlier position cannot come later.
        let earlier = self.committer.wait(deadline);
        self.answer(earlier);
        let refused = self.committer.begin(consumer, placed);
        self.answer(refused);
        let answers = self.committer.wait(deadline);
        self.answer(answers);
    }

    /// Drops lanes and tells that they are gone.
    pub(super) fn depart(&mut self, generations: &[Generation]) {
        let past = &mut self.past;
        self.lanes.retain(|lane| {
            let goes = generations.contains(&lane.generation);
            if goes {
                past.ends(&lane.partition, lane.next());
            }
            !goes
        });
        self.outbox.send(Event::Revoked(generations.to_vec()));
    }
}

/// That a lane has been read to the end of its log, if that is news.
pub(super) fn end_of(lane: &mut Lane) -> Option<Event> {
    let position = lane.news_of_end()?;
    Some(Event::AtEnd {
        generation: lane.generation,
        seek: lane.seek_number(),
        position,
    })
}

fn no_start(lane: &Lane) -> Error {
    Error {
        kind: ErrorKind::Operator,
        detail: format!("{lane}: the group has no committed position, and start = \"fail\""),
    }
}
