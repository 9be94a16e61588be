//! The environment over the file.

use std::time::Duration;

use super::{LEAST, load_with, messages, orders, with};
use crate::config::StartAt;

#[test]
fn variables_go_over_the_file_whatever_their_case() {
    let config = load_with(
        &orders("ack_deadline = \"1s\""),
        &[
            ("ACKGATE__LISTEN__ADDRESS", "127.0.0.1:9"),
            ("ACKGATE__LISTEN__KEEPALIVE__INTERVAL", "3s"),
            ("ackgate__clusters__main__address", "kafka://other:1"),
            ("ACKGATE__SUBSCRIPTIONS__ORDERS__GROUP", "from-env"),
            ("Ackgate__Subscriptions__Orders__Ack_Deadline", "2s"),
            ("ACKGATE__SUBSCRIPTIONS__ORDERS__MAX_ATTEMPTS", "7"),
            ("ACKGATE__SUBSCRIPTIONS__ORDERS__BACKOFF__FACTOR", "3"),
            ("ACKGATE__SUBSCRIPTIONS__ORDERS__WINDOW__BYTES", "1MiB"),
            ("ACKGATE__SUBSCRIPTIONS__ORDERS__TOPICS", "b, a"),
            (
                "ACKGATE__SUBSCRIPTIONS__ORDERS__START",
                "{ timestamp = \"1970-01-01T00:00:01Z\" }",
            ),
            ("ACKGATE__SUBSCRIPTIONS__ORDERS__SKIP_ACKED", "False"),
            ("ACKGATE_CONFIG", "is somebody else's"),
            ("PATH", "is nobody's business"),
        ],
    )
    .expect("valid");
    assert_eq!(config.listen.address.to_string(), "127.0.0.1:9");
    assert_eq!(config.listen.keepalive_interval, Duration::from_secs(3));
    assert_eq!(config.clusters[0].bootstrap, ["other:1"]);
    let orders = &config.subscriptions[0];
    assert_eq!(orders.group, "from-env");
    assert_eq!(orders.policy.ack_deadline, Duration::from_secs(2));
    assert_eq!(orders.policy.max_attempts, 7);
    assert!((orders.policy.backoff.factor - 3.0).abs() < f64::EPSILON);
    assert_eq!(orders.window_bytes, 1 << 20);
    assert_eq!(orders.topics, ["a", "b"]);
    assert_eq!(orders.start, StartAt::Timestamp(1000));
}

#[test]
fn a_whole_configuration_may_come_from_the_environment() {
    let config = load_with(
        "",
        &[
            ("ACKGATE__CLUSTERS__MAIN__BOOTSTRAP", "[\"a\", \"b:1\"]"),
            ("ACKGATE__SUBSCRIPTIONS__ORDERS__CLUSTER", "main"),
            ("ACKGATE__SUBSCRIPTIONS__ORDERS__TOPICS", "orders"),
            ("ACKGATE__SUBSCRIPTIONS__ORDERS__GROUP", "g"),
            ("ACKGATE__SUBSCRIPTIONS__ORDERS__START", "latest"),
            ("ACKGATE__SUBSCRIPTIONS__ORDERS__ORDER", "lane"),
            ("ACKGATE__SUBSCRIPTIONS__ORDERS__ON_REJECT", "hold"),
        ],
    )
    .expect("valid");
    assert_eq!(config.clusters[0].bootstrap, ["a:9092", "b:1"]);
}

#[test]
fn dashes_and_dots_of_names_are_underscores_in_variables() {
    let text = with("[subscriptions.orders]", "[subscriptions.\"eu.my-orders\"]");
    let variable = "ACKGATE__SUBSCRIPTIONS__EU_MY_ORDERS__GROUP";
    let config = load_with(&text, &[(variable, "x")]).expect("valid");
    assert_eq!(config.subscriptions[0].group, "x");

    let twins = format!(
        "{LEAST}\n[clusters.a-b]\naddress = \"kafka://x\"\n[clusters.a_b]\n\
                         address = \"kafka://y\"\n"
    );
    assert_eq!(
        messages(&twins, &[("ACKGATE__CLUSTERS__A_B__ADDRESS", "kafka://z")]),
        [
            "ACKGATE__CLUSTERS__A_B__ADDRESS in the environment, over /etc/ackgate.toml: clusters: \
          could mean a-b or a_b"
        ]
    );
}

#[test]
fn properties_are_named_with_underscores_for_dots() {
    let config = load_with(
        &orders("[clusters.main.properties]\n\"client.id\" = \"file\""),
        &[
            ("ACKGATE__CLUSTERS__MAIN__PROPERTIES__CLIENT_ID", "env"),
            (
                "ACKGATE__CLUSTERS__MAIN__PROPERTIES__SASL_PASSWORD",
                "{not = \"toml\"}",
            ),
            ("ACKGATE__CLUSTERS__MAIN__PROPERTIES__LOG_LEVEL", "3"),
        ],
    )
    .expect("valid");
    let expected = [
        ("client.id", "env"),
        ("log_level", "3"),
        ("sasl.password", "{not = \"toml\"}"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(config.clusters[0].properties, expected);
}

#[test]
fn an_address_of_the_environment_goes_over_a_list_of_the_file() {
    let list = with("address = \"kafka://broker\"", "bootstrap = [\"file:1\"]");
    let config = load_with(
        &list,
        &[("ACKGATE__CLUSTERS__MAIN__ADDRESS", "kafka://env:2")],
    );
    assert_eq!(config.expect("valid").clusters[0].bootstrap, ["env:2"]);
    let config = load_with(
        LEAST,
        &[("ACKGATE__CLUSTERS__MAIN__BOOTSTRAP", "env:2,env:3")],
    );
    assert_eq!(
        config.expect("valid").clusters[0].bootstrap,
        ["env:2", "env:3"]
    );
}

#[test]
fn mistakes_in_the_environment_name_the_variable() {
    let one = |variable: &str, value: &str| {
        let problems = messages(LEAST, &[(variable, value)]);
        assert_eq!(problems.len(), 1, "{problems:?}");
        let start = format!("{variable} in the environment, over /etc/ackgate.toml: ");
        assert!(problems[0].starts_with(&start), "{problems:?}");
        problems[0][start.len()..].to_owned()
    };
    assert_eq!(
        one("ACKGATE__LISTEN__ADRESS", "127.0.0.1:1"),
        "listen.adress: is no option; did you mean address?"
    );
    assert_eq!(
        one("ACKGATE__SUBSCRIPTIONS__ORDERS__MAX_ATTEMPTS", "many"),
        "subscriptions.orders.max_attempts = \"many\": must be 1 to 1000 attempts"
    );
    assert_eq!(
        one("ACKGATE__MEMORY__LIMIT", "1GiB"),
        "memory: is one option and has no parts"
    );
    assert_eq!(
        one("ACKGATE__LISTEN", "x"),
        "listen: must be a table, and is a string"
    );
    assert_eq!(
        one("ACKGATE__LISTEN____ADDRESS", "x"),
        "names no option: the parts of its path are joined by two underscores"
    );
    assert_eq!(
        messages(
            LEAST,
            &[("ACKGATE__MEMORY", "1GiB"), ("ackgate__memory", "2GiB")]
        ),
        [
            "ackgate__memory in the environment, over /etc/ackgate.toml: memory: is set by two \
          environment variables"
        ]
    );
}
