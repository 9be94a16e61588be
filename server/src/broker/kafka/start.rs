//! Where assigned lanes begin to be read.
//!
//! Invariant: a lane begins at its committed position. Where the group has none,
//! it begins as the subscription says, and that is decided only once Kafka has
//! answered that there is none: a look-up that fails is never taken for one.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use ackgate_lane::Position;
use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    error::KafkaResult,
};
use tracing::info;

use super::{
    error,
    guard::guarded,
    inbox::Inbox,
    past::{Known, Past},
    rebalance::Context,
};
use crate::{broker::Error, config::StartAt};

/// For one look-up. Brokers answer within milliseconds; a coordinator that moves
/// takes seconds.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// For all look-ups of an assignment. The group waits meanwhile, so it stays far
/// below `max.poll.interval.ms` (300 s by default).
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// Between look-ups that fail at once.
const PAUSE: Duration = Duration::from_millis(200);

/// Where one lane begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// At the group's committed position, which has this metadata.
    Committed(Position, Option<Arc<str>>),
    /// At a position that was looked up.
    At(Position),
    /// At the oldest record of a log that is not the one read before, for the reason
    /// given.
    Anew(Position, String),
    /// Where librdkafka finds by itself; known from the first record.
    Found(Offset),
    /// Nowhere: there is no committed position and one is required.
    Nowhere,
}

impl Start {
    /// The offset to assign.
    pub(super) fn offset(&self) -> Offset {
        match self {
            Self::Committed(position, _) | Self::At(position) | Self::Anew(position, _) => {
                Offset::Offset(i64::try_from(position.get()).unwrap_or(i64::MAX))
            }
            Self::Found(offset) => *offset,
            // Read by nobody: librdkafka finds no committed position either and stops
            // the lane.
            Self::Nowhere => Offset::Stored,
        }
    }

    /// The position, if it is known.
    pub(super) fn position(&self) -> Option<Position> {
        match self {
            Self::Committed(position, _) | Self::At(position) | Self::Anew(position, _) => {
                Some(*position)
            }
            Self::Found(_) | Self::Nowhere => None,
        }
    }

    /// What was committed beside the position.
    pub(super) fn metadata(&self) -> Option<Arc<str>> {
        match self {
            Self::Committed(_, metadata) => metadata.clone(),
            Self::At(_) | Self::Anew(..) | Self::Found(_) | Self::Nowhere => None,
        }
    }
}

/// Where lanes begin whose group has no committed position.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begin<'a> {
    /// As the subscription says.
    pub(super) at: StartAt,
    /// The topic of which no record may be passed over: it begins at its oldest record.
    pub(super) whole: Option<&'a str>,
    /// For looking up what the group has committed.
    pub(super) patience: Duration,
}

impl Begin<'_> {
    fn of(self, topic: &str) -> StartAt {
        if self.whole == Some(topic) {
            StartAt::Earliest
        } else {
            self.at
        }
    }
}

/// Finds the starts of `lanes`, in their order. Gives up early if the consumer is
/// to close.
///
/// # Errors
/// Kafka did not answer in time and starting all the same would be a guess.
pub(super) fn resolve(
    consumer: &BaseConsumer<Context>,
    lanes: &[(Arc<str>, i32)],
    begins: Begin<'_>,
    past: &Past,
    inbox: &Inbox,
) -> Result<Vec<Start>, Error> {
    let deadline = Instant::now() + begins.patience;
    let given_up = || inbox.closing() || Instant::now() + PAUSE >= deadline;
    let committed = patiently(given_up, || {
        let list = consumer.committed_offsets(list(lanes, Offset::Invalid), LOOKUP_TIMEOUT)?;
        Ok((offsets(&list, lanes)?, metadata(&list, lanes)))
    });
    let (committed, metadata) = match committed {
        Ok(committed) => committed,
        // librdkafka would go on looking by itself, but would not tell of the ack map
        // beside the position, and the lane's first commit would erase it.
        Err(error) => return Err(error::mapped(&error, "look-up of committed positions")),
    };
    let mut starts: Vec<Option<Start>> = committed
        .iter()
        .zip(metadata)
        .map(|(offset, metadata)| Some(Start::Committed(position(*offset)?, metadata)))
        .collect();
    let mut old_topics = OldTopics::default();
    for (lane, start) in lanes.iter().zip(&starts) {
        if start.is_some() {
            old_topics.note(&lane.0, true);
        }
    }
    // Lanes without a committed position, of topics that the group reads and others.
    let (mut grown, mut fresh) = (Vec::new(), Vec::new());
    for ((lane, start), index) in lanes.iter().zip(&starts).zip(0_usize..) {
        if start.is_some() {
            continue;
        }
        let read = match begins.of(&lane.0) {
            // Strict: only what was read here before needs no position.
            StartAt::Fail => past.of(&lane.0, lane.1).is_some(),
            StartAt::Earliest | StartAt::Latest | StartAt::Timestamp(_) => {
                past.knows(&lane.0) || old_topics.is_old(consumer, &lane.0, given_up)?
            }
        };
        if read {
            grown.push((index, lane.clone()));
        } else {
            fresh.push((index, lane.clone()));
        }
    }
    let of = |picked: &[(usize, (Arc<str>, i32))]| -> Vec<(Arc<str>, i32)> {
        picked.iter().map(|(_, lane)| lane.clone()).collect()
    };
    let is_whole = |(_, lane): &(usize, (Arc<str>, i32))| begins.whole == Some(&*lane.0);
    let (whole, fresh): (Vec<_>, Vec<_>) = fresh.into_iter().partition(is_whole);
    let begun = begin(consumer, &of(&fresh), begins.at, given_up)?;
    let wholly = begin(consumer, &of(&whole), StartAt::Earliest, given_up)?;
    let resumed = resume(consumer, &of(&grown), past);
    let begun = fresh.iter().zip(begun).chain(whole.iter().zip(wholly));
    let found = begun.chain(grown.iter().zip(resumed));
    for ((index, _), start) in found {
        if let Some(slot) = starts.get_mut(*index) {
            *slot = Some(start);
        }
    }
    Ok(starts
        .into_iter()
        .map(|start| start.unwrap_or(Start::Nowhere))
        .collect())
}

