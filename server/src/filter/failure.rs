//! [`Failure`]: why a filter says nothing about a record.
//!
//! Invariant: no text of it quotes the record. It goes to the log, and the library's own
//! words quote keys and headers.

use cel::ExecutionError;

/// Why a filter says nothing about a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The expression does not fit the record: a type error, a missing header.
    #[error("{0}")]
    Evaluation(String),
    /// The result is neither true nor false.
    #[error("the result is {0}, not a bool")]
    NotBool(String),
    /// The record's key and headers are beyond what is looked at.
    #[error("key and headers have {bytes} bytes in {headers} headers, more than a filter looks at")]
    TooLarge {
        /// Of key, header names and header values.
        bytes: usize,
        /// How many headers.
        headers: usize,
    },
    /// The library failed.
    #[error("the evaluation panicked")]
    Panicked,
}

impl Failure {
    #[allow(
        clippy::wildcard_enum_match_arm,
        reason = "what the library may say some day is not known to hold nothing of the record"
    )]
    /// In words that hold nothing of the record: what `source` names itself may be named.
    pub(super) fn of(error: &ExecutionError, source: &str) -> Self {
        use ExecutionError as E;
        let named = |what: &str, name: &str| {
            if source.contains(name) {
                format!("{what}: {name}")
            } else {
                what.to_owned()
            }
        };
        Self::Evaluation(match error {
            E::NoSuchKey(key) => named("no such key", key),
            E::UndeclaredReference(name) => named("nothing has this name", name),
            E::NotSupportedAsMethod { method, .. } => named("a method does not fit", method),
            E::FunctionError { function, .. } => named("a function failed", function),
            // Names the function and the types of what it was given.
            E::NoSuchOverload(overload) => overload.to_string(),
            E::InvalidArgumentCount { expected, actual } => {
                format!("a function takes {expected} arguments, not {actual}")
            }
            E::UnsupportedBinaryOperator(operator, ..) => {
                format!("values of these types have no operator {operator}")
            }
            E::Overflow(operator, ..) => format!("the result of {operator} is too large"),
            E::DivisionByZero(_) | E::RemainderByZero(_) => "division by zero".to_owned(),
            E::IndexOutOfBounds(_) => "the index is out of bounds".to_owned(),
            E::ValuesNotComparable(..) => "the values cannot be compared".to_owned(),
            E::UnexpectedType { .. } => "a value is not of the type that is needed".to_owned(),
            _other => "it does not fit the record".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cel::Value;

    use super::*;

    #[test]
    fn nothing_of_the_record_is_in_the_words() {
        use ExecutionError as E;
        let secret = || Value::String(Arc::new("Zx9Secret".to_owned()));
        let text = || "Zx9Secret".to_owned();
        let errors = [
            E::NoSuchKey(Arc::new(text())),
            E::UndeclaredReference(Arc::new(text())),
            E::UnsupportedTargetType { target: secret() },
            E::NotSupportedAsMethod {
                method: text(),
                target: secret(),
            },
            E::UnsupportedKeyType(secret()),
            E::UnexpectedType {
                got: text(),
                want: text(),
            },
            E::ValuesNotComparable(secret(), secret()),
            E::UnsupportedBinaryOperator("add", secret(), secret()),
            E::UnsupportedIndex(secret(), secret()),
            E::FunctionError {
                function: "int".to_owned(),
                message: text(),
            },
            E::DivisionByZero(secret()),
            E::Overflow("add", secret(), secret()),
            E::IndexOutOfBounds(secret()),
            E::DuplicateKey(secret()),
            E::InternalError(text()),
        ];
        for error in errors {
            let words = Failure::of(&error, "int(headers.kind) > 1").to_string();
            assert!(!words.contains("Zx9Secret"), "{words}");
            assert!(!words.is_empty());
        }
    }

    #[test]
    fn what_the_source_names_is_named() {
        let key = |name: &str| ExecutionError::NoSuchKey(Arc::new(name.to_owned()));
        let words = |name: &str| Failure::of(&key(name), "headers.kind == 'a'").to_string();
        assert_eq!(words("kind"), "no such key: kind");
        assert_eq!(words("other"), "no such key");
    }
}
