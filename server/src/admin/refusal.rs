//! Every way in which an operator's request is refused, as a gRPC status with a
//! stable reason code, beside those that sessions share with it.

use std::collections::HashMap;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::session::DOMAIN;

/// Why a request was refused. Each has a paragraph in the operator guide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A request that needs a subscription names none.
    SubscriptionRequired,
    /// A partition without its topic.
    TopicRequired,
    /// The lane is not this gateway's at the moment.
    LaneNotHere,
    /// The subscription's driver did not answer in time.
    SubscriptionBusy,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::SubscriptionRequired,
        Self::TopicRequired,
        Self::LaneNotHere,
        Self::SubscriptionBusy,
    ];

    /// The stable code.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::SubscriptionRequired => "SUBSCRIPTION_REQUIRED",
            Self::TopicRequired => "TOPIC_REQUIRED",
            Self::LaneNotHere => "LANE_NOT_HERE",
            Self::SubscriptionBusy => "SUBSCRIPTION_BUSY",
        }
    }

    const fn grpc(self) -> Code {
        match self {
            Self::SubscriptionRequired | Self::TopicRequired => Code::InvalidArgument,
            Self::LaneNotHere => Code::NotFound,
            Self::SubscriptionBusy => Code::Unavailable,
        }
    }

    /// Makes the status; `text` says what was wrong and what to do.
    #[must_use]
    pub fn status(self, text: impl Into<String>) -> Status {
        let mut details = ErrorDetails::new();
        details.set_error_info(self.code(), DOMAIN, HashMap::<String, String>::new());
        Status::with_error_details(self.grpc(), text, details)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_row_in_the_operator_guide_and_is_carried_by_its_status() {
        let guide = include_str!("../../README.md");
        for reason in Reason::ALL {
            let row = format!("| `{}` |", reason.code());
            assert!(guide.contains(&row), "{row}");
            let details = reason.status("why").get_error_details();
            let info = details.error_info().expect("an error info");
            assert_eq!(
                (info.reason.as_str(), info.domain.as_str()),
                (reason.code(), DOMAIN)
            );
        }
    }
}
