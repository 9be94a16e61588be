//! Addresses of clusters, good and bad.

use super::{load_with, messages, with};
use crate::config::Cluster;

const MARKER: &str = "S3cretMarker";

fn cluster(address: &str) -> Cluster {
    load_with(&with("kafka://broker", address), &[])
        .expect(address)
        .clusters
        .remove(0)
}

fn property<'a>(cluster: &'a Cluster, name: &str) -> Option<&'a str> {
    cluster
        .properties
        .iter()
        .find(|(given, _)| given == name)
        .map(|(_, value)| value.as_str())
}

#[test]
fn hosts_get_the_default_port_each() {
    for (address, expected) in [
        ("kafka://a", vec!["a:9092"]),
        ("KAFKA://a:1,b,c:3", vec!["a:1", "b:9092", "c:3"]),
        (
            "kafka://[::1],[2001:db8::7]:19092",
            vec!["[::1]:9092", "[2001:db8::7]:19092"],
        ),
        ("kafka://10.0.0.1:9093/", vec!["10.0.0.1:9093"]),
        ("kafka://u:p@a,b:2", vec!["a:9092", "b:2"]),
    ] {
        assert_eq!(cluster(address).bootstrap, expected, "{address}");
    }
    let list = with(
        "address = \"kafka://broker\"",
        "bootstrap = [\"a\", \"[::1]:5\"]",
    );
    let config = load_with(&list, &[]).expect("valid");
    assert_eq!(config.clusters[0].bootstrap, ["a:9092", "[::1]:5"]);
}

#[test]
fn a_user_means_sasl_over_tls_unless_told_otherwise() {
    let given = cluster("kafka://a%40b:p%3A%2F%25s@host");
    assert_eq!(property(&given, "sasl.username"), Some("a@b"));
    assert_eq!(property(&given, "sasl.password"), Some("p:/%s"));
    assert_eq!(property(&given, "security.protocol"), Some("sasl_ssl"));
    assert_eq!(property(&given, "sasl.mechanisms"), Some("PLAIN"));
    assert!(cluster("kafka://host").properties.is_empty());

    let text = with(
        "address = \"kafka://broker\"",
        "address = \"kafka://u@h\"\nproperties.security.protocol = \"SASL_PLAINTEXT\"\n\
         properties.sasl.mechanism = \"SCRAM-SHA-512\"\nproperties.sasl.password = \"p\"",
    );
    let told = load_with(&text, &[]).expect("valid").clusters.remove(0);
    assert_eq!(property(&told, "security.protocol"), Some("SASL_PLAINTEXT"));
    assert_eq!(property(&told, "sasl.mechanism"), Some("SCRAM-SHA-512"));
    assert_eq!(property(&told, "sasl.mechanisms"), None);
    assert_eq!(property(&told, "sasl.password"), Some("p"));
}

