//! The section `[ad_hoc]`, whose template keeps the rules of a subscription.

use std::time::Duration;

use super::{LEAST, load_with, messages, orders};
use crate::config::{Denied, Wish, Wishes};

const AD_HOC: &str = r#"
[ad_hoc]
clusters = ["main"]
topics = ["orders.*", "x?"]
groups = ["team-*"]
[ad_hoc.template]
start = "latest"
order = "none"
dead_letter.topic = "dead"
"#;

fn ad_hoc(lines: &str) -> String {
    format!("{LEAST}{AD_HOC}{lines}\n")
}

fn topics(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn nothing_is_opened_ad_hoc_unless_the_section_is_there() {
    let without = load_with(LEAST, &[]).expect("it is valid");
    assert!(without.ad_hoc.is_none());
    let with = load_with(&ad_hoc(""), &[]).expect("it is valid");
    assert_eq!(with.ad_hoc.expect("it is there").max_subscriptions, 100);
}

#[test]
fn patterns_decide_what_may_be_named() {
    let config = load_with(&ad_hoc(""), &[]).expect("it is valid");
    let rules = config.ad_hoc.expect("it is there");
    let ask = |cluster, names: &[&str], group| {
        rules.allows(cluster, &topics(names), group, &Wishes::default())
    };
    assert_eq!(
        ask("main", &["orders.eu", "orders.", "x1"], "team-"),
        Ok(())
    );
    assert_eq!(ask("elsewhere", &["x1"], "team-a"), Err(Denied::Cluster));
    for wrong in ["orders", "orders_eu", "x", "x12", "X1", "old.orders.eu"] {
        let denied = Err(Denied::Topic(wrong.to_owned()));
        assert_eq!(ask("main", &["x1", wrong], "team-a"), denied);
    }
    assert_eq!(ask("main", &["x1"], "a-team-a"), Err(Denied::Group));
}

#[test]
fn pattern_opens_no_topic_of_dead_letters_that_is_not_named_as_it_is() {
    let lines = "[subscriptions.bills]\ncluster = \"main\"\ntopics = [\"bills\"]\ngroup = \"b\"\n\
                 start = \"earliest\"\ndead_letter.topic = \"bills.old\"\n\
                 dead_letter.retry_topic = \"bills.again\"\n";
    let patterns = "topics = [\"*\", \"orders.gone\"]\ndead_letter_topics = [\"*.gone\", \"*\"]";
    let text = ad_hoc(lines).replace("topics = [\"orders.*\", \"x?\"]", patterns);
    let config = load_with(&text, &[]).expect("it is valid");
    let rules = config.ad_hoc.expect("it is there");
    let ask = |name| rules.allows("main", &topics(&[name]), "team-a", &Wishes::default());
    for source in ["bills", "orders", "orders.gone"] {
        assert_eq!(ask(source), Ok(()), "{source}");
    }
    // Of the file's subscriptions, of the template, and what openings may write to.
    for written in [
        "orders.dead",
        "bills.old",
        "bills.again",
        "dead",
        "bills.gone",
    ] {
        let denied = Err(Denied::Topic(written.to_owned()));
        assert_eq!(ask(written), denied, "{written}");
    }
}

#[test]
fn template_keeps_the_rules_of_a_subscription() {
    for (line, said) in [
        (
            "ack_deadline = \"2h\"",
            "/etc/ackgate.toml:20: ad_hoc.template.ack_deadline = \"2h\": must be a duration from \
             100ms to 1h with its unit, such as \"30s\" or \"500ms\"",
        ),
        (
            "windw.records = 3",
            "/etc/ackgate.toml:20: ad_hoc.template.windw: is no option; did you mean window?",
        ),
        (
            "topics = [\"a\"]",
            "/etc/ackgate.toml:20: ad_hoc.template.topics: is no option here: each opening names its \
             own, within ad_hoc.topics",
        ),
        (
            "group = \"a\"",
            "/etc/ackgate.toml:20: ad_hoc.template.group: is no option here: each opening names its \
             own, within ad_hoc.groups",
        ),
        (
            "cluster = \"main\"",
            "/etc/ackgate.toml:20: ad_hoc.template.cluster: is no option here: each opening names \
             its own, within ad_hoc.clusters",
        ),
        (
            "window.bytes = \"2GiB\"",
            "/etc/ackgate.toml:20: ad_hoc.template.window.bytes = \"2GiB\": must be at most memory, \
             which is 1GiB: one lane could not fill its window",
        ),
        (
            "on_reject = \"drop\"",
            "/etc/ackgate.toml:19: ad_hoc.template.dead_letter.topic = \"dead\": would never be \
             written to: set on_reject = \"dead_letter\", or remove it",
        ),
        (
            "dead_letter.retry_topic = \"retry\"",
            "/etc/ackgate.toml:20: ad_hoc.template.dead_letter.retry_topic = \"retry\": would be \
             read by every ad hoc subscription, each of which would get what was put back for \
             another: declare a subscription to have one",
        ),
        (
            "consumer.\"enable.auto.commit\" = true",
            "/etc/ackgate.toml:20: ad_hoc.template.consumer.\"enable.auto.commit\" = true: is \
             refused: ackgate commits, and only what a verdict or a confirmed dead letter answers \
             for; remove it or set it to false",
        ),
    ] {
        assert_eq!(messages(&ad_hoc(line), &[]), [said]);
    }
    // Whatever the topic for dead letters is called.
    let odd = ad_hoc("").replace("\"dead\"", "\"a\"");
    load_with(&odd, &[]).expect("it is valid");
}

#[test]
fn revoke_drain_of_the_template_is_checked_on_each_of_its_clusters() {
    let text = ad_hoc("revoke_drain = \"10s\"")
        .replace("clusters = [\"main\"]", "clusters = [\"main\", \"quick\"]");
    let text = format!(
        "{text}[clusters.quick]\naddress = \"kafka://q\"\nproperties.\"max.poll.interval.ms\" = \
         12000\n"
    );
    let said = messages(&text, &[]);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("ad_hoc.template.revoke_drain"), "{said:?}");
    assert!(said[0].contains("which is 12000"), "{said:?}");
}

