//! The adapter against librdkafka's mock cluster.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::wildcard_enum_match_arm,
    reason = "the numbers of tests are small, and a test waits for what it is about"
)]

mod consume;
mod probe;
mod produce;
mod real;
mod rebalance;
mod start;
pub(super) mod support;
mod transaction;
mod trouble;
