//! What a checked cluster's facts lead to, and clusters that fail or never answer.

use std::{path::Path, sync::mpsc};

use super::*;
use crate::broker::{
    Error, ErrorKind,
    kafka::{
        Keeping,
        embedded::{Embedded, Options},
    },
};

const TEXT: &str = r#"
[clusters.main]
address = "kafka://user:S3cretMarker@broker"
[clusters.far]
address = "kafka://far"
[subscriptions.orders]
cluster = "main"
topics = ["orders", "bills"]
group = "shipping"
start = "earliest"
order = "none"
dead_letter.topic = "dead"
[subscriptions.events]
cluster = "far"
topics = ["events"]
group = "audit"
start = "latest"
order = "lane"
on_reject = "hold"
"#;

fn configured() -> Config {
    config::parse(TEXT, Path::new("ackgate.toml"), []).unwrap()
}

fn topic(name: &str) -> TopicFacts {
    TopicFacts {
        name: name.to_owned(),
        partitions: 8,
        leaderless: 0,
        replicas: 3,
        in_sync: 3,
        min_in_sync: Some(2),
        max_message_bytes: Some(1_048_588),
        keeping: None,
    }
}

/// Findings about the cluster `main`, as `level: text`.
fn about(facts: Vec<TopicFacts>) -> Vec<String> {
    let config = configured();
    rules::cluster(&config, &config.clusters[1], Ok(facts))
        .iter()
        .map(|finding| format!("{}: {}", finding.level.word(), finding.text))
        .collect()
}

fn with_dead(change: impl FnOnce(&mut TopicFacts)) -> Vec<String> {
    let mut dead = topic("dead");
    change(&mut dead);
    let all = about(vec![topic("orders"), topic("bills"), dead]);
    assert_eq!(
        all[..3],
        [
            "ok: broker:9092: answers",
            "ok: topic bills: partitions: 8",
            "ok: topic orders: partitions: 8",
        ]
    );
    all[3..].to_vec()
}

#[test]
fn a_cluster_that_has_everything_is_all_ok() {
    assert_eq!(
        with_dead(|_| {}),
        ["ok: dead-letter topic dead takes writes: 3 of 3 replicas in sync, at least 2 needed"]
    );
}

#[test]
fn missing_topics_are_errors() {
    assert_eq!(
        about(vec![topic("orders")]),
        [
            "ok: broker:9092: answers",
            "ERROR: topic bills does not exist",
            "ok: topic orders: partitions: 8",
            "ERROR: dead-letter topic dead does not exist: the first rejected record would hold its \
             lane",
        ]
    );
}

#[test]
fn what_a_missing_dead_letter_topic_would_do_follows_on_failure() {
    let last = |on_failure: &str| {
        let text = TEXT.replacen(
            "dead_letter.topic = \"dead\"",
            &format!("dead_letter = {{ topic = \"dead\", on_failure = \"{on_failure}\" }}"),
            1,
        );
        let config = config::parse(&text, Path::new("ackgate.toml"), []).unwrap();
        let facts = vec![topic("orders"), topic("bills")];
        let findings = rules::cluster(&config, &config.clusters[1], Ok(facts));
        findings.last().expect("findings").text.clone()
    };
    assert!(last("block").ends_with("would hold its lane"));
    assert!(last("park").ends_with("would be set aside and wait for it"));
    assert!(last("discard").ends_with("would settle without a copy"));
}

#[test]
fn breaker_that_nobody_can_close_is_a_warning() {
    assert_eq!(rules::breakers(&configured()), []);
    let breaker = "dead_letter.topic = \"dead\"\ndead_letter.breaker.run = 9";
    let text = TEXT.replacen("dead_letter.topic = \"dead\"", breaker, 1);
    let found = |text: &str| {
        let config = config::parse(text, Path::new("ackgate.toml"), []).unwrap();
        rules::breakers(&config)
    };
    let [finding] = &found(&text)[..] else {
        panic!("one finding");
    };
    assert_eq!(finding.level, Level::Warning);
    assert_eq!(finding.subject, "subscription orders");
    let reachable = format!("{text}[admin]\naddress = \"127.0.0.1:7655\"\n");
    assert_eq!(found(&reachable), []);
}

