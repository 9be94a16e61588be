//! Verdicts and extensions in, their answers out. A verdict that cannot be one is answered
//! alone and never mapped to a default; it never ends the stream.

use std::time::Duration;

use ackgate_lane::{Offset, OffsetRange, Target, Verdict, VerdictResult};
use ackgate_proto::{Frame, v1};
use tonic::Status;
use v1::subscribe_response::Response;

use super::printable;
use crate::{
    consumer::{LaneVerdict, VerdictAnswer},
    session::status::Reason,
};

/// Verdicts or extensions in one message.
pub(in crate::session) const MAX_VERDICTS: usize = 10_000;

const MAX_CODE: usize = 128;
const MAX_REASON: usize = 1024;

const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);
const MAX_EXTENSION: Duration = Duration::from_secs(600);

/// Checks verdicts: the valid ones, and the answers to the others.
pub(in crate::session) fn verdicts(
    wire: Vec<v1::Verdict>,
) -> Result<(Vec<LaneVerdict>, Vec<VerdictAnswer>), Status> {
    too_many(wire.len(), "verdicts")?;
    let mut valid = Vec::with_capacity(wire.len());
    let mut refused = Vec::new();
    for wire in wire {
        let (lane, first, last) = (wire.lane, wire.first_offset, wire.last_offset);
        match verdict(wire) {
            Ok(verdict) => valid.push(verdict),
            Err(detail) => refused.push(refusal(lane, first, last, detail)),
        }
    }
    Ok((valid, refused))
}

/// Valid extensions by lane, the answers to the others, and the time asked for.
pub(in crate::session) type Extensions = (Vec<(u64, OffsetRange)>, Vec<VerdictAnswer>, Duration);

/// Checks extensions.
pub(in crate::session) fn extensions(
    wire: Vec<v1::Extension>,
    by: Option<prost_types::Duration>,
) -> Result<Extensions, Status> {
    too_many(wire.len(), "extensions")?;
    let by = by
        .and_then(|by| Duration::try_from(by).ok())
        .filter(|by| !by.is_zero() && *by <= MAX_EXTENSION)
        .ok_or_else(|| {
            Reason::ExtensionOutOfRange.field("extend.by", "must be above 0 and at most 600 s")
        })?;
    let mut valid = Vec::with_capacity(wire.len());
    let mut refused = Vec::new();
    for wire in wire {
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

/// Bytes of one answer at most: five numbers of 10 bytes with their keys, a detail of
/// 32 bytes, and its length.
const ANSWER_BYTES: u64 = 100;

/// The answer to a `Settle` or an `Extend`, in as many messages as it takes to keep
/// each within what the subscriber accepts.
pub(in crate::session) fn settled(
    sequence: u64,
    answers: Vec<VerdictAnswer>,
    max_bytes: u64,
) -> Vec<Frame> {
    let per_frame = usize::try_from(max_bytes / ANSWER_BYTES)
        .unwrap_or(usize::MAX)
        .max(1);
    let answers = self::answers(answers);
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

/// Answers as they are sent.
pub(in crate::session) fn answers(answers: Vec<VerdictAnswer>) -> Vec<v1::VerdictAnswer> {
    answers.into_iter().filter_map(answer).collect()
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
                    retry_after: super::super::duration(Duration::from_secs(3601)),
                    ..acked(1, None)
                },
                "RETRY_AFTER_OUT_OF_RANGE",
            ),
            (
                v1::Verdict {
                    retry_after: super::super::duration(Duration::from_secs(1)),
                    ..acked(1, None)
                },
                "RETRY_AFTER_WITHOUT_FAILED",
            ),
        ];
        for (wire, code) in bad {
            let (valid, refused) =
                verdicts(vec![wire, acked(9, None)]).expect("the message stands");
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
        let of = |count| verdicts(vec![acked(1, None); count]);
        assert!(of(MAX_VERDICTS).is_ok());
        assert!(of(MAX_VERDICTS + 1).is_err());
    }
}
