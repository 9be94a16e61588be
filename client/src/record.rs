//! [`Record`]: a Kafka record as the program reads it.

use ackgate_proto::v1;
use bytes::Bytes;

/// What a record's timestamp means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimestampType {
    /// The record has no timestamp.
    None,
    /// The producer's clock when the record was created.
    CreateTime,
    /// The broker's clock when the record was appended.
    LogAppendTime,
}

/// A borrowed view of a record: what never changes from delivery to delivery.
///
/// Keys and values are slices of the message they came in: a clone of one
/// ([`key_bytes`](Self::key_bytes)) keeps that whole message in memory.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a>(pub(crate) &'a v1::Record);

impl<'a> Record<'a> {
    /// Returns the record's position in its partition.
    #[must_use]
    pub const fn offset(self) -> i64 {
        self.0.offset
    }

    /// Returns the timestamp in milliseconds since the Unix epoch; 0 if there is none.
    #[must_use]
    pub const fn timestamp_ms(self) -> i64 {
        self.0.timestamp_ms
    }

    /// Returns what the timestamp means.
    #[must_use]
    pub fn timestamp_type(self) -> TimestampType {
        match self.0.timestamp_type() {
            v1::TimestampType::Unspecified => TimestampType::None,
            v1::TimestampType::CreateTime => TimestampType::CreateTime,
            v1::TimestampType::LogAppendTime => TimestampType::LogAppendTime,
        }
    }

    /// Returns the key; `None` is Kafka's null, which an empty key is not.
    #[must_use]
    pub fn key(self) -> Option<&'a [u8]> {
        self.0.key.as_deref()
    }

    /// Returns the value; `None` is Kafka's null (a tombstone), which an empty value is not.
    #[must_use]
    pub fn value(self) -> Option<&'a [u8]> {
        self.0.value.as_deref()
    }

    /// Returns the key without copying it.
    #[must_use]
    pub fn key_bytes(self) -> Option<Bytes> {
        self.0.key.clone()
    }

    /// Returns the value without copying it.
    #[must_use]
    pub fn value_bytes(self) -> Option<Bytes> {
        self.0.value.clone()
    }

    /// Returns all headers in the record's order, repeated keys included; a value
    /// of `None` is Kafka's null.
    pub fn headers(self) -> impl ExactSizeIterator<Item = (&'a str, Option<&'a [u8]>)> {
        self.0
            .headers
            .iter()
            .map(|header| (header.key.as_str(), header.value.as_deref()))
    }

    /// Returns the value of the last header named `name`, as Kafka's own clients do.
    #[must_use]
    pub fn header(self, name: &str) -> Option<&'a [u8]> {
        let last = self
            .0
            .headers
            .iter()
            .rev()
            .find(|header| header.key == name)?;
        last.value.as_deref()
    }
}
