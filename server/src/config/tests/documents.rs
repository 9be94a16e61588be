//! The example file and the reference say what the code does.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::super::{
    options::{self, Need},
    reader::{Reader, path},
    reference, tree,
    value::shown,
};

fn document(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::read_to_string(path).expect("the document is there")
}

#[test]
fn the_example_file_loads() {
    let loaded = super::load_with(&document("ackgate.example.toml"), &[]);
    loaded.expect("the example is valid");
}

#[test]
fn the_example_file_has_every_option_with_its_default() {
    let text = document("ackgate.example.toml");
    let root = tree::parse(&text, "example").expect("it is TOML");
    let reader = Reader {
        file: "example",
        folder: Path::new(""),
        root: &root,
        problems: Vec::new(),
    };
    for spec in options::all() {
        let name = if spec.key.starts_with("clusters") {
            "main"
        } else {
            "orders"
        };
        let written = reader.given(spec, name).map(|node| shown(node, None));
        match spec.need {
            // As a remark, where it would contradict the rest of the example.
            Need::Default(default) => {
                let path = path(spec, name);
                let end = path.last().expect("a path has an end");
                let remark = text.contains(&format!("# {end} = {default}\n"));
                let there = written.as_deref() == Some(default) || written.is_none() && remark;
                assert!(there, "{} with {default}, not {written:?}", spec.key);
            }
            Need::Required => assert!(written.is_some(), "{} is missing", spec.key),
            Need::Optional => {
                let path = path(spec, name);
                let remark = format!("# {} = ", path.last().expect("a path has an end"));
                let there = written.is_some() || text.contains(&remark);
                assert!(there, "{} is missing, also as a remark", spec.key);
            }
        }
    }
}

#[test]
fn every_default_is_within_its_own_bounds() {
    super::load_with(super::LEAST, &[]).expect("defaults are valid");
}

#[test]
fn the_reference_in_the_readme_is_that_of_the_code() {
    let readme = document("README.md");
    let (_, after) = readme
        .split_once("<!-- options -->\n")
        .expect("the reference has a begin");
    let (written, _) = after
        .split_once("<!-- /options -->")
        .expect("the reference has an end");
    assert_eq!(
        written.trim(),
        reference().trim(),
        "put what `ackgate check --options` prints between the marks"
    );
}
