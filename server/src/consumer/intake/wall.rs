//! [`Wall`]: the time of day, which only ages are judged by.

use std::{
    fmt,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

/// A clock that people set, so it may step; deadlines never use it.
#[derive(Clone)]
pub struct Wall(Arc<dyn Fn() -> SystemTime + Send + Sync>);

impl Wall {
    /// The system's clock.
    #[must_use]
    pub fn system() -> Self {
        Self::new(SystemTime::now)
    }

    /// A clock of the caller's making.
    #[must_use]
    pub fn new(now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Milliseconds since the Unix epoch; 0 before it.
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        let since = (self.0)().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }
}

impl fmt::Debug for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Wall").field(&self.now_ms()).finish()
    }
}
