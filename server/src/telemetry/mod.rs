//! What the gateway tells about itself.

pub mod logs;
pub mod metrics;
pub mod traces;
