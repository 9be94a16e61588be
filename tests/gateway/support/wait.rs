//! Waiting for conditions. Nothing here sleeps and hopes: a wait ends when its
//! condition holds, or fails with the last thing it saw.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How long a condition may take. Far more than any should need: two cores run
/// several brokers, gateways and tests at once.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

const PAUSE: Duration = Duration::from_millis(25);

/// Waits until `probe` gives a value, and fails with the last error it gave.
pub(crate) async fn eventually<T>(
    what: &str,
    mut probe: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match probe().await {
            Ok(value) => return value,
            Err(seen) => {
                assert!(
                    Instant::now() < deadline,
                    "not within {PATIENCE:?}: {what}; seen: {seen}"
                );
            }
        }
        sleep(PAUSE).await;
    }
}

/// Checks that `probe` finds nothing wrong for the whole of `period`: for what must
/// not happen.
pub(crate) async fn throughout(
    what: &str,
    period: Duration,
    mut probe: impl AsyncFnMut() -> Result<(), String>,
) {
    let end = Instant::now() + period;
    while Instant::now() < end {
        if let Err(seen) = probe().await {
            panic!("{what}; seen: {seen}");
        }
        sleep(PAUSE).await;
    }
}
