//! A broker in memory for tests of the driver: one consumer at a time, on virtual
//! time, with faults on demand.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ackgate_lane::{Generation, Position};
use ackgate_proto::v1;
use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use prost::Message as _;
use tokio::sync::{Notify, mpsc};

use super::{
    Chunk, Commit, Connect, Consumer, Error, ErrorKind, Event, Flushed, Outgoing, Partitions,
    Placed, Produced, Producer, RecordIndex,
};

mod atomic;
mod member;

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
    pub(crate) fetched: u64,
    pub(crate) joins: u32,
    /// How long the group keeps a silent member; for ever unless a test says so.
    pub(crate) session: Option<Duration>,
    /// Said of the lanes that come next.
    pub(crate) anew: Option<String>,
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

    /// Appends records with these offsets.
    pub(crate) fn append(&self, partition: i32, offsets: impl IntoIterator<Item = u64>) {
        self.append_sized(partition, offsets, 0);
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

fn size(record: &Outgoing) -> usize {
    let part = |part: &Option<Bytes>| part.as_ref().map_or(0, Bytes::len);
    let headers = record.headers.iter();
    let headers: usize = headers.map(|(name, value)| name.len() + part(value)).sum();
    part(&record.key) + part(&record.value) + headers
}

fn is_too_large(commit: &Commit, limit: Option<usize>) -> bool {
    let size = commit.metadata.as_ref().map_or(0, |text| text.len());
    limit.is_some_and(|limit| size > limit)
}

impl State {
    fn fetch(&mut self) -> Option<Chunk> {
        for (generation, reading) in &mut self.lanes {
            let log = self.log.get(&reading.partition)?;
            let mut bytes = BytesMut::new();
            let mut records = Vec::new();
            for (offset, record) in log.range(reading.position..) {
                if reading.records == 0 || reading.bytes == 0 {
                    break;
                }
                reading.records -= 1;
                reading.bytes = reading.bytes.saturating_sub(record.len() as u64);
                bytes.extend_from_slice(record);
                let end = u32::try_from(bytes.len()).expect("small records");
                records.push(RecordIndex {
                    offset: *offset,
                    end,
                    key: self.keys.get(&(reading.partition, *offset)).copied(),
                    timestamp_ms: timestamp_of(record),
                });
            }
            if let Some(last) = records.last() {
                reading.position = last.offset + 1;
                self.fetched += records.len() as u64;
                let (generation, seek) = (*generation, reading.seek);
                return Some(Chunk {
                    generation,
                    seek,
                    records,
                    bytes: bytes.freeze(),
                });
            }
        }
        None
    }

    /// Ends that were reached and not told yet: only what is granted is looked at.
    fn reached(&mut self) -> Vec<Event> {
        let mut reached = Vec::new();
        for (generation, reading) in &mut self.lanes {
            let log = self.log.get(&reading.partition);
            let last = log.and_then(|log| log.last_key_value());
            let after_last = last.map_or(0, |(offset, _)| offset + 1);
            let end = self.ends.get(&reading.partition).copied();
            let end = end.unwrap_or_default().max(after_last);
            let is_there = reading.position >= after_last && reading.records > 0;
            if is_there && reading.told != Some(end) {
                reading.told = Some(end);
                reached.push(Event::AtEnd {
                    generation: *generation,
                    seek: reading.seek,
                    position: Position::new(end),
                });
            }
        }
        reached
    }

    fn commit(&mut self, commit: Commit) -> Event {
        let error = |kind, detail: &str| {
            Err(Error {
                kind,
                detail: detail.to_owned(),
            })
        };
        let result = match self.lanes.get(&commit.generation) {
            None => error(ErrorKind::Fenced, "not assigned"),
            Some(_) if self.commits_fail => error(ErrorKind::Transient, "as told"),
            Some(_) if is_too_large(&commit, self.metadata_limit) => {
                error(ErrorKind::TooLarge, "metadata")
            }
            Some(_) if self.letters_fail && !commit.letters.is_empty() => {
                error(ErrorKind::Transient, "letters as told")
            }
            Some(_) if let Some(index) = self.too_large_letter(&commit) => {
                error(ErrorKind::LetterTooLarge(index), "letter")
            }
            Some(reading) => {
                match &commit.metadata {
                    Some(text) => self.metadata.insert(reading.partition, Arc::clone(text)),
                    None => self.metadata.remove(&reading.partition),
                };
                self.committed
                    .insert(reading.partition, commit.position.get());
                self.commits
                    .push((reading.partition, commit.position.get()));
                let untrue = atomic::untrue(&self.letters, &commit);
                self.untrue_letters.extend(untrue);
                self.letters.extend(commit.letters.iter().cloned());
                Ok(())
            }
        };
        Event::Committed { commit, result }
    }
}

impl State {
    fn too_large_letter(&self, commit: &Commit) -> Option<usize> {
        let limit = self.letters_limit?;
        let mut letters = commit.letters.iter();
        letters.position(|letter| size(letter) > limit)
    }
}

/// What the adapter would tell of a record.
fn timestamp_of(field: &Bytes) -> i64 {
    let batch = v1::Batch::decode(field.clone()).expect("an encoded record");
    batch
        .records
        .first()
        .map_or(0, |record| record.timestamp_ms)
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

impl Producer for Memory {
    fn produce(&self, record: Outgoing) -> Produced {
        let result = self.with(|state| {
            state.letters_tried += 1;
            let is_of = |partition: i32| {
                let partition = partition.to_string();
                record.headers.iter().any(|(name, value)| {
                    name == "ackgate.dead-letter.partition"
                        && value.as_deref() == Some(partition.as_bytes())
                })
            };
            if state.letters_fail || state.letters_fail_of.is_some_and(is_of) {
                return Err(Error {
                    kind: ErrorKind::Transient,
                    detail: "as told".to_owned(),
                });
            }
            if state.letters_full {
                return Err(Error {
                    kind: ErrorKind::Full,
                    detail: "full".to_owned(),
                });
            }
            if state
                .letters_limit
                .is_some_and(|limit| size(&record) > limit)
            {
                return Err(Error {
                    kind: ErrorKind::TooLarge,
                    detail: "too large".to_owned(),
                });
            }
            state.letters.push(record);
            Ok(Placed {
                partition: 0,
                offset: 0,
            })
        });
        Box::pin(std::future::ready(result))
    }

    fn partitions(&self, _topic: &str) -> Partitions {
        let partitions = self.with(|state| state.letters_partitions);
        Box::pin(std::future::ready(Ok(partitions)))
    }

    fn flushed(&self, _timeout: Duration) -> Flushed {
        Box::pin(std::future::ready(Ok(())))
    }
}
