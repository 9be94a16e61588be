//! From the source to a program that may be run on every record.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, LazyLock},
};

use cel::{Context, Env, ExecutionError, Program, extractors::This};
use regex::Regex;

use super::{
    Invalid,
    bounds::{self, SOURCE_BYTES},
    printable,
    subject::{Name, Subject},
};

/// The parser descends by grammar rule and takes about 20 KiB per level unoptimized;
/// it gives up after 96 levels, at most some hundred with its look-ahead. The memory
/// is only reserved, and for as long as it compiles.
const STACK: usize = 256 << 20;

/// The functions of the language, without optional values. Regular expressions are
/// ours, since the library's would be compiled anew for each record.
static LANGUAGE: LazyLock<Arc<Env>> =
    LazyLock::new(|| Arc::new(Env::default().with_optional_support(false).with_stdlib()));

/// What a [`super::Filter`] holds.
pub(super) struct Compiled {
    pub(super) source: String,
    pub(super) program: Program,
    /// Names that the source uses: others are not made for each record.
    names: BTreeSet<Name>,
    patterns: Arc<HashMap<String, Regex>>,
}

/// What the walk over a program has found that it needs.
pub(super) struct Needs {
    pub(super) names: BTreeSet<Name>,
    pub(super) patterns: HashMap<String, Regex>,
}

pub(super) fn compile(source: &str) -> Result<Compiled, Invalid> {
    let source = source.trim();
    if source.is_empty() {
        return Err(at(
            source,
            0,
            "is empty; a filter is an expression such as key == \"a\"",
        ));
    }
    if source.len() > SOURCE_BYTES {
        let what = format!(
            "has {} bytes; a filter has at most {SOURCE_BYTES}",
            source.len()
        );
        return Err(at(source, 0, what));
    }
    if let Some(offset) = bounds::too_deep(source) {
        return Err(at(source, offset, bounds::TOO_DEEP));
    }
    let owned = source.to_owned();
    apart(source, move || parse(owned))
}

/// Runs `parse` on a thread that has the room for it, and whose end is its own.
pub(super) fn apart<T: Send + 'static>(
    source: &str,
    parse: impl FnOnce() -> Result<T, Invalid> + Send + 'static,
) -> Result<T, Invalid> {
    let parsed = std::thread::Builder::new()
        .name("filter".to_owned())
        .stack_size(STACK)
        .spawn(parse)
        .map(std::thread::JoinHandle::join);
    match parsed {
        Ok(Ok(result)) => result,
        Ok(Err(_panic)) => Err(at(source, 0, "cannot be parsed")),
        Err(error) => Err(at(source, 0, format!("cannot be compiled now: {error}"))),
    }
}

fn parse(source: String) -> Result<Compiled, Invalid> {
    let program = match Program::compile(&source) {
        Ok(program) => program,
        Err(errors) => {
            // The first one by position; what follows it is mostly its consequence.
            let first = errors.errors.first();
            let (line, column) = first.map_or((1, 1), |error| error.pos);
            let what = first.map_or("cannot be parsed", |error| error.msg.as_str());
            let what = explained(what);
            let number = |n: isize| u64::try_from(n).unwrap_or(1).max(1);
            return Err(Invalid {
                line: number(line),
                column: number(column),
                what: printable(&what),
            });
        }
    };
    let needs = bounds::check(program.expression()).map_err(|fault| {
        let place = program.source_info().offset_for(fault.id);
        let offset = place.map_or(0, |(start, _)| start as usize);
        at(&source, offset, fault.what)
    })?;
    Ok(Compiled {
        source,
        program,
        names: needs.names,
        patterns: Arc::new(needs.patterns),
    })
}

/// What the parser said, in plainer words where it stumbles over what other languages
/// write or over a text without its end.
fn explained(said: &str) -> String {
    let at = said.strip_prefix("Syntax error: token recognition error at: '");
    let what = match at.and_then(|at| at.trim_start_matches('\\').chars().next()) {
        Some('=') => "= is no operator; there are ==, !=, <, <=, > and >=",
        Some('&') => "& is no operator; there is &&",
        Some('|') => "| is no operator; there is ||",
        Some('\'' | '"') => "a text begins here and does not end",
        // It escapes the quotes within its quotes.
        Some(_) | None => return said.replace("\\'", "'"),
    };
    format!("Syntax error: {what}")
}

/// A fault at a character of the source.
fn at(source: &str, offset: usize, what: impl AsRef<str>) -> Invalid {
    let before = source.chars().take(offset);
    let (mut line, mut column) = (1, 1);
    for character in before {
        if character == '\n' {
            (line, column) = (line + 1, 1);
        } else {
            column += 1;
        }
    }
    Invalid {
        line,
        column,
        what: printable(what.as_ref()),
    }
}

impl Compiled {
    /// Everything that the program may ask about `record`.
    pub(super) fn context(&self, record: &Subject<'_>) -> Context<'static, 'static> {
        let mut context = Context::with_env(Arc::clone(&LANGUAGE));
        for name in &self.names {
            context.add_variable_from_value(name.as_str(), record.value(*name));
        }
        if !self.patterns.is_empty() {
            let patterns = Arc::clone(&self.patterns);
            let matches = move |This(text): This<Arc<String>>, pattern: Arc<String>| {
                patterns
                    .get(pattern.as_str())
                    .map(|pattern| pattern.is_match(&text))
                    .ok_or_else(|| ExecutionError::function_error("matches", "unknown pattern"))
            };
            // It fails for names that the language has; this one it has not.
            let _declared = context.add_function("matches", matches);
        }
        context
    }
}