#[test]
fn a_dead_letter_topic_must_take_writes() {
    assert_eq!(
        with_dead(|dead| dead.in_sync = 1),
        [
            "ERROR: dead-letter topic dead takes no writes now: 1 of 3 replicas are in sync, and \
          min.insync.replicas is 2"
        ]
    );
    assert_eq!(
        with_dead(|dead| (dead.replicas, dead.in_sync) = (1, 1)),
        [
            "ERROR: dead-letter topic dead has 1 replicas, and min.insync.replicas is 2: older \
             versions of Kafka refuse every write to it",
            "warning: dead-letter topic dead has one replica: it is lost with its broker",
        ]
    );
    assert_eq!(
        with_dead(|dead| dead.leaderless = 2),
        ["ERROR: dead-letter topic dead: 2 of 8 partitions have no leader and take no writes"]
    );
    let unknown = with_dead(|dead| dead.min_in_sync = None);
    assert!(unknown[0].starts_with("warning: dead-letter topic dead: its min.insync.replicas"));
}

#[test]
fn a_dead_letter_topic_with_less_room_than_its_source_is_a_warning_with_both_sizes() {
    let findings = with_dead(|dead| dead.max_message_bytes = Some(1000));
    assert_eq!(findings.len(), 3, "{findings:?}");
    for (finding, source) in findings[1..].iter().zip(["bills", "orders"]) {
        let start = format!(
            "warning: dead-letter topic dead takes messages up to 1000 bytes, and {source} up to \
             1048588"
        );
        assert!(finding.starts_with(&start), "{finding}");
    }
}

