//! Every way in which a stream is refused or ended, as a gRPC status with a stable
//! reason code. The only place where one is made.

use std::{collections::HashMap, time::Duration};

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

/// Domain of the reasons in `google.rpc.ErrorInfo`.
pub const DOMAIN: &str = "ackgate";

/// When a refused subscriber may try again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Most of a status's text in bytes. It travels twice, once three bytes for one where it is
/// not ASCII, and once four for three.
const MOST_TEXT: usize = 800;

/// Most of what the fields of a status say, all together: some clients refuse a status of
/// more than 8 KiB, and with it the reason.
const MOST_VIOLATIONS: usize = 1600;

/// Where a text was cut.
const CUT: char = '…';

/// Why a stream was refused or ended. Each has a paragraph in the operator guide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The first message was not `Open`.
    OpenExpected,
    /// No first message came in time.
    OpenTimeout,
    /// A second `Open`.
    AlreadyOpen,
    /// A field of `Open` is out of range.
    OpenInvalid,
    /// A message without any request, as one of a newer protocol.
    EmptyRequest,
    /// No subscription of this name.
    UnknownSubscription,
    /// A question about the health of a service that is not here.
    UnknownHealthService,
    /// An option of `Open` contradicts what the running subscription has.
    OptionsContradict,
    /// A credit above the limits.
    CreditOutOfRange,
    /// More verdicts or extensions in one message than allowed; none was applied.
    TooManyVerdicts,
    /// An extension of 0, or of more than is allowed.
    ExtensionOutOfRange,
    /// The input ended without `Close`: what was out comes again.
    InputEnded,
    /// The input could not be read: what was out comes again.
    InputBroken,
    /// The subscriber does not read what it is sent.
    NotReading,
    /// The verdicts of one message had more different answers than allowed.
    TooManyAnswers,
    /// Nothing may be opened without a subscription of the configuration.
    AdHocOff,
    /// The configuration does not allow this cluster, topic or group.
    AdHocDenied,
    /// No cluster of this name.
    UnknownCluster,
    /// An ad hoc opening without topics.
    TopicsEmpty,
    /// An ad hoc opening with more topics than allowed.
    TooManyTopics,
    /// What cannot be a topic.
    TopicInvalid,
    /// What cannot be a consumer group.
    GroupInvalid,
    /// The group reads another set of topics.
    GroupTaken,
    /// An earlier subscription of the group has not left it yet.
    GroupLeaving,
    /// As many ad hoc subscriptions as are allowed.
    TooManyAdHoc,
    /// Options of a subscription that cannot stand.
    OptionsInvalid,
    /// The client library refuses the settings.
    SettingsRefused,
    /// Another stream of the subscriber's name is attached.
    SubscriberIdInUse,
    /// A later stream or session of the subscriber took this one's place.
    Superseded,
    /// A manifest of more runs than allowed.
    ManifestTooLarge,
    /// The subscriber kept a window full for too long without a verdict.
    SlowSubscriber,
    /// As many durable confirmations wait for Kafka as may, and have for long.
    CommitsStalled,
    /// The configuration lets nobody write to the cluster.
    PublishOff,
    /// Several clusters take records and none was named.
    ClusterAmbiguous,
    /// A message of a publisher without records, or with more than allowed; none was taken.
    RecordsOutOfRange,
    /// A message larger than the gateway reads.
    MessageTooLarge,
    /// A field of a call without a stream is out of range.
    PullInvalid,
    /// No such session here.
    PullSessionUnknown,
    /// The session has such a call already.
    PullInProgress,
    /// As many sessions without a stream as are allowed.
    TooManyPullSessions,
    /// Whether there are records could not be seen in time.
    NotReady,
    /// The gateway stops.
    ShuttingDown,
    /// The connection is as old as it may become.
    ConnectionAged,
    /// A call over gRPC-Web that sends a stream.
    WebStream,
    /// A message, or the request of a call, that did not become whole in time.
    RequestTooSlow,
    /// A call without a token, where one is needed.
    TokenMissing,
    /// A token that is none of the gateway's.
    TokenUnknown,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 47] = [
        Self::OpenExpected,
        Self::OpenTimeout,
        Self::AlreadyOpen,
        Self::OpenInvalid,
        Self::EmptyRequest,
        Self::UnknownSubscription,
        Self::UnknownHealthService,
        Self::OptionsContradict,
        Self::CreditOutOfRange,
        Self::TooManyVerdicts,
        Self::ExtensionOutOfRange,
        Self::InputEnded,
        Self::InputBroken,
        Self::NotReading,
        Self::TooManyAnswers,
        Self::AdHocOff,
        Self::AdHocDenied,
        Self::UnknownCluster,
        Self::TopicsEmpty,
        Self::TooManyTopics,
        Self::TopicInvalid,
        Self::GroupInvalid,
        Self::GroupTaken,
        Self::GroupLeaving,
        Self::TooManyAdHoc,
        Self::OptionsInvalid,
        Self::SettingsRefused,
        Self::SubscriberIdInUse,
        Self::Superseded,
        Self::ManifestTooLarge,
        Self::SlowSubscriber,
        Self::CommitsStalled,
        Self::PublishOff,
        Self::ClusterAmbiguous,
        Self::RecordsOutOfRange,
        Self::MessageTooLarge,
        Self::PullInvalid,
        Self::PullSessionUnknown,
        Self::PullInProgress,
        Self::TooManyPullSessions,
        Self::NotReady,
        Self::ShuttingDown,
        Self::ConnectionAged,
        Self::WebStream,
        Self::RequestTooSlow,
        Self::TokenMissing,
        Self::TokenUnknown,
    ];

    /// The stable code.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::OpenExpected => "OPEN_EXPECTED",
            Self::OpenTimeout => "OPEN_TIMEOUT",
            Self::AlreadyOpen => "ALREADY_OPEN",
            Self::OpenInvalid => "OPEN_INVALID",
            Self::EmptyRequest => "EMPTY_REQUEST",
            Self::UnknownSubscription => "UNKNOWN_SUBSCRIPTION",
            Self::UnknownHealthService => "UNKNOWN_HEALTH_SERVICE",
            Self::OptionsContradict => "OPTIONS_CONTRADICT",
            Self::CreditOutOfRange => "CREDIT_OUT_OF_RANGE",
            Self::TooManyVerdicts => "TOO_MANY_VERDICTS",
            Self::ExtensionOutOfRange => "EXTENSION_OUT_OF_RANGE",
            Self::InputEnded => "INPUT_ENDED",
            Self::InputBroken => "INPUT_BROKEN",
            Self::NotReading => "NOT_READING",
            Self::TooManyAnswers => "TOO_MANY_ANSWERS",
            Self::AdHocOff => "AD_HOC_OFF",
            Self::AdHocDenied => "AD_HOC_DENIED",
            Self::UnknownCluster => "UNKNOWN_CLUSTER",
            Self::TopicsEmpty => "TOPICS_EMPTY",
            Self::TooManyTopics => "TOO_MANY_TOPICS",
            Self::TopicInvalid => "TOPIC_INVALID",
            Self::GroupInvalid => "GROUP_INVALID",
            Self::GroupTaken => "GROUP_TAKEN",
            Self::GroupLeaving => "GROUP_LEAVING",
            Self::TooManyAdHoc => "TOO_MANY_AD_HOC",
            Self::OptionsInvalid => "OPTIONS_INVALID",
            Self::SettingsRefused => "SETTINGS_REFUSED",
            Self::SubscriberIdInUse => "SUBSCRIBER_ID_IN_USE",
            Self::Superseded => "SUPERSEDED",
            Self::ManifestTooLarge => "MANIFEST_TOO_LARGE",
            Self::SlowSubscriber => "SLOW_SUBSCRIBER",
            Self::CommitsStalled => "COMMITS_STALLED",
            Self::PublishOff => "PUBLISH_OFF",
            Self::ClusterAmbiguous => "CLUSTER_AMBIGUOUS",
            Self::RecordsOutOfRange => "RECORDS_OUT_OF_RANGE",
            Self::MessageTooLarge => "MESSAGE_TOO_LARGE",
            Self::PullInvalid => "PULL_INVALID",
            Self::PullSessionUnknown => "PULL_SESSION_UNKNOWN",
            Self::PullInProgress => "PULL_IN_PROGRESS",
            Self::TooManyPullSessions => "TOO_MANY_PULL_SESSIONS",
            Self::NotReady => "NOT_READY",
            Self::ShuttingDown => "SHUTTING_DOWN",
            Self::ConnectionAged => "CONNECTION_AGED",
            Self::WebStream => "WEB_STREAM",
            Self::RequestTooSlow => "REQUEST_TOO_SLOW",
            Self::TokenMissing => "TOKEN_MISSING",
            Self::TokenUnknown => "TOKEN_UNKNOWN",
        }
    }

    const fn grpc(self) -> Code {
        match self {
            Self::OpenExpected
            | Self::OpenInvalid
            | Self::EmptyRequest
            | Self::CreditOutOfRange
            | Self::ExtensionOutOfRange
            | Self::TopicsEmpty
            | Self::TooManyTopics
            | Self::TopicInvalid
            | Self::GroupInvalid
            | Self::OptionsInvalid
            | Self::ClusterAmbiguous
            | Self::RecordsOutOfRange
            | Self::MessageTooLarge
            | Self::PullInvalid => Code::InvalidArgument,
            Self::AlreadyOpen
            | Self::GroupTaken
            | Self::OptionsContradict
            | Self::SettingsRefused => Code::FailedPrecondition,
            Self::AdHocOff | Self::AdHocDenied | Self::PublishOff => Code::PermissionDenied,
            Self::OpenTimeout | Self::RequestTooSlow => Code::DeadlineExceeded,
            Self::UnknownSubscription
            | Self::UnknownHealthService
            | Self::UnknownCluster
            | Self::PullSessionUnknown => Code::NotFound,
            Self::TooManyVerdicts
            | Self::NotReading
            | Self::TooManyAnswers
            | Self::TooManyAdHoc
            | Self::ManifestTooLarge
            | Self::SlowSubscriber
            | Self::TooManyPullSessions => Code::ResourceExhausted,
            Self::SubscriberIdInUse => Code::AlreadyExists,
            Self::InputEnded => Code::Cancelled,
            Self::InputBroken | Self::Superseded | Self::PullInProgress => Code::Aborted,
            Self::CommitsStalled
            | Self::ShuttingDown
            | Self::ConnectionAged
            | Self::GroupLeaving
            | Self::NotReady => Code::Unavailable,
            Self::WebStream => Code::Unimplemented,
            Self::TokenMissing | Self::TokenUnknown => Code::Unauthenticated,
        }
    }

    /// Makes the status; `text` says what was wrong and what to do, and holds
    /// nothing internal.
    #[must_use]
    pub fn status(self, text: impl Into<String>) -> Status {
        self.made(&text.into(), [])
    }

    /// As [`Self::status`], naming the field that is wrong.
    #[must_use]
    pub fn field(self, field: &str, text: &str) -> Status {
        let violation = (field.to_owned(), text.to_owned());
        self.made(&format!("{field}: {text}"), [violation])
    }

    /// As [`Self::field`], for several fields at once.
    #[must_use]
    pub fn fields(self, violations: impl IntoIterator<Item = (String, String)>) -> Status {
        let violations: Vec<(String, String)> = violations.into_iter().collect();
        let words = violations
            .iter()
            .map(|(field, text)| format!("{field}: {text}"));
        self.made(&words.collect::<Vec<_>>().join("; "), violations)
    }

    fn made(self, text: &str, violations: impl IntoIterator<Item = (String, String)>) -> Status {
        let mut details = ErrorDetails::new();
        details.set_error_info(self.code(), DOMAIN, HashMap::<String, String>::new());
        // Another connection is as good at once.
        let later = matches!(self.grpc(), Code::Unavailable) && self != Self::ConnectionAged;
        if later || self == Self::TooManyPullSessions {
            details.set_retry_info(Some(RETRY_AFTER));
        }
        let mut room = MOST_VIOLATIONS;
        for (field, text) in violations {
            let (field, text) = (plain(&field, MOST_TEXT), plain(&text, MOST_TEXT));
            let Some(left) = room.checked_sub(field.len() + text.len()) else {
                break;
            };
            room = left;
            details.add_bad_request_violation(field, text);
        }
        Status::with_error_details(self.grpc(), plain(text, MOST_TEXT), details)
    }
}

