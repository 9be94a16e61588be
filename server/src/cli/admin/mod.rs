//! `ackgate lanes` and `ackgate breaker`: what operators see of a running gateway's
//! lanes, and say about them.

mod breaker;
mod connect;
mod lanes;
mod shown;

pub use breaker::{Args as BreakerArgs, run as breaker};
pub use lanes::{Args as LanesArgs, run as lanes};

/// For the help of these commands.
const EXIT_CODES: &str =
    "Exit codes: 0 done, 1 the gateway cannot be reached or refused, 2 wrong usage.";
