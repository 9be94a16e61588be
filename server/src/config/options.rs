//! Every option there is: key, kind, unit, range, default and meaning, in one place.
//!
//! Invariant: nothing else knows a default or a bound. The tables here and in the folder
//! drive reading, validation, the reference in `server/README.md` and the test of
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

/// Names options, and the table of them in the order of the reference.
macro_rules! options {
    ($(#[$doc:meta])* $table:ident: $($name:ident = $key:literal, $kind:expr, $need:expr, $about:literal;)*) => {
        $(pub(in crate::config) const $name: Spec =
            Spec { key: $key, kind: $kind, need: $need, about: $about };)*
        $(#[$doc])*
        pub(super) const $table: &[Spec] = &[$($name),*];
    };
}

mod subscription;
mod telemetry;

pub(super) use self::{subscription::*, telemetry::*};

/// The tables, in the order of the reference.
const TABLES: [&[Spec]; 3] = [GATEWAY, SUBSCRIPTION, TELEMETRY];

/// All options.
pub(super) fn all() -> impl Iterator<Item = &'static Spec> {
    TABLES.into_iter().flatten()
}

options! {
    /// The gateway's own, its clusters', and those of ad hoc subscriptions.
    GATEWAY:

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
        "Where operators' tools connect (`ackgate lanes`, `ackgate breaker`, `ackgate ready`) and \
         pages are read (`/healthz`, `/readyz`, `/metrics`, `/v1/traces`): a loopback address. \
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
