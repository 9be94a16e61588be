//! Every option there is: key, kind, unit, range, default and meaning, in one place.
//!
//! Invariant: nothing else knows a default or a bound. This table drives reading,
//! validation, the reference in `server/README.md` and the test of
//! `server/ackgate.example.toml`.

use std::time::Duration;

mod paths;
mod words;

pub(super) use self::{
    paths::{GIVEN_BY_OPENINGS, TEMPLATE, at, children, properties_above},
    words::{size, span},
};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;
const TIB: u64 = 1024 * GIB;

/// One option.
#[derive(Debug)]
pub(super) struct Spec {
    /// Path in the file; `*` stands for a name of the user's choice.
    pub(super) key: &'static str,
    pub(super) kind: Kind,
    pub(super) need: Need,
    /// For the reference, in Markdown.
    pub(super) about: &'static str,
}

/// What happens where an option is not given.
#[derive(Debug)]
pub(super) enum Need {
    /// This TOML value is used.
    Default(&'static str),
    /// It is a mistake.
    Required,
    /// There is nothing then.
    Optional,
}

/// What a value may be.
#[derive(Debug)]
pub(super) enum Kind {
    /// IP address and port.
    Socket,
    Flag,
    Integer {
        min: u64,
        max: u64,
        unit: &'static str,
    },
    Float {
        min: f64,
        max: f64,
    },
    Duration {
        min: Duration,
        max: Duration,
    },
    /// In bytes.
    Size {
        min: u64,
        max: u64,
    },
    Choice {
        of: &'static [&'static str],
        /// Known words that this version refuses.
        later: &'static [&'static str],
    },
    /// Text, with what it is in words.
    Text(&'static str),
    /// A list of texts, with what they are in words.
    Texts(&'static str),
    /// A Kafka address, which may hold a password.
    Dsn,
    /// A word or a time.
    Start,
    /// A table of client properties.
    Properties,
}

const fn millis(min: u64, max: u64) -> Kind {
    Kind::Duration {
        min: Duration::from_millis(min),
        max: Duration::from_millis(max),
    }
}

const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// As durations are written.
const YEAR: u64 = 8766 * HOUR;

/// What stands for a file.
const A_FILE: &str = "a path, from this file's folder if it is relative";

macro_rules! options {
    ($($name:ident = $key:literal, $kind:expr, $need:expr, $about:literal;)*) => {
        $(pub(super) const $name: Spec =
            Spec { key: $key, kind: $kind, need: $need, about: $about };)*
        /// All options, in the order of the reference.
        pub(super) const ALL: &[Spec] = &[$($name),*];
    };
}

options! {
    MEMORY = "memory", Kind::Size { min: 16 * MIB, max: TIB }, Need::Default("\"1GiB\""),
        "Memory for records that are fetched and not settled, over all lanes.";

    LISTEN_ADDRESS = "listen.address", Kind::Socket, Need::Default("\"127.0.0.1:7654\""),
        "Where subscribers connect. Anything but loopback needs `listen.tls`, `listen.tokens_file` or \
         `listen.insecure`.";
    LISTEN_INSECURE = "listen.insecure", Kind::Flag, Need::Default("false"),
        "Allows plain text without tokens beyond loopback: anyone who reaches the port can read the \
         topics and settle their records.";
    LISTEN_TLS_CERTIFICATE_FILE = "listen.tls.certificate_file", Kind::Text(A_FILE), Need::Optional,
        "PEM file of the gateway's certificate, then those between it and the authority that clients \
         know. With it the port speaks TLS only. Relative paths start from this file's folder.";
    LISTEN_TLS_KEY_FILE = "listen.tls.key_file", Kind::Text(A_FILE), Need::Optional,
        "PEM file of the certificate's private key, without a passphrase.";
    LISTEN_TLS_CLIENT_CA_FILE = "listen.tls.client_ca_file", Kind::Text(A_FILE), Need::Optional,
        "PEM file of authorities. With it every client has to show a certificate that one of them has \
         signed.";
    LISTEN_TOKENS_FILE = "listen.tokens_file", Kind::Text(A_FILE), Need::Optional,
        "File of hashed tokens, one `NAME:sha256:HEX` a line, as `ackgate token new NAME` makes it. With \
         it every call needs one of them, but for `grpc.health.v1.Health`.";
    LISTEN_MAX_STREAMS = "listen.max_streams",
        Kind::Integer { min: 1, max: 100_000, unit: "streams" }, Need::Default("256"),
        "Streams on one connection.";
    LISTEN_MAX_CONNECTIONS = "listen.max_connections",
        Kind::Integer { min: 1, max: 1_000_000, unit: "connections" }, Need::Default("10000"),
        "Connections at one time; those beyond are closed at once.";
    LISTEN_MAX_CONNECTION_AGE = "listen.max_connection_age", millis(SECOND, YEAR), Need::Optional,
        "How old a connection may become, a tenth more or less. Then its streams are told `Drain`, \
         and it ends within `shutdown.drain`. Without it connections live for as long as they can.";
    LISTEN_GRPC_WEB = "listen.grpc_web", Kind::Flag, Need::Default("false"),
        "Also serves gRPC-Web, which browsers speak, over HTTP/1.1 and HTTP/2. It carries no \
         `Subscribe` and no `Publish`.";
    LISTEN_WEB_ORIGINS = "listen.web_origins",
        Kind::Texts("origins as \"https://app.example.com\", or \"*\" for any"),
        Need::Default("[]"),
        "From where pages may call by gRPC-Web. Others are refused.";
    LISTEN_KEEPALIVE_INTERVAL = "listen.keepalive.interval", millis(SECOND, HOUR),
        Need::Default("\"15s\""), "HTTP/2 pings on quiet connections.";
    LISTEN_KEEPALIVE_TIMEOUT = "listen.keepalive.timeout", millis(SECOND, 5 * MINUTE),
        Need::Default("\"10s\""), "Time for their answer, then the connection is closed.";
    LISTEN_PING_INTERVAL = "listen.ping_interval", millis(SECOND, 10 * MINUTE),
        Need::Default("\"15s\""), "`Ping` messages on quiet streams.";
    LISTEN_REFLECTION = "listen.reflection", Kind::Flag, Need::Default("true"),
        "Tells tools that ask (`grpcurl`, `evans`) what the services and messages are.";
    LISTEN_MAX_PULL_SESSIONS = "listen.max_pull_sessions",
        Kind::Integer { min: 1, max: 100_000, unit: "sessions" }, Need::Default("1000"),
        "Sessions of subscribers that pull, at a time.";
    LISTEN_PULL_IDLE = "listen.pull_idle", millis(SECOND, HOUR), Need::Default("\"60s\""),
        "How long such a session lives on once nothing is out to it and no call is made.";

    ADMIN_ADDRESS = "admin.address", Kind::Socket, Need::Optional,
        "Where operators' tools connect (`ackgate lanes`, `ackgate breaker`): a loopback address. \
         Without it nothing is served for them.";

    SHUTDOWN_DRAIN = "shutdown.drain", millis(0, 10 * MINUTE), Need::Default("\"10s\""),
        "Time for subscribers to answer what is out when the gateway stops.";
    SHUTDOWN_CLOSE = "shutdown.close", millis(SECOND, 10 * MINUTE), Need::Default("\"10s\""),
        "Time for the last commits, leaving the groups and flushing the producers.";

    LOG_FILTER = "log.filter", Kind::Text("a log filter such as \"info\" or \"ackgate=debug,warn\""),
        Need::Default("\"info\""), "What is logged, by level and target.";
    LOG_FORMAT = "log.format", Kind::Choice { of: &["text", "json"], later: &[] },
        Need::Default("\"text\""), "Lines for people or one JSON object per line.";

    CLUSTER_ADDRESS = "clusters.*.address", Kind::Dsn, Need::Optional,
        "`kafka://[user:password@]host[:port][,host[:port]…]`; port 9092 where none is given, IPv6 \
         in brackets, user and password percent-encoded. Either this or `bootstrap`.";
    CLUSTER_BOOTSTRAP = "clusters.*.bootstrap",
        Kind::Texts("brokers as \"host:port\", port 9092 where none is given"), Need::Optional,
        "The same as a list of `host:port`.";
    CLUSTER_PROPERTIES = "clusters.*.properties", Kind::Properties, Need::Optional,
        "librdkafka properties for all clients of this cluster, less the refused ones.";

    PUBLISH_TOPICS = "clusters.*.publish.topics",
        Kind::Texts("topic names, in which `*` stands for any characters"), Need::Required,
        "Topics that may be written to through the gateway. The table `publish` is what allows it at all. Topics for \
         dead letters and retries have to be named in full; Kafka's own, which begin with two \
         underscores, are never written to.";
    PUBLISH_ACKS = "clusters.*.publish.acks",
        Kind::Choice { of: &["all", "leader", "none"], later: &[] }, Need::Default("\"all\""),
        "Which brokers must have a record before it counts as written, unless the publisher asks for \
         something else.";
    PUBLISH_IDEMPOTENCE = "clusters.*.publish.idempotence", Kind::Flag, Need::Optional,
        "Whether a retry of the client library can never write a record twice, unless the publisher \
         asks for something else. Needs `acks = \"all\"`. Without it `true` with acks of all, else \
         `false`.";
    PUBLISH_MAX_RECORD_BYTES = "clusters.*.publish.max_record_bytes",
        Kind::Size { min: KIB, max: 15 * MIB }, Need::Default("\"1MiB\""),
        "Largest record that is taken, in bytes of key, value and headers.";
    PUBLISH_MAX_IN_FLIGHT_RECORDS = "clusters.*.publish.max_in_flight_records",
        Kind::Integer { min: 1, max: 1_000_000, unit: "records" }, Need::Default("10000"),
        "Records of one stream that wait for Kafka or whose results wait to be read. More are not read \
         from the stream.";
    PUBLISH_MAX_IN_FLIGHT_BYTES = "clusters.*.publish.max_in_flight_bytes",
        Kind::Size { min: MIB, max: GIB }, Need::Default("\"32MiB\""),
        "Bytes that wait for Kafka, over all streams that write to the cluster: key, value and headers, \
         and 256 for each record. One stream may have a quarter of them. More are not read from the \
         streams.";
    PUBLISH_PRODUCER = "clusters.*.publish.producer", Kind::Properties, Need::Optional,
        "librdkafka properties for the producers of published records only.";

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

    AD_HOC_CLUSTERS = "ad_hoc.clusters", Kind::Texts("names of clusters"), Need::Required,
        "Clusters whose topics may be opened without a subscription in this file.";
    AD_HOC_TOPICS = "ad_hoc.topics", Kind::Texts("patterns of topic names"), Need::Required,
        "Topics that may be opened: `*` stands for any characters, `?` for one. Kafka's own, which \
         begin with two underscores, need a pattern that begins so too; one of dead letters has to \
         be named as it is.";
    AD_HOC_GROUPS = "ad_hoc.groups", Kind::Texts("patterns of consumer groups"), Need::Required,
        "Consumer groups that may be used.";
    AD_HOC_DEAD_LETTER_TOPICS = "ad_hoc.dead_letter_topics",
        Kind::Texts("patterns of topic names"), Need::Optional,
        "Topics to which an opening may send its dead letters, beside the template's.";
    AD_HOC_MAX_SUBSCRIPTIONS = "ad_hoc.max_subscriptions",
        Kind::Integer { min: 1, max: 10_000, unit: "subscriptions" }, Need::Default("100"),
        "Ad hoc subscriptions at a time, each with a consumer of its own; one goes `linger` after \
         its last subscriber.";
}
