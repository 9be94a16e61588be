//! What a consumer of the broker in memory reads.

use std::time::SystemTime;

use ackgate_lane::Position;
use ackgate_proto::v1;
use bytes::{Bytes, BytesMut};
use prost::Message as _;

use super::State;
use crate::{
    broker::{Chunk, Event, RecordIndex},
    telemetry::traces::{Polled, RecordTrace, Sampling, is_parent},
};

impl State {
    pub(super) fn fetch(&mut self) -> Option<Chunk> {
        if self.silent {
            return None;
        }
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
                let bytes = bytes.freeze();
                let sampling = self.sampling.as_ref();
                let polled =
                    sampling.and_then(|of| polled(of, "orders", reading.partition, bytes.clone()));
                return Some(Chunk {
                    generation,
                    seek,
                    records,
                    bytes,
                    polled,
                });
            }
        }
        None
    }

    /// Ends that were reached and not told yet: only what is granted is looked at.
    pub(super) fn reached(&mut self) -> Vec<Event> {
        let mut reached = Vec::new();
        if self.silent {
            return reached;
        }
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
}

/// What the adapter would tell of traced records.
fn polled(of: &Sampling, topic: &str, partition: i32, bytes: Bytes) -> Option<Box<Polled>> {
    let seed = of.seed(topic, partition);
    let batch = v1::Batch::decode(bytes).expect("encoded records");
    let trace = |record: &v1::Record| {
        let offset = u64::try_from(record.offset).expect("an offset");
        let headers = || {
            record
                .headers
                .iter()
                .map(|it| (it.key.as_str(), it.value.as_deref()))
        };
        let parent = headers().filter(|(key, value)| value.is_some() && is_parent(key));
        let parent = parent.last().and_then(|(_, value)| value);
        let (trace, parent) = of.look(seed, offset, parent, headers)?;
        Some(RecordTrace {
            offset,
            trace,
            parent,
            body: record.value.as_ref().map(Bytes::len),
        })
    };
    let traces: Vec<RecordTrace> = batch.records.iter().filter_map(trace).collect();
    let now = SystemTime::now();
    (!traces.is_empty()).then(|| {
        Box::new(Polled {
            began: now,
            ended: now,
            traces,
        })
    })
}

/// What the adapter would tell of a record.
fn timestamp_of(field: &Bytes) -> i64 {
    let batch = v1::Batch::decode(field.clone()).expect("an encoded record");
    batch
        .records
        .first()
        .map_or(0, |record| record.timestamp_ms)
}
