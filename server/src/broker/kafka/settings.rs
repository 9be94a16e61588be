//! What librdkafka is told, and why.
//!
//! Properties of the configuration come after the defaults and win, except the
//! denied ones: those are the gateway's own.

use std::time::Duration;

use rdkafka::{ClientConfig, config::RDKafkaLogLevel};
use tracing::warn;

use super::{prefetch::Prefetch, stats, transaction};
use crate::{
    config::{Acks, Cluster, Publish, Subscription},
    publish::RECORD_BYTES,
};

/// Most records in one chunk: enough that crossing to the runtime costs nothing
/// per record, few enough that lanes take turns every few milliseconds.
pub const CHUNK_RECORDS: usize = 1024;

/// A chunk is closed once it holds this many bytes: 1,024 records of 128 bytes,
/// and a gRPC message of a size that every client library takes.
pub const CHUNK_BYTES: usize = 128 * 1024;

/// How long the producer tries to write a record before it reports failure.
pub const DELIVERY_TIMEOUT: Duration = Duration::from_secs(30);

/// Consumer properties that no configuration may set, by every spelling.
pub const DENIED_CONSUMER: [&str; 13] = [
    "allow.auto.create.topics",
    "auto.commit.enable",
    "auto.commit.interval.ms",
    "auto.offset.reset",
    "bootstrap.servers",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.partition.eof",
    "group.id",
    "log.queue",
    "metadata.broker.list",
    "offset.store.method",
    "statistics.interval.ms",
];

/// Producer properties that no configuration may set, by every spelling.
pub const DENIED_PRODUCER: [&str; 8] = [
    "acks",
    "bootstrap.servers",
    "delivery.report.only.error",
    "enable.idempotence",
    "log.queue",
    "metadata.broker.list",
    "request.required.acks",
    "transactional.id",
];

/// Settings of a subscription's consumer.
pub(super) fn consumer(cluster: &Cluster, subscription: &Subscription) -> ClientConfig {
    let mut config = common(cluster);
    let defaults = [
        // Without it nobody reads more than one lane at a time while lanes move.
        ("partition.assignment.strategy", "cooperative-sticky"),
        // How long a lane with a full queue is left alone. The default of one
        // second lets a fast reader starve for most of that second.
        ("fetch.queue.backoff.ms", "5"),
        // An idle long poll delays the first fetch after a seek or an assignment
        // by up to this long, and costs a request each time it ends.
        ("fetch.wait.max.ms", "100"),
        // A subscribed topic, or a partition, that appears is noticed within this time.
        ("topic.metadata.refresh.interval.ms", "30000"),
        ("isolation.level", "read_committed"),
    ];
    for (name, value) in defaults {
        config.set(name, value);
    }
    // As for few lanes; each consumer plans anew once it knows how many there are.
    Prefetch::plan(u64::MAX, 1).apply(&mut config, &[]);
    pass(&mut config, &cluster.properties, &DENIED_CONSUMER);
    pass(
        &mut config,
        &subscription.consumer_properties,
        &DENIED_CONSUMER,
    );
    // Positions are committed by lanes, with lists of their own, or not at all.
    config.set("enable.auto.commit", "false");
    config.set("enable.auto.offset.store", "false");
    // The end of a log is told by events, its position by statistics.
    config.set("enable.partition.eof", "true");
    config.set("statistics.interval.ms", stats::INTERVAL_MS);
    config.set("allow.auto.create.topics", "false");
    config.set("group.id", &subscription.group);
    // A position that the log does not have is told, never passed over in silence:
    // where reading goes on depends on which side of the log it lies.
    config.set("auto.offset.reset", "error");
    config
}

/// Settings of a producer.
pub(super) fn producer(cluster: &Cluster, properties: &[(String, String)]) -> ClientConfig {
    let mut config = common(cluster);
    let defaults = [
        ("compression.type", "lz4"),
        ("linger.ms", "5"),
        // The broker knows the topic's limit; librdkafka's own would refuse
        // records that the topic takes.
        ("message.max.bytes", "1000000000"),
        // 128 MiB or 10,000 records wait at most; more is refused at once.
        ("queue.buffering.max.kbytes", "131072"),
        ("queue.buffering.max.messages", "10000"),
    ];
    for (name, value) in defaults {
        config.set(name, value);
    }
    // After this long a topic counts as missing. Well below the delivery timeout,
    // so that a record for one is refused with that reason.
    config.set("topic.metadata.propagation.max.ms", "5000");
    config.set(
        "delivery.timeout.ms",
        DELIVERY_TIMEOUT.as_millis().to_string(),
    );
    pass(&mut config, &cluster.properties, &DENIED_PRODUCER);
    pass(&mut config, properties, &DENIED_PRODUCER);
    config.set("enable.idempotence", "true");
    config.set("acks", "all");
    config
}

