//! Whether a log filter lets anything of this program through, or says that nothing
//! shall come through.

use tracing_subscriber::{EnvFilter, filter::LevelFilter};

use super::problem::nearest;

/// Levels as they are written, quietest first.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// What the targets of this program begin with.
const OWN: &str = "ackgate";

/// Looks for what makes a filter silent by mistake: a word that is no level counts as
/// the target of some library, and nothing else is logged then.
///
/// # Errors
/// What is wrong with it, in words that follow the value.
pub(super) fn check(text: &str, expected: &str) -> Result<(), String> {
    EnvFilter::try_new(text).map_err(|error| format!("must be {expected}: {error}"))?;
    let levels = LEVELS.join(", ");
    let directives: Vec<&str> = text.split(',').collect();
    for word in directives.iter().copied().filter(|it| is_bare(it)) {
        if let Some(level) = nearest(&word.to_lowercase(), LEVELS.into_iter()) {
            return Err(format!(
                "{word:?} is no level; did you mean {level}? Levels are {levels}"
            ));
        }
    }
    if directives.into_iter().any(concerns_this_program) {
        return Ok(());
    }
    Err(format!(
        "must be {expected}: this one would log nothing of {OWN}, as no part of it is a level or \
         begins with {OWN}; levels are {levels}"
    ))
}

fn is_level(word: &str) -> bool {
    !word.is_empty() && word.parse::<LevelFilter>().is_ok()
}

/// A word that stands for a target and could have been meant as a level.
fn is_bare(directive: &str) -> bool {
    let letters = directive.bytes().all(|byte| byte.is_ascii_alphabetic());
    letters && !directive.is_empty() && !is_level(directive)
}

/// Also where it silences this program in so many words, as `off` does.
fn concerns_this_program(directive: &str) -> bool {
    let target = directive.split(['=', '[']).next().unwrap_or_default();
    is_level(directive)
        || target.starts_with(OWN)
        || (!target.is_empty() && OWN.starts_with(target))
        // Spans of any target.
        || (target.is_empty() && directive.starts_with('['))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_silences_by_mistake_is_refused() {
        for (text, part) in [
            ("", "would log nothing of ackgate"),
            (" ", "must be a filter: "),
            (",", "would log nothing of ackgate"),
            ("inf", "\"inf\" is no level; did you mean info?"),
            ("Warning", "did you mean warn?"),
            ("ackgate=debug,eror", "did you mean error?"),
            ("loud", "levels are off, error, warn, info, debug, trace"),
            ("h2=debug", "would log nothing of ackgate"),
            ("inf=info", "would log nothing of ackgate"),
            ("ackgate=loud", "must be a filter: "),
        ] {
            let why = check(text, "a filter").expect_err(text);
            assert!(why.contains(part), "{text:?}: {why}");
        }
    }

    #[test]
    fn a_filter_that_says_what_it_silences_is_taken() {
        for text in [
            "off",
            "error",
            "INFO",
            "3",
            "warn,ackgate=debug",
            "ackgate",
            "ackgate=off",
            "ackgate::consumer=trace",
            "off,librdkafka=debug",
            "info,h2,rdkafka=debug",
            "[span]=debug",
        ] {
            assert_eq!(check(text, "a filter"), Ok(()), "{text:?}");
        }
    }
}
