//! `ackgate lanes`, `ackgate breaker` and `ackgate ready`: what operators see of a running
//! gateway and its lanes, and say about them.

mod breaker;
mod connect;
mod lanes;
mod ready;
mod shown;

pub use breaker::{Args as BreakerArgs, run as breaker};
pub use lanes::{Args as LanesArgs, run as lanes};
pub use ready::{Args as ReadyArgs, run as ready};

/// For the help of these commands.
const EXIT_CODES: &str =
    "Exit codes: 0 done, 1 the gateway cannot be reached or refused, 2 wrong usage.";
