//! The sources say what the table says: every event is read from them.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use regex::Regex;

use super::*;

/// One event or span of the sources.
struct Logged {
    place: String,
    target: Option<String>,
    /// Name, and `%` or `?` where its value is made to text.
    fields: Vec<(String, Option<char>)>,
    message: Option<String>,
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            if name != "tests" {
                sources(&path, found);
            }
        } else if name.ends_with(".rs") && name != "tests.rs" {
            found.push(path);
        }
    }
}

/// The text between the parenthesis that opens before `from` and its end, cut at every
/// comma of its own.
fn arguments(text: &str, from: usize) -> Vec<String> {
    let (mut depth, mut quoted, mut escaped) = (0, false, false);
    let mut parts = vec![String::new()];
    for c in text[from..].chars() {
        if quoted {
            (quoted, escaped) = (escaped || c != '"', !escaped && c == '\\');
        } else {
            match c {
                '"' => quoted = true,
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' if depth == 0 => break,
                ')' | ']' | '}' => depth -= 1,
                ',' | ';' if depth == 0 => {
                    parts.push(String::new());
                    continue;
                }
                _ => {}
            }
        }
        parts.last_mut().unwrap().push(c);
    }
    parts.iter().map(|part| part.trim().to_owned()).collect()
}

/// `own`: how many of the first arguments are the macro's own, and no fields.
fn read(place: String, own: usize, arguments: Vec<String>) -> Logged {
    let mut logged = Logged {
        place,
        target: None,
        fields: Vec::new(),
        message: None,
    };
    for (index, argument) in arguments.into_iter().enumerate() {
        // What a macro of ours hands on is read where that is called.
        if argument.is_empty() || index < own || argument.starts_with("$(") {
            continue;
        }
        if let Some(target) = argument.strip_prefix("target:") {
            logged.target = Some(target.trim().to_owned());
        } else if argument.starts_with('"') {
            logged.message.get_or_insert(argument);
        } else {
            let (name, value) = match argument.split_once('=') {
                Some((name, value)) => (name.trim(), value.trim()),
                None => (argument.trim_start_matches(['%', '?']), argument.as_str()),
            };
            let sigil = value.chars().next().filter(|c| matches!(c, '%' | '?'));
            logged.fields.push((name.to_owned(), sigil));
        }
    }
    if own == 3 {
        let named = ["subscription", "topic", "partition"];
        let named = named.map(|name| (name.to_owned(), None));
        logged.fields.extend(named);
    }
    logged
}

/// Everything that the server logs.
fn logged() -> Vec<Logged> {
    let macros = Regex::new(
        r"\b(error|warn|info|debug|trace|tell|tell_of_session|(?:error|warn|info|debug)_span)!\(",
    )
    .unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut all = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for found in macros.captures_iter(text) {
            let whole = found.get(0).unwrap();
            let line = text[..whole.start()].lines().count();
            let place = format!("{}:{line}", file.strip_prefix(&root).unwrap().display());
            let arguments = arguments(text, whole.end());
            // The level of `tell!`, or a span's name, is no field.
            let is_span = found[1].ends_with("_span");
            let skipped = usize::from(is_span);
            let arguments = arguments.into_iter().skip(skipped).collect();
            let own = match &found[1] {
                "tell" => 3,
                "tell_of_session" => 2,
                _ => 0,
            };
            all.push((place, own, arguments));
        }
    }
    assert!(all.len() > 100, "only {} are found", all.len());
    all.into_iter()
        .map(|(place, own, arguments)| read(place, own, arguments))
        .collect()
}

#[test]
fn every_field_of_the_sources_is_in_the_table_and_in_its_form() {
    let mut wrong = Vec::new();
    for Logged { place, fields, .. } in logged() {
        for (name, sigil) in fields {
            match FIELDS.iter().find(|field| field.name == name) {
                None => wrong.push(format!("{place}: {name} is not in the table")),
                Some(field) if field.form != Form::Text && sigil.is_some() => {
                    wrong.push(format!("{place}: {name} would not be a {:?}", field.form));
                }
                Some(_) => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_field_of_the_table_is_in_the_sources_once() {
    let used: BTreeSet<String> = logged()
        .into_iter()
        .flat_map(|logged| logged.fields)
        .map(|(name, _)| name)
        .collect();
    let mut seen = BTreeSet::new();
    for field in FIELDS {
        assert!(used.contains(field.name), "{} is not used", field.name);
        assert!(seen.insert(field.name), "{} is there twice", field.name);
    }
    for field in EVERY {
        assert!(!seen.contains(field.name), "{} is taken", field.name);
    }
}

#[test]
fn messages_are_the_same_words_each_time() {
    let mut wrong = Vec::new();
    for Logged {
        place,
        target,
        message,
        ..
    } in logged()
    {
        // Its lines are its own.
        if target.as_deref() == Some("\"librdkafka\"") {
            continue;
        }
        // A span has none.
        let Some(message) = message else {
            continue;
        };
        let text = message.trim_matches('"');
        let starts = text.chars().next().unwrap_or(' ');
        let name = text.starts_with("TLS") || text.starts_with("ACKGATE_");
        if text.contains('{') || text.ends_with('.') || !(starts.is_lowercase() || name) {
            wrong.push(format!("{place}: {message}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn names_say_the_unit() {
    for field in FIELDS {
        let of_time = ["seconds", "_s", "_secs", "duration", "timeout", "interval"];
        assert!(
            !of_time.iter().any(|end| field.name.ends_with(end)),
            "{}: durations are in milliseconds, and end in _ms",
            field.name
        );
    }
}

#[test]
fn the_operator_guide_has_the_table() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let guide = fs::read_to_string(guide).unwrap();
    assert!(
        guide.contains(&reference()),
        "server/README.md is to have this table:\n\n{}",
        reference()
    );
}
