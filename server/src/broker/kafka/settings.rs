//! What librdkafka is told, and why.
//!
//! Properties of the configuration come after the defaults and win, except the
//! denied ones: those are the gateway's own.

use std::time::Duration;

use rdkafka::{ClientConfig, config::RDKafkaLogLevel};
use tracing::warn;

use crate::config::{Cluster, StartAt, Subscription};

/// Most records in one chunk: enough that crossing to the runtime costs nothing
/// per record, few enough that lanes take turns every few milliseconds.
pub const CHUNK_RECORDS: usize = 1024;

/// A chunk is closed once it holds this many bytes: 1,024 records of 128 bytes,
/// and a gRPC message of a size that every client library takes.
pub const CHUNK_BYTES: usize = 128 * 1024;

/// KiB that librdkafka may fetch ahead for each lane. Four fetches of the usual
/// 1 MiB keep a lane busy while the next is on its way; 100 lanes hold 400 MiB
/// at worst, against 6.4 GB at librdkafka's own default.
pub const PREFETCH_KIB_PER_LANE: u32 = 4096;

/// How long the producer tries to write a record before it reports failure.
pub const DELIVERY_TIMEOUT: Duration = Duration::from_secs(30);

/// Consumer properties that no configuration may set, by every spelling.
pub const DENIED_CONSUMER: [&str; 12] = [
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
        // The fetcher stops at whichever of the two comes first, for each lane.
        ("queued.min.messages", "20000"),
        // How long a lane with a full queue is left alone. The default of one
        // second lets a fast reader starve for most of that second.
        ("fetch.queue.backoff.ms", "5"),
        // One response may overshoot the queue's limit by as much as this.
        ("fetch.max.bytes", "16777216"),
        // An idle long poll delays the first fetch after a seek or an assignment
        // by up to this long, and costs a request each time it ends.
        ("fetch.wait.max.ms", "100"),
        // A subscribed topic that appears is noticed within this time.
        ("topic.metadata.refresh.interval.ms", "30000"),
        ("isolation.level", "read_committed"),
    ];
    for (name, value) in defaults {
        config.set(name, value);
    }
    config.set(
        "queued.max.messages.kbytes",
        PREFETCH_KIB_PER_LANE.to_string(),
    );
    pass(&mut config, &cluster.properties, &DENIED_CONSUMER);
    pass(
        &mut config,
        &subscription.consumer_properties,
        &DENIED_CONSUMER,
    );
    // Positions are committed by lanes, with lists of their own, or not at all.
    config.set("enable.auto.commit", "false");
    config.set("enable.auto.offset.store", "false");
    config.set("enable.partition.eof", "false");
    config.set("allow.auto.create.topics", "false");
    config.set("group.id", &subscription.group);
    // Where reading goes on when retention has passed the position. The start of
    // a group without one is looked up and never left to this.
    let reset = match subscription.start {
        StartAt::Earliest | StartAt::Latest | StartAt::Timestamp(_) => "earliest",
        StartAt::Fail => "error",
    };
    config.set("auto.offset.reset", reset);
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
    use crate::broker::kafka::tests::support;

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
    fn lost_positions_resume_at_the_oldest_record_and_never_at_the_end() {
        for start in [StartAt::Earliest, StartAt::Latest, StartAt::Timestamp(1)] {
            let config = consumer(&cluster(&[]), &subscription(start, &[]));
            assert_eq!(
                config.get("auto.offset.reset"),
                Some("earliest"),
                "{start:?}"
            );
        }
        let config = consumer(&cluster(&[]), &subscription(StartAt::Fail, &[]));
        assert_eq!(config.get("auto.offset.reset"), Some("error"));
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

    #[test]
    fn librdkafka_knows_every_setting() {
        let cluster = cluster(&[]);
        let consumer = consumer(&cluster, &subscription(StartAt::Fail, &[]));
        assert!(consumer.create_native_config().is_ok());
        assert!(producer(&cluster, &[]).create_native_config().is_ok());
        assert!(probe(&cluster).create_native_config().is_ok());
    }
}
