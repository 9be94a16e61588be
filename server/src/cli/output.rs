//! How commands write: tables for people, JSON for programs, complaints to
//! standard error.

use std::{
    io::{self, Write as _},
    os::fd::AsFd,
    time::Duration,
};

use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use crate::config::Problems;

/// Between two looks whether somebody still reads.
const LOOK: Duration = Duration::from_millis(300);

/// Writes a text and a line break to standard output. A reader that has gone away,
/// as `head` does, is no failure.
///
/// # Errors
/// The text could not be written.
pub(super) fn line(text: &str) -> io::Result<()> {
    heard(text).map(drop)
}

/// As [`line`]; returns whether there is still a reader.
///
/// # Errors
/// The text could not be written.
pub(super) fn heard(text: &str) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    let written = writeln!(out, "{text}").and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        result => result.map(|()| true),
    }
}

/// Waits until nobody reads any more what is written there: the pipe's or socket's other
/// end is closed. Of files and terminals that is never so. Cancel safe.
pub(super) async fn unread(out: impl AsFd) {
    while !is_unread(&out) {
        tokio::time::sleep(LOOK).await;
    }
}

fn is_unread(out: &impl AsFd) -> bool {
    let mut looked = [PollFd::new(out, PollFlags::empty())];
    let at_once = Timespec::default();
    let found = poll(&mut looked, Some(&at_once));
    let [looked] = looked;
    found.is_ok() && looked.revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

/// Writes a value as indented JSON.
///
/// # Errors
/// The value could not be written.
pub(super) fn json<T: Serialize>(value: &T) -> anyhow::Result<()> {
    Ok(line(&serde_json::to_string_pretty(value)?)?)
}

/// A cell that is longer than this and has spaces is broken into lines of at least
/// this width where the terminal is too narrow for all.
const PROSE: u16 = 24;

/// A table without lines. On a narrow terminal only columns of prose are broken: names
/// and numbers stay whole, to be read and copied, and the terminal wraps what is too
/// long all the same.
pub(super) fn table<const N: usize>(head: [&str; N], rows: Vec<[String; N]>) -> String {
    arranged(head, rows, None)
}

fn arranged<const N: usize>(head: [&str; N], rows: Vec<[String; N]>, width: Option<u16>) -> String {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic);
    if let Some(width) = width {
        table.set_width(width);
    }
    let is_prose = |cell: &String| cell.len() > usize::from(PROSE) && cell.contains(' ');
    let constraints: Vec<ColumnConstraint> = (0..N)
        .map(
            |column| match rows.iter().any(|row| row.get(column).is_some_and(is_prose)) {
                true => ColumnConstraint::LowerBoundary(Width::Fixed(PROSE)),
                false => ColumnConstraint::ContentWidth,
            },
        )
        .collect();
    table.set_header(head);
    for row in rows {
        table.add_row(row);
    }
    table.set_constraints(constraints);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pipe_is_unread_once_its_reader_is_gone() {
        let (reader, writer) = io::pipe().unwrap();
        assert!(!is_unread(&writer));
        drop(reader);
        let unread = tokio::time::timeout(Duration::from_secs(20), unread(&writer));
        unread.await.expect("it is seen");
        let file = tempfile::tempfile().unwrap();
        assert!(!is_unread(&file));
    }

    #[test]
    fn narrow_terminal_breaks_prose_and_neither_names_nor_numbers() {
        let row = [
            "orders.eu-west.very-long".to_owned(),
            "1234567".to_owned(),
            "2026-11-30 16:43:22".to_owned(),
            "the database could not be reached in time".to_owned(),
        ];
        for width in [0, 1, 40, 80] {
            let shown = arranged(
                ["TOPIC", "COMMITTED", "GIVEN UP", "REASON"],
                vec![row.clone()],
                Some(width),
            );
            let whole = ["COMMITTED", "GIVEN UP", &row[0], &row[1], &row[2]];
            assert!(whole.iter().all(|text| shown.contains(text)), "{shown}");
            let reason = shown.lines().skip(1).count();
            assert!((2..=3).contains(&reason), "{shown}");
        }
        let wide = arranged(["", "", "", ""], vec![row.clone()], Some(200));
        assert!(wide.contains(&row[3]), "{wide}");
    }
}
