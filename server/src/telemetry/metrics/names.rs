//! Every metric there is: name, kind, unit, labels and meaning, in one place.
//!
//! Invariant: nothing else spells a metric's name or a label's. This table drives `/metrics`,
//! OTLP and the reference page `server/metrics.md`.

/// One metric.
#[derive(Debug, PartialEq, Eq)]
pub struct Spec {
    /// As samples of it are called; those of histograms have suffixes.
    pub name: &'static str,
    /// What kind it is.
    pub kind: Kind,
    /// What its values are.
    pub unit: Unit,
    /// The names of its labels, in the order of their values.
    pub labels: &'static [&'static str],
    /// In one sentence, without a full stop at the end.
    pub help: &'static str,
}

/// Kinds of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Goes up only, from 0 at the gateway's start.
    Counter,
    /// What is now.
    Gauge,
    /// A distribution since the gateway's start.
    Histogram,
}

/// What values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Numbers of things that the name tells.
    None,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Records of Kafka.
    Records,
    /// Offsets of a log.
    Offsets,
    /// A part of a whole: 1 is all of it.
    Ratio,
}

impl Kind {
    /// As the text formats call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

impl Unit {
    /// How names of this unit end, if in any certain way.
    #[must_use]
    pub const fn suffix(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Seconds => Some("seconds"),
            Self::Bytes => Some("bytes"),
            Self::Records => Some("records"),
            Self::Offsets => Some("offsets"),
            Self::Ratio => Some("ratio"),
        }
    }

    /// In the code for units that OTLP uses.
    #[must_use]
    pub const fn ucum(self) -> &'static str {
        match self {
            Self::None | Self::Ratio => "1",
            Self::Seconds => "s",
            Self::Bytes => "By",
            Self::Records => "{record}",
            Self::Offsets => "{offset}",
        }
    }
}

impl Spec {
    /// The name without what its kind and its unit add to it.
    #[must_use]
    pub fn base(&self) -> &'static str {
        let base = match self.kind {
            Kind::Counter => self.name.strip_suffix("_total"),
            Kind::Gauge | Kind::Histogram => None,
        };
        let base = base.unwrap_or(self.name);
        let suffix = self.unit.suffix();
        let without = suffix.and_then(|suffix| base.strip_suffix(suffix)?.strip_suffix('_'));
        without.unwrap_or(base)
    }
}

/// Nothing to tell apart.
const NONE: &[&str] = &[];
/// What belongs to a subscription.
const S: &[&str] = &["subscription", "cluster"];
/// What belongs to a lane.
const L: &[&str] = &["subscription", "cluster", "topic", "partition"];

const REASON: &[&str] = &["subscription", "cluster", "reason"];
const KIND: &[&str] = &["subscription", "cluster", "kind"];
const OUTCOME: &[&str] = &["subscription", "cluster", "outcome"];
const STATE: &[&str] = &["subscription", "cluster", "state"];

macro_rules! metrics {
    ($($id:ident = $name:literal, $kind:ident, $unit:ident, $labels:expr, $help:literal;)*) => {
        $(
            #[doc = $help]
            pub(super) const $id: Spec = Spec {
                name: $name,
                kind: Kind::$kind,
                unit: Unit::$unit,
                labels: $labels,
                help: $help,
            };
        )*
        /// All metrics, in the order in which they are told.
        pub const ALL: &[Spec] = &[$($id),*];
    };
}