/// Settings of the transactions of a subscription's dead letters and commits; `None`
/// without them.
pub(super) fn transactions(
    cluster: &Cluster,
    subscription: &Subscription,
) -> Option<transaction::Settings> {
    let dead_letter = subscription.dead_letter.as_ref()?;
    let exactly_once = dead_letter.exactly_once.as_ref()?;
    let timeout = exactly_once.transaction_timeout;
    let ms = |part: Duration| part.as_millis().to_string();
    let mut config = producer(cluster, &dead_letter.producer_properties);
    let id = match &exactly_once.transactional_id {
        Some(id) => format!("{id}.{}", subscription.name),
        // Of its own: a dead predecessor's transaction ends by itself, and two gateways
        // that take each other's id would fence each other for ever.
        None => format!("ackgate-{:016x}", fastrand::u64(..)),
    };
    config.set("transactional.id", id);
    config.set("transaction.timeout.ms", ms(timeout));
    // The same property by its older name.
    config.remove("message.timeout.ms");
    // A letter without an answer must not take the rest of the transaction's time.
    config.set("delivery.timeout.ms", ms(timeout / 2));
    config.set("topic.metadata.propagation.max.ms", ms(timeout / 4));
    // librdkafka wants room for one request at least.
    let answer = (timeout - timeout / 10).min(Duration::from_secs(60));
    config.set("socket.timeout.ms", ms(answer));
    // A batch that is too large fails as a whole: so each letter is one.
    config.set("batch.num.messages", "1");
    config.set("linger.ms", "0");
    Some(transaction::Settings { config, timeout })
}

/// Settings of a producer of published records.
pub(super) fn publisher(
    cluster: &Cluster,
    publish: &Publish,
    acks: Acks,
    is_idempotent: bool,
    within: Duration,
) -> ClientConfig {
    let mut config = common(cluster);
    let defaults = [
        ("compression.type", "lz4"),
        ("linger.ms", "5"),
        // As in Kafka's Java client: a null key is no key, an empty one is.
        ("partitioner", "murmur2_random"),
        // The gateway and the broker know the limits; librdkafka's own would refuse
        // records that the topic takes.
        ("message.max.bytes", "1000000000"),
        // After this long a topic counts as missing, and its records are refused with
        // that reason.
        ("topic.metadata.propagation.max.ms", "5000"),
        // Within this time it is noticed that a topic has appeared, or a partition.
        ("topic.metadata.refresh.interval.ms", "10000"),
    ];
    for (name, value) in defaults {
        config.set(name, value);
    }
    // What is under way is bounded by the gateway, so that streams take turns; the
    // client's own queue has room for all of it, its own bytes for each record included.
    let records = publish.max_in_flight_bytes / RECORD_BYTES + 1;
    config.set("queue.buffering.max.messages", records.to_string());
    let kbytes = publish.max_in_flight_bytes / 1024 * 2 + 1024;
    config.set("queue.buffering.max.kbytes", kbytes.to_string());
    config.set("delivery.timeout.ms", within.as_millis().to_string());
    pass(&mut config, &cluster.properties, &DENIED_PRODUCER);
    pass(&mut config, &publish.producer_properties, &DENIED_PRODUCER);
    config.set("enable.idempotence", is_idempotent.to_string());
    config.set(
        "acks",
        match acks {
            Acks::All => "all",
            Acks::Leader => "1",
            Acks::None => "0",
        },
    );
    config
}

/// Settings for asking questions of a cluster.
pub(super) fn probe(cluster: &Cluster) -> ClientConfig {
    let mut config = common(cluster);
    pass(&mut config, &cluster.properties, &DENIED_CONSUMER);
    config
}

fn common(cluster: &Cluster) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set_log_level(RDKafkaLogLevel::Info);
    let defaults = [
        ("client.id", "ackgate"),
        ("socket.keepalive.enable", "true"),
        // Brokers close idle connections; that is no news.
        ("log.connection.close", "false"),
        // A broker behind a silent firewall is given up after this, not 30 s.
        ("socket.connection.setup.timeout.ms", "10000"),
        // Tried again at most this much later, not 10 s.
        ("reconnect.backoff.max.ms", "3000"),
    ];
    for (name, value) in defaults {
        config.set(name, value);
    }
    config.set("bootstrap.servers", cluster.bootstrap.join(","));
    config
}