/// Which topics the group reads already, asked once each.
#[derive(Default)]
struct OldTopics(BTreeMap<Arc<str>, bool>);

impl OldTopics {
    fn note(&mut self, topic: &Arc<str>, old: bool) {
        self.0.insert(Arc::clone(topic), old);
    }

    /// Whether the group has a committed position in any partition of the topic.
    fn is_old(
        &mut self,
        consumer: &BaseConsumer<Context>,
        topic: &Arc<str>,
        given_up: impl Fn() -> bool,
    ) -> Result<bool, Error> {
        if let Some(old) = self.0.get(topic) {
            return Ok(*old);
        }
        let positions = patiently(given_up, || {
            let metadata = consumer.fetch_metadata(Some(topic), LOOKUP_TIMEOUT)?;
            let found = metadata.topics().iter().find(|one| one.name() == &**topic);
            let partitions = found.map_or(&[][..], |found| found.partitions());
            let all: Vec<(Arc<str>, i32)> = partitions
                .iter()
                .map(|partition| (Arc::clone(topic), partition.id()))
                .collect();
            if all.is_empty() {
                return Ok(Vec::new());
            }
            let list = consumer.committed_offsets(list(&all, Offset::Invalid), LOOKUP_TIMEOUT)?;
            offsets(&list, &all)
        });
        let positions = positions
            .map_err(|error| error::mapped(&error, "look-up of the group's other positions"))?;
        let old = positions.iter().any(|offset| position(*offset).is_some());
        self.note(topic, old);
        Ok(old)
    }
}

/// The starts of lanes without a committed position in topics that are read already:
/// whatever `start` says, a partition that was added is read from its beginning, and
/// nothing that was begun is passed over.
fn resume(consumer: &BaseConsumer<Context>, lanes: &[(Arc<str>, i32)], past: &Past) -> Vec<Start> {
    if lanes.is_empty() {
        return Vec::new();
    }
    let oldest = edge(consumer, lanes, Offset::Beginning);
    let starts = lanes.iter().zip(oldest);
    starts
        .map(|((topic, partition), oldest)| {
            let Some(known) = past.of(topic, *partition) else {
                info!(%topic, partition, "a partition was added and is read from its beginning");
                return oldest;
            };
            again(known, oldest)
        })
        .collect()
}

/// The start of a lane that was read before and has no committed position.
fn again(known: Known, oldest: Start) -> Start {
    match (known.committed, known.start, oldest.position()) {
        // Kafka forgets a group's positions with the topic.
        (true, _, Some(at)) => Start::Anew(at, vanished(known)),
        (false, Some(start), _) => Start::At(Position::new(start)),
        (true | false, _, _) => oldest,
    }
}

fn vanished(known: Known) -> String {
    let next = known
        .next
        .map_or_else(String::new, |next| format!("; it had been read to {next}"));
    format!(
        "topic recreated, or the group's offsets deleted: no position is committed any more{next}"
    )
}

