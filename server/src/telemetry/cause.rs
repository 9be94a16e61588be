//! [`cause`]: what a receiver, or the way to it, did wrong, as one line of the log.

use std::error::Error;

/// Characters of it.
const LONGEST: usize = 300;

/// `error`, and what has caused it, each thing said once; a printable part of it.
pub(super) fn cause(error: &dyn Error) -> String {
    let mut parts = vec![error.to_string()];
    let mut source = error.source();
    while let Some(inner) = source {
        let said = inner.to_string();
        match parts.last_mut() {
            // Many errors tell their causes themselves.
            Some(last) if last.contains(&said) => {}
            Some(last) if said.contains(last.as_str()) => *last = said,
            Some(_) | None => parts.push(said),
        }
        source = inner.source();
    }
    let told = parts.join(": ");
    let printable = told.chars().filter(|it| !it.is_control());
    printable.take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct Failed(&'static str, Option<Box<Self>>);

    impl fmt::Display for Failed {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Failed {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|it| it as _)
        }
    }

    fn chain(words: &[&'static str]) -> Failed {
        let (first, rest) = words.split_first().expect("a word");
        let source = (!rest.is_empty()).then(|| Box::new(chain(rest)));
        Failed(first, source)
    }

    #[test]
    fn each_cause_is_told_once_down_to_the_last() {
        let error = chain(&[
            "transport error",
            "tcp connect error",
            "tcp connect error",
            "Connection refused (os error 111)",
        ]);
        assert_eq!(
            cause(&error),
            "transport error: tcp connect error: Connection refused (os error 111)"
        );
        let whole = chain(&["tcp connect error", "tcp connect error: refused", "refused"]);
        assert_eq!(cause(&whole), "tcp connect error: refused");
    }

    #[test]
    fn what_is_told_is_short_and_printable() {
        let long = "\u{1b}x".repeat(1000).leak();
        assert_eq!(cause(&Failed(long, None)), "x".repeat(LONGEST));
    }
}
