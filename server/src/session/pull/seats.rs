//! [`Seats`]: the sessions that are here, by their tokens; and the latest of those whose
//! place another took, whose callers have to hear it.
//!
//! **Invariant**: a session is found from before its keeper starts until that has ended;
//! what is remembered afterwards is bounded, and is for the session's own caller.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;

use super::sitting::Sitting;
use crate::access::Principal;

/// Superseded sessions that are remembered. Of one before that nothing is known any more.
const REMEMBERED: usize = 1024;

/// Sessions by their tokens. Clones are one. Nobody can guess a token: looking one up tells
/// no more of the others than the time it takes, and that depends on a secret of the map's.
#[derive(Clone, Debug, Default)]
pub(super) struct Seats(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    here: HashMap<String, Arc<Sitting>>,
    superseded: Memory,
}

/// Why there is no such session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absent {
    /// Another stream or session has its name now.
    Superseded,
    /// Nothing is known of it, or it is another caller's.
    Unknown,
}

impl Seats {
    /// The session of this token, if it is the caller's own.
    pub(super) fn find(
        &self,
        token: &str,
        caller: Option<&Principal>,
    ) -> Result<Arc<Sitting>, Absent> {
        let table = self.0.lock();
        match table.here.get(token) {
            Some(sitting) if sitting.owner() == caller => Ok(Arc::clone(sitting)),
            None if table.superseded.has(token, caller) => Err(Absent::Superseded),
            Some(_) | None => Err(Absent::Unknown),
        }
    }

    /// Lets calls find the session until the seat is dropped.
    pub(super) fn take(&self, sitting: Arc<Sitting>, place: OwnedSemaphorePermit) -> Seat {
        let token = sitting.token().to_owned();
        self.0.lock().here.insert(token, Arc::clone(&sitting));
        Seat {
            seats: self.clone(),
            sitting,
            _place: place,
        }
    }
}

/// A session's place among the others, held by its task: it goes also if that is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Seats,
    sitting: Arc<Sitting>,
    _place: OwnedSemaphorePermit,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let token = self.sitting.token();
        let mut table = self.seats.0.lock();
        table.here.remove(token);
        if self.sitting.is_superseded() {
            table.superseded.note(token, self.sitting.owner().cloned());
        }
    }
}

/// The latest tokens that were noted, each with whose it was.
#[derive(Debug, Default)]
struct Memory {
    owners: HashMap<String, Option<Principal>>,
    /// Oldest first.
    order: VecDeque<String>,
}

impl Memory {
    fn note(&mut self, token: &str, owner: Option<Principal>) {
        if self.order.len() == REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.owners.remove(&oldest);
        }
        self.order.push_back(token.to_owned());
        self.owners.insert(token.to_owned(), owner);
    }

    fn has(&self, token: &str, caller: Option<&Principal>) -> bool {
        let owner = self.owners.get(token);
        owner.is_some_and(|owner| owner.as_ref() == caller)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_keeps_the_latest_tokens_and_no_more() {
        let mut memory = Memory::default();
        for number in 0..=REMEMBERED {
            memory.note(&number.to_string(), None);
        }
        assert!(!memory.has("0", None));
        assert!(memory.has("1", None) && memory.has(&REMEMBERED.to_string(), None));
        assert_eq!(
            (memory.order.len(), memory.owners.len()),
            (REMEMBERED, REMEMBERED)
        );
    }

    #[test]
    fn memory_is_for_its_own_caller() {
        let mut memory = Memory::default();
        let named = |name: &str| Principal::named(name);
        memory.note("a", Some(named("one")));
        assert!(memory.has("a", Some(&named("one"))));
        assert!(!memory.has("a", Some(&named("two"))) && !memory.has("a", None));
    }
}
