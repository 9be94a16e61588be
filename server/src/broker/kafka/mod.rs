//! All of rdkafka.

pub mod bulk;
pub mod embedded;
