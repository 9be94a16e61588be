//! The ackgate server as a library: `Config` in, a running gateway out.

pub mod broker;
pub mod config;

pub mod cli {
    //! One file per command.
    pub mod sub;
}
