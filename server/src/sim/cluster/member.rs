//! One member of the group: what the adapter's threads do for a real consumer.

mod consumer;

use std::{
    sync::{
        Arc,
        mpsc::{TryRecvError, sync_channel},
    },
    time::Duration,
};

use ackgate_lane::Generation;
use bytes::BytesMut;
use tokio::{
    sync::{Notify, mpsc},
    time::Instant,
};

use super::{Cluster, Node, Order, Reading, Seen, State, at, log::TIMESTAMP};
use crate::{
    broker::{Assigned, Chunk, Commit, Error, ErrorKind, Event, RecordIndex, TopicPartition},
    config::StartAt,
    consumer::Budget,
    sim::plan::TOPIC,
};

/// For the last commits of lanes that go.
const LAST_COMMIT: Duration = Duration::from_secs(5);

/// After which the client library gives a request up.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(8);

/// How often the driver's answer to a revoke is looked for.
const LOOK: Duration = Duration::from_millis(5);

/// A member's handle on itself.
#[derive(Clone, Debug)]
pub(super) struct Run {
    cluster: Cluster,
    id: u64,
    gateway: u64,
    budget: Budget,
}

/// The next thing to do.
enum Step {
    Tell(Event),
    Take(Order),
    /// It has been put out and notices.
    Lost,
    Close,
    Die,
    Wait(Option<Instant>),
}

impl Run {
    pub(super) fn new(node: Node, id: u64) -> Self {
        let Node {
            cluster,
            gateway,
            budget,
        } = node;
        Self {
            cluster,
            id,
            gateway,
            budget,
        }
    }

    /// Runs until the consumer is closed or its process dies.
    pub(super) async fn run(self, events: mpsc::Sender<Event>, wake: Arc<Notify>) {
        loop {
            match self.next() {
                Step::Tell(event) => drop(events.send(event).await),
                Step::Take(Order::Assign(partitions)) => self.assign(&events, partitions).await,
                Step::Take(Order::Revoke { partitions, done }) => {
                    self.revoke(&events, Some(&partitions), false).await;
                    // The coordinator may have given up.
                    let _late = done.send(());
                }
                Step::Lost => self.come_back(&events).await,
                Step::Close => {
                    self.revoke(&events, None, false).await;
                    self.leave();
                    drop(events.send(Event::Closed).await);
                    return;
                }
                Step::Die => return,
                Step::Wait(until) => tokio::select! {
                    biased;
                    () = wake.notified() => {}
                    () = sleep_until(until) => {}
                },
            }
        }
    }

    fn next(&self) -> Step {
        let mut state = self.cluster.state.lock();
        let silent = state.weather.silent_until;
        let now = Instant::now();
        let Some(member) = state.members.get_mut(&self.id) else {
            return Step::Die;
        };
        if member.dead.is_some() {
            return Step::Die;
        }
        if let Some(event) = member.answers.pop_front() {
            return Step::Tell(event);
        }
        if member.fenced.is_some_and(|told| told <= now) {
            return Step::Lost;
        }
        if member.closing {
            return Step::Close;
        }
        if let Some(order) = member.orders.pop_front() {
            return Step::Take(order);
        }
        let fenced = member.fenced;
        if let Some(until) = silent.filter(|until| *until > now) {
            return Step::Wait(Some(fenced.map_or(until, |told| told.min(until))));
        }
        match self.fetch(&mut state) {
            Some(chunk) => Step::Tell(Event::Fetched(chunk)),
            None => Step::Wait(fenced),
        }
    }

    fn fetch(&self, state: &mut State) -> Option<Chunk> {
        let most = state.dice.between(1, 20);
        let State { members, logs, .. } = state;
        for (generation, reading) in &mut members.get_mut(&self.id)?.lanes {
            let log = logs.get(&reading.partition)?;
            let mut bytes = BytesMut::new();
            let mut records = Vec::new();
            for (offset, record) in log.records.range(reading.position..) {
                let full = records.len() as u64 >= most;
                if full || reading.leaving || reading.records == 0 || reading.bytes == 0 {
                    break;
                }
                reading.records -= 1;
                reading.bytes = reading.bytes.saturating_sub(record.bytes.len() as u64);
                bytes.extend_from_slice(&record.bytes);
                records.push(RecordIndex {
                    offset: *offset,
                    key: record.key,
                    timestamp_ms: TIMESTAMP,
                    end: u32::try_from(bytes.len()).expect("small records"),
                });
            }
            let (Some(first), Some(last)) = (records.first(), records.last()) else {
                continue;
            };
            reading.position = last.offset + 1;
            self.cluster.history.push(Seen::Fetched {
                gateway: self.gateway,
                lane: generation.0,
                partition: reading.partition,
                first: first.offset,
                last: last.offset,
                used: self.budget.used(),
            });
            return Some(Chunk {
                generation: *generation,
                seek: reading.seek,
                records,
                bytes: bytes.freeze(),
            });
        }
        None
    }

