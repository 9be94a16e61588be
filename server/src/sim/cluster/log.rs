//! One partition's log: records with gaps between them, the oldest deleted.

use std::collections::BTreeMap;

use ackgate_proto::v1;
use bytes::Bytes;
use prost::Message as _;

use super::{Cluster, Seen};

/// What exists of a partition.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// Below this retention has deleted everything.
    pub(super) start: u64,
    /// The next offset to write.
    pub(super) end: u64,
    /// Encoded as chunks carry them.
    pub(super) records: BTreeMap<u64, Stored>,
}

/// One record.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) key: Option<u64>,
    pub(super) bytes: Bytes,
}

/// What all records have.
pub(super) const TIMESTAMP: i64 = 1_700_000_000_000;

/// Bytes of a header of a large record: a full window of them is more than a lane may hold.
const BULK: usize = 30_000;

/// The value of a record: whoever gets it can tell whether it is the right one.
pub(in crate::sim) fn value(partition: i32, offset: u64) -> Bytes {
    Bytes::from(format!("{partition}/{offset}"))
}

impl Cluster {
    /// Appends records, here and there behind a gap as compaction and transactions
    /// leave them.
    pub(in crate::sim) fn append(&self, partition: i32, count: u64) {
        let mut state = self.state.lock();
        for _ in 0..count {
            let gap = match state.dice.weighted(&[85, 12, 3]) {
                0 => 0,
                1 => state.dice.between(1, 3),
                _ => state.dice.between(4, 40),
            };
            let key = state.dice.between(0, 4);
            let padding = match state.dice.chance(3) {
                _ if self.plan.bulky => BULK,
                true => 2000,
                false => 0,
            };
            let Some(log) = state.logs.get_mut(&partition) else {
                return;
            };
            let offset = log.end + gap;
            log.end = offset + 1;
            let key = (key > 0).then_some(key);
            let bytes = encode(partition, offset, key, padding);
            log.records.insert(offset, Stored { key, bytes });
            self.history.push(Seen::Appended {
                partition,
                offset,
                key,
            });
        }
        for member in state.members.values() {
            member.wake.notify_one();
        }
    }

    /// Ends a log with a marker, which is no record.
    pub(in crate::sim) fn append_marker(&self, partition: i32) {
        if let Some(log) = self.state.lock().logs.get_mut(&partition) {
            log.end += 1;
        }
    }

    /// Deletes some of the oldest records.
    pub(in crate::sim) fn trim(&self) {
        let mut state = self.state.lock();
        let partitions: Vec<i32> = state.logs.keys().copied().collect();
        let partition = state.dice.pick(&partitions);
        let (low, high) = {
            let log = &state.logs[&partition];
            (log.start, log.end)
        };
        let start = state.dice.between(low, high);
        if let Some(log) = state.logs.get_mut(&partition) {
            log.start = start;
            log.records = log.records.split_off(&start);
        }
        self.history.push(Seen::Trimmed { partition, start });
    }
}

fn encode(partition: i32, offset: u64, key: Option<u64>, padding: usize) -> Bytes {
    let mut headers = vec![v1::Header {
        key: "kind".to_owned(),
        value: None,
    }];
    if padding > 0 {
        headers.push(v1::Header {
            key: "padding".to_owned(),
            value: Some(Bytes::from(vec![b'x'; padding])),
        });
    }
    let record = v1::Record {
        offset: i64::try_from(offset).expect("small offsets"),
        timestamp_ms: TIMESTAMP,
        timestamp_type: v1::TimestampType::CreateTime.into(),
        key: key.map(|key| Bytes::from(format!("key-{key}"))),
        value: Some(value(partition, offset)),
        headers,
    };
    let batch = v1::Batch {
        records: vec![record],
        ..v1::Batch::default()
    };
    batch.encode_to_vec().into()
}
