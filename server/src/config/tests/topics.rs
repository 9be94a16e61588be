//! Topics: what they may be called, and which of them belong to whom.

use super::{load_with, messages, orders, with};

fn only(text: &str, expected: &str) {
    assert_eq!(messages(text, &[]), [expected]);
}

#[test]
fn retry_topic_belongs_to_one_subscription_and_to_nothing_else() {
    let fine = orders("dead_letter.retry_topic = 'orders.retry'");
    let config = load_with(&fine, &[]).expect("it is valid");
    assert_eq!(config.subscriptions[0].retry_topic(), Some("orders.retry"));
    assert_eq!(config.subscriptions[0].reads(), ["orders", "orders.retry"]);
    let said = |text: &str, words: &str| {
        let all = messages(text, &[]);
        assert!(
            matches!(&all[..], [one] if one.contains("dead_letter.retry_topic") && one.contains(words)),
            "{words}: {all:?}"
        );
    };
    said(
        &orders("dead_letter.retry_topic = 'orders'"),
        "is among topics too",
    );
    said(
        &orders("dead_letter.retry_topic = 'orders.dead'"),
        "is dead_letter.topic too",
    );
    said(&orders("dead_letter.retry_topic = 'a b'"), "no topic name");
    let dropping = "on_reject = 'drop'\ndead_letter.retry_topic = 'orders.retry'\n";
    said(
        &with("dead_letter.topic = \"orders.dead\"\n", dropping),
        "needs dead_letter.topic",
    );
    let other = |lines: &str| {
        format!(
            "{fine}\n[subscriptions.other]\ncluster = 'main'\ngroup = 'other'\n\
             start = 'latest'\n{lines}\n"
        )
    };
    let reads = "topics = ['orders.retry']\non_reject = 'drop'";
    said(&other(reads), "is one of the topics of subscription other");
    let writes = "topics = ['t']\ndead_letter.topic = 'orders.retry'";
    said(
        &other(writes),
        "is the dead-letter topic of subscription other",
    );
    let shares = "topics = ['t']\ndead_letter.topic = 'orders.dead'\n\
                  dead_letter.retry_topic = 'orders.retry'";
    said(&other(shares), "is the retry topic of subscription orders");
    let own = shares.replace("retry'", "retry2'");
    load_with(&other(&own), &[]).expect("a dead-letter topic may be shared");
}

#[test]
fn dead_letters_need_a_topic_that_is_not_read() {
    only(
        &with("dead_letter.topic = \"orders.dead\"\n", ""),
        "/etc/ackgate.toml:4: subscriptions.orders.dead_letter.topic: is missing: on_reject = \
         \"dead_letter\" writes rejected records there; name a topic, or set on_reject to \"drop\" \
         or \"hold\"",
    );
    only(
        &with("orders.dead", "orders"),
        "/etc/ackgate.toml:10: subscriptions.orders.dead_letter.topic = \"orders\": is also read by \
         this subscription: its dead letters would be delivered again for ever",
    );
    only(
        &orders("on_reject = \"drop\""),
        "/etc/ackgate.toml:10: subscriptions.orders.dead_letter.topic = \"orders.dead\": would never \
         be written to: set on_reject = \"dead_letter\", or remove it",
    );
}

#[test]
fn topics_are_legal_names_sorted_and_without_repeats() {
    let text = with("[\"orders\"]", "[\"b\", \"a\", \"b\"]");
    assert_eq!(
        load_with(&text, &[]).expect("valid").subscriptions[0].topics,
        ["a", "b"]
    );
    let long = "x".repeat(250);
    for wrong in ["a b", ".", "..", "", "bücher", &long] {
        let messages = messages(&with("[\"orders\"]", &format!("[\"{wrong}\"]")), &[]);
        assert_eq!(messages.len(), 1);
        assert!(
            messages[0].contains("no topic name: 1 to 249 of a-z"),
            "{wrong}: {messages:?}"
        );
    }
}

#[test]
fn names_of_clusters_and_subscriptions_are_plain() {
    only(
        &with("[subscriptions.orders]", "[subscriptions.Orders]"),
        "/etc/ackgate.toml:4: subscriptions.Orders: is no name: 1 to 64 of a-z, 0-9, '_', '-' and \
         '.'",
    );
    let dotted = with(
        "[subscriptions.orders]",
        "[subscriptions.\"eu.orders-2_x\"]",
    );
    assert_eq!(
        load_with(&dotted, &[]).expect("valid").subscriptions[0].name,
        "eu.orders-2_x"
    );
}
