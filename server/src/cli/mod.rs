//! One file per command.

pub mod publish;
pub mod sub;
pub mod target;
