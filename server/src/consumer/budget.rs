//! [`Budget`]: memory for records that are fetched and not settled, shared by all
//! lanes of a gateway.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use super::mutation::{self, Mutation};

/// Bytes in use against a limit. Clones share the count.
#[derive(Clone, Debug)]
pub struct Budget {
    limit: u64,
    used: Arc<AtomicU64>,
}

impl Budget {
    /// A budget of `limit` bytes.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        Self {
            limit,
            used: Arc::default(),
        }
    }

    /// Bytes in use.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The most that may be in use.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes left.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.limit.saturating_sub(self.used())
    }

    /// Counts a change of what one lane holds.
    pub(super) fn recount(&self, before: u64, after: u64) {
        if after >= before {
            self.used.fetch_add(after - before, Ordering::Relaxed);
        } else if !mutation::is_on(Mutation::LeakMemory) {
            self.used.fetch_sub(before - after, Ordering::Relaxed);
        }
    }
}
