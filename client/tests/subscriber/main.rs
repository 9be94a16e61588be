//! The subscriber against a gateway that does what each test says, over real
//! sockets.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests end at the first surprise, and random ones print their seed"
)]

mod bounded;
mod deliveries;
mod durable;
mod errors;
mod memory;
mod pulling;
mod resume;
#[path = "../common/served.rs"]
mod served;
mod sessions;
mod several;
mod support;
mod verdicts;
mod worker;
