//! [`Gateway`]: one gateway of a run, made of the real driver and the real session
//! code, without sockets.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    cluster::Cluster,
    history::{Event, History},
    plan::{Plan, SUBSCRIPTION},
};
use crate::{
    consumer::{self, Budget, Handle, Input, Parts, Wall},
    registry::Registry,
    session::{Gate, Service},
};

/// As [`super::cluster`] dates its records.
const WRITTEN_MS: u64 = 1_700_000_000_000;

/// A gateway, until it stops or dies.
#[derive(Clone, Debug)]
pub(super) struct Gateway {
    pub(super) id: u64,
    pub(super) service: Service,
    /// Set when its process dies: streams break at once.
    pub(super) died: CancellationToken,
    gate: Gate,
    handle: Handle,
    budget: Budget,
}

impl Gateway {
    /// Starts one.
    pub(super) fn start(id: u64, plan: &Plan, cluster: &Cluster, history: &History) -> Self {
        history.push(Event::Started { gateway: id });
        let budget = Budget::new(plan.memory);
        let node = Arc::new(cluster.node(id, budget.clone()));
        let writes = plan.subscription.dead_letter.is_some();
        let handle = consumer::spawn(Parts {
            subscription: Arc::new(plan.subscription.clone()),
            connect: Arc::clone(&node) as _,
            producer: writes.then(|| node as _),
            budget: budget.clone(),
            wall: wall(history),
            origin: Instant::now(),
        });
        let gate = Gate::default();
        let subscriptions = HashMap::from([(SUBSCRIPTION.to_owned(), handle.clone())]);
        Self {
            id,
            service: Service::new(
                Registry::of(subscriptions, budget.clone()),
                gate.clone(),
                plan.ping,
            ),
            died: CancellationToken::new(),
            gate,
            handle,
            budget,
        }
    }

    /// Its process dies.
    pub(super) fn kill(self, cluster: &Cluster, history: &History) {
        cluster.kill(self.id);
        history.push(Event::Died { gateway: self.id });
        self.died.cancel();
    }

    /// Stops as on SIGTERM: drains for this long, leaves its group.
    pub(super) async fn stop(mut self, drain: Duration, history: &History) {
        history.push(Event::Stopping { gateway: self.id });
        self.gate.close();
        if self.handle.send(Input::Stop(drain)).await.is_ok() {
            self.handle.stopped().await;
        }
        history.push(Event::Stopped {
            gateway: self.id,
            memory: self.budget.used(),
        });
    }
}

/// A clock that begins when the records were written and follows virtual time.
fn wall(history: &History) -> Wall {
    let history = history.clone();
    Wall::new(move || UNIX_EPOCH + Duration::from_millis(WRITTEN_MS + history.now()))
}
