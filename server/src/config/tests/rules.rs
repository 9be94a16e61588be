//! One bad file per rule, with the exact words about it.

use std::time::Duration;

use ackgate_lane::{Backoff, OnReject, Order, Sharing, Window};

use super::{LEAST, load_with, messages, orders, with};
use crate::config::{Delivery, StartAt, load};

fn only(text: &str, expected: &str) {
    assert_eq!(messages(text, &[]), [expected]);
}

#[test]
fn the_least_file_has_the_documented_defaults() {
    let config = load_with(LEAST, &[]).expect("it is valid");
    assert_eq!(config.memory_bytes, 1 << 30);
    assert_eq!(config.listen.address.to_string(), "127.0.0.1:7654");
    assert_eq!(config.listen.max_streams, 256);
    assert_eq!(config.shutdown.drain, Duration::from_secs(10));
    assert_eq!(config.log.filter, "info");
    assert_eq!(config.clusters[0].bootstrap, ["broker:9092"]);
    let orders = &config.subscriptions[0];
    assert_eq!(orders.start, StartAt::Earliest);
    assert_eq!(orders.delivery, Delivery::Competing);
    assert_eq!(orders.window_bytes, 64 << 20);
    assert_eq!(orders.linger, Duration::from_secs(30));
    assert_eq!(orders.revoke_drain, Duration::from_secs(5));
    assert_eq!(orders.resume_grace, Duration::from_secs(30));
    assert_eq!(orders.lease.duration, Duration::from_secs(30));
    assert_eq!(orders.lease.beat, Duration::from_secs(10));
    assert_eq!(
        (orders.cohort_grace, orders.min_subscribers),
        (Duration::ZERO, 1)
    );
    let policy = &orders.policy;
    assert_eq!(policy.order, Order::None);
    assert_eq!(policy.on_reject, OnReject::DeadLetter);
    assert_eq!(policy.ack_deadline, Duration::from_secs(30));
    assert_eq!((policy.max_attempts, policy.max_deliveries), (5, 20));
    let backoff = Backoff {
        initial: Duration::from_secs(1),
        factor: 2.0,
        max: Duration::from_secs(60),
    };
    assert_eq!(
        (policy.backoff, policy.dead_letter_backoff),
        (backoff, backoff)
    );
    assert_eq!(
        policy.window,
        Window {
            records: 2000,
            span: 10_000
        }
    );
    assert_eq!(policy.commit_interval, Duration::from_secs(1));
    assert_eq!(policy.commit_settlements, 100_000);
    assert_eq!(orders.map_bytes, ackgate_lane::MAX_MAP_BYTES);
    assert_eq!(
        orders.dead_letter.as_ref().map(|d| d.topic.as_str()),
        Some("orders.dead")
    );
}

#[test]
fn every_problem_is_told_in_one_run_in_the_order_of_the_file() {
    let text = r#"
memory = "1"
[listen]
adress = "127.0.0.1:1"
[clusters.main]
address = "http://broker"
[subscriptions.orders]
cluster = "mian"
topics = []
group = ""
start = "begin"
order = "fifo"
ack_deadline = "2h"
max_attempts = 0
on_reject = "drop"
"#;
    let expected = [
        "/etc/ackgate.toml:2: memory = \"1\": must be a size from 16MiB to 1TiB, in bytes or with \
         its unit, such as \"64MiB\"",
        "/etc/ackgate.toml:4: listen.adress: is no option; did you mean address?",
        "/etc/ackgate.toml:6: clusters.main.address = \"http://broker\": must begin with \
         \"kafka://\"; other schemes are not supported",
        "/etc/ackgate.toml:8: subscriptions.orders.cluster = \"mian\": is no cluster here; did you \
         mean main?",
        "/etc/ackgate.toml:9: subscriptions.orders.topics = []: must be a list of topic names with \
         at least one entry",
        "/etc/ackgate.toml:10: subscriptions.orders.group = \"\": must be a consumer group of 1 to \
         255 characters",
        "/etc/ackgate.toml:11: subscriptions.orders.start = \"begin\": must be \"earliest\", \
         \"latest\", \"fail\" or { timestamp = \"2026-01-01T00:00:00Z\" }",
        "/etc/ackgate.toml:12: subscriptions.orders.order = \"fifo\": must be \"none\", \"key\" or \
         \"lane\"",
        "/etc/ackgate.toml:13: subscriptions.orders.ack_deadline = \"2h\": must be a duration from \
         100ms to 1h with its unit, such as \"30s\" or \"500ms\"",
        "/etc/ackgate.toml:14: subscriptions.orders.max_attempts = 0: must be 1 to 1000 attempts",
    ];
    assert_eq!(messages(text, &[]), expected);
}

