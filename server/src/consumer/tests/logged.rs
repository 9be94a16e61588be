//! What a driver writes into the log while a test runs.

use std::sync::Arc;

use tracing::subscriber::{DefaultGuard, set_default};

/// All lines from `info` on, as text.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<parking_lot::Mutex<Vec<u8>>>);

impl Log {
    /// Of this thread, as long as the guard is held.
    pub(super) fn begin() -> (Self, DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let lines = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        (log, set_default(lines))
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock()).into_owned()
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
