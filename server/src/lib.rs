//! The ackgate server as a library: `Config` in, a running [`Gateway`] out.
//!
//! The journey of a record: [`broker`] fetches it, [`consumer`] asks its lane and
//! hands it out, [`session`] streams it to a subscriber and brings the verdict back.
//! The way in is shorter: [`session`] takes a record from a publisher, [`publish`] keeps
//! its answer in order, [`broker`] writes it.

pub mod access;
pub mod admin;
pub mod broker;
pub mod cli;
pub mod config;
pub mod consumer;
pub mod fail;
pub mod filter;
pub mod gateway;
pub mod headers;
mod health;
pub mod publish;
mod readiness;
pub mod registry;
pub mod session;
#[cfg(test)]
mod sim;
pub mod telemetry;

pub use gateway::Gateway;
