//! A lane as the driver shows it becomes the protocol's.

use ackgate_lane::Position;
use ackgate_proto::v1;
use prost_types::Timestamp;

use crate::consumer::{Reason, ReasonKind, ShownLane};

/// One lane of `subscription`.
pub(super) fn lane(subscription: &str, shown: &ShownLane) -> v1::Lane {
    let why = shown.why.as_ref();
    let (hold, words) = hold(why);
    let holds = hold != v1::LaneHold::Unspecified;
    let (detail, waits_for) = if holds {
        (words, String::new())
    } else {
        (String::new(), words)
    };
    let since = why.and_then(|why| why.since_ms).filter(|_| holds);
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
        waits_for,
        behind: lane.behind,
    }
}

/// Why it holds, and what it waits for otherwise.
fn hold(why: Option<&Reason>) -> (v1::LaneHold, String) {
    let Some(why) = why else {
        return (v1::LaneHold::Unspecified, String::new());
    };
    let hold = match why.kind {
        ReasonKind::DeadLetterBlocked => v1::LaneHold::DeadLetterBlocked,
        ReasonKind::BreakerOpen => v1::LaneHold::BreakerOpen,
        ReasonKind::Rejected => v1::LaneHold::Rejected,
        ReasonKind::Unreadable => v1::LaneHold::Unreadable,
        ReasonKind::Unanswered | ReasonKind::Undelivered => v1::LaneHold::Stalled,
        ReasonKind::GroupFenced | ReasonKind::GroupSilent => v1::LaneHold::GroupSilent,
        ReasonKind::Draining
        | ReasonKind::Cohort
        | ReasonKind::SubscriberAway
        | ReasonKind::Backoff
        | ReasonKind::Seeking
        | ReasonKind::DeadLetterUnderWay
        | ReasonKind::NoLanes
        | ReasonKind::NoSubscriber
        | ReasonKind::NoCredit
        | ReasonKind::Lease
        | ReasonKind::WindowFull
        | ReasonKind::MinAge
        | ReasonKind::Memory
        | ReasonKind::BehindKey => return (v1::LaneHold::Unspecified, why.text.clone()),
    };
    (hold, why.text.clone())
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
    use crate::consumer::Weight;

    #[test]
    fn what_waits_holds_not_and_what_holds_has_its_own_word() {
        for kind in ReasonKind::ALL {
            let why = Reason {
                kind,
                offset: None,
                since_ms: None,
                text: "why".to_owned(),
            };
            let (said, words) = hold(Some(&why));
            let expected = match kind.code() {
                "unanswered" | "undelivered" => "LANE_HOLD_STALLED".to_owned(),
                "group-fenced" => "LANE_HOLD_GROUP_SILENT".to_owned(),
                _ if kind.weight() == Weight::Waits => "LANE_HOLD_UNSPECIFIED".to_owned(),
                code => format!("LANE_HOLD_{}", code.replace('-', "_").to_uppercase()),
            };
            assert_eq!(said.as_str_name(), expected);
            assert_eq!(words, "why");
        }
    }

    #[test]
    fn times_keep_their_milliseconds() {
        let at = timestamp(1_700_000_000_123);
        assert_eq!((at.seconds, at.nanos), (1_700_000_000, 123_000_000));
        let before = timestamp(-1);
        assert_eq!((before.seconds, before.nanos), (-1, 999_000_000));
    }
}
