//! What the log says of a lane: each line names it in the same way.

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

pub(super) use tell;
