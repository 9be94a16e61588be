//! The options of what the gateway tells of itself.

use super::{A_FILE, HOUR, Kind, Need, SECOND, Spec, millis};

/// What stands for a name in telemetry.
const A_NAME: &str = "a name of 1 to 255 characters";

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
         `traceparent` has one, else one that follows from its place in Kafka. Of producers' traces no more \
         than four times this part of the records is recorded, and 100 a second. 0 records none.";
    TRACES_TRUST_PARENT = "telemetry.traces.trust_parent", Kind::Flag, Need::Default("false"),
        "Whether the sampled flag in a record's `traceparent` decides in place of that. Whoever writes \
         to the topics decides then how much is traced.";
    TRACES_KEEP = "telemetry.traces.keep",
        Kind::Integer { min: 0, max: 100_000, unit: "spans" }, Need::Default("4096"),
        "The last spans, for `/v1/traces` on the admin address: about 2 KiB of memory each, and as \
         many as 16 MiB hold. 0 keeps none.";
    TELEMETRY_SERVICE_NAME = "telemetry.service_name", Kind::Text(A_NAME), Need::Default("\"ackgate\""),
        "The attribute `service.name` of all that is sent over OTLP.";
    TELEMETRY_INSTANCE = "telemetry.instance", Kind::Text(A_NAME), Need::Optional,
        "The attribute `service.instance.id`, which tells gateways apart. Without it the name of this \
         machine.";
    TELEMETRY_METRICS_MAX_LANES = "telemetry.metrics.max_lanes",
        Kind::Integer { min: 0, max: 100_000, unit: "lanes" }, Need::Default("2000"),
        "Lanes that have metrics of their own. Those beyond are summed by topic, with \
         `partition=\"other\"`.";
    OTLP_ENDPOINT = "telemetry.otlp.endpoint",
        Kind::Text("http://host:port or https://host:port"), Need::Optional,
        "A receiver of OTLP over gRPC. Without it nothing is sent; `/metrics` is there all the same.";
    OTLP_HEADERS_FILE = "telemetry.otlp.headers_file", Kind::Text(A_FILE), Need::Optional,
        "File of headers for the receiver, one `NAME: VALUE` a line, such as \
         `authorization: Bearer …`. Their values are never shown.";
    OTLP_CA_FILE = "telemetry.otlp.ca_file", Kind::Text(A_FILE), Need::Optional,
        "PEM file of authorities that sign the receiver's certificate. Without it those of the system.";
    OTLP_METRICS_INTERVAL = "telemetry.otlp.metrics_interval", millis(SECOND, HOUR),
        Need::Default("\"30s\""), "How often metrics are sent.";
    OTLP_TRACES = "telemetry.otlp.traces", Kind::Flag, Need::Default("true"),
        "Whether spans are sent to the receiver.";
    OTLP_METRICS = "telemetry.otlp.metrics", Kind::Flag, Need::Default("true"),
        "Whether metrics are sent to the receiver.";
}
