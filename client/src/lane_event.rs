//! What the gateway says about lanes goes into the log: whoever waits for records that
//! do not come finds there why.

use ackgate_proto::v1::{LaneEvent, LaneEventKind as Kind};

/// Logs an event; one that keeps records back, or has lost or voided some, as a warning.
pub(crate) fn tell(event: &LaneEvent) {
    macro_rules! tell {
        ($level:ident) => {
            tracing::$level!(
                topic = event.topic,
                partition = event.partition,
                kind = event.kind().as_str_name(),
                first_offset = event.first_offset,
                last_offset = event.last_offset,
                detail = event.detail,
                "lane event"
            )
        };
    }
    match event.kind() {
        Kind::Held | Kind::LostRange | Kind::Reset | Kind::Fenced => tell!(warn),
        Kind::Unspecified
        | Kind::Assigned
        | Kind::Revoking
        | Kind::Revoked
        | Kind::Rewound
        | Kind::Recovered
        | Kind::Leased
        | Kind::Standby => tell!(info),
    }
}
