//! The ackgate server as a library: `Config` in, a running gateway out.

pub mod broker;
pub mod cli;
pub mod config;
