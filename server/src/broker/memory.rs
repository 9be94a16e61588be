//! A broker in memory for tests of the driver: one consumer at a time, on virtual
//! time, with faults on demand.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ackgate_lane::{Generation, Position};
use ackgate_proto::v1;
use bytes::Bytes;
use parking_lot::Mutex;
use prost::Message as _;
use tokio::sync::{Notify, mpsc};

use super::{Commit, Connect, Consumer, Error, Event, Head, Outgoing};
use crate::telemetry::traces::Sampling;

mod atomic;
mod member;
mod read;
mod write;

/// What the broker holds, and what was asked of it.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) log: BTreeMap<i32, BTreeMap<u64, Bytes>>,
    /// Numbers of keys; a record that is not here has none.
    pub(crate) keys: BTreeMap<(i32, u64), u64>,
    pub(crate) committed: BTreeMap<i32, u64>,
    pub(crate) metadata: BTreeMap<i32, Arc<str>>,
    /// The largest metadata that is taken.
    pub(crate) metadata_limit: Option<usize>,
    /// Every commit in order, for L1 and L2.
    pub(crate) commits: Vec<(i32, u64)>,
    pub(crate) letters: Vec<Outgoing>,
    pub(crate) letters_fail: bool,
    /// Too many of them wait already.
    pub(crate) letters_full: bool,
    /// Dead letters of records of this partition fail.
    pub(crate) letters_fail_of: Option<i32>,
    /// Dead letters that were tried, written or not.
    pub(crate) letters_tried: u64,
    /// What is not settled in what was committed, or was stored before: of letters that
    /// went with commits.
    pub(crate) untrue_letters: Vec<u64>,
    /// Commits take effect and are answered only when this is over.
    pub(crate) commits_hang: bool,
    /// Bytes of key, value and headers at which a dead letter is too large.
    pub(crate) letters_limit: Option<usize>,
    /// Partitions of the topic of dead letters.
    pub(crate) letters_partitions: Option<u32>,
    pub(crate) commits_fail: bool,
    /// Lanes without a committed position begin at the end.
    pub(crate) latest: bool,
    /// Ends of logs whose last records are markers or were compacted away.
    pub(crate) ends: BTreeMap<i32, u64>,
    /// Nothing is read, whatever there is.
    pub(crate) silent: bool,
    pub(crate) fetched: u64,
    pub(crate) joins: u32,
    /// How long the group keeps a silent member; for ever unless a test says so.
    pub(crate) session: Option<Duration>,
    /// Which records are traced.
    pub(crate) sampling: Option<Sampling>,
    /// Said of the lanes that come next.
    pub(crate) anew: Option<String>,
    /// Lanes that went do not come again.
    pub(crate) keeps_lanes: bool,
    lanes: BTreeMap<Generation, Reading>,
    revoke: Option<bool>,
    close: bool,
    answers: Vec<Event>,
    hung: Vec<Commit>,
}

#[derive(Debug)]
struct Reading {
    partition: i32,
    position: u64,
    seek: u64,
    records: u32,
    bytes: u64,
    /// The end that was told last.
    told: Option<u64>,
}

/// A handle on the broker; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    state: Arc<Mutex<State>>,
    woken: Arc<Notify>,
}

