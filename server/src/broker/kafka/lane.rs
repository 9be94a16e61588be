//! One assigned partition: its queue, its grants and where it stands.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use ackgate_lane::{Generation, Position};
use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _, base_consumer::PartitionQueue},
    error::{KafkaError, RDKafkaErrorCode},
};

use super::{
    encode::Encoder,
    error,
    inbox::Order,
    rebalance::Context,
    settings::{CHUNK_BYTES, CHUNK_RECORDS},
    stats::Log,
    wake::Waker,
};
use crate::{
    broker::{Chunk, Error, Head, TopicPartition},
    telemetry::traces::Seed,
};

/// How long one seek may take. It waits for librdkafka's own thread only, which
/// answers within microseconds unless it is stuck.
const SEEK_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a seek is tried again while the lane's fetcher has not started, as
/// just after an assignment.
const SEEK_PATIENCE: Duration = Duration::from_secs(10);

/// A partition while it is assigned.
pub(super) struct Lane {
    pub(super) partition: TopicPartition,
    pub(super) generation: Generation,
    queue: PartitionQueue<Context>,
    /// Set when the queue becomes non-empty, by a thread of librdkafka.
    ready: Arc<AtomicBool>,
    /// Granted and not fetched.
    records: u64,
    bytes: u64,
    /// Number of the last seek that was done; chunks carry it.
    seek: u64,
    seeking: Option<Seeking>,
    /// Nothing is fetched: the lane failed, or a seek did and only the next
    /// one makes it known again where the lane stands.
    held: bool,
    /// The next position to read, as far as it is known: the start, where a seek led
    /// to, or after the last record that was fetched.
    next: Option<u64>,
    /// Where the fetcher has found nothing more to read, as statistics told; what lies
    /// below may still be in the queue.
    told_by_stats: Option<u64>,
    /// The same once the queue was found empty after that.
    end: Option<u64>,
    /// The queue has told the end of the log, and no record came after that.
    at_end: bool,
    /// The end that was told last.
    told_end: Option<u64>,
    /// The end of the log, and of what may be read of it, as they were told last, markers
    /// included.
    head: Option<(u64, u64)>,
    /// From which the traces of its records follow, once somebody has asked.
    trace_seed: Option<Seed>,
    /// The log does not have the position to read; when to look where it lies.
    astray: Option<Astray>,
}

/// A lane whose position the log does not have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Astray {
    /// When to ask next.
    pub(super) due: Instant,
    /// The log is another one from below the position on, even if it reaches further.
    pub(super) truncated: bool,
}

#[derive(Clone, Copy, Debug)]
struct Seeking {
    to: Position,
    number: u64,
    until: Instant,
}

/// An answered seek.
#[derive(Debug)]
pub(super) struct Sought {
    pub(super) seek: u64,
    pub(super) result: Result<(), Error>,
}

impl Lane {
    /// Splits the partition off the consumer's queue. Called before it is
    /// assigned, so that none of its records takes another way. `None` if
    /// librdkafka does not know the partition.
    pub(super) fn split(
        consumer: &Arc<BaseConsumer<Context>>,
        partition: TopicPartition,
        generation: Generation,
        start: Option<u64>,
        waker: &Arc<Waker>,
    ) -> Option<Self> {
        let mut queue = consumer.split_partition_queue(&partition.topic, partition.partition)?;
        let ready = Arc::new(AtomicBool::new(true));
        queue.set_nonempty_callback({
            let (ready, waker) = (Arc::clone(&ready), Arc::clone(waker));
            move || {
                ready.store(true, Ordering::Release);
                waker.notify();
            }
        });
        Some(Self {
            partition,
            generation,
            queue,
            ready,
            records: 0,
            bytes: 0,
            seek: 0,
            seeking: None,
            held: false,
            next: start,
            told_by_stats: None,
            end: None,
            at_end: false,
            told_end: None,
            head: None,
            trace_seed: None,
            astray: None,
        })
    }

