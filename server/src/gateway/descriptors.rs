//! File descriptors: each connection takes one, and the system's usual limit is below
//! what a gateway may have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors for everything but connections to the gateway: Kafka's clients above all.
const OTHERS: u64 = 1024;

/// Raises this process's own limit as far as `connections` need it and the system allows
/// it, and says so where that is too little.
pub(super) fn raise(connections: usize) {
    let wanted = u64::try_from(connections)
        .unwrap_or(u64::MAX)
        .saturating_add(OTHERS);
    let limit = getrlimit(Resource::Nofile);
    let Some(current) = limit.current.filter(|current| *current < wanted) else {
        return;
    };
    let possible = limit.maximum.map_or(wanted, |most| most.min(wanted));
    let raised = Rlimit {
        current: Some(possible),
        maximum: limit.maximum,
    };
    let reached = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => possible,
        Err(error) => {
            tracing::warn!(%error, "the limit of file descriptors cannot be raised");
            current
        }
    };
    if reached < wanted {
        tracing::warn!(
            descriptors = reached,
            wanted,
            "fewer file descriptors than listen.max_connections and Kafka's clients may need: \
             raise the process's limit (ulimit -n, LimitNOFILE), or lower \
             listen.max_connections"
        );
    }
}
