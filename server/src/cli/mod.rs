//! One file per command.

pub mod bench;
pub mod demo;
pub mod publish;
pub mod sub;
pub mod target;