    /// Stops fetching for good.
    pub(super) fn fail(&mut self) {
        self.held = true;
    }

    /// Carries out what was asked; a seek is begun, not done.
    pub(super) fn obey(&mut self, order: Order) {
        if order.void {
            (self.records, self.bytes) = (0, 0);
        }
        if let Some((to, number)) = order.seek {
            self.seeking = Some(Seeking {
                to,
                number,
                until: Instant::now() + SEEK_PATIENCE,
            });
        }
        self.records = self.records.saturating_add(order.records);
        self.bytes = self.bytes.saturating_add(order.bytes);
    }

    /// Has the queue polled even if its callback was missed.
    pub(super) fn suspect(&self) {
        self.ready.store(true, Ordering::Release);
    }

    /// Whether a poll may bring records that are granted.
    pub(super) fn fetchable(&self) -> bool {
        self.records > 0
            && self.bytes > 0
            && !self.held
            && self.seeking.is_none()
            && self.astray.is_none()
            && self.ready.load(Ordering::Acquire)
    }

    /// Whether a seek waits to be done.
    pub(super) fn seeking(&self) -> bool {
        self.seeking.is_some()
    }

    /// The next position to read, if it is known.
    pub(super) fn next(&self) -> Option<u64> {
        self.next
    }

    /// Number of the last seek.
    pub(super) fn seek_number(&self) -> u64 {
        self.seek
    }

    /// Reading goes on at `position`: what was known of the way there is void.
    pub(super) fn stand(&mut self, position: Option<u64>) {
        self.next = position;
        (self.at_end, self.told_end, self.astray) = (false, None, None);
        self.suspect();
    }

    /// The log does not have the position: nothing is read until it is known where
    /// the log lies.
    pub(super) fn go_astray(&mut self, truncated: bool) {
        let due = Instant::now();
        self.astray = Some(Astray { due, truncated });
    }

    /// Whether, and since when, the log does not have the position.
    pub(super) fn astray(&mut self) -> Option<&mut Astray> {
        self.astray.as_mut()
    }

    /// Takes what statistics tell. The log's end, if it has moved. Where transactions are
    /// respected, only what lies below the first unfinished one may be read.
    pub(super) fn observe(&mut self, log: Log, uncommitted: bool) -> Option<Head> {
        let end = u64::try_from(log.end).ok();
        if end.is_some() && end != self.end {
            self.told_by_stats = end;
            self.suspect();
        }
        let end = u64::try_from(log.head).ok()?;
        let stable = u64::try_from(log.stable).ok().filter(|_| !uncommitted);
        let readable = stable.map_or(end, |stable| stable.min(end));
        let moved = self.head.replace((end, readable)) != Some((end, readable));
        moved.then_some(Head {
            generation: self.generation,
            end: Position::new(end),
            readable: Position::new(readable),
        })
    }

    /// The end of what can be read, once everything below it was fetched, if that is
    /// news. The queue's own event says that there was an end, and statistics say where
    /// the last one was. The records below that were in the queue when they said so:
    /// once the queue is found empty, and the last thing in it was the event, all have
    /// been fetched.
    pub(super) fn news_of_end(&mut self) -> Option<Position> {
        let end = self
            .end
            .filter(|end| self.at_end && self.seeking.is_none() && Some(*end) > self.told_end)?;
        if self.next.is_some_and(|next| end < next) {
            return None;
        }
        self.told_end = Some(end);
        Some(Position::new(end))
    }

    /// Tries the seek that waits. `None` if it must be tried again.
    pub(super) fn try_seek(&mut self, consumer: &BaseConsumer<Context>) -> Option<Sought> {
        let seeking = self.seeking?;
        let result = seek(consumer, &self.partition, seeking.to.get());
        if matches!(
            result,
            Err(RDKafkaErrorCode::State | RDKafkaErrorCode::PreviousInProgress)
        ) && Instant::now() < seeking.until
        {
            return None;
        }
        self.seeking = None;
        self.held = result.is_err();
        if result.is_ok() {
            self.seek = seeking.number;
            self.stand(Some(seeking.to.get()));
        }
        let result = result.map_err(|code| error::coded(code, &format!("seek of {self}")));
        Some(Sought {
            seek: seeking.number,
            result,
        })
    }

