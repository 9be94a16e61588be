//! What keeps an evaluation short: few parts, little nesting, no loop in a loop,
//! nothing that builds text or lists, and a limit on what is looked at.
//!
//! With these, the longest evaluation is one loop over [`RECORD_HEADERS`] values
//! with [`PARTS`] operations in it, each over [`RECORD_BYTES`] at most.

use std::collections::{BTreeSet, HashMap};

use cel::common::ast::{
    EntryExpr, Expr, IdedExpr, LiteralValue,
    operators::{self, ADD},
};
use regex::RegexBuilder;

use super::{compile::Needs, subject::Name};

/// Longest source.
pub(crate) const SOURCE_BYTES: usize = 4096;

/// Brackets within brackets, and conditions within conditions.
const NESTING: usize = 16;

/// Levels of the program. Each takes up to 40 KiB of the stack when it runs
/// unoptimized, and the stack of a worker has 2 MiB.
const DEPTH: usize = 20;

/// Operations, names and literals of the program.
const PARTS: usize = 512;

/// Bytes of a compiled regular expression.
const PATTERN_BYTES: usize = 256 << 10;

/// Bytes of key, header names and header values that a filter looks at.
pub(super) const RECORD_BYTES: usize = 64 << 10;

/// Headers that a filter looks at.
pub(super) const RECORD_HEADERS: usize = 256;

pub(super) const TOO_DEEP: &str = "is nested too deeply; at most 16 brackets may be open";

/// Operators and functions whose cost is bounded by their operands and whose results
/// are no larger than these. `+` joins texts and lists, conversions to text copy.
const CALLS: &[&str] = &[
    operators::CONDITIONAL,
    operators::LOGICAL_AND,
    operators::LOGICAL_OR,
    operators::LOGICAL_NOT,
    operators::SUBSTRACT,
    operators::MULTIPLY,
    operators::DIVIDE,
    operators::MODULO,
    operators::EQUALS,
    operators::NOT_EQUALS,
    operators::GREATER_EQUALS,
    operators::LESS_EQUALS,
    operators::GREATER,
    operators::LESS,
    operators::NEGATE,
    operators::INDEX,
    operators::IN,
    operators::NOT_STRICTLY_FALSE,
    "contains",
    "double",
    "endsWith",
    "int",
    "matches",
    "size",
    "startsWith",
    "uint",
];

/// What is wrong with one part of a program.
pub(super) struct Fault {
    /// The part's number.
    pub(super) id: u64,
    pub(super) what: String,
}

/// A part that is still to be looked at.
struct Visit<'a> {
    part: &'a IdedExpr,
    depth: usize,
    /// The variables of the loop that it is in.
    within: Option<[&'a str; 2]>,
}

/// Where in the source, in characters, too many brackets are open. Brackets in texts
/// count too: nobody needs that many.
pub(super) fn too_deep(source: &str) -> Option<usize> {
    let mut open = 0_usize;
    for (at, character) in source.chars().enumerate() {
        match character {
            '(' | '[' | '{' => open += 1,
            // Also nests, without brackets.
            '?' => open += 1,
            ')' | ']' | '}' | ':' => open = open.saturating_sub(1),
            _ => {}
        }
        if open > NESTING {
            return Some(at);
        }
    }
    None
}

/// Walks a program without recursion.
pub(super) fn check(program: &IdedExpr) -> Result<Needs, Fault> {
    let mut needs = Needs {
        names: BTreeSet::new(),
        patterns: HashMap::new(),
    };
    let mut open = vec![Visit {
        part: program,
        depth: 1,
        within: None,
    }];
    let mut parts = 0;
    while let Some(visit) = open.pop() {
        parts += 1;
        if parts > PARTS {
            return fault(visit.part, format!("has more than {PARTS} parts"));
        }
        if visit.depth > DEPTH {
            return fault(
                visit.part,
                format!("is nested more than {DEPTH} levels deep"),
            );
        }
        look_at(&visit, &mut open, &mut needs)?;
    }
    Ok(needs)
}

