//! One file per command.

pub mod publish;
pub mod target;