fn pass(config: &mut ClientConfig, properties: &[(String, String)], denied: &[&str]) {
    for (name, value) in properties {
        if denied.contains(&name.trim()) {
            // The configuration refuses these; whoever builds one by hand is told.
            warn!(property = %name, "property is not passed on: it is the gateway's own");
        } else {
            config.set(name.trim(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        broker::kafka::tests::support,
        config::{Copying, DeadLetter, ExactlyOnce, StartAt},
    };

    fn cluster(properties: &[(&str, &str)]) -> Cluster {
        Cluster {
            properties: owned(properties),
            ..support::cluster("a:1")
        }
    }

    fn owned(properties: &[(&str, &str)]) -> Vec<(String, String)> {
        properties
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()))
            .collect()
    }

    fn subscription(start: StartAt, properties: &[(&str, &str)]) -> Subscription {
        let subscription = support::subscription(&["orders"], "group", start);
        Subscription {
            consumer_properties: owned(properties),
            ..subscription
        }
    }

    #[test]
    fn properties_override_defaults_but_not_what_is_denied() {
        let cluster = cluster(&[("client.id", "mine"), ("enable.auto.commit", "true")]);
        let properties = [
            ("partition.assignment.strategy", "range"),
            ("group.id", "other"),
            ("auto.commit.enable", "true"),
            (" enable.auto.offset.store", "true"),
            ("metadata.broker.list", "evil:1"),
        ];
        let config = consumer(&cluster, &subscription(StartAt::Latest, &properties));
        assert_eq!(config.get("client.id"), Some("mine"));
        assert_eq!(config.get("partition.assignment.strategy"), Some("range"));
        assert_eq!(config.get("group.id"), Some("group"));
        assert_eq!(config.get("enable.auto.commit"), Some("false"));
        assert_eq!(config.get("enable.auto.offset.store"), Some("false"));
        assert_eq!(config.get("auto.commit.enable"), None);
        assert_eq!(config.get("metadata.broker.list"), None);
        assert_eq!(config.get("bootstrap.servers"), Some("a:1"));
    }

    #[test]
    fn lost_positions_are_told_and_never_passed_over() {
        for start in [StartAt::Earliest, StartAt::Latest, StartAt::Fail] {
            let config = consumer(&cluster(&[]), &subscription(start, &[]));
            assert_eq!(config.get("auto.offset.reset"), Some("error"), "{start:?}");
        }
    }

    #[test]
    fn producer_waits_for_all_replicas_whatever_is_passed() {
        let properties = owned(&[
            ("acks", "0"),
            ("enable.idempotence", "false"),
            ("linger.ms", "1"),
        ]);
        let config = producer(&cluster(&[]), &properties);
        assert_eq!(config.get("acks"), Some("all"));
        assert_eq!(config.get("enable.idempotence"), Some("true"));
        assert_eq!(config.get("linger.ms"), Some("1"));
    }

    fn publish(properties: &[(&str, &str)]) -> Publish {
        Publish {
            cluster: "main".to_owned(),
            topics: vec!["*".to_owned()],
            reserved: Vec::new(),
            acks: Acks::All,
            idempotence: None,
            max_record_bytes: 1024,
            max_in_flight_records: 10,
            max_in_flight_bytes: 1 << 20,
            producer_properties: owned(properties),
        }
    }

    #[test]
    fn publisher_has_the_acks_that_were_asked_for_whatever_is_passed() {
        let cluster = cluster(&[("acks", "0"), ("enable.idempotence", "false")]);
        let publish = publish(&[("acks", "1"), ("linger.ms", "1")]);
        let within = Duration::from_secs(2);
        for (acks, is_idempotent, written) in [
            (Acks::All, true, ["all", "true"]),
            (Acks::All, false, ["all", "false"]),
            (Acks::Leader, false, ["1", "false"]),
            (Acks::None, false, ["0", "false"]),
        ] {
            let config = publisher(&cluster, &publish, acks, is_idempotent, within);
            let found = ["acks", "enable.idempotence"].map(|name| config.get(name));
            assert_eq!(found, written.map(Some));
            assert_eq!(config.get("linger.ms"), Some("1"));
            assert_eq!(config.get("partitioner"), Some("murmur2_random"));
            assert!(config.create_native_config().is_ok());
        }
    }

    #[test]
    fn librdkafka_knows_every_setting() {
        let cluster = cluster(&[]);
        let consumer = consumer(&cluster, &subscription(StartAt::Fail, &[]));
        assert!(consumer.create_native_config().is_ok());
        assert!(producer(&cluster, &[]).create_native_config().is_ok());
        assert!(probe(&cluster).create_native_config().is_ok());
        for timeout in [1, 10, 900] {
            let own = [
                ("message.timeout.ms", "900000"),
                ("socket.timeout.ms", "300000"),
                ("transactional.id", "other"),
            ];
            let mut subscription = subscription(StartAt::Fail, &[]);
            subscription.dead_letter = Some(DeadLetter {
                topic: "dead".to_owned(),
                retry_topic: None,
                copying: Copying::default(),
                exactly_once: Some(ExactlyOnce {
                    transaction_timeout: Duration::from_secs(timeout),
                    transactional_id: Some("gateway".to_owned()),
                }),
                producer_properties: owned(&own),
            });
            let made = transactions(&cluster, &subscription).expect("exactly once");
            let id = made.config.get("transactional.id");
            let expected = format!("gateway.{}", subscription.name);
            assert_eq!(id, Some(expected.as_str()));
            assert!(made.config.create_native_config().is_ok(), "{timeout}");
        }
    }
}
