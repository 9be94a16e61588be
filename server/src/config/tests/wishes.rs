//! What an opening asks for beside what runs: each option by itself.

use std::time::Duration;

use super::{LEAST, load_with, orders};
use crate::config::{Contradiction, StartAt, Subscription, Wish, Wishes};

fn running() -> Subscription {
    let options = "ack_deadline = '20s'\nmax_attempts = 3\nmax_deliveries = 7\nmin_age = '1m'\n\
                   filter = \" key == 'a' \"";
    let mut config = load_with(&orders(options), &[]).expect("it is valid");
    config.subscriptions.remove(0)
}

fn text(text: &str) -> Wish {
    Wish::Text(text.to_owned())
}

fn asked(option: &'static str, wish: Wish) -> Wishes {
    let mut wishes = Wishes::default();
    wishes.ask(option, wish);
    wishes
}

/// Option, what runs, another wish, and both in words.
fn cases() -> Vec<(&'static str, Wish, Wish, [&'static str; 2])> {
    let seconds = |seconds| Wish::Span(Duration::from_secs(seconds));
    vec![
        (
            "delivery",
            text("competing"),
            text("broadcast"),
            ["broadcast", "competing"],
        ),
        ("order", text("none"), text("lane"), ["lane", "none"]),
        ("order", text("none"), text("key"), ["key", "none"]),
        (
            "start",
            Wish::Start(StartAt::Earliest),
            Wish::Start(StartAt::Latest),
            ["latest", "earliest"],
        ),
        ("ack_deadline", seconds(20), seconds(21), ["21s", "20s"]),
        ("max_attempts", Wish::Number(3), Wish::Number(4), ["4", "3"]),
        (
            "max_deliveries",
            Wish::Number(7),
            Wish::Number(6),
            ["6", "7"],
        ),
        (
            "on_reject",
            text("dead_letter"),
            text("drop"),
            ["drop", "dead_letter"],
        ),
        (
            "dead_letter.topic",
            text("orders.dead"),
            text("x"),
            ["x", "orders.dead"],
        ),
        ("min_age", seconds(60), seconds(0), ["0s", "1m"]),
        (
            "filter",
            text("key == 'a'\n"),
            text("key == 'b'"),
            ["\"key == 'b'\"", "\"key == 'a'\""],
        ),
        (
            "filter",
            text("key == 'a'"),
            text(" "),
            ["none", "\"key == 'a'\""],
        ),
    ]
}

#[test]
fn what_runs_as_asked_contradicts_nothing() {
    let running = running();
    for (option, same, _, _) in cases() {
        assert_eq!(asked(option, same).contradictions(&running), [], "{option}");
    }
}

#[test]
fn each_option_that_differs_is_named_with_both_values() {
    let running = running();
    for (option, _, other, [wanted, runs]) in cases() {
        let expected = Contradiction {
            option,
            wanted: wanted.to_owned(),
            running: runs.to_owned(),
        };
        assert_eq!(asked(option, other).contradictions(&running), [expected]);
    }
}

#[test]
fn what_is_not_set_is_called_none() {
    let least = load_with(LEAST, &[]).expect("it is valid").subscriptions;
    let wishes = asked("filter", text("key == 'a'"));
    let said = wishes.contradictions(&least[0]);
    assert_eq!(said[0].running, "none");
    assert_eq!(asked("filter", text("")).contradictions(&least[0]), []);
}

#[test]
fn times_to_begin_at_are_compared_to_the_millisecond() {
    let time = "{ timestamp = \"2026-01-01T00:00:00.500Z\" }";
    let text = LEAST.replace("\"earliest\"", time);
    let running = load_with(&text, &[]).expect("it is valid").subscriptions;
    let at = |millis| asked("start", Wish::Start(StartAt::Timestamp(millis)));
    assert_eq!(at(1_767_225_600_500).contradictions(&running[0]), []);
    assert_eq!(at(1_767_225_600_501).contradictions(&running[0]).len(), 1);
    assert_eq!(at(1_767_225_600_000).contradictions(&running[0]).len(), 1);
}
