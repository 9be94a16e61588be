//! A lane whose position the log does not have: is it before the log's beginning, or
//! beyond its end?
//!
//! Before: retention has passed it. Reading goes on at the oldest record, whatever the
//! subscription's `start` says, and what is gone is told. Beyond: the log is another
//! one. Its topic was made anew or the log truncated; the lane ends, and a new one
//! begins at the oldest record.
//!
//! What offsets cannot show is not noticed: a topic made anew whose new log has grown
//! past the position before anybody asked. librdkafka knows the topic's id and acts on
//! its change only by fetching from the new topic.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ackgate_lane::Position;
use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _, RebalanceProtocol},
    error::KafkaResult,
};
use tracing::{debug, warn};

use super::{
    core::Core,
    lane::{Astray, Lane},
    rebalance::Context,
    start::Start,
};
use crate::broker::{Event, TopicPartition};

/// For one look at a log's bounds. Other lanes wait meanwhile.
const LOOK_TIMEOUT: Duration = Duration::from_secs(1);

/// Between two looks at the same lane: while a topic is missing there is no answer.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Where a position lies that was told not to be in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In it all the same, by now: go on at this offset.
    Within(u64),
    /// Below its beginning, which is given.
    Below(u64),
    /// Above its end; the log begins at this offset.
    Beyond(u64),
}

fn place(position: Option<u64>, truncated: bool, oldest: u64, end: u64) -> Place {
    match position {
        _ if truncated => Place::Beyond(oldest),
        Some(position) if position < oldest => Place::Below(oldest),
        Some(position) if position > end => Place::Beyond(oldest),
        Some(position) => Place::Within(position),
        None => Place::Within(oldest),
    }
}

/// Looks after one lane that is astray and due. Whether there was one.
pub(super) fn relocate(core: &mut Core, consumer: &Arc<BaseConsumer<Context>>) -> bool {
    let now = Instant::now();
    let mut due = core.lanes.iter_mut().enumerate().filter_map(|(at, lane)| {
        let astray = lane.astray().filter(|astray| astray.due <= now)?;
        astray.due = now + LOOK_AGAIN;
        Some((at, *astray))
    });
    let Some((at, Astray { truncated, .. })) = due.next() else {
        return false;
    };
    let Some(lane) = core.lanes.get_mut(at) else {
        return false;
    };
    let TopicPartition { topic, partition } = &lane.partition;
    let (oldest, end) = match consumer.fetch_watermarks(topic, *partition, LOOK_TIMEOUT) {
        Ok((oldest, end)) => (
            u64::try_from(oldest).unwrap_or(0),
            u64::try_from(end).unwrap_or(0),
        ),
        Err(error) => {
            debug!(%topic, partition, %error, "the bounds of a lane's log are not known yet");
            return true;
        }
    };
    let position = lane.next();
    match place(position, truncated, oldest, end) {
        Place::Within(offset) => {
            go_on(core, consumer, at, offset);
        }
        Place::Below(oldest) => {
            warn!(
                %topic, partition, position, oldest,
                "retention has passed a lane: reading goes on at the oldest record"
            );
            let (generation, seek) = (lane.generation, lane.seek_number());
            if go_on(core, consumer, at, oldest) {
                core.outbox.send(Event::Gone {
                    generation,
                    seek,
                    oldest: Position::new(oldest),
                });
            }
        }
        Place::Beyond(oldest) => {
            let why = describe(position, truncated, oldest, end);
            begin_anew(core, consumer, at, oldest, why);
        }
    }
    true
}

/// In words, for subscribers and the log. Offsets do not tell the two causes apart.
pub(super) fn describe(position: Option<u64>, truncated: bool, oldest: u64, end: u64) -> String {
    let position = position.map_or_else(|| "unknown".to_owned(), |at| at.to_string());
    let cause = if truncated {
        "log truncated"
    } else {
        "topic recreated, or its log truncated"
    };
    format!("{cause}: position {position}, and the log is {oldest} to {end}")
}

/// Has the lane fetched from `offset`; it stays what it is. Whether that went well.
fn go_on(core: &mut Core, consumer: &BaseConsumer<Context>, at: usize, offset: u64) -> bool {
    let moved = move_to(&core.lanes, consumer, at, offset);
    let told = match &moved {
        Ok(()) => None,
        Err(_) => core.moves.again(Instant::now()),
    };
    if let Some(lane) = core.lanes.get_mut(at) {
        match &moved {
            Ok(()) => lane.stand(Some(offset)),
            Err(error) => {
                if let Some(count) = told {
                    warn!(
                        topic = %lane.partition.topic,
                        partition = lane.partition.partition,
                        %error, count,
                        "a lane cannot be moved and is tried again"
                    );
                }
            }
        }
    }
    moved.is_ok()
}

/// Ends the lane and begins another for the same partition at `oldest`.
fn begin_anew(
    core: &mut Core,
    consumer: &Arc<BaseConsumer<Context>>,
    at: usize,
    oldest: u64,
    why: String,
) {
    if !go_on(core, consumer, at, oldest) {
        return;
    }
    let Some(old) = core.lanes.get(at) else {
        return;
    };
    let (partition, old) = (old.partition.clone(), [old.generation]);
    core.lose(&old);
    core.depart(&old);
    let context = consumer.context();
    let start = Start::Anew(Position::new(oldest), why);
    if let Some(lane) = context.split_one(consumer, partition, &start) {
        core.arrive(vec![(lane, start)]);
    }
}

/// A lane that librdkafka has stopped cannot be sought, only assigned again.
fn move_to(
    lanes: &[Lane],
    consumer: &BaseConsumer<Context>,
    at: usize,
    offset: u64,
) -> KafkaResult<()> {
    let plain = |offset: u64| Offset::Offset(i64::try_from(offset).unwrap_or(i64::MAX));
    let Some(lane) = lanes.get(at) else {
        return Ok(());
    };
    let add = |list: &mut TopicPartitionList, lane: &Lane, offset: Offset| {
        let TopicPartition { topic, partition } = &lane.partition;
        list.add_partition_offset(topic, *partition, offset)
    };
    let mut list = TopicPartitionList::with_capacity(1);
    match consumer.rebalance_protocol() {
        RebalanceProtocol::Cooperative => {
            add(&mut list, lane, plain(offset))?;
            consumer.incremental_unassign(&list)?;
            consumer.incremental_assign(&list)
        }
        // Only all lanes at once: each goes on where it stands.
        RebalanceProtocol::Eager | RebalanceProtocol::None => {
            for (other, of) in lanes.iter().enumerate() {
                let next = if other == at { Some(offset) } else { of.next() };
                add(&mut list, of, next.map_or(Offset::Stored, plain))?;
            }
            consumer.assign(&list)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_lies_below_within_or_beyond_its_log() {
        for (position, truncated, expected) in [
            (Some(100), false, Place::Below(500)),
            (Some(499), false, Place::Below(500)),
            (Some(500), false, Place::Within(500)),
            (Some(900), false, Place::Within(900)),
            (Some(901), false, Place::Beyond(500)),
            (Some(800), true, Place::Beyond(500)),
            (None, false, Place::Within(500)),
        ] {
            assert_eq!(
                place(position, truncated, 500, 900),
                expected,
                "{position:?}"
            );
        }
    }
}