fn look_at<'a>(
    visit: &Visit<'a>,
    open: &mut Vec<Visit<'a>>,
    needs: &mut Needs,
) -> Result<(), Fault> {
    let (depth, within) = (visit.depth + 1, visit.within);
    let mut then = |part: &'a IdedExpr, within| {
        open.push(Visit {
            part,
            depth,
            within,
        })
    };
    match &visit.part.expr {
        Expr::Literal(_) => {}
        Expr::Ident(name) => name_used(visit, name, needs)?,
        Expr::Select(select) => then(&select.operand, within),
        Expr::Call(call) => {
            let counts = within.is_some_and(|[_, result]| {
                let of_loop = |e: &IdedExpr| matches!(&e.expr, Expr::Ident(n) if n == result);
                let one = |e: &IdedExpr| matches!(&e.expr, Expr::Literal(LiteralValue::Int(_)));
                call.func_name == ADD
                    && call.args.first().is_some_and(of_loop)
                    && call.args.get(1).is_some_and(one)
            });
            if !counts && !CALLS.contains(&call.func_name.as_str()) {
                return fault(visit.part, unknown_call(&call.func_name));
            }
            if call.func_name == "matches" {
                pattern(visit.part, call.args.first(), call.target.is_some(), needs)?;
            }
            for part in call.target.as_deref().into_iter().chain(&call.args) {
                then(part, within);
            }
        }
        Expr::List(list) => list.elements.iter().for_each(|part| then(part, within)),
        Expr::Map(map) => {
            for entry in &map.entries {
                match &entry.expr {
                    EntryExpr::MapEntry(entry) => {
                        then(&entry.key, within);
                        then(&entry.value, within);
                    }
                    EntryExpr::StructField(field) => then(&field.value, within),
                }
            }
        }
        Expr::Comprehension(of) => {
            if within.is_some() {
                return fault(visit.part, "has a loop within a loop".to_owned());
            }
            if matches!(of.accu_init.expr, Expr::List(_)) {
                let what = "builds a list; use exists, exists_one or all";
                return fault(visit.part, what.to_owned());
            }
            then(&of.iter_range, None);
            let within = Some([of.iter_var.as_str(), of.accu_var.as_str()]);
            for part in [&of.accu_init, &of.loop_cond, &of.loop_step, &of.result] {
                then(part, within);
            }
        }
        Expr::Struct(_) | Expr::Unspecified => {
            return fault(visit.part, "is not available in a filter".to_owned());
        }
    }
    Ok(())
}

fn name_used(visit: &Visit<'_>, name: &str, needs: &mut Needs) -> Result<(), Fault> {
    if visit.within.is_some_and(|of_loop| of_loop.contains(&name)) {
        return Ok(());
    }
    let known = Name::ALL.into_iter().find(|known| known.as_str() == name);
    if let Some(known) = known {
        needs.names.insert(known);
        return Ok(());
    }
    let names: Vec<&str> = Name::ALL.iter().map(|name| name.as_str()).collect();
    let what = match name {
        "value" => "the value is opaque to the gateway and not available".to_owned(),
        _ => format!("no name {name:?}; there are {}", names.join(", ")),
    };
    fault(visit.part, what)
}

fn unknown_call(name: &str) -> String {
    let functions: Vec<&str> = CALLS
        .iter()
        .copied()
        .filter(|call| call.starts_with(char::is_alphabetic))
        .collect();
    let functions = functions.join(", ");
    if name == ADD {
        return "+ is not available in a filter, which compares and does not build".to_owned();
    }
    format!("no function {name:?}; there are {functions}, exists, exists_one, all and has")
}

/// Compiles the pattern of a call of `matches`, which therefore has to be a literal.
fn pattern(
    part: &IdedExpr,
    pattern: Option<&IdedExpr>,
    is_member: bool,
    needs: &mut Needs,
) -> Result<(), Fault> {
    let literal = pattern.and_then(|pattern| {
        if let Expr::Literal(LiteralValue::String(text)) = &pattern.expr {
            Some(text.inner())
        } else {
            None
        }
    });
    let Some(text) = literal.filter(|_| is_member) else {
        let what = "matches is called as key.matches(\"pattern\"), with a literal pattern";
        return fault(part, what.to_owned());
    };
    let compiled = RegexBuilder::new(text)
        .size_limit(PATTERN_BYTES)
        .dfa_size_limit(PATTERN_BYTES)
        .build();
    match compiled {
        Ok(compiled) => {
            needs.patterns.insert(text.to_owned(), compiled);
            Ok(())
        }
        Err(error) => fault(part, format!("the pattern is refused: {error}")),
    }
}

const fn fault<T>(part: &IdedExpr, what: String) -> Result<T, Fault> {
    Err(Fault { id: part.id, what })
}
