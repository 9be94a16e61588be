//! What operators ask of a running gateway, and tell it, over gRPC on a listener of
//! its own, which also has pages over HTTP.
//!
//! Boundary: puts what the drivers show into messages and carries what operators say
//! to them; decides nothing about lanes. Who may reach the listener is the
//! configuration's affair: loopback only.

mod convert;
pub(crate) mod http;
mod refusal;
mod service;

pub use refusal::Reason;
pub use service::Admin;
