//! The age of connections, as streams see it: when theirs is too old they are told, and
//! end within a grace.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tonic::codegen::http::Extensions;

/// Among the extensions of each request on a connection that can become too old.
#[derive(Clone, Debug)]
pub struct Age {
    aged: CancellationToken,
    grace: Duration,
}

impl Age {
    /// The age of a connection: `aged` says when it is too old, and `grace` how long its
    /// streams have from then on.
    #[must_use]
    pub const fn new(aged: CancellationToken, grace: Duration) -> Self {
        Self { aged, grace }
    }

    /// That of the connection that a request came over, if it ever becomes too old.
    pub(crate) fn of(extensions: &Extensions) -> Option<Self> {
        extensions.get::<Self>().cloned()
    }
}

/// Resolves with the grace once the connection is too old; never if it has no age.
pub(crate) async fn aged(age: Option<&Age>) -> Duration {
    match age {
        Some(age) => {
            age.aged.cancelled().await;
            age.grace
        }
        None => std::future::pending().await,
    }
}
