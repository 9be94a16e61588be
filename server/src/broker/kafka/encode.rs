//! Writes records as protobuf straight from where librdkafka has them.
//!
//! Each record is copied once, into the buffer that serves every delivery of it.
//! Lengths are computed before writing, so nothing is moved afterwards; only
//! headers go through a buffer of their own, which is kept.

use std::hash::{DefaultHasher, Hasher as _};

use ackgate_proto::{RECORD_TAG, v1::TimestampType};
use bytes::{BufMut, Bytes, BytesMut};
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};
use rdkafka::{
    Timestamp,
    message::{Headers, Message},
};

use super::{
    guard::guarded,
    probe::Probe,
    settings::{CHUNK_BYTES, CHUNK_RECORDS},
};
use crate::{
    broker::{RecordIndex, TopicPartition},
    telemetry::traces::{self, Polled, Sampling, Seed},
};

/// Tags of `ackgate.v1.Record`.
const OFFSET: u32 = 1;
const TIMESTAMP_MS: u32 = 2;
const TIMESTAMP_TYPE: u32 = 3;
const KEY: u32 = 4;
const VALUE: u32 = 5;
const HEADERS: u32 = 6;

/// Tags of `ackgate.v1.Header`.
const HEADER_KEY: u32 = 1;
const HEADER_VALUE: u32 = 2;

/// Stands for a header key that is not UTF-8. rdkafka gives neither the key nor
/// the value of such a header, so this takes its place with a null value.
pub(super) const UNREADABLE_KEY: &str = "\u{FFFD}";

/// Room of a chunk's buffer: the last record of a full chunk lies beyond its limit,
/// and records of up to 16 KiB must not make the buffer grow each time.
const ROOM: usize = CHUNK_BYTES + 16 * 1024;

/// The number that stands for a key. The hash is keyed with constants, so a producer
/// that knows them can make keys collide: all it gains is that its own records wait
/// for each other.
fn key_number(key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(key);
    hasher.finish()
}

/// Gathers the records of one chunk. Its buffers are kept from chunk to chunk.
#[derive(Debug)]
pub(super) struct Encoder {
    bytes: BytesMut,
    index: Vec<RecordIndex>,
    headers: BytesMut,
    /// Looks for traced records, where there can be any.
    probe: Option<Probe>,
}

impl Encoder {
    /// An encoder with room for a usual chunk.
    pub(super) fn new() -> Self {
        Self {
            bytes: BytesMut::with_capacity(ROOM),
            index: Vec::with_capacity(CHUNK_RECORDS),
            headers: BytesMut::new(),
            probe: None,
        }
    }

    /// The same, which looks for traced records.
    pub(super) fn probing(sampling: Option<Sampling>) -> Self {
        Self {
            probe: sampling.map(Probe::new),
            ..Self::new()
        }
    }

    /// What follows is of that partition. `seed` keeps what was found out about it.
    pub(super) fn begin(&mut self, partition: &TopicPartition, seed: &mut Option<Seed>) {
        if let Some(probe) = &mut self.probe {
            probe.begin(partition, seed);
        }
    }

    /// What is to be told of the records gathered since [`Self::begin`], if anything.
    pub(super) fn polled(&mut self) -> Option<Box<Polled>> {
        self.probe.as_mut()?.take()
    }

