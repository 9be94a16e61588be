//! [`Admin`]: the gRPC service for operators' tools.

use std::{future::Future, net::SocketAddr, time::Duration};

use ackgate_proto::{server::admin_service_server::AdminService, v1};
use tonic::{Request, Response, Status};

use super::{Reason, convert};
use crate::{
    consumer::{Handle, Lanes, ShownLane, Stopped},
    registry::Registry,
    session,
};

/// How long a driver may take to answer; it does in its next turn.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// Who may say what is decided by where it listens.
#[derive(Debug)]
pub struct Admin {
    registry: Registry,
}

impl Admin {
    /// Serves what runs in `registry`.
    #[must_use]
    pub const fn new(registry: Registry) -> Self {
        Self { registry }
    }

    /// The subscriptions of this name, or all of them.
    fn of(&self, name: &str) -> Result<Vec<(String, Handle)>, Status> {
        let mut running = self.registry.running();
        if name.is_empty() {
            return Ok(running);
        }
        running.retain(|(running, _)| running == name);
        if running.is_empty() {
            let text = format!("this gateway runs no subscription {name:?}");
            return Err(session::Reason::UnknownSubscription.status(text));
        }
        Ok(running)
    }
}

#[tonic::async_trait]
impl AdminService for Admin {
    async fn list_lanes(
        &self,
        request: Request<v1::ListLanesRequest>,
    ) -> Result<Response<v1::ListLanesResponse>, Status> {
        let request = request.into_inner();
        let mut lanes = Vec::new();
        for (name, handle) in self.of(&request.subscription)? {
            let shown = answered(&name, handle.show()).await?;
            lanes.extend(shown.lanes.iter().map(|lane| convert::lane(&name, lane)));
        }
        Ok(Response::new(v1::ListLanesResponse { lanes }))
    }

    async fn reset_breakers(
        &self,
        request: Request<v1::ResetBreakersRequest>,
    ) -> Result<Response<v1::ResetBreakersResponse>, Status> {
        let peer = request.remote_addr();
        let request = request.into_inner();
        if request.subscription.is_empty() {
            let text = "subscription: name the one whose breakers are to be closed";
            return Err(Reason::SubscriptionRequired.status(text));
        }
        if request.partition.is_some() && request.topic.is_empty() {
            let text = "topic: a partition needs the topic that it is of";
            return Err(Reason::TopicRequired.status(text));
        }
        let meant = Lanes {
            topic: Some(request.topic).filter(|topic| !topic.is_empty()),
            partition: request.partition,
        };
        let mut lanes = Vec::new();
        for (name, handle) in self.of(&request.subscription)? {
            let reset = answered(&name, handle.reset_breakers(meant.clone())).await?;
            audit(peer, &name, &meant, &reset.closed);
            if reset.meant == 0 && meant.topic.is_some() {
                let text = "this gateway owns no such lane now: `ackgate lanes` shows those that \
                            it owns; with several gateways ask the one that owns it";
                return Err(Reason::LaneNotHere.status(text));
            }
            lanes.extend(reset.closed.iter().map(|lane| convert::lane(&name, lane)));
        }
        Ok(Response::new(v1::ResetBreakersResponse { lanes }))
    }
}

/// What a driver answers, in bounded time.
async fn answered<T>(
    name: &str,
    answer: impl Future<Output = Result<T, Stopped>>,
) -> Result<T, Status> {
    match tokio::time::timeout(ANSWERS_WITHIN, answer).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(Stopped)) => {
            Err(session::Reason::ShuttingDown.status("the subscription has stopped"))
        }
        Err(_elapsed) => {
            let text = format!("subscription {name:?} did not answer in time: try again");
            Err(Reason::SubscriptionBusy.status(text))
        }
    }
}

/// Who did what, and what it was before and is now.
fn audit(peer: Option<SocketAddr>, subscription: &str, meant: &Lanes, closed: &[ShownLane]) {
    let peer = peer.map_or_else(|| "unknown".to_owned(), |peer| peer.to_string());
    tracing::info!(
        target: "ackgate::audit",
        peer,
        action = "ResetBreakers",
        subscription,
        topic = meant.topic.as_deref().unwrap_or("*"),
        partition = meant.partition,
        lanes = closed.len(),
        "an operator has reset breakers"
    );
    for lane in closed {
        let before = lane.standstill.as_ref();
        tracing::info!(
            target: "ackgate::audit",
            peer,
            action = "ResetBreakers",
            subscription,
            topic = %lane.label.topic,
            partition = lane.label.partition,
            before = before.map_or("breaker open", |stood| stood.detail.as_str()),
            after = "breaker closed",
            dead_letters = lane.lane.dead_lettering,
            "breaker closed"
        );
    }
}
