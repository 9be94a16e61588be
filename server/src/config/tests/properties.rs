//! Client properties that pass and client properties that are refused.

use super::{LEAST, load_with, messages, orders};

/// The three tables, as headers and as keys in messages.
const TABLES: [&str; 3] = [
    "clusters.main.properties",
    "subscriptions.orders.consumer",
    "subscriptions.orders.dead_letter.producer",
];

fn refusals(table: &str, line: &str) -> Vec<String> {
    messages(&orders(&format!("[{table}]\n{line}")), &[])
}

#[test]
fn auto_commit_cannot_be_switched_on_by_any_spelling_in_any_table() {
    let names = [
        "enable.auto.commit",
        "Enable.Auto.Commit",
        "ENABLE.AUTO.COMMIT",
        "enable_auto_commit",
        "enableAutoCommit",
        "enable-auto-commit",
        " enable.auto.commit ",
        "'enable.auto.commit'",
        "auto.commit.enable",
        "AUTO_COMMIT_ENABLE",
    ];
    let values = [
        "true",
        "\"true\"",
        "\"TRUE\"",
        "\" True \"",
        "\"'true'\"",
        "1",
        "\"1\"",
        "0",
        "\"0\"",
        "\"yes\"",
        "\"no\"",
        "\"on\"",
        "\"off\"",
        "\"t\"",
        "\"f\"",
        "\"\"",
        "1.0",
        "[false]",
        "\"false,\"",
    ];
    for table in TABLES {
        for name in names {
            for value in values {
                let problems = refusals(table, &format!("\"{name}\" = {value}"));
                assert_eq!(problems.len(), 1, "{table} {name} = {value}: {problems:?}");
                assert!(
                    problems[0].starts_with("/etc/ackgate.toml:12: "),
                    "{problems:?}"
                );
                let key = if name.contains(['.', ' ', '\'']) {
                    "\""
                } else {
                    ""
                };
                let key = format!("{table}.{key}{}{key} = ", name.replace('\'', "\\'"));
                assert!(problems[0].contains(&key), "{key} is in {problems:?}");
                assert!(
                    problems[0].contains("is refused: ackgate commits, and only what a verdict"),
                    "{problems:?}"
                );
            }
        }
    }
    assert_eq!(
        refusals(TABLES[1], "enable.auto.commit = true"),
        [
            "/etc/ackgate.toml:12: subscriptions.orders.consumer.\"enable.auto.commit\" = true: is \
          refused: ackgate commits, and only what a verdict or a confirmed dead letter answers for; \
          remove it or set it to false"
        ]
    );
}

#[test]
fn auto_commit_that_is_false_is_taken_and_passed_to_nobody() {
    for value in ["false", "\"false\"", "\" False \"", "\"'false'\""] {
        for table in TABLES {
            let text = orders(&format!("[{table}]\n\"enable.auto.commit\" = {value}"));
            let config = load_with(&text, &[]).expect(value);
            assert!(config.clusters[0].properties.is_empty());
            assert!(config.subscriptions[0].consumer_properties.is_empty());
        }
    }
}

#[test]
fn auto_commit_cannot_be_switched_on_from_the_environment() {
    for variable in [
        "ACKGATE__CLUSTERS__MAIN__PROPERTIES__ENABLE_AUTO_COMMIT",
        "ACKGATE__CLUSTERS__MAIN__PROPERTIES__ENABLE__AUTO__COMMIT",
        "ackgate__clusters__main__properties__enable.auto.commit",
        "ACKGATE__SUBSCRIPTIONS__ORDERS__CONSUMER__AUTO_COMMIT_ENABLE",
        "ACKGATE__SUBSCRIPTIONS__ORDERS__DEAD_LETTER__PRODUCER__ENABLE_AUTO_COMMIT",
    ] {
        let problems = messages(LEAST, &[(variable, "True")]);
        assert_eq!(problems.len(), 1, "{problems:?}");
        let start = format!("{variable} in the environment, over /etc/ackgate.toml: ");
        assert!(problems[0].starts_with(&start), "{problems:?}");
        assert!(
            problems[0].contains("\" = \"True\": is refused: ackgate commits"),
            "{problems:?}"
        );
    }
    let hidden = "\"enable.auto.commit\" = { env = \"HIDDEN\" }";
    let text = orders(&format!("[{}]\n{hidden}", TABLES[0]));
    assert!(messages(&text, &[("HIDDEN", "true")])[0].contains("= ***: is refused"));
    load_with(&text, &[("HIDDEN", "false")]).expect("false is what happens anyway");
}