metrics! {
    BUILD_INFO = "ackgate_build_info", Gauge, None, &["version"],
        "Always 1; tells the version";
    START_TIME = "ackgate_start_time_seconds", Gauge, Seconds, NONE,
        "When the gateway began, since the Unix epoch";
    MEMORY_USED = "ackgate_memory_used_bytes", Gauge, Bytes, NONE,
        "What lanes hold or have been granted, and what Kafka's client may fetch ahead";
    MEMORY_LIMIT = "ackgate_memory_limit_bytes", Gauge, Bytes, NONE,
        "The most of it, as the option memory says; each lane may have a little more than nothing";
    SESSIONS = "ackgate_sessions", Gauge, None, &["kind"],
        "Streams of subscribers, sessions of subscribers that pull, and streams and calls that publish";
    CLUSTER_REACHABLE = "ackgate_cluster_reachable", Gauge, None, &["cluster"],
        "1 while the cluster answers the gateway, whether or not anybody subscribes, else 0; no series before it was asked";
    MISSING = "ackgate_metrics_missing_subscriptions", Gauge, None, NONE,
        "Subscriptions that did not answer in time, whose series are missing this time";
    EXPORTS = "ackgate_otlp_exports_total", Counter, None, &["outcome"],
        "Exports of metrics over OTLP";
    SPANS = "ackgate_otlp_spans_total", Counter, None, &["outcome"],
        "Spans that were sent over OTLP, and those that were lost: the receiver did not take them, or too many waited for it";

    JOINED = "ackgate_subscription_joined", Gauge, None, S,
        "1 while the subscription is in its consumer group, else 0; of ad hoc ones how many are";
    REACHABLE = "ackgate_subscription_reachable", Gauge, None, S,
        "1 while it is in its group and the cluster answers, else 0; of ad hoc ones how many";
    FENCED = "ackgate_subscription_fenced", Gauge, None, S,
        "1 while nothing is handed out since the group may have given the lanes away, else 0; of ad hoc ones how many";
    LANES = "ackgate_lanes", Gauge, None, S,
        "Lanes that this gateway owns";
    LANES_HELD = "ackgate_lanes_held", Gauge, None, REASON,
        "Lanes that stand until a dead letter can be written or somebody acts";
    LANES_STALLED = "ackgate_lanes_stalled", Gauge, None, S,
        "Lanes that have made no progress for longer than health.stalled_after";
    SUBSCRIBERS = "ackgate_subscribers", Gauge, None, STATE,
        "Attached subscribers that take records, and those that do not, for want of credit or because they leave";
    CREDIT_RECORDS = "ackgate_credit_records", Gauge, Records, S,
        "The most records that may be out to all attached subscribers together";
    CREDIT_BYTES = "ackgate_credit_bytes", Gauge, Bytes, S,
        "The most bytes that may be out to them";
    OUT_RECORDS = "ackgate_out_records", Gauge, Records, S,
        "Records that are out to attached subscribers";
    OUT_BYTES = "ackgate_out_bytes", Gauge, Bytes, S,
        "Bytes that are out to them";
    FETCHED_RECORDS = "ackgate_fetched_records_total", Counter, Records, S,
        "Records taken from Kafka, those that were read again included";
    FETCHED_BYTES = "ackgate_fetched_bytes_total", Counter, Bytes, S,
        "Their bytes, as they are encoded for subscribers";
    DELIVERED_RECORDS = "ackgate_delivered_records_total", Counter, Records, S,
        "Records given to subscribers, repeats included";
    DELIVERED_BYTES = "ackgate_delivered_bytes_total", Counter, Bytes, S,
        "Their bytes";
    REDELIVERED = "ackgate_redelivered_records_total", Counter, Records, S,
        "The part of them that had been given to a subscriber before";
    ATTEMPTS = "ackgate_delivery_attempts", Histogram, None, S,
        "Which attempt each of them was; 1 is the first";
    VERDICTS = "ackgate_verdicts_total", Counter, None, KIND,
        "Records that a verdict was applied to";
    VERDICT_PROBLEMS = "ackgate_verdict_problems_total", Counter, None, OUTCOME,
        "Answers to verdicts and extensions that changed nothing";
    VERDICT_TIMES = "ackgate_verdict_duration_seconds", Histogram, Seconds, S,
        "From the hand-over of a record to the transport until its verdict; expired deliveries are not in it";
    ENDED = "ackgate_deliveries_ended_total", Counter, None, REASON,
        "Records that are no longer out, by why: verdict also for those that a subscriber gives back by closing, expired without a verdict until the deadline";
    DEAD_LETTERS = "ackgate_dead_letters_total", Counter, None,
        &["subscription", "cluster", "cause", "outcome"],
        "Dead letters, by why the record was given up and what became of it or of one try to write it";
    FILTERED = "ackgate_filtered_records_total", Counter, Records, S,
        "Records that settled since the filter said no";
    UNWANTED = "ackgate_unwanted_records_total", Counter, Records, S,
        "Broadcast: records passed over for one subscriber by its own filter, once for each subscriber";
    FILTER_FAILURES = "ackgate_filter_failures_total", Counter, None, S,
        "Records that the filter could not judge; they went on";
    EXPIRED = "ackgate_expired_records_total", Counter, Records, S,
        "Records that were older than max_age before they were handed out";
    UNFIT = "ackgate_unfit_records_total", Counter, Records, OUTCOME,
        "Records whose value was not what content.check says";
    VANISHED = "ackgate_vanished_offsets_total", Counter, Offsets, S,
        "Offsets that the log lost before they were settled";
    TRIPS = "ackgate_breaker_trips_total", Counter, None, S,
        "Breakers that opened";
    SEEKS = "ackgate_seeks_total", Counter, None, REASON,
        "Readings that went on elsewhere: failure goes back to the floor in lane order, retention goes on where the log begins now";
    SEEK_FAILURES = "ackgate_seek_failures_total", Counter, None, S,
        "Seeks that Kafka's client refused";
    COMMITS = "ackgate_commits_total", Counter, None, OUTCOME,
        "Commits of lanes, as they were answered";
    COMMIT_TIMES = "ackgate_commit_duration_seconds", Histogram, Seconds, S,
        "From asking for a lane's commit until its answer";
    COMMIT_BATCHES = "ackgate_commit_batches_total", Counter, None, S,
        "How often commits, of however many lanes, were handed to Kafka's client together";
    COMMITTED = "ackgate_committed_offsets_total", Counter, Offsets, S,
        "Offsets by which committed positions have moved, the first time from where reading began; markers and gaps included";
    REBALANCES = "ackgate_rebalances_total", Counter, None, KIND,
        "What the consumer group did: gave lanes or none, took lanes, or had given them to others already";

    LAG_RECORDS = "ackgate_lane_lag_records", Gauge, Records, L,
        "Records that are not settled: those received, and at most so many beyond";
    LAG_SECONDS = "ackgate_lane_lag_seconds", Gauge, Seconds, L,
        "The age of the oldest of them by its timestamp; of records not fetched yet, since when there are any";
    STOOD = "ackgate_lane_oldest_unsettled_seconds", Gauge, Seconds, L,
        "For how long the floor has stood with something unsettled, else 0";
    FLOOR = "ackgate_lane_floor_position", Gauge, None, L,
        "The lowest unsettled offset";
    COMMITTED_POSITION = "ackgate_lane_committed_position", Gauge, None, L,
        "The position that Kafka has confirmed";
    HEAD = "ackgate_lane_head_position", Gauge, None, L,
        "The end of the log, markers and unfinished transactions included: as last heard, and no less than what was read";
    UNSETTLED = "ackgate_lane_unsettled_records", Gauge, Records, L,
        "Records received and not settled";
    WINDOW = "ackgate_lane_window_ratio", Gauge, Ratio, L,
        "That as a part of window.records; above 1 with records of one key beyond its share";
    OUT = "ackgate_lane_out_records", Gauge, Records, L,
        "Records that are with subscribers";
    DELAYED = "ackgate_lane_delayed_records", Gauge, Records, L,
        "Records that wait for their backoff";
    BEHIND = "ackgate_lane_behind_records", Gauge, Records, L,
        "Records that wait for an earlier one of their key";
    DEAD_LETTERING = "ackgate_lane_dead_lettering_records", Gauge, Records, L,
        "Given-up records that wait for their dead letters";
    PARKED = "ackgate_lane_parked_records", Gauge, Records, L,
        "Given-up records that were set aside since their dead letters could not be written";
    RETAINED = "ackgate_lane_retained_bytes", Gauge, Bytes, L,
        "Memory that the lane's fetched records take";
    HELD = "ackgate_lane_held", Gauge, None,
        &["subscription", "cluster", "topic", "partition", "reason"],
        "1 while the lane stands for this reason; no series otherwise";
    STALLED = "ackgate_lane_stalled", Gauge, None, L,
        "1 while the lane has made no progress for longer than health.stalled_after, else 0";

    KAFKA_BROKERS = "ackgate_kafka_brokers", Gauge, None, STATE,
        "Brokers that the consumer has a connection to, and those that it wants one to and has none";
    KAFKA_IN_FLIGHT = "ackgate_kafka_requests_in_flight", Gauge, None, S,
        "Requests of the consumer that wait to be sent or answered";
    KAFKA_RTT = "ackgate_kafka_rtt_seconds", Gauge, Seconds, S,
        "The slowest broker's average time to an answer in the last second";
    KAFKA_PREFETCHED_RECORDS = "ackgate_kafka_prefetched_records", Gauge, Records, S,
        "Records that Kafka's client has fetched ahead";
    KAFKA_PREFETCHED_BYTES = "ackgate_kafka_prefetched_bytes", Gauge, Bytes, S,
        "Their bytes";
    KAFKA_RECEIVED = "ackgate_kafka_received_bytes_total", Counter, Bytes, S,
        "Bytes that the consumer received from brokers";
    KAFKA_SENT = "ackgate_kafka_sent_bytes_total", Counter, Bytes, S,
        "Bytes that it sent to them";
    KAFKA_CONNECTS = "ackgate_kafka_connects_total", Counter, None, S,
        "Connections to brokers that were tried";
    KAFKA_DISCONNECTS = "ackgate_kafka_disconnects_total", Counter, None, S,
        "Connections to brokers that ended";
    KAFKA_TIMEOUTS = "ackgate_kafka_request_timeouts_total", Counter, None, S,
        "Requests to brokers that were not answered in time";
    KAFKA_ERRORS = "ackgate_kafka_request_errors_total", Counter, None, S,
        "Requests to brokers, and answers of them, that failed";

    PUBLISHED = "ackgate_published_records_total", Counter, Records, &["cluster", "outcome"],
        "Records of publishers that were answered";
    PUBLISHED_BYTES = "ackgate_published_bytes_total", Counter, Bytes, &["cluster"],
        "Bytes of keys, values and headers of records that were taken to be written";
    PUBLISH_IN_FLIGHT = "ackgate_publish_in_flight_bytes", Gauge, Bytes, &["cluster"],
        "What counts against publish.max_in_flight_bytes";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_say_their_kind_and_unit_and_are_told_apart() {
        let mut names = BTreeSet::new();
        for spec in ALL {
            let name = spec.name;
            assert!(names.insert(name), "{name} is there twice");
            assert!(name.starts_with("ackgate_"), "{name}");
            assert!(
                name.chars().all(|c| c.is_ascii_lowercase() || c == '_'),
                "{name}"
            );
            let is_counter = spec.kind == Kind::Counter;
            assert_eq!(name.ends_with("_total"), is_counter, "{name}");
            let bare = name.strip_suffix("_total").unwrap_or(name);
            if let Some(suffix) = spec.unit.suffix() {
                assert!(bare.ends_with(suffix), "{name} is in {suffix}");
                assert_eq!(format!("{}_{suffix}", spec.base()), bare);
            } else {
                assert_eq!(spec.base(), bare);
            }
        }
    }

    #[test]
    fn help_is_a_sentence_without_its_end() {
        for spec in ALL {
            let first = spec.help.chars().next();
            assert!(
                first.is_some_and(|c| c.is_uppercase() || c.is_ascii_digit()),
                "{}",
                spec.name
            );
            assert!(!spec.help.ends_with('.'), "{}", spec.name);
        }
    }

    #[test]
    fn labels_are_the_few_that_configuration_and_code_bound() {
        let known = [
            "subscription",
            "cluster",
            "topic",
            "partition",
            "kind",
            "cause",
            "outcome",
            "reason",
            "state",
            "version",
        ];
        for spec in ALL {
            for label in spec.labels {
                assert!(known.contains(label), "{} has {label}", spec.name);
            }
        }
    }
}