    async fn assign(&self, events: &mpsc::Sender<Event>, partitions: Vec<i32>) {
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
            super::map_of(metadata.as_deref(), position)
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
            settled: super::settled(map.as_ref()),
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
    async fn revoke(&self, events: &mpsc::Sender<Event>, only: Option<&[i32]>, lost: bool) {
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
                Err(TryRecvError::Empty) => tokio::time::sleep(LOOK).await,
            }
        };
        if !lost {
            self.commit_last(&generations, last).await;
        }
        // Answers of the last commits come before the lanes' end.
        let answers = self.look(|member| std::mem::take(&mut member.answers));
        for answer in answers.unwrap_or_default() {
            drop(events.send(answer).await);
        }
        self.let_go(&generations);
        drop(events.send(Event::Revoked(generations)).await);
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

    fn leave(&self) {
        {
            let mut state = self.cluster.state.lock();
            state.members.remove(&self.id);
            state.owners.retain(|_, owner| *owner != self.id);
        }
        self.cluster.history.push(Seen::Left { member: self.id });
        self.cluster.changed.notify_one();
    }

    /// It learns that it was put out, and joins again.
    async fn come_back(&self, events: &mpsc::Sender<Event>) {
        self.revoke(events, None, true).await;
        if let Some(member) = self.cluster.state.lock().members.get_mut(&self.id) {
            member.fenced = None;
        }
        self.cluster.changed.notify_one();
    }

    /// Makes commits, one request at a time, until the member is gone.
    pub(super) async fn commits(self) {
        let Some(wake) = self.look(|member| Arc::clone(&member.commit_wake)) else {
            return;
        };
        loop {
            let job = self.look(|member| {
                let job = member.commits.pop_front();
                member.committing = job.is_some();
                job
            });
            match job {
                None => return,
                Some(None) => wake.notified().await,
                Some(Some(commits)) => {
                    if self.cluster.reach(REQUEST_TIMEOUT).await {
                        self.carry_out(commits).await;
                    } else {
                        self.answer(commits, |_| Err(transient("no answer in time")));
                    }
                }
            }
        }
    }

    fn look<T>(&self, look: impl FnOnce(&mut super::Member) -> T) -> Option<T> {
        let mut state = self.cluster.state.lock();
        state
            .members
            .get_mut(&self.id)
            .filter(|member| member.dead.is_none())
            .map(look)
    }

    async fn carry_out(&self, commits: Vec<Commit>) {
        let (takes, fails, heard) = {
            let mut state = self.cluster.state.lock();
            let weather = state.weather.clone();
            let takes = state.dice.ms(0, weather.commits_take);
            let fails = state.dice.chance(weather.commits_fail);
            (takes, fails, !fails || !state.dice.chance(50))
        };
        tokio::time::sleep(takes / 2).await;
        let mut results = Vec::new();
        for commit in &commits {
            let result = if fails && heard {
                Err(transient("as the dice fell"))
            } else {
                let most = self.cluster.plan.metadata;
                let done = self.cluster.state.lock().commit(self.id, commit, most);
                if let Ok(partition) = done {
                    self.cluster.history.push(Seen::Committed {
                        gateway: self.gateway,
                        lane: commit.generation.0,
                        partition,
                        position: commit.position.get(),
                        settled: super::settled(
                            super::map_of(commit.metadata.as_deref(), commit.position.get())
                                .as_ref(),
                        ),
                        told: heard,
                    });
                }
                match done {
                    Ok(_) if !heard => Err(transient("the answer got lost")),
                    Ok(_) => Ok(()),
                    Err(error) => Err(error),
                }
            };
            results.push(result);
        }
        tokio::time::sleep(takes / 2).await;
        self.answer(commits, |index| results[index].clone());
    }

    fn answer(&self, commits: Vec<Commit>, result: impl Fn(usize) -> Result<(), Error>) {
        let _gone = self.look(|member| {
            for (index, commit) in commits.into_iter().enumerate() {
                member.answers.push_back(Event::Committed {
                    commit,
                    result: result(index),
                });
            }
            member.wake.notify_one();
        });
    }
}

fn transient(detail: &str) -> Error {
    Error {
        kind: ErrorKind::Transient,
        detail: detail.to_owned(),
    }
}

async fn sleep_until(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}
