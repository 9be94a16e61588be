//! [`Gateway`]: one gateway of a run, made of the real driver and the real session
//! code, without sockets.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use super::{
    cluster::{Cluster, Node},
    history::{Event, History},
    plan::Plan,
};
use crate::{
    broker,
    config::Subscription,
    consumer::{Budget, Input},
    publish::Desk,
    registry::{Made, Make, Registry, Source},
    session::{Gate, PullLimits, Service},
};

/// A gateway, until it stops or dies.
#[derive(Clone, Debug)]
pub(super) struct Gateway {
    pub(super) id: u64,
    pub(super) service: Service,
    /// Set when its process dies: streams break at once.
    pub(super) died: CancellationToken,
    gate: Gate,
    registry: Registry,
    budget: Budget,
}

impl Gateway {
    /// Starts one.
    pub(super) fn start(id: u64, plan: &Plan, cluster: &Cluster, history: &History) -> Self {
        history.push(Event::Started { gateway: id });
        let budget = Budget::new(plan.memory);
        let node = Arc::new(cluster.node(id, budget.clone()));
        let registry = Registry::start(
            vec![plan.subscription.clone()],
            None,
            &[],
            budget.clone(),
            Duration::from_secs(10),
            node,
        );
        let registry = registry.expect("nothing is refused");
        let gate = Gate::default();
        Self {
            id,
            service: Service::new(
                registry.clone(),
                Desk::closed(),
                gate.clone(),
                plan.ping,
                PullLimits {
                    sessions: 1000,
                    idle: plan.ping,
                },
            ),
            died: CancellationToken::new(),
            gate,
            registry,
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
    pub(super) async fn stop(self, drain: Duration, history: &History) {
        history.push(Event::Stopping { gateway: self.id });
        self.gate.close();
        for (_, mut handle) in self.registry.close().subscriptions {
            if handle.send(Input::Stop(drain)).await.is_ok() {
                handle.stopped().await;
            }
        }
        history.push(Event::Stopped {
            gateway: self.id,
            memory: self.budget.used(),
        });
    }
}

impl Make for Node {
    fn make(&self, subscription: &Subscription, _: Source) -> Result<Made, broker::Error> {
        let node = Arc::new(self.clone());
        let writes = subscription.dead_letter.is_some();
        Ok(Made {
            connect: Arc::clone(&node) as _,
            producer: writes.then_some(node as _),
            tracer: crate::telemetry::traces::Tracer::off(),
        })
    }
}
