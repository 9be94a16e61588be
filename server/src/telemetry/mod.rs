//! What the gateway tells about itself.

pub(crate) mod episode;
pub(crate) mod flood;
pub mod logs;
pub(crate) mod panics;
pub(crate) mod troubles;
