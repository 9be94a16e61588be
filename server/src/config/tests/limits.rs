//! Bounds of single options, and options that do not go together.

use ackgate_lane::Order;

use super::{LEAST, load_with, messages, orders, with};
use crate::config::StartAt;

fn only(text: &str, expected: &str) {
    assert_eq!(messages(text, &[]), [expected]);
}

/// A line of a subscription, its option, and what is said about it.
const OUT_OF_BOUNDS: [(&str, &str, &str); 15] = [
    (
        "ack_deadline = \"99ms\"",
        "ack_deadline",
        "must be a duration from 100ms to 1h",
    ),
    (
        "ack_deadline = 30",
        "ack_deadline",
        "must be a duration from 100ms to 1h",
    ),
    (
        "linger = \"0\"",
        "linger",
        "must be a duration from 0s to 1h",
    ),
    (
        "max_attempts = 1001",
        "max_attempts",
        "must be 1 to 1000 attempts",
    ),
    (
        "max_attempts = \"5\"",
        "max_attempts",
        "must be 1 to 1000 attempts",
    ),
    (
        "max_attempts = -1",
        "max_attempts",
        "must be 1 to 1000 attempts",
    ),
    (
        "window.span = 24001",
        "window.span",
        "must be 1 to 24000 offsets",
    ),
    (
        "window.bytes = \"1KiB\"",
        "window.bytes",
        "must be a size from 64KiB to 64GiB",
    ),
    (
        "window.bytes = \"1 parsec\"",
        "window.bytes",
        "must be a size from 64KiB to 64GiB",
    ),
    (
        "window.bytes = \"99999999999999999999GiB\"",
        "window.bytes",
        "must be a size from",
    ),
    (
        "backoff.factor = 0.5",
        "backoff.factor",
        "must be a number from 1 to 100",
    ),
    (
        "backoff.factor = nan",
        "backoff.factor",
        "must be a number from 1 to 100",
    ),
    (
        "skip_acked = \"true\"",
        "skip_acked",
        "must be true or false",
    ),
    (
        "on_reject = \"Drop\"",
        "on_reject",
        "must be \"dead_letter\", \"drop\" or \"hold\"",
    ),
    (
        "commit.interval = \"99ms\"",
        "commit.interval",
        "must be a duration from 100ms to 1m",
    ),
];

#[test]
fn bounds_hold_on_both_sides() {
    for (line, key, expected) in OUT_OF_BOUNDS {
        let messages = messages(&orders(line), &[]);
        let start = format!("/etc/ackgate.toml:11: subscriptions.orders.{key} = ");
        assert!(messages[0].starts_with(&start), "{line}: {messages:?}");
        assert!(messages[0].contains(expected), "{line}: {messages:?}");
        assert_eq!(messages.len(), 1, "{line}: {messages:?}");
    }
    load_with(
        &orders("ack_deadline = \"100ms\"\nwindow.span = 24000\nlinger = \"0s\""),
        &[],
    )
    .expect("the bounds themselves are in");
}

#[test]
fn sizes_are_numbers_or_texts_with_units() {
    for (written, bytes) in [
        ("1048576", 1 << 20),
        ("\"1048576\"", 1 << 20),
        ("\"1MiB\"", 1 << 20),
        ("\"2 mib\"", 2 << 20),
        ("\"1MB\"", 1_000_000),
    ] {
        let config = load_with(&orders(&format!("window.bytes = {written}")), &[]);
        assert_eq!(config.expect(written).subscriptions[0].window_bytes, bytes);
    }
}

#[test]
fn starts_are_words_or_a_time() {
    let start = |written: &str| {
        let text = with("start = \"earliest\"", &format!("start = {written}"));
        load_with(&text, &[]).map(|config| config.subscriptions[0].start)
    };
    assert_eq!(start("\"latest\""), Ok(StartAt::Latest));
    assert_eq!(start("\"fail\""), Ok(StartAt::Fail));
    let time = Ok(StartAt::Timestamp(1_767_225_600_000));
    assert_eq!(start("{ timestamp = \"2026-01-01T00:00:00Z\" }"), time);
    assert_eq!(start("{ timestamp = 2026-01-01T00:00:00Z }"), time);
    for wrong in [
        "{ timestamp = \"yesterday\" }",
        "{ timestamp = \"1960-01-01T00:00:00Z\" }",
    ] {
        let problems = start(wrong).expect_err(wrong);
        assert!(
            problems[0].expected.contains("\"2026-01-01T00:00:00Z\""),
            "{problems:?}"
        );
    }
    assert!(start("{ offset = 3 }").is_err());
    assert!(start("3").is_err());
}

