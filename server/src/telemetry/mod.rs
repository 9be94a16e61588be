//! What the gateway tells about itself.

pub(crate) mod episode;
pub(crate) mod flood;
pub mod logs;
pub(crate) mod troubles;
