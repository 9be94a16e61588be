//! How commands write: tables for people, JSON for programs, complaints to
//! standard error.

use std::io::{self, Write as _};

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

use crate::config::Problems;

/// Writes a text and a line break to standard output. A reader that has gone away,
/// as `head` does, is no failure.
///
/// # Errors
/// The text could not be written.
pub(super) fn line(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let written = writeln!(out, "{text}").and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Writes a value as indented JSON.
///
/// # Errors
/// The value could not be written.
pub(super) fn json<T: Serialize>(value: &T) -> anyhow::Result<()> {
    Ok(line(&serde_json::to_string_pretty(value)?)?)
}

/// A table without lines, as wide as the terminal at most.
pub(super) fn table<const N: usize>(head: [&str; N], rows: Vec<[String; N]>) -> String {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(head);
    for row in rows {
        table.add_row(row);
    }
    table.trim_fmt()
}

/// Says something on standard error. If even that is not heard, nobody is there to
/// be told.
pub(super) fn complain(text: &str) {
    drop(writeln!(io::stderr().lock(), "{text}"));
}

/// Problems of a configuration, under a line that counts them.
pub(super) fn problems(problems: &Problems) -> String {
    let count = problems.list().len();
    let noun = if count == 1 { "problem" } else { "problems" };
    format!("error: {count} {noun} in the configuration\n{problems}")
}
