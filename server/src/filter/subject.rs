//! What an expression can ask about a record.

use std::{collections::HashMap, sync::Arc};

use ackgate_proto::v1;
use cel::{
    Value,
    objects::{Key, Map},
};

use super::{
    Failure,
    bounds::{RECORD_BYTES, RECORD_HEADERS},
};

/// A record as a filter sees it.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The record's topic.
    pub topic: &'a str,
    /// The record's partition.
    pub partition: i32,
    /// The rest of it.
    pub record: &'a v1::Record,
}

/// A name that an expression may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Name {
    Topic,
    Partition,
    Offset,
    Timestamp,
    Key,
    Headers,
}

impl Name {
    pub(super) const ALL: [Self; 6] = [
        Self::Topic,
        Self::Partition,
        Self::Offset,
        Self::Timestamp,
        Self::Key,
        Self::Headers,
    ];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Topic => "topic",
            Self::Partition => "partition",
            Self::Offset => "offset",
            Self::Timestamp => "timestamp",
            Self::Key => "key",
            Self::Headers => "headers",
        }
    }
}

impl Subject<'_> {
    /// Refuses what would make an evaluation long.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let headers = &self.record.headers;
        let len = |bytes: &Option<bytes::Bytes>| bytes.as_ref().map_or(0, bytes::Bytes::len);
        let of_headers = headers.iter().map(|h| h.key.len() + len(&h.value));
        let bytes = len(&self.record.key) + of_headers.sum::<usize>();
        let headers = headers.len();
        if bytes > RECORD_BYTES || headers > RECORD_HEADERS {
            return Err(Failure::TooLarge { bytes, headers });
        }
        Ok(())
    }

    pub(super) fn value(&self, name: Name) -> Value {
        let record = self.record;
        match name {
            Name::Topic => Value::String(Arc::new(self.topic.to_owned())),
            Name::Partition => Value::Int(self.partition.into()),
            Name::Offset => Value::Int(record.offset),
            Name::Timestamp => Value::Int(record.timestamp_ms),
            Name::Key => bytes(record.key.as_deref()),
            Name::Headers => headers(&record.headers),
        }
    }
}

fn bytes(bytes: Option<&[u8]>) -> Value {
    match bytes.map(|bytes| (bytes, std::str::from_utf8(bytes))) {
        None => Value::Null,
        Some((_, Ok(text))) => Value::String(Arc::new(text.to_owned())),
        Some((bytes, Err(_))) => Value::Bytes(Arc::new(bytes.to_vec())),
    }
}

fn headers(headers: &[v1::Header]) -> Value {
    let mut lists: HashMap<&str, Vec<Value>> = HashMap::with_capacity(headers.len());
    for header in headers {
        let list = lists.entry(&header.key).or_default();
        list.push(bytes(header.value.as_deref()));
    }
    let map = lists
        .into_iter()
        .map(|(name, list)| {
            let name = Key::String(Arc::new(name.to_owned()));
            (name, Value::List(Arc::new(list)))
        })
        .collect();
    Value::Map(Map { map: Arc::new(map) })
}