#[test]
fn one_group_reads_a_topic_of_a_cluster_once() {
    let second = |cluster: &str, group: &str, topic: &str| {
        format!(
            "{LEAST}\n[clusters.alias]\naddress = \"kafka://broker:9092,other\"\n\
             [clusters.far]\naddress = \"kafka://far\"\n\
             [subscriptions.zweit]\ncluster = \"{cluster}\"\ntopics = [\"{topic}\"]\n\
             group = \"{group}\"\nstart = \"latest\"\norder = \"none\"\non_reject = \"hold\"\n"
        )
    };
    let expected = "/etc/ackgate.toml:19: subscriptions.zweit.group = \"shipping\": is the group of \
                    subscription orders too, which also reads orders on the same cluster: each \
                    would get a part of the records; use one subscription with more subscribers, \
                    or another group";
    only(&second("main", "shipping", "orders"), expected);
    only(&second("alias", "shipping", "orders"), expected);
    for (cluster, group, topic) in [
        ("main", "other", "orders"),
        ("main", "shipping", "bills"),
        ("far", "shipping", "orders"),
    ] {
        load_with(&second(cluster, group, topic), &[]).expect("they do not meet");
    }
}

#[test]
fn a_drain_on_revoke_stays_well_below_the_poll_interval() {
    let expected = "/etc/ackgate.toml:11: subscriptions.orders.revoke_drain = \"6s\": must be at \
                    most half of max.poll.interval.ms, which is 10000: the group would take the \
                    lanes away before the drain has ended";
    only(
        &orders("revoke_drain = \"6s\"\nconsumer.\"max.poll.interval.ms\" = 10000"),
        expected,
    );
    let cluster = "[clusters.main.properties]\n\"max.poll.interval.ms\" = \"10000\"";
    only(
        &orders(&format!("revoke_drain = \"6s\"\n{cluster}")),
        expected,
    );
    load_with(&orders("revoke_drain = \"60s\""), &[]).expect("the default interval is long");
}

#[test]
fn two_beats_fit_into_a_lease_whatever_the_order_is() {
    let figures = "must be at most half of lease.duration: two beats are 22s, the lease is 20s, so \
                   one late beat would move the lane";
    let expected =
        format!("/etc/ackgate.toml:11: subscriptions.orders.lease.beat = \"11s\": {figures}");
    let lease = "lease = { beat = \"11s\", duration = \"20s\" }";
    only(&orders(lease), &expected);
    load_with(
        &orders("lease = { beat = \"10s\", duration = \"20s\" }"),
        &[],
    )
    .expect("just so");
    load_with(&orders("resume_grace = \"0s\""), &[]).expect("no grace");
    assert_eq!(messages(&orders("resume_grace = \"31s\""), &[]).len(), 1);
}

#[test]
fn limits_that_cannot_be_reached_are_refused() {
    only(
        &orders("max_deliveries = 4"),
        "/etc/ackgate.toml:11: subscriptions.orders.max_deliveries = 4: must be at least \
         max_attempts, which is 5: every attempt is a delivery, so the attempts could never be used \
         up",
    );
    only(
        &orders("max_attempts = 21"),
        "/etc/ackgate.toml:4: subscriptions.orders.max_deliveries = 20 (the default): must be at \
         least max_attempts, which is 21: every attempt is a delivery, so the attempts could never \
         be used up",
    );
    only(
        &orders("window.records = 10001"),
        "/etc/ackgate.toml:11: subscriptions.orders.window.records = 10001: must be at most \
         window.span, which is 10000: so many records never fit into fewer offsets",
    );
    only(
        &format!("memory = \"32MiB\"\n{LEAST}"),
        "/etc/ackgate.toml:5: subscriptions.orders.window.bytes = \"64MiB\" (the default): must be \
         at most memory, which is 32MiB: one lane could not fill its window",
    );
    only(
        &orders("backoff.max = \"500ms\""),
        "/etc/ackgate.toml:11: subscriptions.orders.backoff.max = \"500ms\": must be at least \
         initial, which is 1s",
    );
}

