//! Ages, filter and content: what is valid, and what contradicts what.

use std::time::Duration;

use ackgate_lane::OnExpired;

use super::{LEAST, load_with, messages, orders, with};
use crate::config::{Check, Content, Intake, MaxAge, OnFailure};

fn intake(lines: &str) -> Intake {
    let mut config = load_with(&orders(lines), &[]).unwrap_or_else(|e| panic!("{lines}: {e:?}"));
    config.subscriptions.remove(0).intake
}

fn only(lines: &str, expected: &str) {
    let messages = messages(&orders(lines), &[]);
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert!(messages[0].ends_with(expected), "{messages:?}");
}

#[test]
fn without_options_every_record_is_handed_out_at_once() {
    let idle = intake("");
    assert_eq!(idle, Intake::default());
    assert!(idle.is_idle());
    assert_eq!(intake("content.check = 'none'\nmin_age = '0s'"), idle);
    let deliver = intake("content.check = 'json'\ncontent.on_failure = 'deliver'");
    assert!(!deliver.is_idle());
}

#[test]
fn every_option_is_read() {
    let read = intake(
        "min_age = '1m'\nmax_age = '1d'\nfilter = \"\"\"\n  key == 'a'\n\"\"\"\ncontent.check = 'msgpack'\n\
         content.on_failure = 'skip'",
    );
    assert_eq!(read.min_age, Duration::from_secs(60));
    let max_age = MaxAge {
        age: Duration::from_secs(86_400),
        then: OnExpired::DeadLetter,
    };
    assert_eq!(read.max_age, Some(max_age));
    assert_eq!(read.filter.expect("a filter").source(), "key == 'a'");
    let content = Content {
        check: Check::Msgpack,
        on_failure: OnFailure::Skip,
    };
    assert_eq!(read.content, Some(content));
}

#[test]
fn expired_records_go_where_rejected_ones_go_unless_told_otherwise() {
    let drops = with(
        "dead_letter.topic = \"orders.dead\"",
        "on_reject = \"drop\"",
    );
    let load = |text: &str| {
        let config = load_with(text, &[]).expect("valid");
        config.subscriptions[0].intake.max_age.map(|max| max.then)
    };
    let max_age = "max_age = '1s'\n";
    assert_eq!(
        load(&format!("{LEAST}{max_age}")),
        Some(OnExpired::DeadLetter)
    );
    assert_eq!(load(&format!("{drops}{max_age}")), Some(OnExpired::Drop));
    let drop = format!("{LEAST}{max_age}on_expired = 'drop'");
    assert_eq!(load(&drop), Some(OnExpired::Drop));
    let letters = "on_expired = 'dead_letter'\ndead_letter.topic = 'orders.old'";
    assert_eq!(
        load(&format!("{drops}{max_age}{letters}")),
        Some(OnExpired::DeadLetter)
    );
    let nowhere = messages(&format!("{drops}{max_age}on_expired = 'dead_letter'"), &[]);
    assert_eq!(nowhere.len(), 1, "{nowhere:?}");
    assert!(
        nowhere[0].contains("dead_letter.topic: is missing: on_expired = \"dead_letter\" writes"),
        "{nowhere:?}"
    );
    let useless = messages(&format!("{drops}{max_age}dead_letter.topic = 'x'"), &[]);
    assert!(
        useless[0].contains("would never be written to"),
        "{useless:?}"
    );
}

#[test]
fn ages_are_in_range_and_do_not_contradict() {
    only(
        "min_age = '2s'\nmax_age = '2s'",
        "max_age = \"2s\": must be above min_age, which is 2s: every record would be too old when \
         it may go out",
    );
    only(
        "on_expired = 'drop'",
        "on_expired = \"drop\": has a meaning with max_age only: without it no record is too old",
    );
    only(
        "min_age = '31d'",
        "min_age = \"31d\": must be a duration from 0s to 30days with its unit, such as \"30s\" or \
         \"500ms\"",
    );
    only(
        "max_age = '0s'",
        "max_age = \"0s\": must be a duration from 1ms to 10years with its unit, such as \"30s\" or \"500ms\"",
    );
    only(
        "content.on_failure = 'skip'",
        "content.on_failure = \"skip\": has a meaning with content.check only: set it to \"utf8\", \
         \"json\" or \"msgpack\"",
    );
}

#[test]
fn a_filter_that_does_not_compile_is_told_with_its_place() {
    only(
        "filter = \"key == 'a' && kind == 'b'\"",
        "is no filter: line 1, column 15: no name \"kind\"; there are topic, partition, offset, \
         timestamp, key, headers",
    );
    let messages = messages(&orders("filter = \"key ==\""), &[]);
    assert!(
        messages[0].contains("is no filter: line 1, column 7: Syntax error")
            && messages[0].contains("expecting"),
        "{messages:?}"
    );
    only(
        "filter = 3",
        "must be an expression of at most 4096 bytes, and is an integer",
    );
}

#[test]
fn a_filter_from_elsewhere_is_not_quoted_in_a_message() {
    let text = orders("filter = { env = 'SECRET_FILTER' }");
    let messages = messages(&text, &[("SECRET_FILTER", "key == hunter2")]);
    assert_eq!(messages.len(), 1);
    assert!(!messages[0].contains("hunter2"), "{messages:?}");
    assert!(
        messages[0].contains("is no filter, at line 1, column 8"),
        "{messages:?}"
    );
}
