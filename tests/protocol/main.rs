//! The protocol as a product: what was released goes on to work, whoever speaks it, and
//! whatever is in it is explained.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that fails should stop where it fails, and say so"
)]

mod breaks;
mod comments;
mod compare;
mod compiled;
mod released;
mod schema;
