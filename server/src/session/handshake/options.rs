//! Options of a subscription as the protocol has them, to wishes as the configuration
//! has them. Their ranges are the configuration's business.

use std::time::Duration;

use ackgate_proto::v1;
use tonic::Status;
use v1::start::At;

use crate::{
    config::{StartAt, Wish, Wishes},
    session::status::Reason,
};

/// Longest text of an option.
const LONGEST_TEXT: usize = 4096;

/// The protocol's name of an option of the configuration.
pub(super) fn field(option: &str) -> &str {
    match option {
        "dead_letter.topic" => "dead_letter_topic",
        same => same,
    }
}

/// What `options`, sent in the field `of`, ask for.
pub(super) fn wishes(options: v1::SubscriptionOptions, of: &str) -> Result<Wishes, Status> {
    let invalid =
        |field: &str, text: &str| Reason::OptionsInvalid.field(&format!("{of}.{field}"), text);
    let v1::SubscriptionOptions {
        delivery,
        order,
        start,
        ack_deadline,
        max_attempts,
        max_deliveries,
        on_reject,
        dead_letter_topic,
        filter,
        min_age,
    } = options;
    let start = start.map(begin).transpose();
    let start = start.map_err(|why| invalid("start", why))?;
    let span = |field, wire: Option<prost_types::Duration>| {
        let span = wire.map(Duration::try_from).transpose();
        span.map_err(|_negative| invalid(field, "must not be negative"))
    };
    for (field, text) in [
        ("dead_letter_topic", &dead_letter_topic),
        ("filter", &filter),
    ] {
        if text.as_ref().is_some_and(|text| text.len() > LONGEST_TEXT) {
            return Err(invalid(field, "must have at most 4096 bytes"));
        }
    }
    let word = |word: Known, field| match word {
        Ok(word) => Ok(word.map(|word| Wish::Text(word.to_owned()))),
        Err(_unknown) => Err(invalid(field, "is not a known value")),
    };
    let asked = [
        ("delivery", word(delivery_word(delivery), "delivery")?),
        ("order", word(order_word(order), "order")?),
        ("start", start.map(Wish::Start)),
        (
            "ack_deadline",
            span("ack_deadline", ack_deadline)?.map(Wish::Span),
        ),
        ("max_attempts", max_attempts.map(Wish::Number)),
        ("max_deliveries", max_deliveries.map(Wish::Number)),
        ("on_reject", word(on_reject_word(on_reject), "on_reject")?),
        ("dead_letter.topic", dead_letter_topic.map(Wish::Text)),
        ("filter", filter.map(Wish::Text)),
        ("min_age", span("min_age", min_age)?.map(Wish::Span)),
    ];
    let mut wishes = Wishes::default();
    for (option, wish) in asked {
        if let Some(wish) = wish {
            wishes.ask(option, wish);
        }
    }
    Ok(wishes)
}

/// The configuration's word for a value of an enum; `None` if nothing is asked for.
type Known = Result<Option<&'static str>, prost::UnknownEnumValue>;

fn delivery_word(wire: i32) -> Known {
    Ok(match v1::Delivery::try_from(wire)? {
        v1::Delivery::Unspecified => None,
        v1::Delivery::Competing => Some("competing"),
        v1::Delivery::Broadcast => Some("broadcast"),
    })
}

fn order_word(wire: i32) -> Known {
    Ok(match v1::Order::try_from(wire)? {
        v1::Order::Unspecified => None,
        v1::Order::None => Some("none"),
        v1::Order::Key => Some("key"),
        v1::Order::Lane => Some("lane"),
    })
}

fn on_reject_word(wire: i32) -> Known {
    Ok(match v1::OnReject::try_from(wire)? {
        v1::OnReject::Unspecified => None,
        v1::OnReject::DeadLetter => Some("dead_letter"),
        v1::OnReject::Drop => Some("drop"),
        v1::OnReject::Hold => Some("hold"),
    })
}

