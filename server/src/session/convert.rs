//! Wire to domain and back. A verdict that cannot be one is answered alone and
//! never mapped to a default; it never ends the stream.

use std::time::Duration;

use ackgate_lane::{Offset, OffsetRange, Order, Target, Verdict, VerdictResult};
use ackgate_proto::{EncodedBatch, Frame, v1};
use tonic::Status;
use v1::subscribe_response::Response;

use super::status::Reason;
use crate::{
    config,
    consumer::{
        Credit, DrainReason, LaneNotice, LaneVerdict, NoticeKind, OutboundBatch, VerdictAnswer,
    },
};

/// Verdicts or extensions in one message.
pub(super) const MAX_VERDICTS: usize = 10_000;

const MAX_CREDIT_RECORDS: u32 = 1_000_000;
const MAX_CREDIT_BYTES: u64 = 1 << 30;

const MAX_CODE: usize = 128;
const MAX_REASON: usize = 1024;

const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);
const MAX_EXTENSION: Duration = Duration::from_secs(600);

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

/// Checks verdicts: the valid ones, and the answers to the others.
pub(super) fn verdicts(
    settle: v1::Settle,
) -> Result<(Vec<LaneVerdict>, Vec<VerdictAnswer>), Status> {
    too_many(settle.verdicts.len(), "verdicts")?;
    let mut valid = Vec::with_capacity(settle.verdicts.len());
    let mut refused = Vec::new();
    for wire in settle.verdicts {
        let (lane, first, last) = (wire.lane, wire.first_offset, wire.last_offset);
        match verdict(wire) {
            Ok(verdict) => valid.push(verdict),
            Err(detail) => refused.push(refusal(lane, first, last, detail)),
        }
    }
    Ok((valid, refused))
}

/// Valid extensions by lane, the answers to the others, and the time asked for.
pub(super) type Extensions = (Vec<(u64, OffsetRange)>, Vec<VerdictAnswer>, Duration);

/// Checks extensions.
pub(super) fn extensions(extend: v1::Extend) -> Result<Extensions, Status> {
    too_many(extend.extensions.len(), "extensions")?;
    let by = extend
        .by
        .and_then(|by| Duration::try_from(by).ok())
        .filter(|by| !by.is_zero() && *by <= MAX_EXTENSION)
        .ok_or_else(|| {
            Reason::ExtensionOutOfRange.field("extend.by", "must be above 0 and at most 600 s")
        })?;
    let mut valid = Vec::with_capacity(extend.extensions.len());
    let mut refused = Vec::new();
    for wire in extend.extensions {
        match range(wire.first_offset, wire.last_offset) {
            Ok(range) => valid.push((wire.lane, range)),
            Err(detail) => {
                refused.push(refusal(
                    wire.lane,
                    wire.first_offset,
                    wire.last_offset,
                    detail,
                ));
            }
        }
    }
    Ok((valid, refused, by))
}

fn too_many(count: usize, what: &str) -> Result<(), Status> {
    if count <= MAX_VERDICTS {
        return Ok(());
    }
    Err(Reason::TooManyVerdicts.status(format!(
        "{count} {what} in one message: at most {MAX_VERDICTS} are allowed; none was applied"
    )))
}

fn refusal(lane: u64, first: i64, last: Option<i64>, detail: &'static str) -> VerdictAnswer {
    VerdictAnswer {
        lane,
        first,
        last: last.unwrap_or(first),
        result: Err(detail),
    }
}

fn range(first: i64, last: Option<i64>) -> Result<OffsetRange, &'static str> {
    let first = u64::try_from(first).map_err(|_negative| "RANGE_INVALID")?;
    let last = last
        .map_or(Ok(first), u64::try_from)
        .map_err(|_negative| "RANGE_INVALID")?;
    OffsetRange::inclusive(Offset::new(first), Offset::new(last)).ok_or("RANGE_INVALID")
}

