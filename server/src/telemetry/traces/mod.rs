//! Traces: which records are traced, the spans of what is done with them, and where these
//! can be had: from a ring over HTTP, and by OTLP.
//!
//! ```text
//! record ─► Sampling ─► Polled, with its chunk ─► consumer/traces ─► Span ─► Tracer ─► Ring ─► /v1/traces
//!           (id, parent)                          (hand-over to verdict)        └─────► OTLP
//! ```
//!
//! One trace per record: its producer's if its header `traceparent` says one, else one that
//! follows from its place in Kafka. A record is traced or not for good ([`Sampler`]); but for
//! ids that producers choose there are places for only so many ([`Allowance`]).
//!
//! **Boundary**: a subscription's driver tells what happens and when; nothing here knows of
//! lanes or sessions. **Invariant**: a record that is not traced costs its fetch one look at
//! its headers' names, and nothing after that.

mod allowance;
mod answer;
mod export;
mod gateway;
pub mod names;
mod outlet;
mod record;
mod ring;
mod routes;
mod sampler;
mod span;
mod tracer;

pub use self::{
    allowance::Allowance,
    export::{Collector, export},
    gateway::Traces,
    names::Operation,
    outlet::{Outlet, Spans},
    record::{PARENT, Parent, Polled, RecordTrace, Sampling, Seed, is_parent, traceparent},
    ring::{Filter, Ring},
    routes::routes,
    sampler::Sampler,
    span::{MAX_LINKS, Span},
    tracer::{Place, Tracer},
};