impl Memory {
    /// Looks at the state, or changes it.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        let result = look(&mut self.state.lock());
        self.woken.notify_one();
        result
    }

    /// Tells the end of all logs.
    pub(crate) fn tell_heads(&self, head: u64) {
        self.with(|state| {
            let heads = state.lanes.keys().map(|generation| Head {
                generation: *generation,
                end: Position::new(head),
                readable: Position::new(head),
            });
            let heads = Event::Heads(heads.collect());
            state.answers.push(heads);
        });
    }

    /// Appends records with these offsets.
    pub(crate) fn append(&self, partition: i32, offsets: impl IntoIterator<Item = u64>) {
        self.append_sized(partition, offsets, 0);
    }

    /// Appends a record with these headers.
    pub(crate) fn append_with(&self, partition: i32, offset: u64, headers: &[(&str, &str)]) {
        self.append(partition, [offset]);
        self.with(|state| {
            let log = state.log.entry(partition).or_default();
            let bytes = log.get(&offset).expect("it was appended").clone();
            let mut batch = v1::Batch::decode(bytes).expect("an encoded record");
            for record in &mut batch.records {
                record.headers = headers
                    .iter()
                    .map(|(key, value)| v1::Header {
                        key: (*key).to_owned(),
                        value: Some(Bytes::copy_from_slice(value.as_bytes())),
                    })
                    .collect();
            }
            log.insert(offset, batch.encode_to_vec().into());
        });
    }

    /// Appends records whose values are filled up to `size` bytes.
    pub(crate) fn append_sized(
        &self,
        partition: i32,
        offsets: impl IntoIterator<Item = u64>,
        size: usize,
    ) {
        self.with(|state| {
            let log = state.log.entry(partition).or_default();
            for offset in offsets {
                let record = v1::Record {
                    offset: i64::try_from(offset).expect("small offsets"),
                    timestamp_ms: 1_700_000_000_000,
                    timestamp_type: v1::TimestampType::CreateTime.into(),
                    key: None,
                    value: Some(Bytes::from(format!("value {offset:size$}"))),
                    headers: Vec::new(),
                };
                let batch = v1::Batch {
                    records: vec![record],
                    ..v1::Batch::default()
                };
                log.insert(offset, batch.encode_to_vec().into());
            }
        });
    }

    /// Says something that concerns no lane.
    pub(crate) fn say(&self, event: Event) {
        self.with(|state| state.answers.push(event));
    }

    /// Has the consumer tell something, given the lane of a partition and its seek.
    pub(crate) fn tell(&self, partition: i32, event: impl FnOnce(Generation, u64) -> Event) {
        self.with(|state| {
            let lane = state.lanes.iter().find(|(_, l)| l.partition == partition);
            let (generation, reading) = lane.expect("an assigned lane");
            let event = event(*generation, reading.seek);
            state.answers.push(event);
        });
    }

    /// Appends a record with a key of this number.
    pub(crate) fn append_keyed(&self, partition: i32, offset: u64, key: u64) {
        self.with(|state| state.keys.insert((partition, offset), key));
        self.append(partition, [offset]);
    }

    /// Commits that hang are answered now.
    pub(crate) fn hang_no_more(&self) {
        self.with(|state| {
            state.commits_hang = false;
            for commit in std::mem::take(&mut state.hung) {
                let answer = state.commit(commit);
                state.answers.push(answer);
            }
        });
    }

    /// Takes all lanes away, with or without warning, and assigns them again.
    pub(crate) fn rebalance(&self, lost: bool) {
        self.with(|state| state.revoke = Some(lost));
    }
}

impl Connect for Memory {
    fn consume(&self, events: mpsc::Sender<Event>) -> Result<Box<dyn Consumer>, Error> {
        let consumer = self.clone();
        tokio::spawn(self.clone().member(events));
        Ok(Box::new(consumer))
    }

    fn session(&self) -> Duration {
        let for_ever = Duration::from_secs(365 * 24 * 3600);
        self.with(|state| state.session.unwrap_or(for_ever))
    }
}

impl Consumer for Memory {
    fn grant(&self, generation: Generation, records: u32, bytes: u64) {
        self.with(|state| {
            if let Some(reading) = state.lanes.get_mut(&generation) {
                reading.records += records;
                reading.bytes += bytes;
            }
        });
    }

    fn withdraw(&self, generation: Generation) {
        self.with(|state| {
            if let Some(reading) = state.lanes.get_mut(&generation) {
                reading.records = 0;
                reading.bytes = 0;
            }
        });
    }

    fn commit(&self, commits: Vec<Commit>) {
        self.with(|state| {
            if state.commits_hang {
                state.hung.extend(commits);
                return;
            }
            for commit in commits {
                let answer = state.commit(commit);
                state.answers.push(answer);
            }
        });
    }

    fn seek(&self, generation: Generation, to: Position, seek: u64) {
        self.with(|state| {
            if let Some(reading) = state.lanes.get_mut(&generation) {
                *reading = Reading {
                    partition: reading.partition,
                    position: to.get(),
                    seek,
                    records: 0,
                    bytes: 0,
                    told: None,
                };
                state.answers.push(Event::Sought {
                    generation,
                    seek,
                    result: Ok(()),
                });
            }
        });
    }

    fn close(&self) {
        self.with(|state| state.close = true);
    }
}