/// `text` on one line, at most so many bytes of it: what came from a client, a record or
/// Kafka travels as it is, but for characters that are none to be read.
fn plain(text: &str, most: usize) -> String {
    let mut plain = String::with_capacity(text.len().min(most));
    for character in text.chars() {
        let character = if character.is_control() {
            ' '
        } else {
            character
        };
        if plain.len() + character.len_utf8() + CUT.len_utf8() > most {
            plain.push(CUT);
            break;
        }
        plain.push(character);
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_code_of_its_own_that_the_status_carries() {
        let mut codes: Vec<&str> = Reason::ALL.iter().map(|reason| reason.code()).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), Reason::ALL.len());
        for reason in Reason::ALL {
            let status = reason.status("why");
            let details = status.get_error_details();
            let info = details.error_info().expect("an error info");
            assert_eq!(
                (info.reason.as_str(), info.domain.as_str()),
                (reason.code(), DOMAIN)
            );
            assert_ne!(status.code(), Code::Internal);
        }
    }

    #[test]
    fn operator_guide_has_a_row_for_every_reason() {
        let guide = include_str!("../../README.md");
        for reason in Reason::ALL {
            let row = format!("| `{}` |", reason.code());
            assert!(guide.contains(&row), "{row}");
        }
    }

    /// `proto/README.md` tells clients whether to try again, by this rule alone.
    #[test]
    fn guide_of_the_protocol_has_a_row_for_every_reason() {
        let guide = include_str!("../../../proto/README.md");
        for reason in Reason::ALL {
            let (status, again) = match reason.grpc() {
                Code::InvalidArgument => ("INVALID_ARGUMENT", false),
                Code::NotFound => ("NOT_FOUND", false),
                Code::PermissionDenied => ("PERMISSION_DENIED", false),
                Code::Unauthenticated => ("UNAUTHENTICATED", false),
                Code::FailedPrecondition => ("FAILED_PRECONDITION", false),
                Code::AlreadyExists => ("ALREADY_EXISTS", true),
                Code::Cancelled => ("CANCELLED", true),
                Code::DeadlineExceeded => ("DEADLINE_EXCEEDED", true),
                Code::ResourceExhausted => ("RESOURCE_EXHAUSTED", true),
                Code::Aborted => ("ABORTED", reason != Reason::Superseded),
                Code::Unavailable => ("UNAVAILABLE", true),
                Code::Unimplemented => ("UNIMPLEMENTED", false),
                other @ (Code::Ok
                | Code::Unknown
                | Code::OutOfRange
                | Code::Internal
                | Code::DataLoss) => panic!("{other:?} is not in the guide's rule"),
            };
            let again = if again { "yes" } else { "no" };
            let row = format!("| `{}` | {status} | {again} | ", reason.code());
            assert!(guide.contains(&row), "{row}");
        }
    }

    /// What a client counts of a status: names and values of its headers.
    fn weight(status: Status) -> usize {
        let headers = status.into_http::<()>().into_parts().0.headers;
        let lines = headers.iter();
        lines
            .map(|(name, value)| name.as_str().len() + value.len() + 32)
            .sum()
    }

    #[test]
    fn status_is_small_and_readable_whatever_it_says() {
        let long = "я😀\n\0\u{7f}".repeat(2000);
        let fields = (0..100).map(|n| (format!("{n}.{long}"), long.clone()));
        for status in [
            Reason::OpenInvalid.status(long.clone()),
            Reason::OpenInvalid.field(&long, &long),
            Reason::OptionsInvalid.fields(fields),
            Reason::ShuttingDown.status(long.clone()),
        ] {
            let text = status.message().to_owned();
            assert!(text.contains("я😀") && text.ends_with(CUT), "{text}");
            assert!(!text.contains(char::is_control), "{text}");
            let headers = status.clone().into_http::<()>().into_parts().0.headers;
            let read = Status::from_header_map(&headers).expect("a status");
            assert_eq!(read.message(), text, "it arrives as it is");
            let reason = read
                .get_error_details()
                .error_info()
                .map(|it| it.reason.clone());
            assert!(reason.is_some(), "with its reason");
            let weight = weight(status);
            assert!(weight < 7 * 1024, "{weight} bytes");
        }
        let short = Reason::OpenInvalid.field("open.ёж", "is no name");
        assert_eq!(short.message(), "open.ёж: is no name");
        assert_eq!(
            short
                .get_error_details()
                .bad_request()
                .map(|it| it.field_violations.len()),
            Some(1)
        );
    }

    #[test]
    fn refusals_during_a_stop_say_when_to_try_again() {
        let details = Reason::ShuttingDown.status("stopping").get_error_details();
        assert_eq!(
            details.retry_info().and_then(|info| info.retry_delay),
            Some(RETRY_AFTER)
        );
    }
}
