//! One file per command.

pub mod bench;
pub mod publish;
pub mod sub;
pub mod target;
