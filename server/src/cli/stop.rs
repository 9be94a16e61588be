//! The wish to stop, from Ctrl-C or whoever runs the process.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Exit code of a second signal, which does not wait for a goodbye.
pub(super) const INTERRUPTED: u8 = 130;

/// Hears SIGINT and SIGTERM from when it is made.
pub(super) struct Stop {
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    /// Begins to listen.
    ///
    /// # Errors
    /// The signals cannot be heard.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the next wish. Cancel safe.
    pub(super) async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