#[test]
fn what_the_section_itself_lacks_is_told_at_once() {
    let text = format!("{LEAST}[ad_hoc]\nclusters = [\"mian\"]\nmax_subscriptions = 0\n");
    let said = messages(&text, &[]);
    let begins = [
        "/etc/ackgate.toml:11: ad_hoc.groups: is missing; it must be",
        "/etc/ackgate.toml:11: ad_hoc.template.dead_letter.topic: is missing: on_reject",
        "/etc/ackgate.toml:11: ad_hoc.template.start: is missing; it must be",
        "/etc/ackgate.toml:11: ad_hoc.topics: is missing; it must be",
        "/etc/ackgate.toml:12: ad_hoc.clusters = [\"mian\"]: has what is no cluster here; there \
         are: main",
        "/etc/ackgate.toml:13: ad_hoc.max_subscriptions = 0: must be 1 to 10000 subscriptions",
    ];
    assert_eq!(said.len(), begins.len(), "{said:?}");
    for (message, begin) in said.iter().zip(begins) {
        assert!(message.starts_with(begin), "{message}");
    }
    let text =
        format!("{LEAST}[ad_hoc]\nclusters = [\"main\"]\ntopics = [\"*\"]\ngroups = [\"*\"]\n");
    let said = messages(&text, &[]);
    assert!(
        said.iter()
            .any(|it| it.contains("11: ad_hoc.template.start: is missing")),
        "{said:?}"
    );
}

#[test]
fn patterns_that_nothing_fits_are_refused() {
    let topics = "topics = [\"orders.*\", \"x?\"]";
    let long = "?".repeat(250);
    for wrong in ["or ders", "", ".", "..", "*/*", "**ü", &long] {
        for key in ["topics", "dead_letter_topics"] {
            let line = format!("{key} = [\"ok.*\", \"{wrong}\"]");
            let text = match key {
                "topics" => ad_hoc("").replace(topics, &line),
                _ => ad_hoc("").replace(topics, &format!("{topics}\n{line}")),
            };
            let said = messages(&text, &[]);
            assert_eq!(said.len(), 1, "{said:?}");
            let expected = format!("ad_hoc.{key} = [\"ok.*\", ");
            assert!(said[0].contains(&expected), "{said:?}");
            assert!(
                said[0].contains("has a pattern that fits no topic name"),
                "{said:?}"
            );
        }
    }
    for wrong in [" *", "a ", "", "\\t*a"] {
        let said = messages(&ad_hoc("").replace("team-*", wrong), &[]);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].contains("has a pattern that fits no consumer group"),
            "{said:?}"
        );
    }
    let (stars, most) = ("*".repeat(300), "x".repeat(249) + "*");
    for fine in ["*", "?", ".*", "*.", "?.?", "__*", "**", &stars, &most] {
        let line = format!("topics = [\"{fine}\"]\ndead_letter_topics = [\"{fine}\"]");
        load_with(&ad_hoc("").replace(topics, &line), &[]).expect(fine);
    }
    for fine in ["*", "? ?", "a *"] {
        load_with(&ad_hoc("").replace("team-*", fine), &[]).expect(fine);
    }
}

