//! The order of the checks and the runs that they find.

use std::{sync::Arc, time::Duration};

use ackgate_lane::{Generation, OnExpired};
use bytes::BytesMut;

use super::*;
use crate::{
    config::{Content, MaxAge},
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
    }
}

fn found(intake: &Intake, rows: &[Row<'_>]) -> Vec<(u64, u64, Finding)> {
    let of = TopicPartition {
        topic: Arc::from("orders"),
        partition: 0,
    };
    sift(intake, &chunk(rows), &of, NOW)
        .into_iter()
        .map(|(range, finding)| (range.first().get(), range.last().get(), finding))
        .collect()
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
    let unfit = Finding::Unfit(OnFailure::Reject, Check::Json);
    let rows = [
        (0, 501, "b", BROKEN),
        (1, 500, "b", BROKEN),
        (2, 500, "a", BROKEN),
        (3, 500, "a", JSON),
        (4, 500, "a", None),
    ];
    assert_eq!(
        found(&every_check(OnFailure::Reject), &rows),
        [
            (0, 0, Finding::Expired),
            (1, 1, Finding::Filtered),
            (2, 2, unfit)
        ]
    );
}

#[test]
fn neighbours_are_one_run_over_gaps_and_never_over_a_record_that_is_handed_out() {
    let rows = [
        (0, 0, "b", JSON),
        (5, 0, "b", JSON),
        (6, 0, "a", JSON),
        (7, 0, "b", JSON),
        (8, 0, "a", BROKEN),
        (9, 0, "b", JSON),
    ];
    let unfit = Finding::Unfit(OnFailure::Skip, Check::Json);
    assert_eq!(
        found(&every_check(OnFailure::Skip), &rows),
        [
            (0, 5, Finding::Filtered),
            (7, 7, Finding::Filtered),
            (8, 8, unfit),
            (9, 9, Finding::Filtered)
        ]
    );
}

#[test]
fn a_filter_that_fails_leaves_the_record_to_the_content_check() {
    let intake = Intake {
        filter: Some(Filter::compile("key < 3").expect("valid")),
        ..every_check(OnFailure::Deliver)
    };
    let found = found(&intake, &[(0, 0, "a", BROKEN), (1, 0, "a", JSON)]);
    assert!(
        matches!(found[0], (0, 0, Finding::FilterFailed(_))),
        "{found:?}"
    );
    assert!(matches!(
        found[1],
        (0, 0, Finding::Unfit(OnFailure::Deliver, _))
    ));
    assert!(matches!(found[2], (1, 1, Finding::FilterFailed(_))));
    assert_eq!(found.len(), 3);
}

#[test]
fn records_from_the_future_and_without_a_timestamp_are_not_too_old() {
    let rows = [
        (0, -5000, "a", JSON),
        (1, NOW, "a", JSON),
        (2, NOW + 1, "a", JSON),
    ];
    assert_eq!(found(&every_check(OnFailure::Reject), &rows), []);
}
