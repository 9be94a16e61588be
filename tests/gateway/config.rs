//! What the program refuses to start with, what it says then, and what it waits for.

use std::{fs, net::SocketAddr, path::PathBuf, process::Command, time::Duration};

use crate::support::{
    Authority, Case, Identity, Process, Stage, Subscription, ackgate, cases, free_port, render,
    throughout,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        embedded: automatic_commits_cannot_be_switched_on,
            all_problems_are_reported_at_once,
            password_is_never_shown,
            wrong_files_are_named_and_nothing_listens,
            cluster_that_does_not_answer_is_waited_for,
            check_passes_on_a_good_configuration;
        kafka: check_names_the_missing_topics;
    ]
}

/// Runs a command on a configuration to its end: whether it succeeded, what it said.
async fn run(stage: &Stage, command: &str, file: &str) -> (bool, String) {
    let path = stage.folder().join("refused.toml");
    fs::write(&path, file).unwrap();
    let mut process = Process::start(
        &format!("ackgate {command}"),
        Command::new(ackgate())
            .arg(command)
            .arg("--config")
            .arg(&path),
    );
    let status = process.end().await;
    (
        status.success(),
        format!("{}\n{}", process.out_from(0).join("\n"), process.err()),
    )
}

fn address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

// FC-12.
async fn automatic_commits_cannot_be_switched_on(stage: Stage) {
    for (key, value) in [
        ("enable.auto.commit", "true"),
        ("enable.auto.commit", "TRUE"),
        ("ENABLE.AUTO.COMMIT", "1"),
        (" enable.auto.commit ", "yes"),
        ("enable_auto_commit", "true"),
        ("auto.commit.enable", "true"),
    ] {
        let subscription = Subscription::new("orders", "t", "g").consumer_property(key, value);
        let file = render(address(), &stage.broker.bootstrap(), &[subscription], "");
        for command in ["serve", "check"] {
            let (success, said) = run(&stage, command, &file).await;
            assert!(!success, "{command} took {key}={value}");
            assert!(said.contains("refused.toml"), "the file is named: {said}");
            assert!(said.contains(key.trim()), "the key is named: {said}");
            assert!(said.contains(value), "the value is named: {said}");
        }
    }
}

async fn all_problems_are_reported_at_once(stage: Stage) {
    let subscription = Subscription::new("orders", "t", "g")
        .set("ack_deadline", "\"30\"")
        .set("max_attempts", "0")
        .set("colour", "\"blue\"")
        .set("cluster", "\"elsewhere\"");
    let file = render(
        address(),
        &stage.broker.bootstrap(),
        &[subscription],
        "memory = \"1B\"",
    );
    let (success, said) = run(&stage, "serve", &file).await;
    assert!(!success);
    for problem in [
        "ack_deadline",
        "max_attempts",
        "colour",
        "elsewhere",
        "memory",
    ] {
        assert!(said.contains(problem), "{problem} is not in: {said}");
    }
}

// FC-105.
async fn password_is_never_shown(stage: Stage) {
    let marker = "Zx9-never-shown";
    let file = format!(
        "listen.address = \"{}\"\nlog.filter = \"trace\"\n\
         clusters.main.address = \"kafka://someone:{marker}@127.0.0.1:{}\"\n\
         clusters.main.properties.\"sasl.mechanism\" = \"PLAIN\"\n\
         clusters.main.properties.\"security.protocol\" = \"sasl_plaintext\"\n\
         subscriptions.orders.ack_deadline = \"wrong\"\n",
        address(),
        free_port()
    );
    for command in ["serve", "check"] {
        let (success, said) = run(&stage, command, &file).await;
        assert!(!success);
        assert!(!said.contains(marker), "{said}");
    }
}

async fn cluster_that_does_not_answer_is_waited_for(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["a"]).await;
    stage.broker.faults().set_reachable(false).unwrap();
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut stream = gateway.open().await;
    gateway.logs("unreachable").await;
    throughout(
        "the stream stays open",
        Duration::from_secs(1),
        async || Ok(()),
    )
    .await;

    stage.broker.faults().set_reachable(true).unwrap();
    let record = stream.record().await;
    stream.ack(&record).await;
    stage.commits(&topic, 0, 1).await;
}

async fn check_passes_on_a_good_configuration(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let subscription = stage.subscription(&topic);
    let file = render(address(), &stage.broker.bootstrap(), &[subscription], "");
    let (success, said) = run(&stage, "check", &file).await;
    assert!(success, "{said}");
}

async fn check_names_the_missing_topics(stage: Stage) {
    let topic = crate::support::Topic {
        name: stage.named("orders"),
    };
    let dead = crate::support::Topic {
        name: stage.named("dead"),
    };
    let subscription = stage.subscription(&topic).dead_letter(&dead);
    let file = render(address(), &stage.broker.bootstrap(), &[subscription], "");
    let (success, said) = run(&stage, "check", &file).await;
    assert!(!success, "{said}");
    assert!(
        said.contains(&topic.name) && said.contains(&dead.name),
        "{said}"
    );
}

async fn wrong_files_are_named_and_nothing_listens(stage: Stage) {
    let authority = Authority::new(stage.folder(), "ca");
    let (one, two) = (authority.signs(&["one"]), authority.signs(&["two"]));
    let mixed = Identity {
        certificate: one.certificate.clone(),
        key: two.key.clone(),
    };
    let missing = Identity {
        certificate: one.certificate.clone(),
        key: PathBuf::from("no-such.key"),
    };
    let swapped = Identity {
        certificate: one.key.clone(),
        key: one.certificate.clone(),
    };
    fs::write(stage.folder().join("tokens"), "me:hunter2\n").unwrap();
    let check = async |command: &str, top: &str, expected: &str| {
        let file = render(address(), "localhost:1", &[], top);
        let (success, said) = run(&stage, command, &file).await;
        assert!(!success && said.contains(expected), "{expected} in {said}");
        let known = said.contains("hunter2") || said.contains("listening");
        assert!(!known, "{said}");
    };
    for command in ["check", "serve"] {
        check(
            command,
            &mixed.lines(),
            "is not the key of the first certificate",
        )
        .await;
        check(command, &missing.lines(), "no-such.key cannot be read").await;
        check(command, &swapped.lines(), "holds no certificate in PEM").await;
        check(
            command,
            "listen.tokens_file = \"tokens\"\n",
            "line 1 must be NAME",
        )
        .await;
    }
}
