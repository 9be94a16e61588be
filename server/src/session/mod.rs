//! Streams: a subscriber's opening, credit, batches out and verdicts in, and a
//! publisher's records in and results out. And calls that need none.
//!
//! Boundary: the only folder beside `admin` that knows gRPC and protocol types. It decides nothing
//! about records.

mod age;
mod convert;
mod goodbye;
mod handshake;
mod outcome;
mod publish;
mod pull;
mod reader;
mod service;
mod status;
mod web;
mod writer;

pub use age::Age;
pub(crate) use age::aged;
pub(crate) use outcome::connection_aged;
pub(crate) use publish::with_reason;
pub use pull::Limits as PullLimits;
pub(crate) use pull::with_receipt;
pub use service::{Gate, Service};
pub use status::{DOMAIN, Reason};
pub use web::OverWeb;
