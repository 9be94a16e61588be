//! What a `Pull` asks for, in words of the rest; and its opening as a stream's, so that
//! both are checked by the same rules.

use std::{collections::HashMap, time::Duration};

use ackgate_proto::v1;
use tonic::{Status, metadata::MetadataMap};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::{
    consumer::{Credit, Draw},
    session::status::Reason,
};

const MOST_RECORDS: u32 = 10_000;
const DEFAULT_RECORDS: u32 = 100;
const DEFAULT_BYTES: u64 = 1 << 20;
const LONGEST: Duration = Duration::from_secs(60);

/// How long partitions and a first look at them are waited for.
const LOOK_WITHIN: Duration = Duration::from_secs(30);

/// What is kept of a call's time for its answer's way: a tenth, and this at most.
const MOST_ON_THE_WAY: Duration = Duration::from_millis(500);

/// Checks how much is wanted, and for how long; `left`: the call's own time.
pub(super) fn draw(request: &v1::PullRequest, left: Option<Duration>) -> Result<Draw, Status> {
    let invalid = |field: &str, text| Reason::PullInvalid.field(&format!("pull.{field}"), text);
    let records = match request.max_records {
        0 => DEFAULT_RECORDS,
        some if some <= MOST_RECORDS => some,
        _ => return Err(invalid("max_records", "must be 0 or 1 to 10000")),
    };
    let bytes = match request.max_bytes {
        0 => DEFAULT_BYTES,
        some => some,
    };
    let span = |wire: &Option<prost_types::Duration>, field| match wire.map(Duration::try_from) {
        None => Ok(Duration::ZERO),
        Some(Ok(some)) if some <= LONGEST => Ok(some),
        Some(_) => Err(invalid(field, "must be 0 s to 60 s")),
    };
    let wait = span(&request.wait, "wait")?;
    let linger = span(&request.linger, "linger")?;
    let give_up = LOOK_WITHIN.max(wait) + linger;
    let left = left.map(|left| left.saturating_sub(MOST_ON_THE_WAY.min(left / 10)));
    Ok(Draw {
        most: Credit {
            records: u64::from(records),
            bytes,
        },
        wait,
        linger,
        give_up: left.map_or(give_up, |left| give_up.min(left)),
    })
}

/// The session that a first call opens.
pub(super) fn opening(request: v1::PullRequest) -> v1::Open {
    v1::Open {
        subscription: request.subscription,
        ad_hoc: request.ad_hoc,
        subscriber_id: request.subscriber_id,
        takeover: request.takeover,
        max_message_bytes: request.max_message_bytes,
        ack_deadline: request.ack_deadline,
        filter: request.filter,
        expect: request.expect,
        ..v1::Open::default()
    }
}

/// The same refusal with the fields as the caller knows them.
pub(super) fn in_words_of_pull(status: &Status) -> Status {
    let words = |text: &str| text.replace("open.", "pull.");
    let before = status.get_error_details();
    let mut details = ErrorDetails::new();
    if let Some(info) = before.error_info() {
        let none = HashMap::<String, String>::new();
        details.set_error_info(&info.reason, &info.domain, none);
    }
    if let Some(retry) = before.retry_info() {
        details.set_retry_info(retry.retry_delay);
    }
    for violation in before
        .bad_request()
        .iter()
        .flat_map(|bad| &bad.field_violations)
    {
        details.add_bad_request_violation(words(&violation.field), words(&violation.description));
    }
    Status::with_error_details(status.code(), words(status.message()), details)
}

/// The time that the caller gives the call, as gRPC carries it.
pub(in crate::session) fn time_left(metadata: &MetadataMap) -> Option<Duration> {
    let text = metadata.get("grpc-timeout")?.to_str().ok()?;
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u64 = number.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(number.saturating_mul(3600))),
        "M" => Some(Duration::from_secs(number.saturating_mul(60))),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_a_call_are_checked_with_their_fields() {
        let none = v1::PullRequest::default;
        let plain = draw(&none(), None).expect("nothing is asked");
        assert_eq!((plain.most.records, plain.most.bytes), (100, 1 << 20));
        assert_eq!((plain.wait, plain.linger), (Duration::ZERO, Duration::ZERO));
        let span = |seconds, nanos| Some(prost_types::Duration { seconds, nanos });
        let wrong = [
            (
                v1::PullRequest {
                    max_records: 10_001,
                    ..none()
                },
                "pull.max_records",
            ),
            (
                v1::PullRequest {
                    wait: span(60, 1),
                    ..none()
                },
                "pull.wait",
            ),
            (
                v1::PullRequest {
                    linger: span(-1, 0),
                    ..none()
                },
                "pull.linger",
            ),
        ];
        for (wire, field) in wrong {
            let status = draw(&wire, None).expect_err(field);
            assert!(status.message().contains(field), "{status:?}");
        }
    }

    #[test]
    fn answer_comes_before_the_calls_own_time_is_over() {
        let request = v1::PullRequest {
            wait: Some(prost_types::Duration {
                seconds: 60,
                nanos: 0,
            }),
            ..v1::PullRequest::default()
        };
        let within = |left| draw(&request, left).expect("valid").give_up;
        assert_eq!(within(None), Duration::from_secs(60));
        let ten = Duration::from_secs(10);
        assert_eq!(within(Some(ten)), ten - MOST_ON_THE_WAY);
        let short = Duration::from_millis(100);
        assert_eq!(within(Some(short)), Duration::from_millis(90));
    }

    #[test]
    fn time_of_a_call_is_read_in_every_unit_of_grpc() {
        let read = |text: &str| {
            let mut metadata = MetadataMap::new();
            metadata.insert("grpc-timeout", text.parse().expect("ascii"));
            time_left(&metadata)
        };
        assert_eq!(read("2M"), Some(Duration::from_secs(120)));
        assert_eq!(read("7S"), Some(Duration::from_secs(7)));
        assert_eq!(read("1500m"), Some(Duration::from_millis(1500)));
        assert_eq!(
            read("99999999H"),
            Some(Duration::from_secs(99_999_999 * 3600))
        );
        for wrong in ["", "S", "7", "7x", "-1S", "1.5S"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn refusal_of_an_opening_names_the_fields_of_the_call() {
        let open = Reason::OpenInvalid.field("open.ack_deadline", "must be 100 ms to 1 h");
        let pull = in_words_of_pull(&open);
        assert_eq!(pull.code(), open.code());
        assert_eq!(pull.message(), "pull.ack_deadline: must be 100 ms to 1 h");
        let details = pull.get_error_details();
        assert_eq!(
            details.error_info().map(|info| info.reason.as_str()),
            Some("OPEN_INVALID")
        );
        let bad = details.bad_request().expect("a violation");
        assert_eq!(bad.field_violations[0].field, "pull.ack_deadline");
    }
}
