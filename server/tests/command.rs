//! The `ackgate` program from outside: what it says of itself and how it refuses.
//!
//! Being the server package's integration test, it also makes `cargo test` build
//! the program, which the end-to-end tests start.

#![allow(
    clippy::unwrap_used,
    reason = "a test that fails should stop where it fails"
)]

use std::process::{Command, Output};

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
    for command in ["serve", "check", "sub", "pub", "demo", "bench"] {
        let listed = said
            .lines()
            .any(|line| line.trim_start().starts_with(command));
        assert!(listed, "{command} is not in:\n{said}");
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
