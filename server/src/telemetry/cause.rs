//! [`cause`]: what a receiver, or the way to it, did wrong, as one line of the log.

use std::error::Error;

/// Characters of it.
const LONGEST: usize = 300;

/// What to do about certificates, by what rustls calls their faults.
const ADVICE: &[(&str, &str)] = &[
    (
        "UnknownIssuer",
        "telemetry.otlp.ca_file must have the authority that signed the receiver's certificate \
         (without it: those of the system)",
    ),
    (
        "not valid for name",
        "telemetry.otlp.endpoint must have a name that the receiver's certificate is for",
    ),
    (
        "certificate expired",
        "the receiver needs a new certificate, or this machine's clock is wrong",
    ),
    (
        "InvalidContentType",
        "the receiver does not speak TLS: telemetry.otlp.endpoint may begin with http://",
    ),
];

/// `error`, and what has caused it, each thing said once; a printable part of it, and what to
/// do where that is known.
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
    let mut line: String = printable.take(LONGEST).collect();
    let advice = ADVICE.iter().find(|(fault, _)| told.contains(fault));
    if let Some((_, advice)) = advice {
        line.push_str("; ");
        line.push_str(advice);
    }
    line
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
    fn certificate_that_is_not_trusted_is_told_with_what_to_do() {
        let error = chain(&[
            "client error (Connect)",
            "invalid peer certificate: UnknownIssuer",
        ]);
        let told = cause(&error);
        assert!(
            told.starts_with("client error (Connect): invalid peer"),
            "{told}"
        );
        assert!(
            told.contains("; telemetry.otlp.ca_file must have"),
            "{told}"
        );
        assert_eq!(cause(&chain(&["refused"])), "refused", "nothing to advise");
    }

    #[test]
    fn what_is_told_is_short_and_printable() {
        let long = "\u{1b}x".repeat(1000).leak();
        assert_eq!(cause(&Failed(long, None)), "x".repeat(LONGEST));
    }
}
