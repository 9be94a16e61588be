//! Stories of one lane, one file per behaviour; names that begin with an invariant's
//! id are about that invariant.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail by panicking"
)]

mod ack_map;
mod atomic;
mod breaker;
mod broadcast;
mod commit;
mod dead_letter;
mod drain;
mod expiry;
mod gaps;
mod idle;
mod intake;
mod key_order;
mod lane_order;
mod lane_order_late;
mod leaving;
mod redelivery;
mod resuming;
mod skip_acked;
mod support;
mod tracking;
mod unwritten;
mod verdicts;
mod views;