#[test]
fn what_is_required_is_missed_with_the_line_of_its_table() {
    let text = "[clusters.main]\naddress = \"kafka://b\"\n\n[subscriptions.orders]\n\
                on_reject = \"hold\"\n";
    let missing: Vec<String> = ["cluster", "group", "start", "topics"]
        .map(|key| format!("/etc/ackgate.toml:4: subscriptions.orders.{key}: is missing;"))
        .into();
    let messages = messages(text, &[]);
    assert_eq!(messages.len(), missing.len(), "{messages:?}");
    for (message, start) in messages.iter().zip(missing) {
        assert!(message.starts_with(&start), "{message}");
    }
}

#[test]
fn an_empty_file_needs_a_cluster_and_a_subscription() {
    let expected = [
        "/etc/ackgate.toml: clusters: is missing: at least one is needed, under a name, as \
         [clusters.main]",
        "/etc/ackgate.toml: subscriptions: is missing: at least one is needed, under a name, as \
         [subscriptions.orders]",
    ];
    assert_eq!(messages("", &[]), expected);
}

#[test]
fn a_mistake_of_syntax_is_told_with_its_line() {
    let messages = messages("memory = \"1GiB\"\n[listen\naddress = 1\n", &[]);
    assert!(
        messages[0].starts_with("/etc/ackgate.toml:2: this is not TOML: "),
        "{messages:?}"
    );
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let path = std::env::temp_dir().join("ackgate-no-such-file.toml");
    let problems = load(&path, [])
        .expect_err("there is no such file")
        .to_string();
    assert!(
        problems.starts_with(&format!("{}: cannot be read: ", path.display())),
        "{problems}"
    );
}

#[test]
fn unknown_options_are_refused_with_the_nearest_known_one() {
    only(
        &orders("windw = 3"),
        "/etc/ackgate.toml:11: subscriptions.orders.windw: is no option; did you mean window?",
    );
    only(
        &format!("ack_deadline = \"1s\"\n{LEAST}"),
        "/etc/ackgate.toml:1: ack_deadline: is no option here; did you mean \
         subscriptions.NAME.ack_deadline?",
    );
    only(
        &format!("{LEAST}\n[shutdown]\nzzz = 1"),
        "/etc/ackgate.toml:13: shutdown.zzz: is no option here; there are drain, close",
    );
}

#[test]
fn an_option_of_another_section_is_not_guessed_at() {
    only(
        &format!("{LEAST}\n[telemetry.traces]\nratio = 1"),
        "/etc/ackgate.toml:13: telemetry.traces.ratio: is no option here; there are sample, \
         trust_parent, keep",
    );
    only(
        &format!("{LEAST}\n[telemetry.otlp]\nsample = 1"),
        "/etc/ackgate.toml:13: telemetry.otlp.sample: is no option here; did you mean \
         telemetry.traces.sample?",
    );
}

#[test]
fn examples_are_values_that_the_option_takes() {
    only(
        &format!("telemetry.otlp.metrics_interval = \"500ms\"\n{LEAST}"),
        "/etc/ackgate.toml:1: telemetry.otlp.metrics_interval = \"500ms\": must be a duration from \
         1s to 1h with its unit, such as \"30s\" or \"5m\"",
    );
    only(
        &format!("admin.address = \"127.0.0.1\"\n{LEAST}"),
        "/etc/ackgate.toml:1: admin.address = \"127.0.0.1\": must be an IP address with port, such \
         as \"127.0.0.1:7655\"",
    );
}

#[test]
fn a_value_in_place_of_a_table_is_refused_once() {
    only(
        &format!("listen = 3\n{LEAST}"),
        "/etc/ackgate.toml:1: listen: must be a table, and is an integer",
    );
}