fn verdict(wire: v1::Verdict) -> Result<LaneVerdict, &'static str> {
    let range = range(wire.first_offset, wire.last_offset)?;
    if wire.delivery == Some(0) {
        return Err("DELIVERY_INVALID");
    }
    if wire.code.len() > MAX_CODE {
        return Err("CODE_TOO_LONG");
    }
    let outcome = v1::Outcome::try_from(wire.outcome).map_err(|_unknown| "OUTCOME_UNKNOWN")?;
    let retry_after = match wire.retry_after {
        None => None,
        Some(_) if outcome != v1::Outcome::Failed => return Err("RETRY_AFTER_WITHOUT_FAILED"),
        Some(after) => match Duration::try_from(after) {
            Ok(after) if after <= MAX_RETRY_AFTER => Some(after),
            _ => return Err("RETRY_AFTER_OUT_OF_RANGE"),
        },
    };
    let verdict = match outcome {
        v1::Outcome::Unspecified => return Err("OUTCOME_UNSPECIFIED"),
        v1::Outcome::Acked => Verdict::Acked,
        v1::Outcome::Rejected => Verdict::Rejected,
        v1::Outcome::Failed => Verdict::Failed { retry_after },
        v1::Outcome::Released => Verdict::Released,
    };
    Ok(LaneVerdict {
        lane: wire.lane,
        target: Target {
            range,
            delivery: wire.delivery,
        },
        verdict,
        code: printable(&wire.code, MAX_CODE),
        reason: printable(&wire.reason, MAX_REASON),
    })
}

/// An offset as the protocol carries it.
fn wire_offset(offset: Offset) -> i64 {
    i64::try_from(offset.get()).unwrap_or(i64::MAX)
}

/// A batch as it is sent: its records are encoded already.
pub(super) fn batch(batch: OutboundBatch) -> Frame {
    let redeliveries = batch
        .redelivered
        .iter()
        .map(|run| v1::Redelivery {
            first_offset: wire_offset(run.range.first()),
            last_offset: wire_offset(run.range.last()),
            attempt: run.attempt,
            delivery: run.delivery,
        })
        .collect();
    Frame::Batch(EncodedBatch {
        head: v1::Batch {
            lane: batch.lane.lane,
            topic: batch.lane.topic.to_string(),
            partition: batch.lane.partition,
            epoch: batch.lane.epoch,
            records: Vec::new(),
            redeliveries,
        },
        records: batch.records,
    })
}

/// Bytes of one answer at most: five numbers of 10 bytes with their keys, a detail of
/// 32 bytes, and its length.
const ANSWER_BYTES: u64 = 100;

/// The answer to a `Settle` or an `Extend`, in as many messages as it takes to keep
/// each within what the subscriber accepts.
pub(super) fn settled(sequence: u64, answers: Vec<VerdictAnswer>, max_bytes: u64) -> Vec<Frame> {
    let per_frame = usize::try_from(max_bytes / ANSWER_BYTES)
        .unwrap_or(usize::MAX)
        .max(1);
    let answers: Vec<v1::VerdictAnswer> = answers.into_iter().filter_map(answer).collect();
    let frame = |answers, more| {
        let settled = v1::Settled {
            sequence,
            answers,
            more,
        };
        Response::Settled(settled).into()
    };
    if answers.len() <= per_frame {
        return vec![frame(answers, false)];
    }
    let frames = answers.len().div_ceil(per_frame);
    answers
        .chunks(per_frame)
        .enumerate()
        .map(|(at, part)| frame(part.to_vec(), at + 1 < frames))
        .collect()
}

fn answer(answer: VerdictAnswer) -> Option<v1::VerdictAnswer> {
    let (result, detail) = match answer.result {
        Ok(VerdictResult::Applied) => return None,
        Ok(VerdictResult::Duplicate) => (v1::VerdictResult::Duplicate, ""),
        Ok(VerdictResult::Conflict) => (v1::VerdictResult::Conflict, ""),
        Ok(VerdictResult::Stale) => (v1::VerdictResult::Stale, ""),
        Ok(VerdictResult::Expired) => (v1::VerdictResult::Expired, ""),
        Ok(VerdictResult::Unknown) => (v1::VerdictResult::Unknown, ""),
        Ok(VerdictResult::Fenced) => (v1::VerdictResult::Fenced, ""),
        Err(detail) => (v1::VerdictResult::Invalid, detail),
    };
    Some(v1::VerdictAnswer {
        lane: answer.lane,
        first_offset: answer.first,
        last_offset: answer.last,
        result: result.into(),
        detail: detail.to_owned(),
    })
}

