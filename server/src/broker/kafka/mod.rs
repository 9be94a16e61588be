//! All of rdkafka.

pub mod bulk;
pub mod direct;
pub mod embedded;
pub mod probe;
pub mod topics;
