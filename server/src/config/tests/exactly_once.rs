//! Dead letters and commits in one transaction.

use std::time::Duration;

use super::{load_with, messages, orders};

const ON: &str = "dead_letter.exactly_once = true\n";

#[test]
fn it_is_off_unless_it_is_switched_on() {
    let config = load_with(&orders(""), &[]).expect("valid");
    let subscription = &config.subscriptions[0];
    let dead_letter = subscription.dead_letter.as_ref().expect("a topic");
    assert_eq!(dead_letter.exactly_once, None);
    assert!(!subscription.policy.exactly_once);
}

#[test]
fn switched_on_it_has_a_timeout_and_an_id_of_its_own_unless_one_is_given() {
    let with = |more: &str| {
        let config = load_with(&orders(&format!("{ON}{more}")), &[]).expect("valid");
        let subscription = &config.subscriptions[0];
        assert!(subscription.policy.exactly_once);
        let shown = config.effective();
        let all: String = shown.into_iter().map(|(_, settings)| settings).collect();
        let dead_letter = subscription.dead_letter.clone().expect("a topic");
        (dead_letter.exactly_once.expect("it is on"), all)
    };
    let (plain, shown) = with("");
    assert_eq!(plain.transaction_timeout, Duration::from_secs(10));
    assert_eq!(plain.transactional_id, None);
    assert!(shown.contains("dead_letter.exactly_once=true; dead_letter.transaction_timeout=10s"));
    let (named, shown) = with(
        "dead_letter.transactional_id = 'gateway-1'\ndead_letter.transaction_timeout = '1m'\n",
    );
    assert_eq!(named.transaction_timeout, Duration::from_secs(60));
    assert_eq!(named.transactional_id.as_deref(), Some("gateway-1"));
    assert!(
        shown.contains("dead_letter.transactional_id=gateway-1"),
        "{shown}"
    );
}

#[test]
fn what_would_break_the_promise_or_mean_nothing_is_refused() {
    for (lines, expected) in [
        (
            "dead_letter.transactional_id = 'a'\n".to_owned(),
            "dead_letter.transactional_id = \"a\": has no effect without",
        ),
        (
            "dead_letter.transaction_timeout = '5s'\n".to_owned(),
            "dead_letter.transaction_timeout = \"5s\": has no effect without",
        ),
        (
            format!("dead_letter.transactional_id = 'a b'\n{ON}"),
            "dead_letter.transactional_id = \"a b\": must be 1 to 200",
        ),
        (
            format!("dead_letter.on_failure = 'park'\n{ON}"),
            "dead_letter.on_failure = \"park\": contradicts dead_letter.exactly_once",
        ),
        (
            format!("dead_letter.on_failure = 'discard'\n{ON}"),
            "dead_letter.on_failure = \"discard\": contradicts dead_letter.exactly_once",
        ),
    ] {
        let messages = messages(&orders(&lines), &[]);
        assert_eq!(messages.len(), 1, "{lines}: {messages:?}");
        let start = format!("/etc/ackgate.toml:11: subscriptions.orders.{expected}");
        assert!(messages[0].starts_with(&start), "{messages:?}");
    }
}

#[test]
fn properties_that_its_transactions_decide_are_refused() {
    for (lines, expected) in [
        (
            "consumer.'isolation.level' = 'read_uncommitted'\n",
            "needs the consumer's \"isolation.level\"",
        ),
        (
            "dead_letter.producer.'transaction.timeout.ms' = 5000\n",
            "is the gateway's own with exactly_once",
        ),
    ] {
        let refused = messages(&orders(&format!("{ON}{lines}")), &[]);
        assert_eq!(refused.len(), 1, "{lines}: {refused:?}");
        assert!(refused[0].contains(expected), "{refused:?}");
        load_with(&orders(lines), &[]).expect("well without exactly_once");
    }
}
