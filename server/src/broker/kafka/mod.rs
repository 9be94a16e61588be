//! All of rdkafka.

pub mod embedded;
