//! The `ackgate` command.
fn main() {}
