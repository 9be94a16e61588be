//! Reading what rdkafka takes for text and others may have written as any bytes.

use crate::telemetry::panics;

/// What `read` gives; `None` if it panics. rdkafka panics on header keys and commit
/// metadata that are not UTF-8, which anyone who may produce or commit can send; this
/// neither ends the thread nor writes a backtrace each time.
pub(super) fn guarded<T>(read: impl FnOnce() -> T) -> Option<T> {
    panics::quietly(read)
}
