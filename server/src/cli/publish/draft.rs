//! [`Draft`]: a record as the input has it, and the one that is written.

use ackgate_client::Outgoing;

use super::args::Args;

/// One record of the input. What it does not say, the arguments do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Draft {
    pub(super) topic: Option<String>,
    pub(super) partition: Option<i32>,
    /// `None`: it says nothing of a key; null is said by `Some(None)`.
    pub(super) key: Option<Option<Vec<u8>>>,
    /// `None` is Kafka's null.
    pub(super) value: Option<Vec<u8>>,
    pub(super) headers: Vec<(String, Option<Vec<u8>>)>,
    pub(super) timestamp_ms: Option<i64>,
}

/// One record as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) topic: String,
    pub(super) partition: Option<i32>,
    pub(super) key: Option<Vec<u8>>,
    pub(super) value: Option<Vec<u8>>,
    pub(super) headers: Vec<(String, Option<Vec<u8>>)>,
    pub(super) timestamp_ms: Option<i64>,
}

impl Draft {
    /// Fills in what the arguments say.
    ///
    /// # Errors
    /// In words: there is no topic.
    pub(super) fn finish(self, args: &Args) -> Result<Record, String> {
        let topic = match args.topic() {
            Some(topic) => topic.to_owned(),
            None => self
                .topic
                .filter(|topic| !topic.is_empty())
                .ok_or("has no \"topic\", and --own-topics writes each object to its own")?,
        };
        let given = args.key.as_ref().map(|key| key.clone().into_bytes());
        let mut headers = self.headers;
        let more = args.headers.iter();
        headers.extend(more.map(|(name, value)| (name.clone(), Some(value.clone().into()))));
        Ok(Record {
            topic,
            partition: args
                .partition
                .or_else(|| self.partition.filter(|_| args.keeps_partitions())),
            key: self.key.unwrap_or(given),
            value: self.value,
            headers,
            timestamp_ms: self.timestamp_ms,
        })
    }
}

impl Record {
    /// Bytes of key and value.
    pub(super) fn size(&self) -> u64 {
        let length = |part: &Option<Vec<u8>>| part.as_ref().map_or(0, Vec::len);
        u64::try_from(length(&self.key) + length(&self.value)).unwrap_or(u64::MAX)
    }

    /// The same for a publisher.
    pub(super) fn outgoing(self) -> Outgoing {
        let mut outgoing = match self.value {
            Some(value) => Outgoing::new(self.topic, value),
            None => Outgoing::tombstone(self.topic),
        };
        if let Some(key) = self.key {
            outgoing = outgoing.key(key);
        }
        if let Some(partition) = self.partition {
            outgoing = outgoing.partition(partition);
        }
        if let Some(time) = self.timestamp_ms {
            outgoing = outgoing.timestamp_ms(time);
        }
        for (name, value) in self.headers {
            outgoing = match value {
                Some(value) => outgoing.header(name, value),
                None => outgoing.null_header(name),
            };
        }
        outgoing
    }
}
