//! The order of the checks and the runs that they find.

use std::{sync::Arc, time::Duration};

use ackgate_lane::{Generation, OnExpired};
use bytes::BytesMut;

use super::*;
use crate::{
    config::{Check, Content, MaxAge},
    filter::Filter,
};

const NOW: i64 = 1_700_000_000_000;

/// Offset, age in milliseconds, key, value.
type Row<'a> = (u64, i64, &'a str, Option<&'a [u8]>);

fn chunk(rows: &[Row<'_>]) -> Chunk {
    let (mut bytes, mut records) = (BytesMut::new(), Vec::new());
    for (offset, age, key, value) in rows {
        let record = v1::Record {
            offset: i64::try_from(*offset).expect("small"),
            timestamp_ms: NOW - age,
            timestamp_type: v1::TimestampType::CreateTime.into(),
            key: Some(Bytes::copy_from_slice(key.as_bytes())),
            value: value.map(Bytes::copy_from_slice),
            headers: Vec::new(),
        };
        let batch = v1::Batch {
            records: vec![record],
            ..v1::Batch::default()
        };
        bytes.extend_from_slice(&batch.encode_to_vec());
        records.push(RecordIndex {
            offset: *offset,
            key: None,
            timestamp_ms: NOW - age,
            end: u32::try_from(bytes.len()).expect("small"),
        });
    }
    Chunk {
        generation: Generation(1),
        seek: 0,
        records,
        bytes: bytes.freeze(),
        polled: None,
    }
}

fn sifted(intake: &Intake, rows: &[Row<'_>]) -> Sifted {
    let of = TopicPartition {
        topic: Arc::from("orders"),
        partition: 0,
    };
    let from = From {
        partition: &of,
        retry: false,
    };
    sift(intake, &chunk(rows), from, NOW)
}

fn every_check(on_failure: OnFailure) -> Intake {
    Intake {
        max_age: Some(MaxAge {
            age: Duration::from_millis(500),
            then: OnExpired::Drop,
        }),
        filter: Some(Filter::compile("key.startsWith('a')").expect("valid")),
        content: Some(Content {
            check: Check::Json,
            on_failure,
        }),
        ..Intake::default()
    }
}

const JSON: Option<&[u8]> = Some(b"{}");
const BROKEN: Option<&[u8]> = Some(b"{");

#[test]
fn age_goes_before_the_filter_and_the_filter_before_the_content() {
    let rows = [
        (0, 501, "b", BROKEN),
        (1, 500, "b", BROKEN),
        (2, 500, "a", BROKEN),
        (3, 500, "a", JSON),
        (4, 500, "a", None),
    ];
    let sifted = sifted(&every_check(OnFailure::Reject), &rows);
    assert_eq!(
        sifted.fates,
        [
            (0..1, Fate::Expired),
            (1..2, Fate::Filtered),
            (2..3, Fate::Rejected)
        ]
    );
    assert_eq!((sifted.unfit, sifted.delivered), (Some(2), 0));
}

#[test]
fn neighbours_of_one_fate_are_one_run() {
    let rows = [
        (0, 0, "b", JSON),
        (5, 0, "b", JSON),
        (6, 0, "a", JSON),
        (7, 0, "b", JSON),
        (8, 0, "a", BROKEN),
        (9, 0, "b", JSON),
    ];
    let sifted = sifted(&every_check(OnFailure::Skip), &rows);
    assert_eq!(
        sifted.fates,
        [
            (0..2, Fate::Filtered),
            (3..4, Fate::Filtered),
            (4..5, Fate::Skipped),
            (5..6, Fate::Filtered)
        ]
    );
}

#[test]
fn a_filter_that_fails_leaves_the_record_to_the_content_check() {
    let intake = Intake {
        filter: Some(Filter::compile("key < 3").expect("valid")),
        ..every_check(OnFailure::Reject)
    };
    let sifted_all = sifted(&intake, &[(0, 0, "a", JSON), (1, 0, "a", BROKEN)]);
    assert_eq!(sifted_all.failures, 2);
    assert_eq!(sifted_all.failed.map(|(offset, _)| offset), Some(0));
    assert_eq!(sifted_all.fates, [(1..2, Fate::Rejected)]);
    let deliver = sifted(&every_check(OnFailure::Deliver), &[(0, 0, "a", BROKEN)]);
    assert_eq!((deliver.fates.len(), deliver.delivered), (0, 1));
}

#[test]
fn records_from_the_future_and_without_a_timestamp_are_not_too_old() {
    let rows = [
        (0, -5000, "a", JSON),
        (1, NOW, "a", JSON),
        (2, NOW + 1, "a", JSON),
    ];
    let sifted = sifted(&every_check(OnFailure::Reject), &rows);
    assert_eq!(sifted.fates, []);
}
