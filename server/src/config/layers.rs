//! From the file alone to the configuration as it counts: property tables are made
//! flat, the environment goes over the file, and references to secrets are followed.
//! What is in no place of the option table is reported here.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    path::PathBuf,
};

use super::{
    options::{self, Kind, Spec, TEMPLATE},
    overlay,
    problem::{Problem, nearest, quoted},
    reader::problem,
    secret::{self, reference},
    tree::{Node, Origin, Table, Value},
};

/// Environment variables by name.
pub(super) type Variables = BTreeMap<String, String>;

/// Names that end like a reference to a file and are properties themselves.
const NO_REFERENCE: [&str; 2] = [
    "sasl.oauthbearer.assertion.file",
    "sasl.oauthbearer.assertion.private.key.file",
];

/// What the layers are made from.
pub(super) struct Sources<'a> {
    pub(super) file: &'a str,
    /// Folder that relative paths of secrets start from.
    pub(super) folder: PathBuf,
    pub(super) variables: &'a Variables,
}

impl Sources<'_> {
    /// Brings the file's tree to what counts. Problems are added to `problems`.
    pub(super) fn apply(&self, root: &mut Table, problems: &mut Vec<Problem>) {
        self.flatten_all(root, &mut Vec::new(), problems);
        for (variable, value) in self.variables {
            if let Some(segments) = overlay::segments(variable) {
                self.set(root, variable, &segments, value, problems);
            }
        }
        self.check(root, &mut Vec::new(), problems);
    }

    fn problem(
        &self,
        origin: &Origin,
        path: &[String],
        found: Option<String>,
        expected: String,
    ) -> Problem {
        problem(self.file, origin, path, found, expected)
    }

    /// `security.protocol = …` without quotes is a table in a table to TOML.
    fn flatten_all(&self, table: &mut Table, path: &mut Vec<String>, problems: &mut Vec<Problem>) {
        for (key, node) in table {
            path.push(key.clone());
            if let Value::Table(inner) = &mut node.value {
                if options::at(path).is_some_and(|spec| matches!(spec.kind, Kind::Properties)) {
                    let mut flat = Table::new();
                    for (name, node) in flattened("", std::mem::take(inner)) {
                        match flat.entry(name) {
                            Entry::Vacant(place) => {
                                place.insert(node);
                            }
                            Entry::Occupied(place) => {
                                path.push(place.key().clone());
                                let twice = "is given twice".to_owned();
                                problems.push(self.problem(&node.origin, path, None, twice));
                                path.pop();
                            }
                        }
                    }
                    *inner = flat;
                } else {
                    self.flatten_all(inner, path, problems);
                }
            }
            path.pop();
        }
    }

    /// Puts one variable over the file.
    fn set(
        &self,
        root: &mut Table,
        variable: &str,
        segments: &[&str],
        text: &str,
        problems: &mut Vec<Problem>,
    ) {
        let origin = Origin::Environment {
            variable: variable.to_owned(),
        };
        let mut path = Vec::new();
        let refused = if segments
            .iter()
            .any(|segment| segment.trim_matches('_').is_empty())
        {
            Some("names no option: the parts of its path are joined by two underscores".to_owned())
        } else {
            overlay::put(root, &mut path, segments, text, &origin).err()
        };
        if let Some(why) = refused {
            problems.push(self.problem(&origin, &path, None, why));
        }
    }

    /// Reports what is in no place of the option table and follows references.
    fn check(&self, table: &mut Table, path: &mut Vec<String>, problems: &mut Vec<Problem>) {
        let known = options::children(path);
        let free = known.contains(&"*");
        for (key, node) in table {
            path.push(key.clone());
            if let Some(spec) = options::at(path) {
                self.follow(node, spec, path, problems);
            } else if !free && !known.contains(&key.as_str()) {
                let expected = unknown(key, path, &known);
                problems.push(self.problem(&node.origin, path, None, expected));
            } else {
                if free && !is_name(key) {
                    let expected = "is no name: 1 to 64 of a-z, 0-9, '_', '-' and '.'".to_owned();
                    problems.push(self.problem(&node.origin, path, None, expected));
                }
                if let Value::Table(inner) = &mut node.value {
                    self.check(inner, path, problems);
                } else {
                    let expected = format!("must be a table, and is {}", node.kind());
                    problems.push(self.problem(&node.origin, path, None, expected));
                    node.value = Value::Unreadable;
                }
            }
            path.pop();
        }
    }

    fn follow(
        &self,
        node: &mut Node,
        spec: &Spec,
        path: &mut Vec<String>,
        problems: &mut Vec<Problem>,
    ) {
        if matches!(spec.kind, Kind::Properties) {
            if let Value::Table(table) = &mut node.value {
                for (name, node) in table {
                    path.push(name.clone());
                    self.follow_one(node, path, problems);
                    path.pop();
                }
            } else {
                let expected = format!("must be {}, and is {}", spec.expected(), node.kind());
                problems.push(self.problem(&node.origin, path, None, expected));
                node.value = Value::Unreadable;
            }
            return;
        }
        if let Value::List(items) = &mut node.value {
            for item in items {
                self.follow_one(item, path, problems);
            }
        }
        if let (Kind::Start, Value::Table(table)) = (&spec.kind, &mut node.value)
            && let Some(time) = table.get_mut("timestamp")
        {
            self.follow_one(time, path, problems);
        }
        self.follow_one(node, path, problems);
    }

    /// Replaces `{ env = "NAME" }` and `{ file = "PATH" }` by what they mean.
    fn follow_one(&self, node: &mut Node, path: &[String], problems: &mut Vec<Problem>) {
        let Value::Table(table) = &node.value else {
            return;
        };
        let Some((kind, target)) = reference(table) else {
            return;
        };
        let found = Some(format!("{{ {kind} = {} }}", quoted(target)));
        let read = if kind == "env" {
            self.variables
                .get(target)
                .cloned()
                .ok_or_else(|| "names an environment variable that is not set".to_owned())
        } else {
            secret::read(&self.folder.join(target))
        };
        match read {
            Ok(text) => {
                node.value = Value::Text(text);
                node.secret = true;
            }
            Err(expected) => {
                problems.push(self.problem(&node.origin, path, found, expected));
                node.value = Value::Unreadable;
            }
        }
    }
}

