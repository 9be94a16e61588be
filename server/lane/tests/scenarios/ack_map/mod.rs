//! The ack map: what travels with the position, and what a lane makes of it.

mod durable;
mod restored;
mod room;
mod written;

use ackgate_lane::{AckMap, Counters, Epoch, MAX_MAP_BYTES, MapStart, Policy, Position};

use crate::support::{Bench, range};

pub(super) fn writing(policy: Policy) -> Bench {
    with_room(policy, MAX_MAP_BYTES)
}

pub(super) fn with_room(policy: Policy, most_bytes: usize) -> Bench {
    let map = MapStart {
        most_bytes,
        ..MapStart::default()
    };
    Bench::with_map(policy, Some(0), true, map)
}

pub(super) fn restored(policy: Policy, position: u64, map: AckMap) -> Bench {
    let map = MapStart {
        most_bytes: MAX_MAP_BYTES,
        restored: Some(map),
        ..MapStart::default()
    };
    Bench::with_map(policy, Some(position), true, map)
}

pub(super) fn map(floor: u64, settled: &[(u64, u64)]) -> AckMap {
    AckMap {
        settled: settled.iter().map(|run| range(run.0, run.1)).collect(),
        ..AckMap::empty(Position::new(floor), Epoch(3), 0)
    }
}

pub(super) fn tried(first: u64, last: u64, attempts: u32, deliveries: u32) -> Counters {
    Counters {
        range: range(first, last),
        attempts,
        deliveries,
        lost: 0,
        voided: 0,
    }
}
