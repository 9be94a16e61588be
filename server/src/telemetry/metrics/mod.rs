//! Metrics: everything that counts is asked when somebody scrapes, or when an export is due,
//! and what it answers is told in text or over OTLP.
//!
//! ```text
//! drivers, desk, sessions ─► gather ─► picture ─┬─► text ─► /metrics
//!                              names ──┘        └─► otlp ─► push ─► a collector
//! ```
//!
//! Boundary: nothing is counted here, nothing is decided by it, and nothing waits for it.
//! **Invariant**: how many series there are is up to the configuration, never to subscribers,
//! publishers or records.

mod gather;
mod http;
mod lanes;
pub mod names;
mod otlp;
mod picture;
mod push;
mod reference;
mod subscription;
mod text;

pub use self::{
    gather::{Exports, Source},
    http::routes,
    push::Push,
    reference::reference,
};
