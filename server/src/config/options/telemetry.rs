//! The options of what the gateway tells of itself.

use super::{HOUR, Need, SECOND, Spec, millis};

options! {
    /// Those of `[health]` and `[telemetry]`.
    TELEMETRY:

    HEALTH_STALLED_AFTER = "health.stalled_after", millis(SECOND, HOUR), Need::Default("\"10s\""),
        "How long a record may be out without a verdict, whatever its deadline, and how long a lane \
         that has records may hand none out though somebody could take them, before `/readyz` and \
         `ackgate lanes` tell the lane as stalled.";
}
