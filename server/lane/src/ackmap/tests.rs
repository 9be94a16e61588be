//! What goes in comes out, within its bounds, and nothing else does.

use proptest::{collection::vec, prelude::*};

use super::*;
use crate::Offset;

fn range(first: u64, end: u64) -> OffsetRange {
    OffsetRange::new(Offset::new(first), Position::new(end)).expect("not empty")
}

/// Runs from (gap, length) pairs, from `floor` on.
fn runs(floor: u64, pairs: &[(u64, u64)]) -> Vec<OffsetRange> {
    let mut end = floor;
    pairs
        .iter()
        .map(|(gap, length)| {
            let run = range(end + gap, end + gap + length);
            end = run.end().get();
            run
        })
        .collect()
}

prop_compose! {
    fn maps()(
        floor in prop_oneof![0..100_000_u64, (i64::MAX as u64 - (1 << 40))..(i64::MAX as u64 - (1 << 39))],
        epoch in any::<u64>(),
        topic in prop_oneof![Just(0), any::<u64>()],
        settled in vec((1..40_u64, prop_oneof![9 => 1..60_u64, 1 => 1..MAX_MAP_SPAN]), 0..400),
        tried in vec((0..90_u64, 1..9_u64, any::<[u8; 4]>()), 0..200),
    ) -> AckMap {
        let counted: Vec<_> = tried.iter().map(|(gap, length, _)| (*gap, *length)).collect();
        let counters = runs(floor, &counted).into_iter().zip(&tried).map(|(range, (_, _, n))| {
            let [attempts, deliveries, lost, voided] = n.map(u32::from);
            Counters { range, attempts, deliveries, lost, voided }
        });
        AckMap {
            floor: Position::new(floor),
            epoch: Epoch(epoch),
            topic,
            settled: runs(floor, &settled),
            counters: counters.collect(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_map_comes_back_as_far_as_it_fits_and_never_says_more_than_is_true(
        map in maps(),
        most in 0..MAX_MAP_BYTES + 100,
    ) {
        let Some(encoded) = map.encode(most) else {
            prop_assert!(most < MIN_MAP_BYTES, "the head always fits {MIN_MAP_BYTES}");
            return Ok(());
        };
        prop_assert!(encoded.bytes.len() <= most.min(MAX_MAP_BYTES));
        let back = AckMap::decode(&encoded.bytes).expect("a sound map");
        prop_assert_eq!((back.floor, back.epoch, back.topic), (map.floor, map.epoch, map.topic));
        let expected: Vec<_> =
            map.settled.iter().map_while(|range| range.below(encoded.covered)).collect();
        prop_assert_eq!(&back.settled, &expected);
        prop_assert!(back.counters.iter().all(|run| map.counters.contains(run)));
        if most >= MAX_MAP_BYTES && map.encode(usize::MAX).is_some_and(|all| all.bytes.len() < 2000) {
            prop_assert_eq!(&back.counters, &map.counters);
        }
    }

    #[test]
    fn any_bytes_are_a_map_or_a_doubt(bytes in vec(any::<u8>(), 0..4096)) {
        prop_assert!(AckMap::decode(&bytes).is_err());
    }

    /// With a sound checksum, so that everything behind it is reached.
    #[test]
    fn any_body_is_read_within_bounds(flags in 0..4_u8, body in vec(any::<u8>(), 0..MAX_MAP_BYTES - FIXED)) {
        if let Ok(map) = AckMap::decode(&sealed(VERSION, flags, &body)) {
            prop_assert!(map.settled.len() <= body.len() * 8);
            prop_assert!(map.counters.len() <= body.len());
            prop_assert!(map.end().get() <= i64::MAX.unsigned_abs() + 8 * MAX_MAP_BYTES as u64);
        }
    }

    #[test]
    fn a_map_that_was_changed_or_cut_is_refused(map in maps(), at in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let bytes = map.encode(MAX_MAP_BYTES).expect("room for the head").bytes;
        let at = at.index(bytes.len());
        let mut changed = bytes.clone();
        changed[at] ^= 1 << bit;
        prop_assert!(AckMap::decode(&changed).is_err());
        prop_assert!(AckMap::decode(&bytes[..at]).is_err());
    }
}

fn sealed(version: u8, flags: u8, body: &[u8]) -> Vec<u8> {
    let checksum = checksum::crc32(&[&[version, flags], body]).to_le_bytes();
    [&MAGIC, &[version, flags][..], &checksum, body].concat()
}

#[test]
fn the_plain_bitset_of_the_largest_span_always_fits() {
    // The costliest pattern for run lengths, at the costliest head.
    let floor = i64::MAX.unsigned_abs() - 100_000;
    let every_other: Vec<_> = (1..MAX_MAP_SPAN)
        .step_by(2)
        .map(|at| range(floor + at, floor + at + 1))
        .collect();
    let map = AckMap {
        floor: Position::new(floor),
        epoch: Epoch(u64::from(u32::MAX)),
        topic: u64::MAX,
        settled: every_other,
        counters: Vec::new(),
    };
    let encoded = map.encode(MAX_MAP_BYTES).expect("room");
    assert_eq!(
        encoded.covered,
        Position::new(u64::MAX),
        "nothing is left out"
    );
    assert_eq!(AckMap::decode(&encoded.bytes), Ok(map));
}

#[test]
fn long_runs_take_a_few_bytes() {
    let map = AckMap {
        settled: vec![range(101, 20_000)],
        ..AckMap::empty(Position::new(100), Epoch(1), 0)
    };
    assert!(map.encode(MAX_MAP_BYTES).expect("room").bytes.len() < 24);
}

#[test]
fn what_does_not_fit_is_said() {
    let settled = (0..500)
        .map(|n| range(1_001 + 40 * n, 1_003 + 40 * n))
        .collect();
    let map = AckMap {
        settled,
        ..AckMap::empty(Position::new(1_000), Epoch(1), 0)
    };
    let encoded = map.encode(128).expect("room");
    let back = AckMap::decode(&encoded.bytes).expect("a sound map");
    assert!(encoded.covered < Position::new(u64::MAX));
    assert!(back.settled.len() > 20 && back.settled.len() < 500);
    let next = map.settled[back.settled.len()];
    assert!(next.first().position() >= encoded.covered || back.settled.last() != Some(&next));
}

#[test]
fn the_counters_of_the_most_tried_records_are_kept() {
    let counters: Vec<_> = (0..100_u32)
        .map(|n| Counters {
            range: range(u64::from(n) * 2 + 1, u64::from(n) * 2 + 2),
            attempts: n % 7,
            deliveries: 1,
            lost: 0,
            voided: 0,
        })
        .collect();
    let map = AckMap {
        counters,
        ..AckMap::empty(Position::new(0), Epoch(1), 0)
    };
    let encoded = map.encode(200).expect("room");
    let back = AckMap::decode(&encoded.bytes).expect("a sound map");
    let count = |counters: &[Counters], attempts| {
        counters
            .iter()
            .filter(|run| run.attempts == attempts)
            .count()
    };
    assert_eq!(count(&back.counters, 6), count(&map.counters, 6));
    assert!(count(&back.counters, 5) > 5, "the room is used");
    assert_eq!(count(&back.counters, 0), 0);
}

#[test]
fn every_doubt_has_its_name() {
    let map = AckMap {
        settled: vec![range(11, 13)],
        ..AckMap::empty(Position::new(10), Epoch(3), 7)
    };
    let bytes = map.encode(MAX_MAP_BYTES).expect("room").bytes;
    let (flags, body) = (bytes[3], &bytes[FIXED..]);
    let changed = |at: usize, to: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = to;
        AckMap::decode(&bytes)
    };
    assert_eq!(AckMap::decode(b""), Err(Doubt::Magic));
    assert_eq!(AckMap::decode(b"connect worker 3"), Err(Doubt::Magic));
    assert_eq!(AckMap::decode(b"ag"), Err(Doubt::Truncated));
    assert_eq!(changed(2, 2), Err(Doubt::Version { found: 2 }));
    assert_eq!(changed(9, 99), Err(Doubt::Checksum));
    assert_eq!(
        AckMap::decode(&bytes[..bytes.len() - 1]),
        Err(Doubt::Checksum)
    );
    assert_eq!(
        AckMap::decode(&sealed(VERSION, flags, &body[..body.len() - 1])),
        Err(Doubt::Truncated)
    );
    assert_eq!(
        AckMap::decode(&sealed(VERSION, flags, &[body, b"x"].concat())),
        Err(Doubt::TooLong)
    );
    assert_eq!(
        AckMap::decode(&sealed(VERSION, 0, &[0; MAX_MAP_BYTES])),
        Err(Doubt::TooLong)
    );
    assert_eq!(
        AckMap::decode(&sealed(VERSION, 0x80, body)),
        Err(Doubt::Lengths)
    );
    assert_eq!(AckMap::decode(&sealed(0, TOPIC, body)), Err(Doubt::Lengths));
    // A run of 2^62 records would pass everything.
    let mut hostile = vec![10, 1, 1, 1];
    bits::put(&mut hostile, 1 << 62);
    hostile.push(0);
    assert_eq!(
        AckMap::decode(&sealed(VERSION, 0, &hostile)),
        Err(Doubt::Lengths)
    );
    // More runs than bytes.
    let mut many = vec![10, 1];
    bits::put(&mut many, 1 << 40);
    assert_eq!(
        AckMap::decode(&sealed(VERSION, 0, &many)),
        Err(Doubt::Truncated)
    );
    let back = AckMap::decode(&bytes).expect("a sound map");
    assert_eq!(back.belongs_to(Position::new(10), 7), Ok(()));
    assert_eq!(
        back.belongs_to(Position::new(10), 0),
        Ok(()),
        "an unknown topic id is no doubt"
    );
    assert_eq!(back.belongs_to(Position::new(10), 8), Err(Doubt::Topic));
    assert_eq!(
        back.belongs_to(Position::new(11), 7),
        Err(Doubt::Floor {
            found: Position::new(10)
        })
    );
}
