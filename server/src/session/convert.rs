//! Wire to domain and back: what is neither a verdict nor about a lane.

mod lane;
mod verdict;

use std::time::Duration;

use ackgate_lane::Order;
use ackgate_proto::{Frame, v1};
use tonic::Status;
use v1::subscribe_response::Response;

use super::status::Reason;
use crate::{
    config,
    consumer::{Credit, DrainReason},
};

pub(super) use lane::{batch, encoded_batch, lane_event, notice};
pub(super) use verdict::{MAX_VERDICTS, answers, extensions, settled, verdicts};

const MAX_CREDIT_RECORDS: u32 = 1_000_000;
const MAX_CREDIT_BYTES: u64 = 1 << 30;

/// `text` without control characters and cut at a character within `most` bytes:
/// what a client says is never trusted in a log, a header or a status.
pub(super) fn printable(text: &str, most: usize) -> String {
    let mut clean = String::with_capacity(text.len().min(most));
    for character in text.chars().filter(|c| !c.is_control()) {
        if clean.len() + character.len_utf8() > most {
            break;
        }
        clean.push(character);
    }
    clean
}

/// The status of a stream whose input could not be read.
pub(super) fn input_broken(status: &Status) -> Status {
    Reason::InputBroken.status(format!("the input could not be read: {}", status.code()))
}

/// Checks a credit.
pub(super) fn credit(credit: v1::Credit) -> Result<Credit, Status> {
    if credit.records > MAX_CREDIT_RECORDS || credit.bytes > MAX_CREDIT_BYTES {
        return Err(Reason::CreditOutOfRange.field(
            "credit",
            "must be at most 1000000 records and 1073741824 bytes",
        ));
    }
    Ok(Credit {
        records: u64::from(credit.records),
        bytes: credit.bytes,
    })
}

/// The warning before the gateway ends the stream.
pub(super) fn drain(left: Duration, why: DrainReason) -> Frame {
    let reason = match why {
        DrainReason::GatewayStops => v1::DrainReason::GatewayStops,
        DrainReason::ConnectionAge => v1::DrainReason::ConnectionAge,
    };
    Response::Drain(v1::Drain {
        deadline: duration(left),
        reason: reason.into(),
    })
    .into()
}

/// How records are spread, as the protocol says it.
pub(super) const fn delivery(delivery: config::Delivery) -> v1::Delivery {
    match delivery {
        config::Delivery::Competing => v1::Delivery::Competing,
        config::Delivery::Broadcast(_) => v1::Delivery::Broadcast,
    }
}

/// How records may overtake each other, as the protocol says it.
pub(super) const fn order(order: Order) -> v1::Order {
    match order {
        Order::None => v1::Order::None,
        Order::Key { .. } => v1::Order::Key,
        Order::Lane { .. } => v1::Order::Lane,
    }
}

/// What batches wait for, as the protocol says it.
pub(super) fn batch_options(batch: &config::Batch) -> v1::BatchOptions {
    v1::BatchOptions {
        max_records: batch.max_records,
        max_bytes: batch.max_bytes,
        linger: duration(batch.linger),
        min_fill: batch.min_fill,
    }
}

/// A duration as the protocol carries it; `None` beyond 10,000 years.
pub(super) fn duration(duration: Duration) -> Option<prost_types::Duration> {
    duration.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_says_loses_its_control_characters_and_its_excess() {
        assert_eq!(printable("a\r\n\u{1b}[31mb\0c", 64), "a[31mbc");
        assert_eq!(printable("ééé", 5), "éé");
    }

    #[test]
    fn credit_above_the_limits_is_refused() {
        let of = |records, bytes| credit(v1::Credit { records, bytes });
        assert!(of(1_000_000, 1 << 30).is_ok());
        assert!(of(1_000_001, 1).is_err());
        assert!(of(1, (1 << 30) + 1).is_err());
        assert!(of(u32::MAX, u64::MAX).is_err());
    }
}
