//! The group's coordinator: who has which partition.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    time::Duration,
};

use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

use super::{Cluster, Order, Seen, State};

/// A member that has not let go by then is put out.
const REBALANCE_TIMEOUT: Duration = Duration::from_secs(30);

/// Without anything to do the coordinator looks around this often.
const LOOK: Duration = Duration::from_secs(60);

/// Who lets go of what.
type Leaving = BTreeMap<u64, Vec<i32>>;

impl Cluster {
    /// Runs as long as the run.
    pub(super) async fn coordinate(self) {
        loop {
            let next = self.state.lock().next_notice();
            let next = next.unwrap_or_else(|| Instant::now() + LOOK);
            tokio::select! {
                biased;
                () = self.changed.notified() => {}
                () = tokio::time::sleep_until(next) => {}
            }
            let delay = self.state.lock().dice.ms(0, 400);
            tokio::time::sleep(delay).await;
            if self.is_silent().is_some() && !self.reach(LOOK).await {
                continue;
            }
            self.bury();
            self.take_away().await;
            self.hand_over();
        }
    }

    /// Members whose silence has lasted too long leave the group.
    fn bury(&self) {
        let now = Instant::now();
        let mut state = self.state.lock();
        let gone: Vec<u64> = state
            .members
            .iter()
            .filter(|(_, m)| m.dead.is_some_and(|at| at <= now))
            .map(|(id, _)| *id)
            .collect();
        for id in gone {
            state.members.remove(&id);
            state.owners.retain(|_, owner| *owner != id);
            self.history.push(Seen::Left { member: id });
        }
    }

    /// Members let go of what moves, or of everything in an eager group.
    async fn take_away(&self) {
        let mut waits = Vec::new();
        {
            let mut state = self.state.lock();
            let leaving = state.leaving(self.plan.eager);
            state.forced = false;
            for (id, partitions) in leaving {
                let Some(member) = state.members.get_mut(&id) else {
                    continue;
                };
                let (done, wait) = oneshot::channel();
                member.orders.push_back(Order::Revoke { partitions, done });
                member.wake.notify_one();
                waits.push((id, wait));
            }
        }
        let deadline = Instant::now() + REBALANCE_TIMEOUT;
        for (id, wait) in waits {
            if timeout_at(deadline, wait).await.is_err() {
                let mut state = self.state.lock();
                self.fence(&mut state, id, Instant::now());
            }
        }
    }

    /// Partitions that nobody has go to where they belong.
    fn hand_over(&self) {
        let mut state = self.state.lock();
        let mut orders: BTreeMap<u64, Vec<i32>> = BTreeMap::new();
        for (partition, id) in state.target() {
            if let Entry::Vacant(free) = state.owners.entry(partition) {
                free.insert(id);
                orders.entry(id).or_default().push(partition);
            }
        }
        for (id, partitions) in orders {
            if let Some(member) = state.members.get_mut(&id) {
                member.orders.push_back(Order::Assign(partitions));
                member.wake.notify_one();
            }
        }
    }
}

impl State {
    /// When a dead member is noticed.
    fn next_notice(&self) -> Option<Instant> {
        self.members.values().filter_map(|member| member.dead).min()
    }

    /// Where each partition belongs.
    fn target(&self) -> BTreeMap<i32, u64> {
        let members: Vec<u64> = self.present().collect();
        if members.is_empty() {
            return BTreeMap::new();
        }
        self.logs
            .keys()
            .enumerate()
            .map(|(index, partition)| {
                let member = members[(index + self.turn) % members.len()];
                (*partition, member)
            })
            .collect()
    }

    fn leaving(&self, eager: bool) -> Leaving {
        let target = self.target();
        let moves = |partition: &i32, owner: &u64| target.get(partition) != Some(owner);
        let present: Vec<u64> = self.present().collect();
        let free = self
            .logs
            .keys()
            .any(|partition| !self.owners.contains_key(partition));
        let any = self.forced || free || self.owners.iter().any(|(p, o)| moves(p, o));
        let mut leaving = Leaving::new();
        for (partition, owner) in &self.owners {
            if present.contains(owner) && (moves(partition, owner) || (eager && any)) {
                leaving.entry(*owner).or_default().push(*partition);
            }
        }
        leaving
    }
}