#[test]
fn an_open_listener_beyond_loopback_needs_insecure() {
    only(
        &format!("listen.address = \"0.0.0.0:7654\"\n{LEAST}"),
        "/etc/ackgate.toml:1: listen.address = \"0.0.0.0:7654\": is open to the network without \
         TLS or tokens: anyone who reaches it can read the topics and acknowledge their records; \
         use a loopback address such as 127.0.0.1:7654, set listen.tls and listen.tokens_file, or \
         set listen.insecure = true if the network itself is trusted",
    );
    let open = format!("listen = {{ address = \"0.0.0.0:1\", insecure = true }}\n{LEAST}");
    assert!(
        load_with(&open, &[])
            .expect("it is asked for")
            .listen
            .insecure
    );
    for loopback in ["127.9.9.9:1", "[::1]:7654", "localhost:7654"] {
        load_with(&format!("listen.address = \"{loopback}\"\n{LEAST}"), &[]).expect(loopback);
    }
}

#[test]
fn a_broadcast_has_lane_order_and_waits_for_the_slow_unless_told_otherwise() {
    let load = |more: &str| {
        let text = with("order = \"none\"", "delivery = \"broadcast\"") + more;
        let config = load_with(&text, &[]).expect("it is valid");
        let orders = config.subscriptions[0].clone();
        (orders.delivery, orders.policy.order)
    };
    let order = Order::Lane { skip_acked: false };
    let mut sharing = Sharing {
        cut_off_after: None,
        absent_grace: Duration::from_secs(300),
    };
    assert_eq!(load(""), (Delivery::Broadcast(sharing), order));
    sharing.cut_off_after = Some(Duration::from_secs(60));
    sharing.absent_grace = Duration::ZERO;
    assert_eq!(
        load("slow_subscriber = \"fail\"\nabsent_grace = \"0s\"\norder = \"none\"\n"),
        (Delivery::Broadcast(sharing), Order::None)
    );
}

#[test]
fn options_of_a_broadcast_have_no_meaning_elsewhere() {
    for option in [
        "slow_subscriber = \"pause\"",
        "slow_after = \"60s\"",
        "absent_grace = \"5m\"",
    ] {
        let (key, value) = option.split_once(" = ").expect("an assignment");
        let expected = format!(
            "/etc/ackgate.toml:11: subscriptions.orders.{key} = {value}: has a meaning with \
             delivery = \"broadcast\" only: where subscribers compete, what one does not answer \
             goes to another"
        );
        only(&orders(option), &expected);
    }
    only(
        &orders("delivery = \"broadcast\"\nslow_after = \"5s\""),
        "/etc/ackgate.toml:12: subscriptions.orders.slow_after = \"5s\": has a meaning with \
         slow_subscriber = \"fail\" only: with \"pause\" the lane waits for as long as it takes",
    );
    only(
        &orders("min_subscribers = 0"),
        "/etc/ackgate.toml:11: subscriptions.orders.min_subscribers = 0: must be 1 to 10000 \
         subscribers",
    );
}

#[test]
fn a_mistake_in_one_option_of_a_broadcast_hides_none_in_another() {
    let keys = |lines: &str| -> Vec<String> {
        let problems = load_with(&orders(lines), &[]).expect_err("it should be refused");
        let key = |key: &str| key.trim_start_matches("subscriptions.orders.").to_owned();
        problems.iter().map(|it| key(&it.key)).collect()
    };
    assert_eq!(
        keys("delivery = \"all\"\nslow_subscriber = \"x\"\nslow_after = \"0s\"\nabsent_grace = 1"),
        ["delivery", "slow_subscriber", "slow_after", "absent_grace"]
    );
    assert_eq!(
        keys("delivery = \"broadcast\"\nslow_after = \"0s\"\nabsent_grace = 1"),
        ["slow_after", "slow_after", "absent_grace"],
        "without a unit, and without a meaning"
    );
    assert_eq!(
        keys("slow_after = \"5s\"\nabsent_grace = 1"),
        ["slow_after", "absent_grace", "absent_grace"]
    );
}

#[test]
fn a_log_filter_is_checked_before_it_is_used() {
    let messages = messages(&format!("log.filter = \"ackgate=loud\"\n{LEAST}"), &[]);
    assert!(
        messages[0]
            .starts_with("/etc/ackgate.toml:1: log.filter = \"ackgate=loud\": must be a log"),
        "{messages:?}"
    );
    only(
        &format!("log.filter = \"inf\"\n{LEAST}"),
        "/etc/ackgate.toml:1: log.filter = \"inf\": \"inf\" is no level; did you mean info? Levels \
         are off, error, warn, info, debug, trace",
    );
}
