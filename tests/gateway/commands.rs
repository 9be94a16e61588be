//! What a user of the commands meets: options that are refused, gateways that are not there
//! or speak TLS, and readers that go away.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::TcpListener,
    process::{Child, Command, ExitStatus, Stdio},
};

use crate::support::{
    Authority, Case, Gateway, Process, Stage, ackgate, cases, eventually, free_port,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        embedded: options_that_cannot_be_are_refused_before_anything_is_begun,
            failures_end_with_exit_code_1_and_name_what_may_help,
            demo_says_that_its_port_is_taken,
            commands_end_when_nobody_reads_them_any_more,
            token_is_written_for_its_user_alone;
    ]
}

/// Runs a command to its end; its exit code and what it says on standard error.
async fn run(arguments: &[&str]) -> (Option<i32>, String) {
    let mut process = Process::start(arguments[0], Command::new(ackgate()).args(arguments));
    let status = process.end().await;
    (status.code(), process.err())
}

async fn options_that_cannot_be_are_refused_before_anything_is_begun(stage: Stage) {
    let empty = stage.folder().join("empty");
    fs::write(&empty, "\n").unwrap();
    let empty = empty.to_str().unwrap();
    // Nobody listens there: whoever tried would fail otherwise, or wait.
    let nowhere = format!("127.0.0.1:{}", free_port());
    let long = "x".repeat(257);
    for (line, expected) in [
        (&["pull", "orders", "--wait", "90s"][..], "0s to 1m"),
        (&["pull", "orders", "--max", "0"], "1..=10000"),
        (&["pull", "orders", "--id", &long], "256 bytes"),
        (&["pull", "", "--address", &nowhere], "must not be empty"),
        (&["sub", "orders", "--batch-min-fill", "2"], "0.01 to 1"),
        (&["sub", "orders", "--batch-linger", "2m"], "0s to 1m"),
        (&["sub", "orders", "--exit-when-idle", "0s"], "1ms to 1day"),
        (
            &["sub", "orders", "--address", "kafka://a"],
            "--address: \"kafka://a\" must be",
        ),
        (&["sub", "orders", "--address", "::1"], "IPv6"),
        (
            &["sub", "orders", "--tls-ca", "/no/such"],
            "/no/such cannot be read",
        ),
        (&["sub", "orders", "--token-file", empty], "is empty"),
        (&["pub", "orders", "--token-file", empty], "is empty"),
        (&["pub", "orders", "--wait", "0s"], "1ms to 1day"),
        (
            &["check", "--config", "none", "--timeout", "1h"],
            "100ms to 10m",
        ),
        (&["bench", "--deadline", "0s"], "1s to 1day"),
        (&["lanes", "--address", "https://localhost"], "without TLS"),
        (&["lanes", "--address", "a:0"], "must be HOST[:PORT]"),
        (&["dlq", "list"], "--config FILE"),
        (&["token", "new", "a b"], "must have a name"),
        (&["demo", "--port", "65536"], "--port"),
        (&["nonsense"], "nonsense"),
    ] {
        let (code, said) = run(line).await;
        assert_eq!(code, Some(2), "{line:?}: {said}");
        assert!(said.contains(expected), "{line:?}: {expected} in {said}");
    }
}

/// What each of these command lines ends with: exit code 1, and a text that has this.
async fn fail(lines: &[(&[&str], &str)]) {
    for (line, expected) in lines {
        let (code, said) = run(line).await;
        assert_eq!(code, Some(1), "{line:?}: {said}");
        assert!(said.contains(expected), "{line:?}: {expected} in {said}");
        assert!(!said.contains("given up for now"), "{line:?}: {said}");
    }
}

