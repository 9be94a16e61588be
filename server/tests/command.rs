//! The `ackgate` program from outside: what it says of itself and how it refuses.
//!
//! Being the server package's integration test, it also makes `cargo test` build
//! the program, which the end-to-end tests start.

#![allow(
    clippy::unwrap_used,
    reason = "a test that fails should stop where it fails"
)]

use std::process::{Command, Output};

const COMMANDS: [&str; 9] = [
    "serve", "check", "sub", "pub", "lanes", "breaker", "dlq", "demo", "bench",
];

fn ackgate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ackgate"))
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn version_is_the_packages() {
    let output = ackgate(&["--version"]);
    assert!(output.status.success());
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said.trim(), concat!("ackgate ", env!("CARGO_PKG_VERSION")));
}

#[test]
fn help_lists_every_command() {
    let output = ackgate(&["--help"]);
    assert!(output.status.success());
    let said = String::from_utf8(output.stdout).unwrap();
    for command in COMMANDS {
        let listed = said
            .lines()
            .any(|line| line.trim_start().starts_with(command));
        assert!(listed, "{command} is not in:\n{said}");
    }
}

#[test]
fn help_of_every_command_tells_its_exit_codes() {
    let nested = [
        &["breaker", "reset"][..],
        &["dlq", "list"],
        &["dlq", "show"],
        &["dlq", "redrive"],
    ];
    let all = COMMANDS.iter().map(std::slice::from_ref).chain(nested);
    for command in all {
        let output = ackgate(&[command, &["--help"]].concat());
        assert!(output.status.success());
        let said = String::from_utf8(output.stdout).unwrap();
        let (_, codes) = said.split_once("Exit codes: 0 ").unwrap_or_default();
        let codes: Vec<_> = codes.split_whitespace().collect();
        assert!(codes.join(" ").contains("2 wrong usage"), "{said}");
    }
}

#[test]
fn unknown_command_is_refused_with_usage() {
    let output = ackgate(&["no-such-command"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        output.stdout.is_empty(),
        "nothing that a pipe would take for a result"
    );
    assert!(String::from_utf8(output.stderr).unwrap().contains("Usage"));
}
