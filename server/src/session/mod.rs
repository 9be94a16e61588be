//! One subscriber's stream: opening, credit, batches out, verdicts in.
//!
//! Boundary: the only folder beside `admin` that knows gRPC and protocol types. It decides nothing
//! about records.

mod convert;
mod handshake;
mod outcome;
mod reader;
mod service;
mod status;
mod writer;

pub use service::{Gate, Service};
pub use status::{DOMAIN, Reason};
