//! What the log says of a lane or a session: each line names it in the same way.

/// An event at `$level` about the lane of `$of`, an entry or an assignment.
macro_rules! tell {
    ($level:ident, $driver:expr, $of:expr; $($rest:tt)+) => {
        tracing::$level!(
            subscription = $driver.parts.subscription.name,
            topic = %$of.partition.topic,
            partition = $of.partition.partition,
            $($rest)+
        )
    };
}

/// An event about a session that begins or ends. One that pulls is gone with the job that
/// began it: operators need no line for each run.
macro_rules! tell_of_session {
    ($pulls:expr, $driver:expr; $($rest:tt)+) => {{
        let subscription = &$driver.parts.subscription.name;
        if $pulls {
            tracing::debug!(subscription, $($rest)+);
        } else {
            tracing::info!(subscription, $($rest)+);
        }
    }};
}

pub(super) use {tell, tell_of_session};
