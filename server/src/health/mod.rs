//! Whether this gateway can serve: as a whole, and each subscription of its
//! configuration, by the names under which `grpc.health.v1.Health` answers for them.
//!
//! No consumer joins its group before a subscriber comes, so whether Kafka answers is
//! asked here, by a question of its own to each cluster; what a consumer that has joined
//! tells of its cluster counts beside it. **Boundary**: nothing here decides about
//! records, and nothing waits for it.
//!
//! ```text
//! clusters ─► answers ──┐
//!                       ├─► judge ─► board ─► service
//! drivers ─► state ─────┘
//! ```

mod board;
mod clusters;
mod judge;
mod service;
mod view;

pub(crate) use self::{clusters::Answer, judge::Health, service::service, view::View};

/// The gateway as a whole.
const OVERALL: &str = "";

/// What subscribers call: as the whole.
const GATEWAY: &str = "ackgate.v1.GatewayService";

/// The name under which a subscription's health is asked.
fn subscription(name: &str) -> String {
    format!("subscription/{name}")
}