#[tokio::test]
async fn one_cluster_that_fails_hides_nothing_of_the_others_and_no_secret_is_shown() {
    let config = configured();
    let ask = |cluster: &Cluster, topics: &[String], _: Duration| {
        if cluster.name == "far" {
            let detail = "connection refused".to_owned();
            return Err(Error {
                kind: ErrorKind::Transient,
                detail,
            });
        }
        assert_eq!(topics, ["bills", "dead", "orders"]);
        Ok(topics.iter().map(|name| topic(name)).collect())
    };
    let findings = probed(&config, Duration::from_secs(20), ask).await;
    let errors: Vec<&Finding> = findings
        .iter()
        .filter(|finding| finding.level == Level::Error)
        .collect();
    assert_eq!(errors.len(), 1, "{findings:?}");
    assert_eq!(errors[0].subject, "cluster far");
    assert_eq!(errors[0].text, "far:9092: connection refused");
    let unchecked = &findings[1];
    assert_eq!(unchecked.subject, "subscription events");
    assert_eq!(unchecked.text, "not checked, for want of its cluster");
    let shown = shown(&findings, 1, 1);
    assert!(
        shown.contains("dead-letter topic dead takes writes"),
        "{shown}"
    );
    assert!(shown.ends_with("1 error, 1 warning"), "{shown}");
    let json = serde_json::to_string(&findings).unwrap();
    assert!(!shown.contains("S3cretMarker") && !json.contains("S3cretMarker"));
    assert!(
        json.contains(r#"{"level":"error","subject":"cluster far""#),
        "{json}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_never_answers_is_given_up() {
    let config = configured();
    let (keep, gate) = mpsc::sync_channel::<()>(0);
    let gate = std::sync::Arc::new(parking_lot::Mutex::new(gate));
    let ask = move |_: &Cluster, _: &[String], _: Duration| {
        // Ends when the test lets go of the sender.
        assert!(gate.lock().recv().is_err());
        Ok(Vec::new())
    };
    let given_up = probed(&config, Duration::from_secs(10), ask);
    // Time stands still by itself as long as the probes block.
    let hurry = async {
        loop {
            time::advance(Duration::from_secs(1)).await;
            task::yield_now().await;
        }
    };
    let findings = tokio::select! {
        findings = given_up => findings,
        () = hurry => unreachable!(),
    };
    drop(keep);
    assert!(
        findings[0].text.ends_with("no answer within 10s"),
        "{findings:?}"
    );
}

#[test]
fn retry_topic_is_looked_at_and_its_absence_stops_nothing() {
    let text = TEXT.replace(
        "dead_letter.topic = \"dead\"",
        "dead_letter.topic = \"dead\"\ndead_letter.retry_topic = \"again\"",
    );
    let config = config::parse(&text, Path::new("ackgate.toml"), []).unwrap();
    assert!(rules::topics(&config, "main").contains(&"again".to_owned()));
    let last = |facts: Option<TopicFacts>| {
        let mut all = vec![topic("orders"), topic("bills"), topic("dead")];
        all.extend(facts);
        let findings = rules::cluster(&config, &config.clusters[1], Ok(all));
        let last = findings.last().expect("there are some").clone();
        format!("{}: {}", last.level.word(), last.text)
    };
    assert_eq!(
        last(Some(topic("again"))),
        "ok: retry topic again: partitions: 8"
    );
    assert!(last(None).starts_with("warning: retry topic again does not exist"));
    let mut small = topic("again");
    small.max_message_bytes = Some(1000);
    assert!(last(Some(small)).contains("up to 1000 bytes, and dead up to 1048588"));
    let mut deleting = topic("again");
    deleting.keeping = Some(Keeping {
        compacted: false,
        deletes_after: Some(Duration::from_secs(7 * 86_400)),
    });
    assert!(last(Some(deleting)).contains("older than 7days: such dead letters"));
    let mut compacted = topic("again");
    compacted.keeping = Some(Keeping {
        compacted: true,
        deletes_after: None,
    });
    assert!(last(Some(compacted)).starts_with("warning: retry topic again is compacted"));
    let mut headless = topic("again");
    headless.leaderless = 1;
    assert!(last(Some(headless)).starts_with("warning: retry topic again: 1 of 8"));
}

#[test]
fn nothing_is_wrong_with_missing_topics_that_the_gateway_makes() {
    let text = TEXT.replace(
        "dead_letter.topic = \"dead\"",
        "dead_letter.topic = \"dead\"\ndead_letter.retry_topic = \"again\"\n\
         dead_letter.create = true",
    );
    let config = config::parse(&text, Path::new("ackgate.toml"), []).unwrap();
    let all = vec![topic("orders"), topic("bills")];
    let findings = rules::cluster(&config, &config.clusters[1], Ok(all));
    let last = findings[findings.len() - 2..].iter();
    let last: Vec<_> = last.map(|it| (it.level, it.text.as_str())).collect();
    assert_eq!(
        last,
        [
            (
                Level::Ok,
                "dead-letter topic dead does not exist: a gateway creates it when it starts"
            ),
            (
                Level::Ok,
                "retry topic again does not exist: a gateway creates it when it starts"
            ),
        ]
    );
}

#[test]
fn properties_of_published_records_producers_that_the_client_library_refuses_are_found() {
    let text = format!(
        "{TEXT}\n[clusters.main.publish]\ntopics = [\"*\"]\n\
         producer.\"linger.ms\" = \"S3cretMarker\"\n[clusters.far.publish]\n\
         topics = [\"*\"]\nproducer.\"linger.ms\" = 1"
    );
    let config = config::parse(&text, Path::new("ackgate.toml"), []).unwrap();
    let findings = refused(&config);
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].level, Level::Error);
    assert_eq!(findings[0].subject, "clusters.main.publish");
    let text = &findings[0].text;
    assert!(
        text.contains("`linger.ms`: its value is not valid"),
        "{text}"
    );
    assert!(!text.contains("S3cretMarker"), "{text}");
}

#[tokio::test]
async fn cluster_that_never_tells_its_settings_is_checked_without_them() {
    let topics = ["orders", "bills", "dead"].map(|name| (name.to_owned(), 1));
    let options = Options {
        topics: topics.into(),
        ..Options::default()
    };
    let broker = Embedded::start(options).unwrap();
    let (main, subscription) = TEXT.split_once("[clusters.far]").unwrap();
    let (_, subscription) = subscription.split_once("[subscriptions.orders]").unwrap();
    let (orders, _) = subscription.split_once("[subscriptions.events]").unwrap();
    let main = main.replace("user:S3cretMarker@broker", &broker.bootstrap());
    let text = format!("{main}[subscriptions.orders]{orders}");
    let config = config::parse(&text, Path::new("ackgate.toml"), []).unwrap();
    let findings = probed(&config, Duration::from_secs(6), facts).await;
    let of = |level| findings.iter().filter(move |it| it.level == level);
    let warned = of(Level::Warning).any(|it| it.text.contains("min.insync.replicas is not known"));
    assert!(warned, "{findings:?}");
    assert!(
        of(Level::Ok).any(|it| it.text == "topic bills: partitions: 1"),
        "{findings:?}"
    );
}
