//! The index of field cases: every case has a test, and the test says so.

use std::{collections::BTreeSet, path::Path};

use super::{complain, tree};

/// Cases that must be in the index: commit floor, rebalance, verdicts, order and
/// broadcast, flow control, dead letters, fidelity of what is passed on.
const REQUIRED: &[u32] = &[
    1, 2, 3, 4, 6, 10, 11, 12, 16, 17, 18, 20, 21, 23, 26, 28, 29, 32, 33, 34, 35, 38, 39, 41, 42,
    44, 45, 47, 48, 49, 52, 53, 55, 57, 59, 62, 64, 66, 68, 69, 70, 73, 74, 75, 77, 78, 80, 81,
];

/// A row of the index.
struct Row {
    id: String,
    file: String,
    test: String,
}

fn rows() -> Vec<Row> {
    let index = tree::text("tests/field-cases.md");
    let row = |line: &str| {
        let id = line.strip_prefix("| FC-")?.split(' ').next()?;
        let mut named = line.split('`').skip(1).step_by(2);
        Some(Row {
            id: format!("FC-{id}"),
            file: named.next()?.to_owned(),
            test: named.next()?.to_owned(),
        })
    };
    index.lines().filter_map(row).collect()
}

/// The comment and attribute lines directly above a function; in Python the line of
/// documentation below.
fn head<'a>(file: &str, source: &'a str, test: &str) -> Option<Vec<&'a str>> {
    let lines: Vec<&str> = source.lines().collect();
    if Path::new(file).extension().is_some_and(|kind| kind == "py") {
        let function = format!("def {test}(");
        let at = lines.iter().position(|line| line.starts_with(&function))?;
        return Some(lines.get(at + 1).copied().into_iter().collect());
    }
    let function = format!("fn {test}(");
    let at = lines.iter().position(|line| line.contains(&function))?;
    let above = lines.get(..at)?.iter().rev();
    let is_head = |line: &&&str| {
        let line = line.trim_start();
        line.starts_with("//") || line.starts_with('#')
    };
    Some(above.take_while(is_head).copied().collect())
}

#[test]
fn field_case_has_a_test_that_cites_it() {
    let mut complaints = Vec::new();
    let rows = rows();
    for row in &rows {
        let Row { id, file, test } = row;
        if !tree::exists(file) || file.is_empty() {
            complaints.push(format!("{id}: there is no file {file:?}"));
            continue;
        }
        match head(file, &tree::text(file), test) {
            None => complaints.push(format!("{id}: {file} has no {test:?}")),
            Some(head) => {
                let cites = |line: &&str| {
                    let mut words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
                    words.any(|word| word == id)
                };
                if !head.iter().any(cites) {
                    complaints.push(format!("{id}: {test} does not cite it"));
                }
            }
        }
    }
    let found: BTreeSet<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    for id in REQUIRED.iter().map(|number| format!("FC-{number:02}")) {
        if !found.contains(id.as_str()) {
            complaints.push(format!("{id} has no row in tests/field-cases.md"));
        }
    }
    complain(complaints);
}

/// Every rule is what some test says it is about, by its comment, its name or a message.
#[test]
fn invariant_has_a_test_that_cites_it() {
    let tests: Vec<_> = tree::sources()
        .into_iter()
        .filter(|source| source.is_test() && !source.path.starts_with("tests/tidy/"))
        .collect();
    let mut complaints = Vec::new();
    for id in (1..=14).map(|number| format!("L{number}")) {
        let in_name = format!("fn l{}_", id.trim_start_matches('L'));
        let cited = tests.iter().any(|source| {
            source.text.contains(&in_name)
                || source.text.lines().any(|line| tree::has_word(line, &id))
        });
        if !cited {
            complaints.push(format!("no test cites {id}"));
        }
    }
    complain(complaints);
}