/// The starts of lanes without a committed position.
fn begin(
    consumer: &BaseConsumer<Context>,
    lanes: &[(Arc<str>, i32)],
    at: StartAt,
    given_up: impl Fn() -> bool + Copy,
) -> Result<Vec<Start>, Error> {
    if lanes.is_empty() {
        return Ok(Vec::new());
    }
    match at {
        StartAt::Fail => Ok(vec![Start::Nowhere; lanes.len()]),
        StartAt::Earliest => Ok(edge(consumer, lanes, Offset::Beginning)),
        StartAt::Latest => Ok(edge(consumer, lanes, Offset::End)),
        StartAt::Timestamp(ms) => {
            let time = Offset::Offset(ms.max(0));
            // The ends first: a record that comes between the two look-ups is then
            // found or lies above its end, and is not passed.
            let mut ends = edge(consumer, lanes, Offset::End).into_iter();
            let found = patiently(given_up, || search(consumer, lanes, time))
                .map_err(|error| error::mapped(&error, "look-up of positions by time"))?;
            Ok(found
                .into_iter()
                .map(|offset| {
                    let end = ends.next().unwrap_or(Start::Found(Offset::End));
                    position(offset).map_or(end, Start::At)
                })
                .collect())
        }
    }
}

/// The first or last positions; left to librdkafka if they cannot be had now.
fn edge(consumer: &BaseConsumer<Context>, lanes: &[(Arc<str>, i32)], edge: Offset) -> Vec<Start> {
    // Kafka looks up the edges of a log by the same request as times, and they
    // are written as the same numbers.
    search(consumer, lanes, edge).map_or_else(
        |_| vec![Start::Found(edge); lanes.len()],
        |found| {
            found
                .into_iter()
                .map(|offset| position(offset).map_or(Start::Found(edge), Start::At))
                .collect()
        },
    )
}

fn search(
    consumer: &BaseConsumer<Context>,
    lanes: &[(Arc<str>, i32)],
    target: Offset,
) -> KafkaResult<Vec<Offset>> {
    let list = consumer.offsets_for_times(list(lanes, target), LOOKUP_TIMEOUT)?;
    offsets(&list, lanes)
}

fn list(lanes: &[(Arc<str>, i32)], offset: Offset) -> TopicPartitionList {
    let mut list = TopicPartitionList::with_capacity(lanes.len());
    for (topic, partition) in lanes {
        let mut element = list.add_partition(topic, *partition);
        // Only negative plain offsets are refused, and none is passed in.
        element.set_offset(offset).ok();
    }
    list
}

/// The offsets of `lanes` in their order, whatever order the answer has.
fn offsets(list: &TopicPartitionList, lanes: &[(Arc<str>, i32)]) -> KafkaResult<Vec<Offset>> {
    lanes
        .iter()
        .map(
            |(topic, partition)| match list.find_partition(topic, *partition) {
                Some(element) => element.error().map(|()| element.offset()),
                None => Ok(Offset::Invalid),
            },
        )
        .collect()
}

/// The metadata of `lanes` in their order. Where another program has written bytes that
/// are not UTF-8 it reads as one character that nobody writes, so that it is found to be
/// strange and not taken for none.
fn metadata(list: &TopicPartitionList, lanes: &[(Arc<str>, i32)]) -> Vec<Option<Arc<str>>> {
    lanes
        .iter()
        .map(|(topic, partition)| {
            let element = list.find_partition(topic, *partition)?;
            let text = guarded(|| Arc::from(element.metadata()));
            let text = text.unwrap_or_else(|| Arc::from("\u{fffd}"));
            Some(text).filter(|text: &Arc<str>| !text.is_empty())
        })
        .collect()
}

fn position(offset: Offset) -> Option<Position> {
    match offset {
        Offset::Offset(offset) => u64::try_from(offset).ok().map(Position::new),
        Offset::Beginning
        | Offset::End
        | Offset::Stored
        | Offset::Invalid
        | Offset::OffsetTail(_) => None,
    }
}

/// Asks until there is an answer, or until it is `given_up`.
fn patiently<T>(
    given_up: impl Fn() -> bool,
    mut ask: impl FnMut() -> KafkaResult<T>,
) -> KafkaResult<T> {
    loop {
        let result = ask();
        if result.is_ok() || given_up() {
            return result;
        }
        std::thread::park_timeout(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lane_without_its_position_begins_anew_only_if_it_had_one() {
        let oldest = || Start::At(Position::new(3));
        let unknown = || Start::Found(Offset::Beginning);
        let known = |start, committed| Known {
            start,
            next: Some(9),
            committed,
        };
        assert_eq!(
            again(known(Some(5), false), oldest()),
            Start::At(Position::new(5))
        );
        assert_eq!(
            again(known(Some(5), false), unknown()),
            Start::At(Position::new(5))
        );
        assert_eq!(again(known(None, false), oldest()), oldest());
        assert_eq!(again(known(Some(5), true), unknown()), unknown());
        let Start::Anew(at, why) = again(known(Some(5), true), oldest()) else {
            panic!("what was committed for is no longer there");
        };
        assert_eq!(at, Position::new(3));
        assert!(
            why.contains("topic recreated") && why.contains("read to 9"),
            "{why}"
        );
    }
}