/// Where a group begins, or what is wrong with it.
fn begin(wire: v1::Start) -> Result<StartAt, &'static str> {
    match wire.at.ok_or("must say where: at is not set")? {
        At::Earliest(v1::StartEarliest {}) => Ok(StartAt::Earliest),
        At::Latest(v1::StartLatest {}) => Ok(StartAt::Latest),
        At::Fail(v1::StartFail {}) => Ok(StartAt::Fail),
        At::Timestamp(time) => millis(time)
            .map(StartAt::Timestamp)
            .ok_or("must be a time from 1970 on"),
    }
}

fn millis(time: prost_types::Timestamp) -> Option<i64> {
    let seconds = time.seconds.checked_mul(1000)?;
    let millis = seconds.checked_add(i64::from(time.nanos) / 1_000_000)?;
    (millis >= 0).then_some(millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_is_a_wish_for_one_of_the_configuration() {
        let none = v1::SubscriptionOptions::default;
        let span = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
        let text = |text: &str| Wish::Text(text.to_owned());
        let start = v1::Start {
            at: Some(At::Timestamp(prost_types::Timestamp {
                seconds: 1,
                nanos: 999_999_999,
            })),
        };
        let all = v1::SubscriptionOptions {
            delivery: v1::Delivery::Broadcast.into(),
            order: v1::Order::Lane.into(),
            start: Some(start),
            ack_deadline: span(7),
            max_attempts: Some(0),
            max_deliveries: Some(9),
            on_reject: v1::OnReject::Hold.into(),
            dead_letter_topic: Some("dead".to_owned()),
            filter: Some(String::new()),
            min_age: span(0),
        };
        let asked = wishes(all, "open.expect").expect("they are well formed");
        for (option, wish) in [
            ("delivery", text("broadcast")),
            ("order", text("lane")),
            ("start", Wish::Start(StartAt::Timestamp(1_999))),
            ("ack_deadline", Wish::Span(Duration::from_secs(7))),
            ("max_attempts", Wish::Number(0)),
            ("max_deliveries", Wish::Number(9)),
            ("on_reject", text("hold")),
            ("dead_letter.topic", text("dead")),
            ("filter", text("")),
            ("min_age", Wish::Span(Duration::ZERO)),
        ] {
            assert_eq!(asked.of(option), Some(&wish), "{option}");
        }
        let nothing = wishes(none(), "open.expect").expect("nothing is asked");
        assert_eq!(nothing, Wishes::default());
    }

    #[test]
    fn what_cannot_be_an_option_is_refused_with_its_field() {
        let none = v1::SubscriptionOptions::default;
        let long = Some("x".repeat(LONGEST_TEXT + 1));
        let at = |seconds, nanos| {
            let at = At::Timestamp(prost_types::Timestamp { seconds, nanos });
            Some(v1::Start { at: Some(at) })
        };
        let negative = Some(prost_types::Duration {
            seconds: -1,
            nanos: 0,
        });
        #[rustfmt::skip]
        let wrong = [
            ("delivery", v1::SubscriptionOptions { delivery: 99, ..none() }),
            ("order", v1::SubscriptionOptions { order: 99, ..none() }),
            ("on_reject", v1::SubscriptionOptions { on_reject: -1, ..none() }),
            ("start", v1::SubscriptionOptions { start: Some(v1::Start { at: None }), ..none() }),
            ("start", v1::SubscriptionOptions { start: at(-1, 0), ..none() }),
            ("start", v1::SubscriptionOptions { start: at(i64::MAX, 0), ..none() }),
            ("ack_deadline", v1::SubscriptionOptions { ack_deadline: negative, ..none() }),
            ("min_age", v1::SubscriptionOptions { min_age: negative, ..none() }),
            ("dead_letter_topic", v1::SubscriptionOptions { dead_letter_topic: long.clone(), ..none() }),
            ("filter", v1::SubscriptionOptions { filter: long, ..none() }),
        ];
        for (field, options) in wrong {
            let status = wishes(options, "open.expect").expect_err(field);
            let named = format!("open.expect.{field}");
            assert!(status.message().contains(&named), "{status:?}");
        }
    }
}
