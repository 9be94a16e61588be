//! The consumer of a broker in memory: what it tells, and when.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ackgate_lane::{Generation, Position};
use tokio::sync::mpsc;

use super::{Memory, Reading};
use crate::broker::{Assigned, Event, TopicPartition};

static GENERATIONS: AtomicU64 = AtomicU64::new(1);

/// The topic of a partition: what is numbered from [`Memory::RETRY`] on stands for
/// partitions of another one.
fn topic(partition: i32) -> &'static str {
    if partition < Memory::RETRY {
        "orders"
    } else {
        "orders.retry"
    }
}

impl Memory {
    /// The first partition of the topic `orders.retry`.
    pub(crate) const RETRY: i32 = 1000;

    pub(super) async fn member(self, events: mpsc::Sender<Event>) {
        {
            let mut state = self.state.lock();
            state.joins += 1;
            state.close = false;
        }
        self.assign(&events).await;
        loop {
            let answers = std::mem::take(&mut self.state.lock().answers);
            for answer in answers {
                let _driver_gone = events.send(answer).await;
            }
            loop {
                let chunk = self.state.lock().fetch();
                let Some(chunk) = chunk else { break };
                let _driver_gone = events.send(Event::Fetched(chunk)).await;
            }
            let ends = self.state.lock().reached();
            for end in ends {
                let _driver_gone = events.send(end).await;
            }
            let (revoke, close) = {
                let mut state = self.state.lock();
                (state.revoke.take(), state.close)
            };
            if let Some(lost) = revoke {
                self.revoke(&events, lost).await;
                if !self.state.lock().keeps_lanes {
                    self.assign(&events).await;
                }
            }
            if close {
                self.revoke(&events, false).await;
                let _driver_gone = events.send(Event::Closed).await;
                return;
            }
            self.woken.notified().await;
        }
    }

    async fn assign(&self, events: &mpsc::Sender<Event>) {
        let assigned = {
            let mut state = self.state.lock();
            let partitions: Vec<i32> = state.log.keys().copied().collect();
            let anew = state.anew.take();
            partitions
                .into_iter()
                .map(|partition| {
                    let generation = Generation(GENERATIONS.fetch_add(1, Ordering::Relaxed));
                    let committed = state.committed.get(&partition).copied();
                    let log = state.log.get(&partition);
                    let last = log.and_then(|log| log.last_key_value());
                    let end = last.map_or(0, |(offset, _)| offset + 1);
                    let position = match committed {
                        Some(committed) if anew.is_none() => committed,
                        None if state.latest => end,
                        Some(_) | None => 0,
                    };
                    let reading = Reading {
                        partition,
                        position,
                        seek: 0,
                        records: 0,
                        bytes: 0,
                        told: None,
                    };
                    state.lanes.insert(generation, reading);
                    Assigned {
                        partition: TopicPartition {
                            topic: Arc::from(topic(partition)),
                            partition,
                        },
                        generation,
                        start: Some(Position::new(position)),
                        committed: committed.is_some() && anew.is_none(),
                        metadata: state.metadata.get(&partition).cloned(),
                        anew: anew.clone(),
                    }
                })
                .collect()
        };
        let _driver_gone = events.send(Event::Assigned(assigned)).await;
    }

    async fn revoke(&self, events: &mpsc::Sender<Event>, lost: bool) {
        let generations: Vec<Generation> = self.state.lock().lanes.keys().copied().collect();
        let (reply, answer) = std::sync::mpsc::sync_channel(1);
        let revoking = Event::Revoking {
            generations: generations.clone(),
            lost,
            reply,
        };
        let _driver_gone = events.send(revoking).await;
        let commits = loop {
            match answer.try_recv() {
                Ok(commits) => break commits,
                Err(std::sync::mpsc::TryRecvError::Disconnected) => break Vec::new(),
                Err(std::sync::mpsc::TryRecvError::Empty) => {
                    // Commits that were made before are answered meanwhile.
                    let answers = std::mem::take(&mut self.state.lock().answers);
                    for answer in answers {
                        let _driver_gone = events.send(answer).await;
                    }
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        };
        {
            let mut state = self.state.lock();
            let answers: Vec<Event> = commits.into_iter().map(|c| state.commit(c)).collect();
            state.answers.extend(answers);
            state.lanes.clear();
        }
        let answers = std::mem::take(&mut self.state.lock().answers);
        for answer in answers {
            let _driver_gone = events.send(answer).await;
        }
        let _driver_gone = events.send(Event::Revoked(generations)).await;
    }
}