    /// Records gathered so far.
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// Bytes gathered so far.
    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Appends a record. One without an offset, or beyond 4 GiB, is refused:
    /// neither comes out of a log.
    pub(super) fn push<M: Message>(&mut self, message: &M) -> bool {
        let Ok(offset) = u64::try_from(message.offset()) else {
            return false;
        };
        let (kind, timestamp) = match message.timestamp() {
            Timestamp::NotAvailable => (TimestampType::Unspecified, 0),
            Timestamp::CreateTime(ms) => (TimestampType::CreateTime, ms),
            Timestamp::LogAppendTime(ms) => (TimestampType::LogAppendTime, ms),
        };
        let timestamp_ms = timestamp;
        // Protobuf's int64 is the two's complement as an unsigned varint.
        let timestamp = u64::from_ne_bytes(timestamp.to_ne_bytes());
        let kind = u64::from((kind as i32).cast_unsigned());
        let (key, value) = (message.key(), message.payload());
        self.headers.clear();
        let headers = message.headers();
        let parent = headers.and_then(|headers| put_headers(headers, &mut self.headers));

        let len = number_len(OFFSET, offset)
            + number_len(TIMESTAMP_MS, timestamp)
            + number_len(TIMESTAMP_TYPE, kind)
            + key.map_or(0, |key| slice_len(KEY, key))
            + value.map_or(0, |value| slice_len(VALUE, value))
            + self.headers.len();
        let total = key_len(RECORD_TAG) + encoded_len_varint(len as u64) + len;
        let Ok(end) = u32::try_from(self.bytes.len() + total) else {
            return false;
        };
        let out = &mut self.bytes;
        out.reserve(total);
        encode_key(RECORD_TAG, WireType::LengthDelimited, out);
        encode_varint(len as u64, out);
        put_number(OFFSET, offset, out);
        put_number(TIMESTAMP_MS, timestamp, out);
        put_number(TIMESTAMP_TYPE, kind, out);
        if let Some(key) = key {
            put_slice(KEY, key, out);
        }
        if let Some(value) = value {
            put_slice(VALUE, value, out);
        }
        out.put_slice(&self.headers);
        self.index.push(RecordIndex {
            offset,
            end,
            key: key.map(key_number),
            timestamp_ms,
        });
        if let Some(probe) = &mut self.probe {
            probe.look(offset, value.map(<[u8]>::len), headers, parent);
        }
        true
    }

    /// Hands out what was gathered and starts anew; `None` if that is nothing.
    pub(super) fn take(&mut self) -> Option<(Vec<RecordIndex>, Bytes)> {
        if self.index.is_empty() {
            return None;
        }
        let records = self.index.clone();
        self.index.clear();
        // A full buffer goes out as it is. A small chunk is copied, so that it
        // does not pin a whole buffer for as long as its records are retained.
        let bytes = if self.bytes.len() >= CHUNK_BYTES / 2 {
            let full = std::mem::replace(&mut self.bytes, BytesMut::with_capacity(ROOM));
            full.freeze()
        } else {
            let copy = Bytes::copy_from_slice(&self.bytes);
            self.bytes.clear();
            copy
        };
        Some((records, bytes))
    }
}

/// Returns which of them says the record's trace, if one does.
fn put_headers<H: Headers>(headers: &H, out: &mut BytesMut) -> Option<usize> {
    let mut parent = None;
    for index in 0..headers.count() {
        let found = guarded(|| {
            if let Some(header) = headers.try_get(index) {
                put_header(header.key, header.value, out);
                if header.value.is_some() && traces::is_parent(header.key) {
                    parent = Some(index);
                }
            }
        });
        if found.is_none() {
            put_header(UNREADABLE_KEY, None, out);
        }
    }
    parent
}

fn put_header(key: &str, value: Option<&[u8]>, out: &mut BytesMut) {
    let key = key.as_bytes();
    let key_len = if key.is_empty() {
        0
    } else {
        slice_len(HEADER_KEY, key)
    };
    let len = key_len + value.map_or(0, |value| slice_len(HEADER_VALUE, value));
    encode_key(HEADERS, WireType::LengthDelimited, out);
    encode_varint(len as u64, out);
    if !key.is_empty() {
        put_slice(HEADER_KEY, key, out);
    }
    if let Some(value) = value {
        put_slice(HEADER_VALUE, value, out);
    }
}

/// A number field is left out when it is zero, as proto3 has it.
fn number_len(tag: u32, value: u64) -> usize {
    if value == 0 {
        0
    } else {
        key_len(tag) + encoded_len_varint(value)
    }
}

fn put_number(tag: u32, value: u64, out: &mut BytesMut) {
    if value != 0 {
        encode_key(tag, WireType::Varint, out);
        encode_varint(value, out);
    }
}

fn slice_len(tag: u32, value: &[u8]) -> usize {
    key_len(tag) + encoded_len_varint(value.len() as u64) + value.len()
}

fn put_slice(tag: u32, value: &[u8], out: &mut BytesMut) {
    encode_key(tag, WireType::LengthDelimited, out);
    encode_varint(value.len() as u64, out);
    out.put_slice(value);
}

#[cfg(test)]
#[path = "tests/encode.rs"]
mod tests;