    /// Puts the lane where it would be had a record not gone astray.
    pub(super) fn restore(&mut self, consumer: &BaseConsumer<Context>, stray: u64) {
        let to = self.next.unwrap_or(stray);
        if seek(consumer, &self.partition, to).is_err() {
            self.held = true;
        }
    }

    /// Polls the queue within the grants until the chunk is full or the queue is
    /// empty. An error ends the chunk; records before it are in it.
    pub(super) fn fetch(&mut self, encoder: &mut Encoder) -> (Option<Chunk>, Option<KafkaError>) {
        // Cleared before polling: a record that comes after the last poll sets it
        // again, and one that comes before is found by a poll.
        self.ready.store(false, Ordering::Release);
        let limit = usize::try_from(self.records)
            .unwrap_or(usize::MAX)
            .min(CHUNK_RECORDS);
        let size = usize::try_from(self.bytes)
            .unwrap_or(usize::MAX)
            .min(CHUNK_BYTES);
        let mut failure = None;
        encoder.begin(&self.partition, &mut self.trace_seed);
        loop {
            if encoder.len() >= limit || encoder.size() >= size {
                self.suspect();
                break;
            }
            match self.queue.poll(Duration::ZERO) {
                Some(Ok(message)) => {
                    self.at_end = false;
                    if !encoder.push(&message) {
                        failure = Some(KafkaError::MessageConsumption(
                            RDKafkaErrorCode::InvalidMessage,
                        ));
                        break;
                    }
                }
                Some(Err(KafkaError::PartitionEOF(_))) => self.at_end = true,
                Some(Err(error)) => {
                    self.suspect();
                    failure = Some(error);
                    break;
                }
                None => {
                    if self.at_end {
                        self.end = self.told_by_stats.take().or(self.end);
                    }
                    break;
                }
            }
        }
        (self.chunk(encoder), failure)
    }

    fn chunk(&mut self, encoder: &mut Encoder) -> Option<Chunk> {
        let (records, bytes) = encoder.take()?;
        let polled = encoder.polled();
        self.records = self.records.saturating_sub(records.len() as u64);
        self.bytes = self.bytes.saturating_sub(bytes.len() as u64);
        if let Some(last) = records.last() {
            self.next = Some(last.offset.saturating_add(1));
        }
        Some(Chunk {
            generation: self.generation,
            seek: self.seek,
            records,
            bytes,
            polled,
        })
    }
}

/// Names the lane in errors.
impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "topic {}, partition {}",
            self.partition.topic, self.partition.partition
        )
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane")
            .field("partition", &self.partition)
            .field("generation", &self.generation)
            .field("records", &self.records)
            .field("bytes", &self.bytes)
            .field("seek", &self.seek)
            .field("seeking", &self.seeking)
            .field("held", &self.held)
            .finish_non_exhaustive()
    }
}

fn seek(
    consumer: &BaseConsumer<Context>,
    partition: &TopicPartition,
    to: u64,
) -> Result<(), RDKafkaErrorCode> {
    let code = |error: &KafkaError| error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail);
    let mut list = TopicPartitionList::with_capacity(1);
    let to = Offset::Offset(i64::try_from(to).unwrap_or(i64::MAX));
    list.add_partition_offset(&partition.topic, partition.partition, to)
        .map_err(|error| code(&error))?;
    let list = consumer
        .seek_partitions(list, SEEK_TIMEOUT)
        .map_err(|error| code(&error))?;
    list.elements()
        .iter()
        .try_for_each(|element| element.error())
        .map_err(|error| code(&error))
}
