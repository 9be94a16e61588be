//! Where secrets come from, and that they are shown nowhere.

use std::fs;

use super::{LEAST, load_with, messages, orders, with};
use crate::config::{load, parse};

const MARKER: &str = "S3cretMarker";

#[test]
fn any_text_may_come_from_the_environment_or_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("password"), format!("{MARKER}\r\n")).expect("written");
    fs::write(folder.path().join("group"), "two\nlines").expect("written");
    let text = format!(
        "{}\nack_deadline = {{ env = \"DEADLINE\" }}\nmax_attempts = {{ env = \"ATTEMPTS\" }}\n\
         [clusters.main.properties]\nsasl.password = {{ file = \"password\" }}\n\
         ssl.key.pem = {{ env = \"KEY\" }}\n\
         sasl.oauthbearer.assertion.file = \"/a/path\"\n",
        with("[\"orders\"]", "[{ env = \"TOPIC\" }]"),
    );
    let environment = [
        ("DEADLINE", "7s"),
        ("ATTEMPTS", "9"),
        ("KEY", "pem"),
        ("TOPIC", "from-env"),
    ];
    let config = parse(
        &text,
        &folder.path().join("ackgate.toml"),
        environment.map(|(name, value)| (name.to_owned(), value.to_owned())),
    )
    .expect("valid");
    assert_eq!(config.subscriptions[0].policy.ack_deadline.as_secs(), 7);
    assert_eq!(config.subscriptions[0].policy.max_attempts, 9);
    assert_eq!(config.subscriptions[0].topics, ["from-env"]);
    let expected = [
        ("sasl.oauthbearer.assertion.file", "/a/path"),
        ("sasl.password", MARKER),
        ("ssl.key.pem", "pem"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(config.clusters[0].properties, expected);
}

#[test]
fn a_reference_to_nothing_is_told_with_what_it_names() {
    assert_eq!(
        messages(&with("\"kafka://broker\"", "{ env = \"NOT_SET\" }"), &[]),
        [
            "/etc/ackgate.toml:3: clusters.main.address = { env = \"NOT_SET\" }: names an environment \
          variable that is not set"
        ]
    );
    let problems = messages(&with("\"shipping\"", "{ file = \"/no/such/file\" }"), &[]);
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(
        problems[0].starts_with(
            "/etc/ackgate.toml:7: subscriptions.orders.group = { file = \"/no/such/file\" }: names \
             a file that cannot be read: "
        ),
        "{problems:?}"
    );
}

#[test]
fn no_problem_shows_a_secret() {
    let references = [
        ("ack_deadline", "must be a duration"),
        ("on_reject", "must be \"dead_letter\""),
        ("group", "must have no space at its ends"),
    ];
    for (key, expected) in references {
        let line = format!("{key} = {{ env = \"SECRET\" }}");
        let text = if key == "group" {
            with("group = \"shipping\"", &line)
        } else {
            orders(&line)
        };
        let problems = messages(&text, &[("SECRET", " S3cretMarker ")]);
        assert!(
            problems[0].contains(&format!("{key} = ***: {expected}")),
            "{problems:?}"
        );
        assert!(!problems.concat().contains(MARKER), "{problems:?}");
    }
    for text in [
        // Misplaced, misspelt, of the wrong kind, and cut off.
        with("\"kafka://broker\"", "{ password = \"S3cretMarker\" }"),
        orders("[clusters.main.properties]\nsasl.pasword.list = [\"S3cretMarker\"]"),
        orders("[clusters.main]\npassword = \"S3cretMarker\""),
        format!("password = \"S3cretMarker\"\n{LEAST}"),
        format!("{LEAST}\n[clusters.two]\naddress = \"kafka://u:S3cretMarker@h\nx = 1"),
        format!("{LEAST}\n[clusters.two]\naddress = kafka://u:S3cretMarker@h"),
        with("\"kafka://broker\"", "[\"kafka://u:S3cretMarker@h\"]"),
        with(
            "topics = [\"orders\"]",
            "topics = [\"kafka://u:S3cretMarker@h\"]",
        ),
    ] {
        let problems = load_with(&text, &[]).expect_err("it is wrong");
        assert!(
            !format!("{problems:?}").contains(MARKER),
            "{text}: {problems:?}"
        );
        let shown = serde_json::to_string(&problems).expect("JSON");
        assert!(!shown.contains(MARKER), "{text}: {shown}");
    }
}

#[test]
fn neither_debug_nor_the_effective_settings_show_a_secret() {
    let text = format!(
        "{}\n[clusters.main.properties]\nssl.key.password = \"S3cretMarker\"\n\
         brand.new.token = \"S3cretMarker\"\nclient.id = \"visible\"\n\
         [subscriptions.orders.consumer]\nsome.secret = \"S3cretMarker\"\n\
         session.timeout.ms = 6000\n\
         [subscriptions.orders.dead_letter.producer]\nsome.secret = \"S3cretMarker\"\n",
        with("kafka://broker", "kafka://user:S3cretMarker@broker").replace(
            "dead_letter.topic = \"orders.dead\"\n",
            "[subscriptions.orders.dead_letter]\ntopic = \"orders.dead\"\n"
        ),
    );
    let config = load_with(&text, &[]).expect("valid");
    let debug = format!("{config:?} {config:#?}");
    assert!(!debug.contains(MARKER), "{debug}");
    let effective = format!("{:?}", config.effective());
    assert!(!effective.contains(MARKER), "{effective}");
    for shown in [
        "client.id=visible",
        "session.timeout.ms=6000",
        "sasl.password=***",
        "group=shipping",
    ] {
        assert!(effective.contains(shown), "{shown} is in {effective}");
    }
}

#[test]
fn a_file_on_disk_is_loaded_with_the_environment() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ackgate.toml");
    fs::write(&path, LEAST).expect("written");
    let environment = [("ACKGATE__MEMORY".to_owned(), "2GiB".to_owned())];
    assert_eq!(
        load(&path, environment).expect("valid").memory_bytes,
        2 << 30
    );
}
