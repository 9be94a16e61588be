//! What the gateway tells about itself.

mod cause;
pub(crate) mod episode;
pub(crate) mod flood;
pub mod logs;
pub mod metrics;
pub(crate) mod page;
pub(crate) mod panics;
pub mod traces;
pub(crate) mod troubles;