/// News of a lane.
pub(super) fn notice(notice: LaneNotice) -> Frame {
    let kind = match notice.kind {
        NoticeKind::Assigned => v1::LaneEventKind::Assigned,
        NoticeKind::Revoking => v1::LaneEventKind::Revoking,
        NoticeKind::Revoked => v1::LaneEventKind::Revoked,
        NoticeKind::Held => v1::LaneEventKind::Held,
        NoticeKind::Rewound => v1::LaneEventKind::Rewound,
        NoticeKind::Recovered => v1::LaneEventKind::Recovered,
        NoticeKind::LostRange => v1::LaneEventKind::LostRange,
        NoticeKind::Reset => v1::LaneEventKind::Reset,
        NoticeKind::Fenced => v1::LaneEventKind::Fenced,
        NoticeKind::Leased => v1::LaneEventKind::Leased,
        NoticeKind::Standby => v1::LaneEventKind::Standby,
    };
    Response::LaneEvent(v1::LaneEvent {
        lane: notice.lane.lane,
        topic: notice.lane.topic.to_string(),
        partition: notice.lane.partition,
        kind: kind.into(),
        first_offset: notice.range.map(|range| wire_offset(range.first())),
        last_offset: notice.range.map(|range| wire_offset(range.last())),
        detail: notice.detail,
    })
    .into()
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

    fn acked(first: i64, last: Option<i64>) -> v1::Verdict {
        v1::Verdict {
            lane: 7,
            first_offset: first,
            last_offset: last,
            outcome: v1::Outcome::Acked.into(),
            ..v1::Verdict::default()
        }
    }

    #[test]
    fn malformed_verdicts_are_refused_alone_with_a_code() {
        let bad = [
            (
                v1::Verdict {
                    outcome: 0,
                    ..acked(1, None)
                },
                "OUTCOME_UNSPECIFIED",
            ),
            (
                v1::Verdict {
                    outcome: 99,
                    ..acked(1, None)
                },
                "OUTCOME_UNKNOWN",
            ),
            (acked(-1, None), "RANGE_INVALID"),
            (acked(5, Some(4)), "RANGE_INVALID"),
            (acked(5, Some(-4)), "RANGE_INVALID"),
            (
                v1::Verdict {
                    delivery: Some(0),
                    ..acked(1, None)
                },
                "DELIVERY_INVALID",
            ),
            (
                v1::Verdict {
                    code: "x".repeat(129),
                    ..acked(1, None)
                },
                "CODE_TOO_LONG",
            ),
            (
                v1::Verdict {
                    outcome: v1::Outcome::Failed.into(),
                    retry_after: duration(Duration::from_secs(3601)),
                    ..acked(1, None)
                },
                "RETRY_AFTER_OUT_OF_RANGE",
            ),
            (
                v1::Verdict {
                    retry_after: duration(Duration::from_secs(1)),
                    ..acked(1, None)
                },
                "RETRY_AFTER_WITHOUT_FAILED",
            ),
        ];
        for (wire, code) in bad {
            let settle = v1::Settle {
                sequence: 1,
                verdicts: vec![wire, acked(9, None)],
            };
            let (valid, refused) = verdicts(settle).expect("the message stands");
            assert_eq!(valid.len(), 1, "{code}");
            assert_eq!(refused.first().map(|answer| answer.result), Some(Err(code)));
        }
    }

    #[test]
    fn an_answer_in_parts_says_of_each_but_the_last_that_more_follow() {
        let answers = vec![refusal(1, 2, None, "RANGE_INVALID"); 95];
        let frames = settled(9, answers, 40 * ANSWER_BYTES);
        let parts: Vec<(u64, usize, bool)> = frames
            .into_iter()
            .map(|frame| match frame {
                Frame::Message(v1::SubscribeResponse {
                    response: Some(Response::Settled(part)),
                }) => (part.sequence, part.answers.len(), part.more),
                other @ (Frame::Message(_) | Frame::Batch(_)) => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(parts, [(9, 40, true), (9, 40, true), (9, 15, false)]);
    }

    #[test]
    fn more_verdicts_than_allowed_are_refused_as_a_whole() {
        let settle = |count| v1::Settle {
            sequence: 1,
            verdicts: vec![acked(1, None); count],
        };
        assert!(verdicts(settle(MAX_VERDICTS)).is_ok());
        assert!(verdicts(settle(MAX_VERDICTS + 1)).is_err());
    }

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