/// An address, how it is shown, and what is said about it.
const BAD: [(&str, &str, &str); 29] = [
    (
        "postgres://h",
        "postgres://h",
        "must begin with \"kafka://\"",
    ),
    ("h:9092", "h:9092", "must begin with \"kafka://\""),
    ("", "", "must begin with \"kafka://\""),
    ("kafka://", "kafka://", "has an empty host"),
    ("kafka://a,,b", "kafka://a,,b", "has an empty host"),
    (
        "kafka://u:S3cretMarker@",
        "kafka://***@",
        "has an empty host",
    ),
    ("kafka://h:0", "kafka://h:0", "has a bad port"),
    ("kafka://h:65536", "kafka://h:65536", "has a bad port"),
    ("kafka://h:", "kafka://h:", "has a bad port"),
    ("kafka://h:+1", "kafka://h:***", "has a bad port"),
    ("kafka://::1", "kafka://::1", "must stand in brackets"),
    (
        "kafka://[::1",
        "kafka://[::1",
        "without its closing bracket",
    ),
    (
        "kafka://[nope]:1",
        "kafka://[nope]:1",
        "not an IPv6 address",
    ),
    (
        "kafka://[::1]9",
        "kafka://[::1]9",
        "other than :port after ]",
    ),
    (
        "kafka://h/topic",
        "kafka://h/***",
        "must end after the last host",
    ),
    (
        "kafka://h?password=S3cretMarker",
        "kafka://h?***",
        "must end after the last host",
    ),
    ("kafka://a:S3cretMarker:1", "kafka://a:***", "a second port"),
    (
        "kafka://[x:S3cretMarker",
        "kafka://[x:***",
        "without its closing bracket",
    ),
    (
        "kafka://u:p,S3cretMarker",
        "kafka://u:***",
        "has a bad port",
    ),
    ("kafka://u:1234567", "kafka://u:***", "has a bad port"),
    ("kafka://h h", "kafka://h h", "no host name has"),
    (
        "kafka://u:S3cretMarker@x@h",
        "kafka://***@h",
        "must be percent-encoded",
    ),
    (
        "kafka://u:S3cret/Marker@h",
        "kafka://***@h",
        "must be percent-encoded",
    ),
    (
        "kafka://u:S3cretMarker%zz@h",
        "kafka://***@h",
        "begins no percent-encoded",
    ),
    ("kafka://u:S3cretMarker%ff@h", "kafka://***@h", "not UTF-8"),
    ("kafka://:S3cretMarker@h", "kafka://***@h", "empty user"),
    (
        "kafka://user:S3cretMarker",
        "kafka://user:***",
        "has a bad port",
    ),
    ("u:S3cretMarker@h", "***@h", "must begin with \"kafka://\""),
    ("h:S3cretMarker", "h:***", "must begin with \"kafka://\""),
];

#[test]
fn bad_addresses_are_refused_and_show_nothing_secret() {
    for (address, shown, expected) in BAD {
        let messages = messages(&with("kafka://broker", address), &[]);
        let start = format!("/etc/ackgate.toml:3: clusters.main.address = \"{shown}\": ");
        assert_eq!(messages.len(), 1, "{address}: {messages:?}");
        assert!(messages[0].starts_with(&start), "{address}: {messages:?}");
        assert!(messages[0].contains(expected), "{address}: {messages:?}");
        assert!(!messages[0].contains(MARKER), "{address}: {messages:?}");
    }
}

#[test]
fn a_list_of_brokers_has_no_passwords() {
    let text = with(
        "address = \"kafka://broker\"",
        "bootstrap = [\"ok:1\", \"u:S3cretMarker@h:1\"]",
    );
    let messages = messages(&text, &[]);
    assert!(messages[0].contains("clusters.main.bootstrap = [\"ok:1\", \"***@h:1\"]"));
    assert!(!messages[0].contains(MARKER));
}

#[test]
fn an_address_and_a_list_are_not_given_both() {
    let both = with(
        "address = \"kafka://broker\"",
        "address = \"kafka://broker\"\nbootstrap = [\"b:1\"]",
    );
    assert_eq!(
        messages(&both, &[]),
        [
            "/etc/ackgate.toml:4: clusters.main.bootstrap = [\"b:1\"]: stands beside address: give one \
          of them"
        ]
    );
    assert_eq!(
        messages(&with("address = \"kafka://broker\"", ""), &[]),
        ["/etc/ackgate.toml:2: clusters.main.address: is missing: give address or bootstrap"]
    );
}

#[test]
fn a_user_that_would_not_be_used_is_refused() {
    let with_properties = |line: &str| {
        let address = format!("address = \"kafka://u:{MARKER}@h\"\n{line}");
        messages(&with("address = \"kafka://broker\"", &address), &[])
    };
    assert_eq!(
        with_properties("properties.\"sasl.password\" = \"S3cretMarker2\""),
        [
            "/etc/ackgate.toml:3: clusters.main.address = \"kafka://***@h\": holds what \
          properties.\"sasl.password\" gives too: give it once"
        ]
    );
    assert_eq!(
        with_properties("properties.\"security.protocol\" = \"ssl\""),
        [
            "/etc/ackgate.toml:3: clusters.main.address = \"kafka://***@h\": has a user, which \
          properties.\"security.protocol\" would leave unused: set that to \"sasl_ssl\" or \
          \"sasl_plaintext\""
        ]
    );
}
