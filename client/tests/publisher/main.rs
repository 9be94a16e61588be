//! The publisher against a gateway that does what each test says, over real sockets.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests end at the first surprise, and random ones print their seed"
)]

mod bounded;
mod closing;
mod encoding;
mod results;
#[path = "../common/served.rs"]
mod served;
mod streams;
mod support;
