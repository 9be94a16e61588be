//! The conformance run of the languages: its documents and its tables are in step with
//! what there is.

use std::{collections::BTreeSet, fs};

use super::{complain, tree};

/// The cases as the runner knows them: what is below `@case` or `@runner_case`.
fn cases() -> BTreeSet<String> {
    let folder = tree::root().join("tests/polyglot/cases");
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).expect("the cases can be read") {
        let path = entry.expect("the cases can be read").path();
        if path.extension().is_none_or(|kind| kind != "py") {
            continue;
        }
        let source = fs::read_to_string(&path).expect("a case can be read");
        let mut lines = source.lines();
        while let Some(line) = lines.next() {
            if line == "@case" || line == "@runner_case" {
                let function = lines.next().unwrap_or_default();
                let name = function
                    .strip_prefix("def ")
                    .and_then(|rest| rest.split('(').next());
                let name = name.unwrap_or_else(|| panic!("{}: {function}", path.display()));
                found.insert(name.trim_end_matches('_').replace('_', "-"));
            }
        }
    }
    found
}

#[test]
fn every_case_is_explained() {
    let readme = tree::text("tests/polyglot/README.md");
    let explained: BTreeSet<String> = readme
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` |"))
        .map(|(name, _)| name.to_owned())
        .filter(|name| !name.contains(['.', '/']))
        .collect();
    let cases = cases();
    assert!(cases.contains("redelivery"), "no case was found");
    let missing = cases.difference(&explained);
    let old = explained.difference(&cases);
    complain(
        missing
            .map(|name| format!("tests/polyglot/README.md does not explain {name}"))
            .chain(
                old.map(|name| format!("tests/polyglot/README.md explains {name}, which is gone")),
            ),
    );
}

#[test]
fn every_language_is_run() {
    let run = tree::text("tests/polyglot/languages.py");
    let mut complaints = Vec::new();
    let examples = tree::root().join("client/examples");
    for entry in fs::read_dir(examples).expect("the examples can be read") {
        let path = entry.expect("the examples can be read").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.join("build").is_file() && !run.contains(&format!("\"{name}\", ")) {
            complaints.push(format!("tests/polyglot/languages.py does not run {name}"));
        }
    }
    complain(complaints);
}
