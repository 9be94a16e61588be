//! Lanes as subscribers see them: their batches and their news.

use ackgate_lane::Offset;
use ackgate_proto::{EncodedBatch, Frame, v1};
use v1::subscribe_response::Response;

use crate::consumer::{LaneNotice, NoticeKind, OutboundBatch};

/// An offset as the protocol carries it.
fn wire_offset(offset: Offset) -> i64 {
    i64::try_from(offset.get()).unwrap_or(i64::MAX)
}

/// A batch as a stream sends it.
pub(in crate::session) fn batch(batch: OutboundBatch) -> Frame {
    Frame::Batch(encoded_batch(batch))
}

/// A batch as it is sent: its records are encoded already.
pub(in crate::session) fn encoded_batch(batch: OutboundBatch) -> EncodedBatch {
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
    EncodedBatch {
        head: v1::Batch {
            lane: batch.lane.lane,
            topic: batch.lane.topic.to_string(),
            partition: batch.lane.partition,
            epoch: batch.lane.epoch,
            records: Vec::new(),
            redeliveries,
            traces: batch.traces,
        },
        records: batch.records,
    }
}

/// News of a lane as a stream sends them.
pub(in crate::session) fn notice(notice: LaneNotice) -> Frame {
    Response::LaneEvent(lane_event(notice)).into()
}

/// News of a lane.
pub(in crate::session) fn lane_event(notice: LaneNotice) -> v1::LaneEvent {
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
    v1::LaneEvent {
        lane: notice.lane.lane,
        topic: notice.lane.topic.to_string(),
        partition: notice.lane.partition,
        kind: kind.into(),
        first_offset: notice.range.map(|range| wire_offset(range.first())),
        last_offset: notice.range.map(|range| wire_offset(range.last())),
        detail: notice.detail,
    }
}