#[test]
fn properties_that_are_the_gateways_own_are_refused_in_every_table() {
    for (name, reason) in [
        ("bootstrap.servers", "give `address` or `bootstrap`"),
        ("metadata.broker.list", "give `address` or `bootstrap`"),
        ("group.id", "give `group`"),
        ("group.instance.id", "one fixed id for several gateways"),
        ("group.protocol", "classic group protocol"),
        ("partition.assignment.strategy", "cooperative-sticky"),
        ("enable.auto.offset.store", "ackgate commits"),
        ("auto.commit.interval.ms", "give `commit.interval`"),
        ("offset.store.method", "ackgate commits"),
        ("auto.offset.reset", "give `start`"),
        ("enable.partition.eof", "decides which events"),
        ("statistics.interval.ms", "for its own metrics"),
        ("allow.auto.create.topics", "is reported"),
        ("transactional.id", "give `dead_letter.transactional_id`"),
        ("plugin.library.paths", "loads no code"),
        ("sasl.kerberos.kinit.cmd", "runs no command"),
        ("ssl.engine.location", "loads no code"),
        ("interceptors", "loads no code"),
        ("rebalance_cb", "by a program only"),
        ("test.mock.num.brokers", "an imitation"),
        ("delivery.report.only.error", "once Kafka has confirmed"),
    ] {
        for table in TABLES {
            for spelling in [name.to_owned(), name.to_uppercase()] {
                let problems = refusals(table, &format!("\"{spelling}\" = \"x\""));
                assert_eq!(problems.len(), 1, "{problems:?}");
                assert!(problems[0].contains(reason), "{problems:?}");
                assert!(problems[0].contains(&spelling), "{problems:?}");
            }
        }
    }
}

#[test]
fn a_dead_letter_is_written_to_all_and_once() {
    for table in TABLES {
        for (line, expected) in [
            (
                "enable.idempotence = false",
                "= false: must be true: a retry",
            ),
            ("acks = 1", "= 1: must be all: a dead letter"),
            (
                "request.required.acks = \"0\"",
                "= \"0\": must be all: a dead letter",
            ),
            (
                "delivery.timeout.ms = 0",
                "= 0: must be a number of milliseconds above 0",
            ),
            (
                "message.timeout.ms = \"0x0\"",
                "= \"0x0\": must be a number of milliseconds",
            ),
        ] {
            let problems = refusals(table, line);
            assert!(problems[0].contains(expected), "{problems:?}");
        }
    }
    let text = orders(&format!(
        "[{}]\nenable.idempotence = true\nacks = \"all\"",
        TABLES[2]
    ));
    load_with(&text, &[]).expect("that is what happens anyway");
}

#[test]
fn values_pass_as_librdkafka_writes_them_with_or_without_quotes_on_names() {
    let lines = "\"a.text\" = \"x\"\na.number = 5\na.flag = true\na.share = 0.5\nb.c.d = \"deep\"";
    let config = load_with(&orders(&format!("[{}]\n{lines}", TABLES[1])), &[]).expect("valid");
    let expected = [
        ("a.flag", "true"),
        ("a.number", "5"),
        ("a.share", "0.5"),
        ("a.text", "x"),
        ("b.c.d", "deep"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(config.subscriptions[0].consumer_properties, expected);
}

#[test]
fn what_is_no_property_is_refused_without_its_value() {
    for (line, expected) in [
        (
            "a.list = [1]",
            "must be a string, an integer, a float or a boolean",
        ),
        (
            "\"Sasl.Password\" = \"S3cretMarker\"",
            "as librdkafka has it: lower case",
        ),
        ("\"a\\u0000b\" = 1", "as librdkafka has it: lower case"),
        ("a.b = \"x\\u0000y\"", "without zero characters"),
        ("\"a.b\" = 1\na.b = 2", "is given twice"),
    ] {
        let problems = refusals(TABLES[0], line);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains(expected), "{problems:?}");
        assert!(!problems[0].contains("S3cretMarker"), "{problems:?}");
    }
}