fn flattened(prefix: &str, table: Table) -> Vec<(String, Node)> {
    let mut flat = Vec::new();
    for (key, node) in table {
        let name = if prefix.is_empty() {
            key
        } else {
            format!("{prefix}.{key}")
        };
        let nested = node
            .table()
            .is_some_and(|inner| !is_reference(&name, inner));
        match node {
            Node {
                value: Value::Table(inner),
                ..
            } if nested => {
                flat.extend(flattened(&name, inner));
            }
            node => flat.push((name, node)),
        }
    }
    flat
}

fn is_reference(name: &str, table: &Table) -> bool {
    reference(table).is_some_and(|(kind, _)| {
        let whole = format!("{name}.{kind}");
        !NO_REFERENCE.contains(&whole.as_str())
    })
}

/// A name of a cluster or a subscription.
fn is_name(text: &str) -> bool {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-.".contains(c);
    (1..=64).contains(&text.len()) && text.chars().all(legal)
}

fn unknown(key: &str, path: &[String], siblings: &[&'static str]) -> String {
    if path.starts_with(&TEMPLATE.map(str::to_owned))
        && path.len() == TEMPLATE.len() + 1
        && options::GIVEN_BY_OPENINGS.contains(&key)
    {
        let within = key.trim_end_matches('s');
        return format!("is no option here: each opening names its own, within ad_hoc.{within}s");
    }
    if let Some(near) = nearest(key, siblings.iter().copied()) {
        return format!("is no option; did you mean {near}?");
    }
    // Of another section only where it was meant for some section: what a name means
    // depends on where it stands.
    let section = path.first().map(String::as_str);
    let elsewhere = options::all().find(|spec| {
        let mut parts = spec.key.split('.');
        let is_near = path.len() == 1 || parts.next() == section;
        is_near && spec.key.rsplit('.').next() == Some(key)
    });
    match elsewhere {
        Some(spec) => format!(
            "is no option here; did you mean {}?",
            spec.key.replace('*', "NAME")
        ),
        None if path.len() == 1 => format!("is no option; there are {}", siblings.join(", ")),
        None => format!("is no option here; there are {}", siblings.join(", ")),
    }
}
