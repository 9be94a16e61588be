//! Reads options from the finished tree and collects what is wrong with them.

use std::path::Path;

use super::{
    options::{Need, Spec},
    problem::{Problem, quoted},
    tree::{self, Node, Origin, Table, Value},
    value::shown,
};

/// The finished tree, and what was found wrong in it.
pub(super) struct Reader<'a> {
    pub(super) file: &'a str,
    /// Folder that relative paths start from.
    pub(super) folder: &'a Path,
    pub(super) root: &'a Table,
    pub(super) problems: Vec<Problem>,
}

enum Found<'a> {
    Here(&'a Node),
    /// With the innermost table that is there.
    Missing(Option<&'a Node>),
    /// Reported already.
    Blocked,
}

impl<'a> Reader<'a> {
    fn find(&self, spec: &Spec, name: &str) -> Found<'a> {
        let mut table = self.root;
        let mut above = None;
        let path = path(spec, name);
        let mut segments = path.iter().peekable();
        while let Some(segment) = segments.next() {
            let Some(node) = table.get(segment) else {
                return Found::Missing(above);
            };
            if matches!(node.value, Value::Unreadable) {
                return Found::Blocked;
            }
            if segments.peek().is_none() {
                return Found::Here(node);
            }
            let Some(inner) = node.table() else {
                return Found::Blocked;
            };
            above = Some(node);
            table = inner;
        }
        Found::Blocked
    }

    /// The option as it was given, if it was.
    pub(super) fn given(&self, spec: &Spec, name: &str) -> Option<&'a Node> {
        match self.find(spec, name) {
            Found::Here(node) => Some(node),
            Found::Missing(_) | Found::Blocked => None,
        }
    }

    /// Whether an option of the gateway is given in a way that has been reported.
    pub(super) fn is_blocked(&self, spec: &Spec) -> bool {
        matches!(self.find(spec, ""), Found::Blocked)
    }

    /// The names under a table of the root, as `clusters`.
    pub(super) fn names(&self, table: &str) -> Vec<&'a str> {
        let table = self.root.get(table).and_then(Node::table);
        table
            .into_iter()
            .flatten()
            .map(|(name, _)| name.as_str())
            .collect()
    }

    /// Reads an option, or its default. `None` if there is neither or it is wrong;
    /// what is wrong has then been reported.
    pub(super) fn read<T>(
        &mut self,
        spec: &Spec,
        name: &str,
        parse: impl FnOnce(&Node, &Spec) -> Result<T, String>,
    ) -> Option<T> {
        let default;
        let node = match self.find(spec, name) {
            Found::Here(node) => node,
            Found::Blocked => return None,
            Found::Missing(above) => match spec.need {
                Need::Default(text) => {
                    default = tree::parse_value(text, &Origin::Default)?;
                    &default
                }
                Need::Optional => return None,
                Need::Required => {
                    let origin = above.map_or(&Origin::Default, |node| &node.origin);
                    let expected = format!("is missing; it must be {}", spec.expected());
                    let key = path(spec, name);
                    self.problems
                        .push(problem(self.file, origin, &key, None, expected));
                    return None;
                }
            },
        };
        match parse(node, spec) {
            Ok(value) => Some(value),
            Err(expected) => {
                self.blame(node, spec, name, expected);
                None
            }
        }
    }

    /// Reports a value that was read well and cannot stand beside another.
    pub(super) fn refuse(&mut self, spec: &Spec, name: &str, why: impl Into<String>) {
        let why = why.into();
        let origin = Origin::Default;
        match (self.find(spec, name), &spec.need) {
            (Found::Here(node), _) => self.blame(node, spec, name, why),
            (Found::Blocked, _) => {}
            (Found::Missing(above), Need::Default(text)) => {
                let origin = above.map_or(&origin, |node| &node.origin);
                let found = Some(format!("{text} (the default)"));
                self.problems
                    .push(problem(self.file, origin, &path(spec, name), found, why));
            }
            (Found::Missing(above), Need::Required | Need::Optional) => {
                let origin = above.map_or(&origin, |node| &node.origin);
                self.problems
                    .push(problem(self.file, origin, &path(spec, name), None, why));
            }
        }
    }

    fn blame(&mut self, node: &Node, spec: &Spec, name: &str, expected: String) {
        let found = Some(shown(node, Some(&spec.kind)));
        self.problems.push(problem(
            self.file,
            &node.origin,
            &path(spec, name),
            found,
            expected,
        ));
    }
}

/// The path of an option with the name in place of the star.
pub(super) fn path(spec: &Spec, name: &str) -> Vec<String> {
    spec.key
        .split('.')
        .map(|part| if part == "*" { name } else { part }.to_owned())
        .collect()
}

/// Makes a problem of a value at a path.
pub(super) fn problem(
    file: &str,
    origin: &Origin,
    path: &[String],
    found: Option<String>,
    expected: String,
) -> Problem {
    let (line, variable) = match origin {
        Origin::File { line } => (*line, None),
        Origin::Environment { variable } => (None, Some(variable.clone())),
        Origin::Default => (None, None),
    };
    Problem {
        file: file.to_owned(),
        variable,
        line,
        key: dotted(path),
        found,
        expected,
    }
}

/// A path as one would write it in the file.
pub(super) fn dotted(path: &[String]) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let segments: Vec<String> = path
        .iter()
        .map(|part| {
            if !part.is_empty() && part.chars().all(bare) {
                part.clone()
            } else {
                quoted(part)
            }
        })
        .collect();
    segments.join(".")
}
