//! [`Filter`]: which records of a subscription anybody wants, as an expression in the
//! Common Expression Language over what Kafka knows of a record.
//!
//! | name | type |
//! |---|---|
//! | `topic` | string |
//! | `partition`, `offset` | int |
//! | `timestamp` | int, milliseconds since the Unix epoch; 0 if the record has none |
//! | `key` | string if it is UTF-8, bytes if not, null if it is null |
//! | `headers` | map from name to the list of its values in order, each as `key` is |
//!
//! The value is not there: it is opaque to the gateway.
//!
//! **Invariants**: the source is at most 4096 bytes long and is compiled once;
//! what an evaluation costs is bounded by `bounds`; nothing in a source or a record
//! ends the process.

mod bounds;
mod compile;
mod failure;
mod subject;
#[cfg(test)]
mod tests;

use std::{fmt, sync::Arc};

use cel::Value;

pub(crate) use self::bounds::SOURCE_BYTES;
pub use self::{failure::Failure, subject::Subject};
use crate::telemetry::panics;

/// A compiled expression. Clones share it.
#[derive(Clone)]
pub struct Filter(Arc<compile::Compiled>);

/// Why a source is no filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {what}")]
pub struct Invalid {
    /// 1 or more.
    pub line: u64,
    /// In characters, 1 or more.
    pub column: u64,
    /// What is wrong and what was expected, without control characters.
    pub what: String,
}

impl Filter {
    /// Compiles `source`, on a thread of its own, for which it waits: parsing is
    /// recursive and must not run into the end of the caller's stack.
    ///
    /// # Errors
    /// The source is too long, does not parse, or asks for what is not bounded.
    pub fn compile(source: &str) -> Result<Self, Invalid> {
        compile::compile(source).map(|compiled| Self(Arc::new(compiled)))
    }

    /// What it was compiled from, without the space around it.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.0.source
    }

    /// Whether the record is wanted.
    ///
    /// # Errors
    /// The expression cannot be evaluated for this record. It says nothing about it
    /// then, and a record is never passed over for that.
    pub fn matches(&self, record: &Subject<'_>) -> Result<bool, Failure> {
        record.check()?;
        let evaluate = || self.0.program.execute(&self.0.context(record));
        match caught(evaluate)? {
            Ok(Value::Bool(wanted)) => Ok(wanted),
            Ok(other) => Err(Failure::NotBool(other.type_of().to_string())),
            Err(error) => Err(Failure::of(&error, self.source())),
        }
    }
}

/// The library has no promise never to panic.
fn caught<T>(evaluate: impl FnOnce() -> T) -> Result<T, Failure> {
    panics::quietly(evaluate).ok_or(Failure::Panicked)
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Filter").field(&self.source()).finish()
    }
}

impl PartialEq for Filter {
    fn eq(&self, other: &Self) -> bool {
        self.source() == other.source()
    }
}

impl Eq for Filter {}

/// Text of the library, which quotes sources and records: one short line.
fn printable(text: &str) -> String {
    const MOST: usize = 300;
    let mut line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MOST)
        .collect();
    if text.chars().nth(MOST).is_some() {
        line.push('…');
    }
    line
}
