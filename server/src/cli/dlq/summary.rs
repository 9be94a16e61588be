//! Dead letters counted by what they were given up for.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    letter::{Letter, Told},
    print, time,
};

/// Different kinds that are kept apart; a reason may be different in each record.
const KINDS: usize = 1000;

/// Counts by subscription, cause, code and reason.
#[derive(Debug, Default)]
pub(super) struct Summary {
    kinds: BTreeMap<Kind, Seen>,
    /// Of kinds beyond those that are kept.
    others: Seen,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    subscription: String,
    cause: String,
    code: String,
    reason: String,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    count: u64,
    first_ms: i64,
    last_ms: i64,
}

/// One kind as JSON.
#[derive(Debug, Serialize)]
pub(super) struct Counted {
    count: u64,
    subscription: String,
    cause: String,
    code: String,
    reason: String,
    first_ms: i64,
    last_ms: i64,
}

impl Seen {
    fn add(&mut self, at: i64) {
        self.first_ms = if self.count == 0 {
            at
        } else {
            self.first_ms.min(at)
        };
        self.last_ms = self.last_ms.max(at);
        self.count += 1;
    }
}

impl Summary {
    pub(super) fn add(&mut self, letter: &Letter, told: &Told) {
        let kind = Kind {
            subscription: told.subscription.clone(),
            cause: told.cause.clone(),
            code: told.code.clone(),
            reason: told.reason.clone(),
        };
        let full = self.kinds.len() >= KINDS && !self.kinds.contains_key(&kind);
        let seen = if full {
            &mut self.others
        } else {
            self.kinds.entry(kind).or_default()
        };
        seen.add(letter.when());
    }

    /// The most frequent first.
    pub(super) fn counted(self) -> Vec<Counted> {
        let counted = |kind: Kind, seen: Seen| Counted {
            count: seen.count,
            subscription: kind.subscription,
            cause: kind.cause,
            code: kind.code,
            reason: kind.reason,
            first_ms: seen.first_ms,
            last_ms: seen.last_ms,
        };
        let mut all: Vec<Counted> = self
            .kinds
            .into_iter()
            .map(|(kind, seen)| counted(kind, seen))
            .collect();
        all.sort_by_key(|one| std::cmp::Reverse(one.count));
        if self.others.count > 0 {
            let kind = Kind {
                subscription: String::new(),
                cause: "(all others)".to_owned(),
                code: String::new(),
                reason: String::new(),
            };
            all.push(counted(kind, self.others));
        }
        all
    }
}

/// The heads of [`Counted::row`].
pub(super) const HEAD: [&str; 7] = [
    "COUNT",
    "SUBSCRIPTION",
    "CAUSE",
    "CODE",
    "REASON",
    "FIRST, UTC",
    "LAST, UTC",
];

impl Counted {
    pub(super) fn row(&self) -> [String; 7] {
        let text = |text: &str| print::plain(text.as_bytes());
        [
            self.count.to_string(),
            text(&self.subscription),
            text(&self.cause),
            print::short(&text(&self.code), 24),
            print::short(&text(&self.reason), 64),
            time::short(self.first_ms),
            time::short(self.last_ms),
        ]
    }
}
