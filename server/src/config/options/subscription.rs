//! The options of a subscription.

use super::{DAY, GIB, HOUR, KIB, Kind, MIB, MINUTE, Need, SECOND, Spec, YEAR, millis};

options! {
    /// Those of `[subscriptions.NAME]`.
    SUBSCRIPTION:

    SUBSCRIPTION_CLUSTER = "subscriptions.*.cluster", Kind::Text("the name of a cluster"),
        Need::Required, "Which of the clusters.";
    TOPICS = "subscriptions.*.topics", Kind::Texts("topic names"), Need::Required,
        "What is read. Order and repeats mean nothing.";
    GROUP = "subscriptions.*.group", Kind::Text("a consumer group of 1 to 255 characters"),
        Need::Required, "The consumer group, shared by all gateways of the subscription.";
    START = "subscriptions.*.start", Kind::Start, Need::Required,
        "Where the group begins if it has no committed offset: `earliest`, `latest`, \
         `{ timestamp = \"2026-01-01T00:00:00Z\" }`, or `fail`, which holds the lane until an \
         operator commits one.";
    ORDER = "subscriptions.*.order", Kind::Choice { of: &["none", "key", "lane"], later: &[] },
        Need::Default("\"key\""),
        "`none`: only a failed record itself waits. `key`: one record of a key is out at a time, and \
         none overtakes a failed one of its key; null keys are unordered. `lane`: nothing of a \
         partition overtakes a failed record. \
          With `delivery = \"broadcast\"` it holds for each subscriber by itself, and `lane` is the \
          default.";
    KEY_SHARE = "subscriptions.*.key_share", Kind::Float { min: 0.05, max: 1.0 },
        Need::Default("0.25"),
        "With `order = \"key\"`: the part of `window.records` that the records of one key may fill. \
         Those beyond do not count, so a key that makes no progress leaves room to the others.";
    SKIP_ACKED = "subscriptions.*.skip_acked", Kind::Flag, Need::Default("false"),
        "With `order = \"lane\"`: after a failure, what was acked above it is not delivered again.";
    DELIVERY = "subscriptions.*.delivery",
        Kind::Choice { of: &["competing", "broadcast"], later: &[] },
        Need::Default("\"competing\""),
        "`competing`: each record goes to one of the subscribers. `broadcast`: each goes to every \
         subscriber that is attached when it is fanned out.";
    SLOW_SUBSCRIBER = "subscriptions.*.slow_subscriber",
        Kind::Choice { of: &["pause", "fail"], later: &[] }, Need::Default("\"pause\""),
        "Broadcast: what happens to a subscriber that keeps a lane's window full without a \
         verdict. `pause`: the lane waits for it. `fail`: after `slow_after` it is cut off.";
    SLOW_AFTER = "subscriptions.*.slow_after", millis(SECOND, HOUR), Need::Default("\"60s\""),
        "With `slow_subscriber = \"fail\"`: how long it may do so.";
    ABSENT_GRACE = "subscriptions.*.absent_grace", millis(0, 24 * HOUR), Need::Default("\"5m\""),
        "Broadcast: how long a subscriber that was lost or cut off is waited for, and what it owes \
         kept, before the others decide without it.";
    COHORT_GRACE = "subscriptions.*.cohort_grace", millis(0, 10 * MINUTE), Need::Default("\"0s\""),
        "How long after joining the group the first fetch waits, so that subscribers that restart \
         together are there for it.";
    MIN_SUBSCRIBERS = "subscriptions.*.min_subscribers",
        Kind::Integer { min: 1, max: 10_000, unit: "subscribers" }, Need::Default("1"),
        "Subscribers that have to be attached before the first fetch after joining the group.";
    ACK_DEADLINE = "subscriptions.*.ack_deadline", millis(100, HOUR), Need::Default("\"30s\""),
        "Time for a verdict, from the hand-over on, unless the subscriber asked for another.";
    MAX_ATTEMPTS = "subscriptions.*.max_attempts",
        Kind::Integer { min: 1, max: 1000, unit: "attempts" }, Need::Default("5"),
        "Failed verdicts and expiries after which a record is exhausted.";
    MAX_DELIVERIES = "subscriptions.*.max_deliveries",
        Kind::Integer { min: 1, max: 1000, unit: "deliveries" }, Need::Default("20"),
        "Hand-overs of any outcome after which a record is exhausted.";
    BACKOFF_INITIAL = "subscriptions.*.backoff.initial", millis(10, HOUR), Need::Default("\"1s\""),
        "Upper bound of the first delay before a failed record is delivered again.";
    BACKOFF_FACTOR = "subscriptions.*.backoff.factor", Kind::Float { min: 1.0, max: 100.0 },
        Need::Default("2.0"), "Growth of that bound per attempt.";
    BACKOFF_MAX = "subscriptions.*.backoff.max", millis(10, HOUR), Need::Default("\"60s\""),
        "Where that bound ends. The delay itself is random below it.";
    ON_REJECT = "subscriptions.*.on_reject",
        Kind::Choice { of: &["dead_letter", "drop", "hold"], later: &[] },
        Need::Default("\"dead_letter\""),
        "What happens to rejected and exhausted records: written to the dead-letter topic, \
         dropped (counted and logged), or the lane holds until an operator acts.";
    DEAD_LETTER_TOPIC = "subscriptions.*.dead_letter.topic", Kind::Text("a topic name"),
        Need::Optional, "Where they go, on the same cluster; needed with `on_reject = \"dead_letter\"` \
         and with `on_expired = \"dead_letter\"`.";
    DEAD_LETTER_ON_FAILURE = "subscriptions.*.dead_letter.on_failure",
        Kind::Choice { of: &["block", "park", "discard"], later: &[] }, Need::Default("\"block\""),
        "What happens when a dead letter cannot be written. `block`: the lane hands out nothing \
         new and tries again for ever. `park`: after `dead_letter.tries` the record is set aside, \
         tried again at the longest backoff, and the lane goes on within its window. `discard`: \
         after `dead_letter.tries` it settles without a copy, counted and logged.";
    DEAD_LETTER_TRIES = "subscriptions.*.dead_letter.tries",
        Kind::Integer { min: 1, max: 1000, unit: "tries" }, Need::Default("5"),
        "Failed writes after which `park` and `discard` act; until then the lane waits as with \
         `block`.";
    BREAKER_RUN = "subscriptions.*.dead_letter.breaker.run",
        Kind::Integer { min: 1, max: 1_000_000, unit: "records" }, Need::Optional,
        "So many records of a lane given up one after another, without an ack between, open its \
         breaker: nothing is handed out and no further dead letter written until an operator \
         resets it. Without this no run does.";
    BREAKER_RATIO = "subscriptions.*.dead_letter.breaker.ratio",
        Kind::Float { min: 0.01, max: 1.0 }, Need::Optional,
        "So large a part of the last `dead_letter.breaker.window` records given up opens it too. \
         Without this no part does.";
    BREAKER_WINDOW = "subscriptions.*.dead_letter.breaker.window",
        Kind::Integer { min: 2, max: 10_000, unit: "records" }, Need::Default("100"),
        "Records, acked or given up, of which that part is taken; with fewer nothing is concluded.";
    DEAD_LETTER_RETRY_TOPIC = "subscriptions.*.dead_letter.retry_topic", Kind::Text("a topic name"),
        Need::Optional, "Where `ackgate dlq redrive` puts dead letters back, on the same cluster; read \
         beside `topics`, always from its beginning. A topic of this subscription alone.";
    DEAD_LETTER_ALIASES = "subscriptions.*.dead_letter.aliases",
        Kind::Texts("\"connect\", \"streams\", \"spring\" or \"share\""), Need::Optional,
        "Headers under the names of Kafka Connect, Kafka Streams, Spring or share groups beside the \
         gateway's own, for tools that know those.";
    DEAD_LETTER_PARTITION = "subscriptions.*.dead_letter.partition",
        Kind::Choice { of: &["same", "key"], later: &[] }, Need::Default("\"same\""),
        "`same`: the record's partition number, modulo the topic's number of partitions where that \
         has fewer. `key`: by the record's key.";
    DEAD_LETTER_CREATE = "subscriptions.*.dead_letter.create", Kind::Flag, Need::Default("false"),
        "Missing dead-letter and retry topics are created when the gateway starts.";
    DEAD_LETTER_PARTITIONS = "subscriptions.*.dead_letter.partitions",
        Kind::Integer { min: 1, max: 10_000, unit: "partitions" }, Need::Optional,
        "Partitions of a topic that is created; without it as many as the source that has most.";
    DEAD_LETTER_REPLICATION = "subscriptions.*.dead_letter.replication",
        Kind::Integer { min: 1, max: 100, unit: "replicas" }, Need::Optional,
        "Replicas of a topic that is created; without it the broker's default.";
    DEAD_LETTER_BACKOFF_INITIAL = "subscriptions.*.dead_letter.backoff.initial", millis(10, HOUR),
        Need::Default("\"1s\""),
        "Upper bound of the first delay before a dead letter that could not be written is tried again.";
    DEAD_LETTER_BACKOFF_FACTOR = "subscriptions.*.dead_letter.backoff.factor",
        Kind::Float { min: 1.0, max: 100.0 }, Need::Default("2.0"),
        "Growth of that bound per try.";
    DEAD_LETTER_BACKOFF_MAX = "subscriptions.*.dead_letter.backoff.max", millis(10, HOUR),
        Need::Default("\"60s\""), "Where that bound ends.";
    DEAD_LETTER_EXACTLY_ONCE = "subscriptions.*.dead_letter.exactly_once", Kind::Flag,
        Need::Default("false"),
        "Store each dead letter in one Kafka transaction with the commit that settles its record: \
         readers with `isolation.level=read_committed` see it exactly once.";
    DEAD_LETTER_TRANSACTION_TIMEOUT = "subscriptions.*.dead_letter.transaction_timeout",
        millis(1000, 15 * MINUTE), Need::Default("\"10s\""),
        "With `exactly_once`: how long a transaction of a gateway that has died keeps the group's \
         positions and the dead-letter topic's readers waiting. At most the brokers' \
         `transaction.max.timeout.ms`.";
    DEAD_LETTER_TRANSACTIONAL_ID = "subscriptions.*.dead_letter.transactional_id",
        Kind::Text("1 to 200 of a-z, A-Z, 0-9, '.', '_' and '-'"), Need::Optional,
        "With `exactly_once`: names this gateway to Kafka, followed by a dot and the \
         subscription's name. One that stays the same lets a gateway that starts again end its \
         predecessor's transaction at once; no two gateways may share it. Without it each start \
         has an id of its own.";
    DEAD_LETTER_PRODUCER = "subscriptions.*.dead_letter.producer", Kind::Properties,
        Need::Optional, "librdkafka properties for the dead-letter producer only.";
    WINDOW_RECORDS = "subscriptions.*.window.records",
        Kind::Integer { min: 1, max: 24_000, unit: "records" }, Need::Default("2000"),
        "Records per lane that are received and not settled.";
    WINDOW_SPAN = "subscriptions.*.window.span",
        Kind::Integer { min: 1, max: 24_000, unit: "offsets" }, Need::Default("10000"),
        "Offsets per lane from the committed position to the highest one received.";
    WINDOW_BYTES = "subscriptions.*.window.bytes", Kind::Size { min: 64 * KIB, max: 64 * GIB },
        Need::Default("\"64MiB\""), "Bytes per lane that are retained.";
    BATCH_MAX_RECORDS = "subscriptions.*.batch.max_records",
        Kind::Integer { min: 1, max: 10_000, unit: "records" }, Need::Default("1024"),
        "Most records in one batch, unless the subscriber asked for another number.";
    BATCH_MAX_BYTES = "subscriptions.*.batch.max_bytes", Kind::Size { min: KIB, max: 16 * MIB },
        Need::Default("\"256KiB\""),
        "Most bytes in one batch, unless the subscriber asked for another number; a larger record \
         goes alone.";
    BATCH_LINGER = "subscriptions.*.batch.linger", millis(0, MINUTE), Need::Default("\"0s\""),
        "How long the first record of a batch may wait for others, unless the subscriber asked for \
         another time. With 0 every record goes out at once.";
    BATCH_MIN_FILL = "subscriptions.*.batch.min_fill", Kind::Float { min: 0.01, max: 1.0 },
        Need::Default("1.0"),
        "The part of `batch.max_records` or `batch.max_bytes` at which a batch does not wait any \
         longer.";
    MIN_AGE = "subscriptions.*.min_age", millis(0, 30 * DAY), Need::Default("\"0s\""),
        "Records are held back until they are this old by their timestamp. `0s`: they are not.";
    MAX_AGE = "subscriptions.*.max_age", millis(1, 10 * YEAR), Need::Optional,
        "A record that is older than this before it is handed out for the first time never is.";
    ON_EXPIRED = "subscriptions.*.on_expired",
        Kind::Choice { of: &["dead_letter", "drop"], later: &[] }, Need::Optional,
        "What happens to it: written to the dead-letter topic, or dropped (counted and logged). \
         Without it `dead_letter` if `on_reject` is, else `drop`.";
    FILTER = "subscriptions.*.filter", Kind::Text("an expression of at most 4096 bytes"),
        Need::Optional,
        "Records for which this expression is false settle without being handed out.";
    CONTENT_CHECK = "subscriptions.*.content.check",
        Kind::Choice { of: &["none", "utf8", "json", "msgpack"], later: &[] },
        Need::Default("\"none\""), "What every value that is not null must be.";
    CONTENT_ON_FAILURE = "subscriptions.*.content.on_failure",
        Kind::Choice { of: &["reject", "skip", "deliver"], later: &[] },
        Need::Default("\"reject\""),
        "What happens to a record whose value is not: `reject` as a subscriber would, with cause \
         `content`; `skip`: it settles without being handed out; `deliver`: it is handed out.";
    LINGER = "subscriptions.*.linger", millis(0, HOUR), Need::Default("\"30s\""),
        "How long the consumer stays in its group after the last subscriber has gone.";
    REVOKE_DRAIN = "subscriptions.*.revoke_drain", millis(0, MINUTE), Need::Default("\"5s\""),
        "How long a lane that is taken away waits for verdicts on what is out.";
    RESUME_GRACE = "subscriptions.*.resume_grace", millis(0, 30 * SECOND), Need::Default("\"30s\""),
        "How long what is out to a subscriber that can resume waits for it after its stream broke.";
    LEASE_DURATION = "subscriptions.*.lease.duration", millis(SECOND, HOUR),
        Need::Default("\"30s\""),
        "With `order = \"lane\"`: a lane goes to another subscriber when nothing was heard of its \
         holder for this long. This is the time that a failover takes.";
    LEASE_BEAT = "subscriptions.*.lease.beat", millis(100, HOUR), Need::Default("\"10s\""),
        "How often subscribers are asked to give a sign of life.";
    COMMIT_INTERVAL = "subscriptions.*.commit.interval", millis(100, MINUTE),
        Need::Default("\"1s\""), "A position is committed at most this often, or on `commit.settlements`.";
    COMMIT_SETTLEMENTS = "subscriptions.*.commit.settlements",
        Kind::Integer { min: 1, max: 10_000_000, unit: "records" }, Need::Default("100000"),
        "As soon as this many records have settled, a commit does not wait for the interval.";
    COMMIT_ACK_MAP = "subscriptions.*.commit.ack_map", Kind::Flag, Need::Default("true"),
        "Whether what is settled above the committed position, and how often the rest was tried, is \
         committed with it as metadata, so that it survives a restart.";
    COMMIT_METADATA_BYTES = "subscriptions.*.commit.metadata_bytes",
        Kind::Integer { min: 256, max: 4096, unit: "bytes" }, Need::Default("4096"),
        "The most metadata in one commit; not above the brokers' `offset.metadata.max.bytes`.";
    CONSUMER_PROPERTIES = "subscriptions.*.consumer", Kind::Properties, Need::Optional,
        "librdkafka properties for this subscription's consumer only.";
}
