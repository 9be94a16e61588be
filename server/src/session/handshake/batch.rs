//! What a subscriber asks of its batches, over what its subscription has.

use std::{ops::RangeInclusive, time::Duration};

use ackgate_proto::v1;
use tonic::Status;

use crate::{config, session::status::Reason};

const RECORDS: RangeInclusive<u32> = 1..=10_000;
const BYTES: RangeInclusive<u64> = 1 << 10..=16 << 20;
const FILL: RangeInclusive<f64> = 0.01..=1.0;
const LONGEST_LINGER: Duration = Duration::from_secs(60);

/// Valid options; `None`: as the subscription has it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Asked {
    max_records: Option<u32>,
    max_bytes: Option<u64>,
    linger: Option<Duration>,
    min_fill: Option<f64>,
}

impl Asked {
    /// Checks what was sent.
    pub(super) fn of(wire: v1::BatchOptions) -> Result<Self, Status> {
        let invalid = |field: &str, text: &str| {
            Err(Reason::OpenInvalid.field(&format!("open.batch.{field}"), text))
        };
        let max_records = match wire.max_records {
            0 => None,
            some if RECORDS.contains(&some) => Some(some),
            _ => return invalid("max_records", "must be 0 or 1 to 10000"),
        };
        let max_bytes = match wire.max_bytes {
            0 => None,
            some if BYTES.contains(&some) => Some(some),
            _ => return invalid("max_bytes", "must be 0 or 1024 to 16777216"),
        };
        let linger = match wire.linger.map(Duration::try_from) {
            None => None,
            Some(Ok(some)) if some <= LONGEST_LINGER => Some(some),
            Some(_) => return invalid("linger", "must be 0 s to 1 min"),
        };
        let min_fill = match wire.min_fill {
            0.0 => None,
            some if FILL.contains(&some) => Some(some),
            _ => return invalid("min_fill", "must be 0 or 0.01 to 1"),
        };
        Ok(Self {
            max_records,
            max_bytes,
            linger,
            min_fill,
        })
    }

    /// What the session works with.
    pub(super) fn over(self, own: config::Batch) -> config::Batch {
        config::Batch {
            max_records: self.max_records.unwrap_or(own.max_records),
            max_bytes: self.max_bytes.unwrap_or(own.max_bytes),
            linger: self.linger.unwrap_or(own.linger),
            min_fill: self.min_fill.unwrap_or(own.min_fill),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: config::Batch = config::Batch {
        max_records: 1024,
        max_bytes: 256 << 10,
        linger: Duration::from_secs(1),
        min_fill: 0.5,
    };

    #[test]
    fn what_is_not_asked_for_is_as_the_subscription_has_it() {
        let asked = Asked::of(v1::BatchOptions::default()).expect("nothing is asked");
        assert_eq!(asked.over(OWN), OWN);
        let asked = Asked::of(v1::BatchOptions {
            max_records: 7,
            linger: Some(prost_types::Duration::default()),
            ..v1::BatchOptions::default()
        });
        let over = asked.expect("both are in range").over(OWN);
        assert_eq!((over.max_records, over.linger), (7, Duration::ZERO));
        assert_eq!((over.max_bytes, over.min_fill), (OWN.max_bytes, 0.5));
    }

    #[test]
    fn what_is_out_of_range_is_refused_with_its_field() {
        let nanos = |seconds, nanos| Some(prost_types::Duration { seconds, nanos });
        let none = v1::BatchOptions::default;
        let wrong = [
            (
                v1::BatchOptions {
                    max_records: 10_001,
                    ..none()
                },
                "max_records",
            ),
            (
                v1::BatchOptions {
                    max_bytes: 1023,
                    ..none()
                },
                "max_bytes",
            ),
            (
                v1::BatchOptions {
                    max_bytes: u64::MAX,
                    ..none()
                },
                "max_bytes",
            ),
            (
                v1::BatchOptions {
                    linger: nanos(60, 1),
                    ..none()
                },
                "linger",
            ),
            (
                v1::BatchOptions {
                    linger: nanos(-1, 0),
                    ..none()
                },
                "linger",
            ),
            (
                v1::BatchOptions {
                    min_fill: 1.1,
                    ..none()
                },
                "min_fill",
            ),
            (
                v1::BatchOptions {
                    min_fill: -0.5,
                    ..none()
                },
                "min_fill",
            ),
            (
                v1::BatchOptions {
                    min_fill: f64::NAN,
                    ..none()
                },
                "min_fill",
            ),
        ];
        for (wire, field) in wrong {
            let status = Asked::of(wire).expect_err(field);
            assert!(status.message().contains(field), "{status:?}");
        }
    }
}