async fn failures_end_with_exit_code_1_and_name_what_may_help(stage: Stage) {
    let topic = stage.topic("t", 1).await;
    let authority = Authority::new(stage.folder(), "ca");
    let tokens = stage.folder().join("tokens");
    let mut token = Process::start(
        "token",
        Command::new(ackgate()).args(["token", "new", "us"]),
    );
    assert!(token.end().await.success());
    fs::write(&tokens, &token.out_from(0)[1]).unwrap();
    let unknown = stage.folder().join("unknown");
    fs::write(&unknown, "none-of-ours").unwrap();
    let top = authority.signs(&["127.0.0.1"]).lines() + "listen.tokens_file = \"tokens\"\n";
    let gateway = Gateway::start_with(&stage, &[stage.subscription(&topic)], &top).await;
    let bare = &gateway.address.to_string()[..];
    let (plain, secure) = (
        &format!("http://{bare}")[..],
        &format!("https://{bare}")[..],
    );
    let ca = authority.certificate();
    let (ca, unknown) = (ca.to_str().unwrap(), unknown.to_str().unwrap());

    let [sub, pull, publish] = ["sub", "pull", "pub"].map(|it| [it, "orders", "--address"]);
    let https = "give --address https://HOST:PORT";
    fail(&[
        (&[&sub[..], &[plain]].concat(), https),
        (&[&sub[..], &[bare]].concat(), https),
        (&[&pull[..], &[bare]].concat(), https),
        (&[&publish[..], &[bare]].concat(), https),
        (&[&sub[..], &[secure]].concat(), "no TLS with the gateway"),
        (&["lanes", "--address", bare], "not its listen.address"),
    ])
    .await;

    let trusting = [bare, "--tls-ca", ca];
    let token = "--token-file FILE";
    let none_of_ours = "has no line in the gateway's listen.tokens_file";
    let shows = [&sub[..], &trusting[..], &["--token-file", unknown]].concat();
    fail(&[
        (&[&sub[..], &trusting[..]].concat(), token),
        (&[&pull[..], &trusting[..]].concat(), token),
        (&[&publish[..], &trusting[..]].concat(), token),
        (&shows, none_of_ours),
    ])
    .await;

    let nowhere = &format!("127.0.0.1:{}", free_port())[..];
    let operators = "no gateway serves operators";
    fail(&[
        (&[&pull[..], &[nowhere]].concat(), "cannot reach"),
        (
            &[&publish[..], &[nowhere, "--wait", "1s"]].concat(),
            "no gateway at",
        ),
        (&["lanes", "--address", nowhere], operators),
        (
            &["breaker", "reset", "orders", "--address", nowhere],
            operators,
        ),
    ])
    .await;
}

async fn demo_says_that_its_port_is_taken(_: Stage) {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    let (code, said) = run(&["demo", "--port", &address.port().to_string()]).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&format!("{address} is taken")), "{said}");
    assert!(said.contains("--port"), "{said}");
}

/// Starts a command and reads its first line there, then nothing more.
fn read_one_line(arguments: &[&str], from_err: bool) -> Child {
    let piped = |wanted: bool| {
        if wanted {
            Stdio::piped()
        } else {
            Stdio::null()
        }
    };
    let mut child = Command::new(ackgate())
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(piped(!from_err))
        .stderr(piped(from_err))
        .spawn()
        .expect("it can be started");
    let mut line = String::new();
    let read = match from_err {
        true => BufReader::new(child.stderr.take().unwrap()).read_line(&mut line),
        false => BufReader::new(child.stdout.take().unwrap()).read_line(&mut line),
    };
    assert!(read.is_ok() && !line.is_empty(), "it says something");
    child
}

async fn ends(what: &str, mut child: Child) -> ExitStatus {
    let ended = eventually(what, async || {
        let ended = child.try_wait().expect("it can be waited for");
        ended.ok_or_else(|| "it is running".to_owned())
    });
    ended.await
}

async fn commands_end_when_nobody_reads_them_any_more(stage: Stage) {
    let topic = stage.topic("t", 1).await;
    stage.produce(&topic, &["one"]).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let address = gateway.address.to_string();
    // No further record comes that could not be printed.
    let sub = read_one_line(&["sub", "orders", "--address", &address], false);
    assert_eq!(ends("sub", sub).await.code(), Some(0));
    stage.commits(&topic, 0, 1).await;

    let demo = read_one_line(&["demo", "--port", "0", "--records", "10"], true);
    assert_eq!(ends("demo", demo).await.code(), Some(0));
}

async fn token_is_written_for_its_user_alone(stage: Stage) {
    let path = stage.folder().join("billing.token");
    let arguments = ["token", "new", "billing", "--out", path.to_str().unwrap()];
    let mut process = Process::start("token", Command::new(ackgate()).args(arguments));
    assert!(process.end().await.success(), "{}", process.err());
    let lines = process.out_from(0);
    assert_eq!(lines.len(), 1, "only its line: {lines:?}");
    assert!(lines[0].starts_with("billing:sha256:"), "{lines:?}");
    let token = fs::read_to_string(&path).unwrap();
    assert!(token.starts_with("ackgate_"), "{token}");

    let (code, said) = run(&arguments).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("exists already"), "{said}");
    assert_eq!(fs::read_to_string(&path).unwrap(), token);

    // The line is that of the token.
    let file = fs::File::open(&path).unwrap();
    let mut command = Command::new(ackgate());
    command.args(["token", "hash", "billing"]);
    let mut hash = Process::start_with_input("token", &mut command, file.into());
    assert!(hash.end().await.success(), "{}", hash.err());
    assert_eq!(hash.out_from(0), lines);
}
