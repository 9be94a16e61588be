//! Partitions come to a member, and go.

use std::{
    sync::{
        Arc,
        mpsc::{TryRecvError, sync_channel},
    },
    time::Duration,
};

use ackgate_lane::Generation;
use tokio::{sync::mpsc, time::Instant};

use super::{
    super::{Reading, Seen, State, at, map_of, settled},
    Run,
};
use crate::{
    broker::{Assigned, Commit, Event, TopicPartition},
    config::StartAt,
    sim::plan::TOPIC,
};

/// For the last commits of lanes that go.
const LAST_COMMIT: Duration = Duration::from_secs(5);

/// How often the driver's answer to a revoke is looked for.
const LOOK: Duration = Duration::from_millis(5);

impl Run {
    pub(super) async fn assign(&self, events: &mpsc::Sender<Event>, partitions: Vec<i32>) {
        // Positions are asked for, which takes a moment.
        let delay = self.cluster.state.lock().dice.ms(0, 50);
        tokio::time::sleep(delay).await;
        let arrivals: Vec<Assigned> = {
            let mut state = self.cluster.state.lock();
            partitions
                .into_iter()
                .filter_map(|partition| self.arrive(&mut state, partition))
                .collect()
        };
        drop(events.send(Event::Assigned(arrivals)).await);
    }

    fn arrive(&self, state: &mut State, partition: i32) -> Option<Assigned> {
        if state.owners.get(&partition) != Some(&self.id) {
            return None;
        }
        let (start, end) = {
            let log = state.logs.get(&partition)?;
            (log.start, log.end)
        };
        let group = state.committed.get(&partition).cloned();
        let committed = group.as_ref().map(|c| c.position);
        let metadata = group.and_then(|c| c.metadata);
        // What is committed and deleted is read from the oldest record on.
        let position = committed.unwrap_or(match self.cluster.plan.subscription.start {
            StartAt::Latest => end,
            StartAt::Earliest | StartAt::Timestamp(_) | StartAt::Fail => start,
        });
        let generation = Generation(state.next_lane);
        state.next_lane += 1;
        let reading = Reading {
            partition,
            position,
            seek: 0,
            records: 0,
            bytes: 0,
            leaving: false,
        };
        let member = state.members.get_mut(&self.id)?;
        if member.dead.is_some() {
            return None;
        }
        member.lanes.insert(generation, reading);
        let map = if self.cluster.plan.subscription.map_bytes > 0 {
            map_of(metadata.as_deref(), position)
        } else {
            None
        };
        let tried = map.iter().flat_map(|map| &map.counters);
        let tried = tried
            .map(|c| {
                let (first, last) = (c.range.first().get(), c.range.last().get());
                (first, last, c.attempts, c.deliveries)
            })
            .collect();
        self.cluster.history.push(Seen::Assigned {
            gateway: self.gateway,
            lane: generation.0,
            partition,
            position,
            committed: committed.is_some(),
            settled: settled(map.as_ref()),
            tried,
        });
        Some(Assigned {
            partition: TopicPartition {
                topic: Arc::from(TOPIC),
                partition,
            },
            generation,
            start: Some(at(position)),
            committed: committed.is_some(),
            metadata,
            anew: None,
        })
    }

    /// The driver is asked for its last words, then lanes go; all if none is named.
    pub(super) async fn revoke(
        &self,
        events: &mpsc::Sender<Event>,
        only: Option<&[i32]>,
        lost: bool,
    ) {
        let generations: Vec<Generation> = {
            let mut state = self.cluster.state.lock();
            let Some(member) = state.members.get_mut(&self.id) else {
                return;
            };
            let mut going = Vec::new();
            for (generation, reading) in &mut member.lanes {
                if only.is_none_or(|only| only.contains(&reading.partition)) {
                    reading.leaving = true;
                    going.push(*generation);
                }
            }
            going
        };
        if generations.is_empty() {
            self.let_go(&generations);
            return;
        }
        for generation in &generations {
            self.cluster.history.push(Seen::Revoking {
                gateway: self.gateway,
                lane: generation.0,
                lost,
            });
        }
        let (reply, answer) = sync_channel(1);
        let revoking = Event::Revoking {
            generations: generations.clone(),
            lost,
            reply,
        };
        drop(events.send(revoking).await);
        let deadline = Instant::now() + self.cluster.plan.revoke_wait;
        let last = loop {
            match answer.try_recv() {
                Ok(commits) => break commits,
                Err(TryRecvError::Disconnected) => break Vec::new(),
                Err(TryRecvError::Empty) if Instant::now() >= deadline => break Vec::new(),
                Err(TryRecvError::Empty) => {
                    if self.cluster.plan.is_atomic() {
                        // Commits go on meanwhile, and the drain waits for their answers.
                        self.tell_answers(events).await;
                    }
                    tokio::time::sleep(LOOK).await;
                }
            }
        };
        if !lost {
            self.commit_last(&generations, last).await;
        }
        // Answers of the last commits come before the lanes' end.
        self.tell_answers(events).await;
        self.let_go(&generations);
        drop(events.send(Event::Revoked(generations)).await);
    }

    async fn tell_answers(&self, events: &mpsc::Sender<Event>) {
        let answers = self.look(|member| std::mem::take(&mut member.answers));
        for answer in answers.unwrap_or_default() {
            drop(events.send(answer).await);
        }
    }

    /// One request at a time, so that an earlier position cannot come later.
    async fn commit_last(&self, going: &[Generation], commits: Vec<Commit>) {
        let deadline = Instant::now() + LAST_COMMIT;
        while Instant::now() < deadline {
            let busy = {
                let mut state = self.cluster.state.lock();
                state.members.get_mut(&self.id).is_some_and(|member| {
                    // The last words replace what still waits of the same lanes.
                    for job in &mut member.commits {
                        job.retain(|commit| !going.contains(&commit.generation));
                    }
                    member.committing
                })
            };
            if !busy {
                break;
            }
            tokio::time::sleep(LOOK).await;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if !commits.is_empty() && self.cluster.reach(left).await {
            self.carry_out(commits).await;
        }
    }

    fn let_go(&self, generations: &[Generation]) {
        let mut state = self.cluster.state.lock();
        let State {
            members, owners, ..
        } = &mut *state;
        let Some(member) = members.get_mut(&self.id) else {
            return;
        };
        for generation in generations {
            if let Some(reading) = member.lanes.remove(generation) {
                if owners.get(&reading.partition) == Some(&self.id) {
                    owners.remove(&reading.partition);
                }
                self.cluster.history.push(Seen::Revoked {
                    gateway: self.gateway,
                    lane: generation.0,
                });
            }
        }
        drop(state);
        self.cluster.changed.notify_one();
    }
}