#[test]
fn skip_acked_belongs_to_the_order_of_a_lane() {
    only(
        &orders("skip_acked = true"),
        "/etc/ackgate.toml:11: subscriptions.orders.skip_acked = true: has a meaning with order = \
         \"lane\" only: with others, what is acked is never delivered again",
    );
    let text = with("order = \"none\"", "order = \"lane\"\nskip_acked = true");
    let config = load_with(&text, &[]).expect("valid");
    assert_eq!(
        config.subscriptions[0].policy.order,
        Order::Lane { skip_acked: true }
    );
}

#[test]
fn order_by_key_is_the_default_and_key_share_belongs_to_it() {
    let order = |text: &str| {
        let config = load_with(text, &[]).expect("valid");
        config.subscriptions[0].policy.order
    };
    let without = with("order = \"none\"", "");
    assert_eq!(order(&without), Order::Key { share: 250 });
    for (written, share) in [("0.05", 50), ("0.333", 333), ("0.0626", 63), ("1", 1000)] {
        let text = with("order = \"none\"", &format!("key_share = {written}"));
        assert_eq!(order(&text), Order::Key { share }, "{written}");
    }
    only(
        &orders("key_share = 0.5"),
        "/etc/ackgate.toml:11: subscriptions.orders.key_share = 0.5: has a meaning with order = \
         \"key\" only: with others no key takes a share",
    );
    only(
        &with("order = \"none\"", "key_share = 0.04"),
        "/etc/ackgate.toml:9: subscriptions.orders.key_share = 0.04: must be a number from \
         0.05 to 1",
    );
}

#[test]
fn metadata_fits_what_brokers_take() {
    for (written, bytes) in [("256", 192), ("257", 192), ("4096", 3072)] {
        let text = orders(&format!("commit.metadata_bytes = {written}"));
        let config = load_with(&text, &[]).expect(written);
        assert_eq!(config.subscriptions[0].map_bytes, bytes);
    }
    let off = orders("commit = { ack_map = false, metadata_bytes = 4096 }");
    let off = load_with(&off, &[]).expect("valid");
    assert_eq!(off.subscriptions[0].map_bytes, 0);
    for wrong in ["255", "4097"] {
        only(
            &orders(&format!("commit.metadata_bytes = {wrong}")),
            &format!(
                "/etc/ackgate.toml:11: subscriptions.orders.commit.metadata_bytes = {wrong}: must \
                 be 256 to 4096 bytes"
            ),
        );
    }
}

#[test]
fn a_mistake_in_one_option_of_the_order_hides_none_in_another() {
    let said = messages(&orders("skip_acked = 3\nkey_share = 0.5"), &[]);
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(
        said[0].contains("skip_acked = 3: must be true or false"),
        "{said:?}"
    );
    assert!(
        said[1].contains("has a meaning with order = \"key\" only"),
        "{said:?}"
    );
}

#[test]
fn a_mistake_elsewhere_hides_no_rule_between_options() {
    let text = format!(
        "memory = \"32MiB\"\n{LEAST}\nlinger = \"x\"\nrevoke_drain = \"6s\"\n\
         consumer.\"max.poll.interval.ms\" = 10000\n\
         [subscriptions.twin]\ncluster = \"main\"\ntopics = [\"orders\"]\ngroup = \"shipping\"\n\
         order = \"none\"\nstart = \"x\"\n"
    );
    let all = messages(&text, &[]);
    for expected in [
        "orders.window.bytes = \"64MiB\" (the default): must be at most memory",
        "twin.window.bytes = \"64MiB\" (the default): must be at most memory",
        "orders.linger = \"x\": must be a duration",
        "orders.revoke_drain = \"6s\": must be at most half of max.poll.interval.ms",
        "twin.group = \"shipping\": is the group of subscription orders too",
        "twin.start = \"x\": must be \"earliest\"",
        "twin.dead_letter.topic: is missing: on_reject",
    ] {
        let found = all
            .iter()
            .filter(|message| message.contains(expected))
            .count();
        assert_eq!(found, 1, "{expected} is once in {all:#?}");
    }
    assert_eq!(all.len(), 7, "{all:#?}");
}
