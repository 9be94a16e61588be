//! What is done to the broker and to its group.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{Cluster, Committed, Seen, State, Weather};

impl Cluster {
    /// Changes the weather.
    pub(in crate::sim) fn weather(&self, change: impl FnOnce(&mut Weather)) {
        change(&mut self.state.lock().weather);
    }

    /// Answers nothing for a while.
    pub(in crate::sim) fn silence(&self, how_long: Duration) {
        self.weather(|weather| weather.silent_until = Some(Instant::now() + how_long));
    }

    /// Everything works from here on.
    pub(in crate::sim) fn heal(&self) {
        self.weather(|weather| *weather = Weather::default());
    }

    /// Asks for a rebalance in which partitions move.
    pub(in crate::sim) fn rebalance(&self) {
        {
            let mut state = self.state.lock();
            state.forced = true;
            state.turn += 1;
        }
        self.changed.notify_one();
    }

    /// Puts one member out of the group without its knowing.
    pub(in crate::sim) fn fence_one(&self) {
        let mut state = self.state.lock();
        let members: Vec<u64> = state.present().collect();
        if members.is_empty() {
            return;
        }
        let unlucky = state.dice.pick(&members);
        let later = state.dice.ms(0, 8000);
        self.fence(&mut state, unlucky, Instant::now() + later);
        drop(state);
        self.changed.notify_one();
    }

    pub(super) fn fence(&self, state: &mut State, id: u64, told: Instant) {
        state.owners.retain(|_, owner| *owner != id);
        if let Some(member) = state.members.get_mut(&id) {
            member.fenced = Some(told);
            member.orders.clear();
            member.wake.notify_one();
            self.history.push(Seen::Fenced { member: id });
        }
    }

    /// The gateway's process is gone: nothing that it still says is heard.
    pub(in crate::sim) fn kill(&self, gateway: u64) {
        let notice = Instant::now() + self.plan.session_timeout;
        let mut state = self.state.lock();
        state.dead.insert(gateway);
        for member in state.members.values_mut() {
            if member.gateway == gateway {
                member.dead.get_or_insert(notice);
                member.orders.clear();
                member.wake.notify_one();
                member.commit_wake.notify_one();
            }
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Another tool moves the group, which Kafka allows while it has no member.
    pub(in crate::sim) fn reset(&self) -> bool {
        let mut state = self.state.lock();
        if !state.members.is_empty() {
            return false;
        }
        let partitions: Vec<i32> = state.logs.keys().copied().collect();
        for partition in partitions {
            let (start, end) = {
                let log = &state.logs[&partition];
                (log.start, log.end)
            };
            let position = match state.dice.weighted(&[1, 1, 2]) {
                0 => start,
                1 => end,
                _ => state.dice.between(start, end),
            };
            // A tool clears the metadata, or writes its own, or leaves what was there.
            let old = state.committed.get(&partition).cloned();
            let stale = old.filter(|old| old.position != position);
            let metadata = match state.dice.weighted(&[1, 1, 2]) {
                0 => None,
                1 => Some(Arc::from("{\"by\": \"another tool\"}")),
                _ => stale.and_then(|old| old.metadata),
            };
            let committed = Committed { position, metadata };
            state.committed.insert(partition, committed);
            self.history.push(Seen::Reset {
                partition,
                position,
            });
        }
        true
    }
}
