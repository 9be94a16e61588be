//! What Kafka itself says of a group and of a topic with dead letters.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use ackgate_lane::AckMap;
use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use rdkafka::{
    ClientConfig, Message as _, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    error::KafkaError,
    message::Headers as _,
};

use crate::support::PATIENCE;

/// What the group has committed in one partition.
#[derive(Debug, Default)]
pub(super) struct Committed {
    pub(super) position: i64,
    /// Settled above it.
    pub(super) settled: BTreeSet<i64>,
}

impl Committed {
    pub(super) fn settles(&self, offset: i64) -> bool {
        offset < self.position || self.settled.contains(&offset)
    }
}

/// Waits for open transactions.
pub(super) fn committed(
    client: &ClientConfig,
    topic: &str,
    partitions: i32,
) -> BTreeMap<i32, Committed> {
    let consumer: BaseConsumer = client.create().expect("a consumer can be made");
    let mut list = TopicPartitionList::new();
    for partition in 0..partitions {
        list.add_partition(topic, partition);
    }
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = consumer.committed_offsets(list.clone(), Duration::from_secs(5));
        let answer = answer.and_then(|answer| {
            for element in answer.elements() {
                element.error()?;
            }
            Ok(answer)
        });
        match answer {
            Ok(answer) => {
                let elements = answer.elements();
                return elements
                    .iter()
                    .map(|element| {
                        (
                            element.partition(),
                            state(element.offset(), element.metadata()),
                        )
                    })
                    .collect();
            }
            Err(error) => assert!(Instant::now() < deadline, "no stable position: {error}"),
        }
        std::thread::park_timeout(Duration::from_millis(100));
    }
}

fn state(offset: Offset, metadata: &str) -> Committed {
    let position = offset.to_raw().filter(|offset| *offset >= 0).unwrap_or(0);
    let map = STANDARD_NO_PAD.decode(metadata).ok();
    let map = map.and_then(|bytes| AckMap::decode(&bytes).ok());
    let runs = map.map(|map| map.settled).unwrap_or_default();
    let settled = runs
        .iter()
        .flat_map(|run| run.first().get()..run.end().get())
        .map(|offset| offset as i64)
        .collect();
    Committed { position, settled }
}

/// Origins of the dead letters that a reader of committed transactions sees: partition
/// and offset, and the size of the value.
pub(super) fn letters(
    client: &ClientConfig,
    topic: &str,
    partitions: i32,
) -> Vec<(i32, i64, usize)> {
    let consumer: BaseConsumer = client
        .clone()
        .set("isolation.level", "read_committed")
        .set("enable.partition.eof", "true")
        .create()
        .expect("a consumer can be made");
    let mut list = TopicPartitionList::new();
    for partition in 0..partitions {
        list.add_partition_offset(topic, partition, Offset::Beginning)
            .unwrap();
    }
    consumer.assign(&list).unwrap();
    let deadline = Instant::now() + PATIENCE;
    let (mut ended, mut seen) = (BTreeSet::new(), Vec::new());
    while ended.len() < partitions as usize {
        assert!(Instant::now() < deadline, "{topic} has no end: {seen:?}");
        match consumer.poll(Duration::from_millis(100)) {
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                ended.insert(partition);
            }
            Some(Ok(letter)) => {
                let headers = letter.headers().expect("a dead letter has headers");
                let number = |name: &str| -> i64 {
                    let name = format!("ackgate.dead-letter.{name}");
                    let header = headers.iter().find(|header| header.key == name);
                    let value = header.and_then(|header| header.value);
                    let text = std::str::from_utf8(value.expect("a value")).expect("text");
                    text.parse().expect("a number")
                };
                let size = letter.payload().map_or(0, <[u8]>::len);
                seen.push((number("partition") as i32, number("offset"), size));
            }
            Some(Err(_)) | None => {}
        }
    }
    seen
}

/// Ends of a topic's only partition: for readers of committed transactions, who do not
/// pass an open one, and of the log.
pub(super) fn ends(client: &ClientConfig, topic: &str) -> Result<(i64, i64), KafkaError> {
    let end = |isolation: &str| -> Result<i64, KafkaError> {
        let mut client = client.clone();
        let consumer: BaseConsumer = client.set("isolation.level", isolation).create()?;
        let (_, end) = consumer.fetch_watermarks(topic, 0, Duration::from_secs(5))?;
        Ok(end)
    };
    // What ends in between makes the second one larger, never the first.
    let committed = end("read_committed")?;
    Ok((committed, end("read_uncommitted")?))
}
