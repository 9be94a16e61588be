//! What is wrong with a configuration, in words for the person who wrote it.
//!
//! Invariant: whoever makes a [`Problem`] has masked what is secret in it.

use std::{error, fmt};

use serde::Serialize;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Problem {
    /// The configuration file.
    pub file: String,
    /// The environment variable that set the value over the file's, if one did.
    pub variable: Option<String>,
    /// Line in the file, from 1, where known.
    pub line: Option<usize>,
    /// The option, as `subscriptions.orders.group`; empty if it is the whole file.
    pub key: String,
    /// The value found; absent for missing and unknown options. Secrets are masked.
    pub found: Option<String>,
    /// What is expected there, or why the value is refused.
    pub expected: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(variable) = &self.variable {
            write!(f, "{variable} in the environment, over {}", self.file)?;
        } else {
            f.write_str(&self.file)?;
            if let Some(line) = self.line {
                write!(f, ":{line}")?;
            }
        }
        match (self.key.as_str(), &self.found) {
            ("", _) => {}
            (key, Some(found)) => write!(f, ": {key} = {found}")?,
            (key, None) => write!(f, ": {key}")?,
        }
        write!(f, ": {}", self.expected)
    }
}

/// Everything that is wrong, in the order of the file.
#[derive(Clone, Debug)]
pub struct Problems {
    list: Vec<Problem>,
}

impl Problems {
    pub(super) fn new(mut list: Vec<Problem>) -> Self {
        list.sort();
        list.dedup();
        Self { list }
    }

    /// The problems, at least one.
    #[must_use]
    pub fn list(&self) -> &[Problem] {
        &self.list
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.list.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl error::Error for Problems {}

/// The value at which no secret is shown.
pub(super) const MASK: &str = "***";

/// A text as it may stand in a message: quoted, control characters escaped, cut.
pub(super) fn quoted(text: &str) -> String {
    const SHOWN: usize = 80;
    let mut shown: String = text
        .chars()
        .take(SHOWN)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    format!("\"{shown}\"")
}

/// The known word that `word` was most likely meant to be.
pub(super) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const ALIKE: f64 = 0.8;
    known
        .map(|candidate| (strsim::jaro_winkler(word, candidate), candidate))
        .filter(|(alike, _)| *alike >= ALIKE)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}
