//! The options of what the gateway tells of itself.

use super::{HOUR, Kind, Need, SECOND, Spec, millis};

options! {
    /// Those of `[health]` and `[telemetry]`.
    TELEMETRY:

    HEALTH_STALLED_AFTER = "health.stalled_after", millis(SECOND, HOUR), Need::Default("\"10s\""),
        "How long a record may be out without a verdict, whatever its deadline, and how long a lane \
         that has records may hand none out though somebody could take them, before `/readyz` and \
         `ackgate lanes` tell the lane as stalled.";

    TRACES_SAMPLE = "telemetry.traces.sample", Kind::Float { min: 0.0, max: 1.0 },
        Need::Default("0.001"),
        "The part of all traces that is recorded, by the record's trace id: the producer's if its header \
         `traceparent` has one, else one that follows from its place in Kafka. 0 records none.";
    TRACES_TRUST_PARENT = "telemetry.traces.trust_parent", Kind::Flag, Need::Default("false"),
        "Whether the sampled flag in a record's `traceparent` decides in place of that. Whoever writes \
         to the topics decides then how much is traced.";
    TRACES_KEEP = "telemetry.traces.keep",
        Kind::Integer { min: 0, max: 100_000, unit: "spans" }, Need::Default("4096"),
        "The last spans, for `/v1/traces` on the admin address: about 2 KiB of memory each. 0 keeps \
         none.";
}
