//! A lane as the driver shows it becomes the protocol's.

use ackgate_lane::{Hold, Position};
use ackgate_proto::v1;
use prost_types::Timestamp;

use crate::consumer::{ShownLane, Standstill, Why};

/// One lane of `subscription`.
pub(super) fn lane(subscription: &str, shown: &ShownLane) -> v1::Lane {
    let (hold, detail, since) = hold(shown);
    let lane = &shown.lane;
    v1::Lane {
        subscription: subscription.to_owned(),
        topic: shown.label.topic.to_string(),
        partition: shown.label.partition,
        epoch: shown.label.epoch,
        floor: position(lane.floor),
        committed: position(lane.committed),
        head: position(shown.head),
        unsettled: lane.unsettled,
        out: lane.in_flight,
        delayed: lane.delayed,
        dead_lettering: lane.dead_lettering,
        parked: lane.parked,
        hold: hold.into(),
        hold_detail: detail,
        held_since: since.map(timestamp),
    }
}

fn hold(shown: &ShownLane) -> (v1::LaneHold, String, Option<i64>) {
    if let Some(Standstill {
        why,
        since_ms,
        detail,
    }) = &shown.standstill
    {
        let hold = match why {
            Why::DeadLetter => v1::LaneHold::DeadLetterBlocked,
            Why::Breaker => v1::LaneHold::BreakerOpen,
            Why::Unreadable => v1::LaneHold::Unreadable,
        };
        return (hold, detail.clone(), Some(*since_ms));
    }
    if let Some(Hold::Operator { offset }) = shown.lane.hold {
        let detail = format!(
            "the record at {} was given up, and on_reject is hold",
            offset.get()
        );
        return (v1::LaneHold::Rejected, detail, None);
    }
    (v1::LaneHold::Unspecified, String::new(), None)
}

/// Kafka's positions are signed; none is that large.
fn position(position: Option<Position>) -> Option<i64> {
    position.map(|position| i64::try_from(position.get()).unwrap_or(i64::MAX))
}

fn timestamp(ms: i64) -> Timestamp {
    let nanos = i32::try_from(ms.rem_euclid(1000) * 1_000_000);
    Timestamp {
        seconds: ms.div_euclid(1000),
        nanos: nanos.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_their_milliseconds() {
        let at = timestamp(1_700_000_000_123);
        assert_eq!((at.seconds, at.nanos), (1_700_000_000, 123_000_000));
        let before = timestamp(-1);
        assert_eq!((before.seconds, before.nanos), (-1, 999_000_000));
    }
}
