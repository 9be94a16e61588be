//! Streams: a subscriber's opening, credit, batches out and verdicts in, and a
//! publisher's records in and results out.
//!
//! Boundary: the only folder beside `admin` that knows gRPC and protocol types. It decides nothing
//! about records.

mod age;
mod convert;
mod handshake;
mod outcome;
mod publish;
mod reader;
mod service;
mod status;
mod web;
mod writer;

pub use age::Age;
pub(crate) use publish::with_reason;
pub use service::{Gate, Service};
pub use status::{DOMAIN, Reason};
pub use web::OverWeb;
