//! One member of the group: what the adapter's threads do for a real consumer.

mod commits;
mod consumer;
mod moves;

use std::sync::Arc;

use bytes::BytesMut;
use tokio::{
    sync::{Notify, mpsc},
    time::Instant,
};

use super::{Cluster, Node, Order, Seen, State, log::TIMESTAMP};
use crate::{
    broker::{Chunk, Error, ErrorKind, Event, RecordIndex},
    consumer::Budget,
};

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
                polled: None,
            });
        }
        None
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

    fn look<T>(&self, look: impl FnOnce(&mut super::Member) -> T) -> Option<T> {
        let mut state = self.cluster.state.lock();
        state
            .members
            .get_mut(&self.id)
            .filter(|member| member.dead.is_none())
            .map(look)
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