#[test]
fn section_may_stand_in_the_environment_and_without_subscriptions() {
    let config = load_with(
        "clusters.main.address = \"kafka://b\"",
        &[
            ("ACKGATE__AD_HOC__CLUSTERS", "main"),
            ("ACKGATE__AD_HOC__TOPICS", "a,b.*"),
            ("ACKGATE__AD_HOC__GROUPS", "g"),
            ("ACKGATE__AD_HOC__TEMPLATE__START", "earliest"),
            ("ACKGATE__AD_HOC__TEMPLATE__ORDER", "lane"),
            ("ACKGATE__AD_HOC__TEMPLATE__ON_REJECT", "hold"),
            ("ACKGATE__AD_HOC__TEMPLATE__WINDOW__RECORDS", "7"),
            ("ACKGATE__AD_HOC__TEMPLATE__CONSUMER__CHECK_CRCS", "true"),
        ],
    )
    .expect("it is valid");
    assert!(config.subscriptions.is_empty());
    let rules = config.ad_hoc.expect("it is there");
    let opened = rules.subscription(
        "n".to_owned(),
        "main",
        &topics(&["a"]),
        "g",
        &Wishes::default(),
    );
    let opened = opened.expect("the template is valid");
    assert_eq!(opened.policy.window.records, 7);
    assert_eq!(
        opened.consumer_properties,
        [("check.crcs".to_owned(), "true".to_owned())]
    );
}

#[test]
fn log_shows_the_section_and_no_secret_of_it() {
    let secret = "dead_letter.producer.\"sasl.password\" = \"hunter2\"";
    let config = load_with(&ad_hoc(secret), &[]).expect("it is valid");
    let shown: String = config
        .effective()
        .into_iter()
        .map(|(part, settings)| format!("{part}: {settings}\n"))
        .collect();
    assert!(
        shown.contains("ad_hoc: clusters=main; topics=orders.*,x?"),
        "{shown}"
    );
    assert!(
        shown.contains("ad_hoc.template: start=latest; order=none"),
        "{shown}"
    );
    let debugged = format!("{config:?}{shown}");
    assert!(!debugged.contains("hunter2"), "{debugged}");
}

#[test]
fn wishes_are_read_like_the_file() {
    let config = load_with(&ad_hoc(""), &[]).expect("it is valid");
    let rules = config.ad_hoc.expect("it is there");
    let mut wishes = Wishes::default();
    wishes.ask("ack_deadline", Wish::Span(Duration::from_millis(99)));
    wishes.ask("order", Wish::Text("fifo".to_owned()));
    let refused = rules.subscription("n".to_owned(), "main", &topics(&["x1"]), "team-a", &wishes);
    let mut refused = refused.expect_err("both are wrong");
    refused.sort_by(|a, b| a.option.cmp(&b.option));
    assert_eq!(refused[0].option, "ack_deadline");
    assert!(
        refused[0].why.starts_with("must be a duration from 100ms"),
        "{refused:?}"
    );
    assert_eq!(refused[1].option, "order");
    assert_eq!(refused.len(), 2);
}

#[test]
fn what_only_another_value_needed_goes_with_it() {
    let template = "delivery = \"broadcast\"\nslow_subscriber = \"fail\"\nslow_after = \"5s\"\n\
                    absent_grace = \"1s\"";
    let text = ad_hoc(template).replace(
        "start = \"latest\"\norder = \"none\"",
        "start = \"latest\"\norder = \"key\"\nkey_share = 0.5",
    );
    let config = load_with(&text, &[]).expect("it is valid");
    let rules = config.ad_hoc.expect("it is there");
    let mut wishes = Wishes::default();
    let word = |word: &str| Wish::Text(word.to_owned());
    wishes.ask("delivery", word("competing"));
    wishes.ask("order", word("lane"));
    wishes.ask("on_reject", word("drop"));
    let made = rules.subscription("n".to_owned(), "main", &topics(&["x1"]), "team-a", &wishes);
    let made = made.expect("nothing of the template stands in the way");
    assert!(made.dead_letter.is_none());
    assert_eq!(wishes.contradictions(&made), []);
}

#[test]
fn batches_wait_for_nothing_unless_asked_to() {
    let batch = load_with(LEAST, &[]).expect("it is valid").subscriptions[0].batch;
    assert_eq!((batch.max_records, batch.max_bytes), (1024, 256 << 10));
    assert!(batch.linger.is_zero());
    let asked = orders("batch = { linger = \"5ms\", min_fill = 0.5, max_records = 10 }");
    let batch = load_with(&asked, &[]).expect("it is valid").subscriptions[0].batch;
    assert_eq!(
        (batch.max_records, batch.linger),
        (10, Duration::from_millis(5))
    );
    for (wrong, said) in [
        ("batch.max_records = 10001", "must be 1 to 10000 records"),
        (
            "batch.max_bytes = \"17MiB\"",
            "must be a size from 1KiB to 16MiB",
        ),
        ("batch.linger = \"2m\"", "must be a duration from 0s to 1m"),
        ("batch.min_fill = 0", "must be a number from 0.01 to 1"),
    ] {
        let messages = messages(&orders(wrong), &[]);
        assert!(messages[0].contains(said), "{messages:?}");
    }
}
