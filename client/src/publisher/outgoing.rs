//! [`Outgoing`]: a record as the program hands it over.

use std::time::{SystemTime, UNIX_EPOCH};

use ackgate_proto::v1;
use bytes::Bytes;

/// A record to write. Null and empty differ, in key, value and headers.
///
/// Whether it can be written is the gateway's to say: what it does not take is
/// answered in the record's [`Receipt`](crate::Receipt).
///
/// ```
/// use ackgate_client::Outgoing;
///
/// let order = Outgoing::new("orders", "one espresso")
///     .idempotency_key("order-7")
///     .header("content-type", "text/plain")
///     .timestamp_ms(1_700_000_000_000);
/// assert_eq!((order.topic(), order.size()), ("orders", 12 + 7 + 12 + 10));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "nothing is written before it is sent"]
pub struct Outgoing(pub(crate) v1::OutgoingRecord);

impl Outgoing {
    /// A record with this value, as it is, and no key.
    pub fn new(topic: impl Into<String>, value: impl Into<Bytes>) -> Self {
        Self(v1::OutgoingRecord {
            topic: topic.into(),
            value: Some(value.into()),
            ..v1::OutgoingRecord::default()
        })
    }

    /// A record without a value, Kafka's null: in a compacted topic it deletes its key.
    pub fn tombstone(topic: impl Into<String>) -> Self {
        Self(v1::OutgoingRecord {
            topic: topic.into(),
            ..v1::OutgoingRecord::default()
        })
    }

    /// Sets the key. Without one it is Kafka's null; an empty key is a key.
    pub fn key(mut self, key: impl Into<Bytes>) -> Self {
        self.0.key = Some(key.into());
        self
    }

    /// Sets the key to the text that tells this event apart from others, in UTF-8; `None`
    /// leaves the record without a key.
    ///
    /// ```
    /// # use ackgate_client::Outgoing;
    /// # let event: Option<String> = None;
    /// let record = Outgoing::new("orders", "…").idempotency_key(event.as_deref());
    /// ```
    pub fn idempotency_key<'a>(mut self, key: impl Into<Option<&'a str>>) -> Self {
        self.0.key = key.into().map(|key| Bytes::copy_from_slice(key.as_bytes()));
        self
    }

    /// Sets the partition, 0 or more. Without it the key decides, as Kafka's Java client
    /// has it; without a key any.
    pub const fn partition(mut self, partition: i32) -> Self {
        self.0.partition = Some(partition);
        self
    }

    /// Adds a header after those that it has. The same name may come more than once.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Bytes>) -> Self {
        self.0.headers.push(v1::Header {
            key: name.into(),
            value: Some(value.into()),
        });
        self
    }

    /// Adds a header whose value is Kafka's null.
    pub fn null_header(mut self, name: impl Into<String>) -> Self {
        self.0.headers.push(v1::Header {
            key: name.into(),
            value: None,
        });
        self
    }

    /// Sets the time of the record, to the millisecond; what is not after 1970 began becomes
    /// its first millisecond.
    /// Without it the record has the time at which it is written.
    pub fn timestamp(self, time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.timestamp_ms(i64::try_from(since.as_millis()).unwrap_or(i64::MAX).max(1))
    }

    /// Sets the time of the record in milliseconds since the Unix epoch, 1 or more.
    pub const fn timestamp_ms(mut self, milliseconds: i64) -> Self {
        self.0.timestamp_ms = Some(milliseconds);
        self
    }

    /// Returns where it is to be written.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.0.topic
    }

    /// Returns the bytes of key, value, and names and values of headers: what the limits
    /// of gateway and publisher count.
    #[must_use]
    pub fn size(&self) -> u64 {
        let length = |part: &Option<Bytes>| part.as_ref().map_or(0, Bytes::len);
        let headers = self.0.headers.iter();
        let headers: usize = headers.map(|it| it.key.len() + length(&it.value)).sum();
        u64::try_from(length(&self.0.key) + length(&self.0.value) + headers).unwrap_or(u64::MAX)
    }
}
