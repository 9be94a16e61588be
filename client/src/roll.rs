//! Which streams a subscriber has, over all gateways, and the credit that each is given.
//!
//! Invariant: the credits of all gateways together are what the program grants, but that
//! each gets one record and one byte at least.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use ackgate_proto::v1;

use crate::settler::Settler;

/// One settler and what its sessions show to go on: a stream and those that resume it.
#[derive(Debug)]
pub(crate) struct Leg {
    /// The gateway, for people.
    pub(crate) gateway: String,
    pub(crate) settler: Arc<Settler>,
    /// Name and token of the latest session; without a token nothing goes on.
    resume: Mutex<(String, String)>,
    /// It takes no more records: only what is in hand is answered.
    leaving: AtomicBool,
}

/// What the subscriber's parts know of each other.
#[derive(Debug)]
pub(crate) struct Roll(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Those that may have something out, the latest last.
    legs: Vec<Arc<Leg>>,
    /// What the program grants.
    records: u32,
    bytes: u64,
    /// Over how many gateways it is split.
    gateways: usize,
    /// The latest session and the name it gave.
    session: String,
    subscriber_id: String,
}

impl Leg {
    pub(crate) fn new(gateway: String, settler: Settler) -> Self {
        Self {
            gateway,
            settler: Arc::new(settler),
            resume: Mutex::default(),
            leaving: AtomicBool::new(false),
        }
    }

    /// It takes no more records, or does again.
    pub(crate) fn set_leaving(&self, leaving: bool) {
        self.leaving.store(leaving, Relaxed);
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Relaxed)
    }

    /// A session is open.
    fn opened(&self, opened: &v1::Opened) {
        *self.lock() = (opened.subscriber_id.clone(), opened.resume_token.clone());
    }

    /// The session of the moment is over for good: nothing goes on with it.
    pub(crate) fn forget(&self) {
        self.lock().1.clear();
    }

    /// Who goes on, and with which token: nobody, if there is nothing to go on with.
    pub(crate) fn resume(&self) -> Option<(String, String)> {
        let resume = self.lock();
        (!resume.1.is_empty()).then(|| resume.clone())
    }

    fn lock(&self) -> MutexGuard<'_, (String, String)> {
        self.resume.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Roll {
    pub(crate) const fn new(records: u32, bytes: u64) -> Self {
        Self(Mutex::new(State {
            legs: Vec::new(),
            records,
            bytes,
            gateways: 1,
            session: String::new(),
            subscriber_id: String::new(),
        }))
    }

    /// A leg begins.
    pub(crate) fn enter(&self, leg: &Arc<Leg>) {
        self.lock().legs.push(Arc::clone(leg));
    }

    /// A leg is over.
    pub(crate) fn leave(&self, leg: &Arc<Leg>) {
        self.lock().legs.retain(|it| !Arc::ptr_eq(it, leg));
    }

    /// A session of the leg is open.
    pub(crate) fn opened(&self, leg: &Leg, opened: &v1::Opened) {
        leg.opened(opened);
        let mut state = self.lock();
        state.session.clone_from(&opened.session);
        state.subscriber_id.clone_from(&opened.subscriber_id);
    }

    /// All legs.
    pub(crate) fn legs(&self) -> Vec<Arc<Leg>> {
        self.lock().legs.clone()
    }

    /// Name of the latest session.
    pub(crate) fn session(&self) -> String {
        self.lock().session.clone()
    }

    /// The subscriber's name, as the latest session has it.
    pub(crate) fn subscriber_id(&self) -> String {
        self.lock().subscriber_id.clone()
    }

    /// The program grants another credit.
    pub(crate) fn grant(&self, records: u32, bytes: u64) {
        self.change(|state| (state.records, state.bytes) = (records, bytes));
    }

    /// There are this many gateways now.
    pub(crate) fn split(&self, gateways: usize) {
        if self.lock().gateways != gateways.max(1) {
            self.change(|state| state.gateways = gateways.max(1));
        }
    }

    /// One gateway's credit.
    pub(crate) fn share(&self) -> (u32, u64) {
        self.lock().share()
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        let (records, bytes) = state.share();
        let legs = state.legs.clone();
        drop(state);
        for leg in legs.iter().filter(|leg| !leg.is_leaving()) {
            leg.settler.credit(records, bytes);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn share(&self) -> (u32, u64) {
        let records = self.records / u32::try_from(self.gateways).unwrap_or(u32::MAX);
        let bytes = self.bytes / u64::try_from(self.gateways).unwrap_or(u64::MAX);
        // Zero pauses, and only the program may do that.
        (
            records.max(self.records.min(1)),
            bytes.max(self.bytes.min(1)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credit_is_split_and_nobody_gets_none_but_in_a_pause() {
        let roll = Roll::new(10, 1_000);
        assert_eq!(roll.share(), (10, 1_000));
        roll.split(3);
        assert_eq!(roll.share(), (3, 333));
        roll.split(20);
        assert_eq!(roll.share(), (1, 50));
        roll.grant(0, 5);
        assert_eq!(roll.share(), (0, 1));
        roll.grant(5, 0);
        assert_eq!(roll.share(), (1, 0));
        roll.split(0);
        assert_eq!(roll.share(), (5, 0));
    }
}
