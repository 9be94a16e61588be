//! Kafka's clients for the parts of a gateway: with which settings, and how much of its
//! memory each may fill.

use std::sync::Arc;

use crate::{
    broker::{
        self, ErrorKind, Producer, Write,
        kafka::{KafkaConnect, KafkaProducer},
    },
    config::{Cluster, Config, Publish, Subscription},
    publish::{self, Patience, Terms},
    readiness::Readiness,
    registry::{Made, Make, Source},
    telemetry::traces::Traces,
};

/// The part of the gateway's memory that Kafka's client may fill ahead of the lanes:
/// one in so many, over all subscriptions.
const PREFETCH_PART: u64 = 4;

/// A topic limits its batches, not its records: dead letters that would each be taken
/// must not be refused because they stand together. A record larger than this goes alone.
const SMALL_BATCHES: [(&str, &str); 1] = [("batch.size", "16384")];

/// Makes the clients of subscriptions for Kafka.
#[derive(Debug)]
pub(super) struct Kafka {
    clusters: Vec<Cluster>,
    /// Bytes that one consumer may fetch ahead.
    prefetch: Prefetch,
    readiness: Readiness,
    traces: Traces,
}

/// What one consumer may fetch ahead of its lanes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Prefetch {
    declared: u64,
    ad_hoc: u64,
}

impl Prefetch {
    /// Shares out a part of the memory, whatever runs: as many ad hoc subscriptions as
    /// are allowed have one half of it.
    fn of(config: &Config) -> Self {
        let all = config.memory_bytes / PREFETCH_PART;
        let declared = config.subscriptions.len().max(1) as u64;
        match &config.ad_hoc {
            None => Self {
                declared: all / declared,
                ad_hoc: 0,
            },
            Some(ad_hoc) => Self {
                declared: all / 2 / declared,
                ad_hoc: all / 2 / (ad_hoc.max_subscriptions.max(1) as u64),
            },
        }
    }
}

impl Kafka {
    pub(super) fn new(config: &Config, traces: Traces) -> Self {
        Self {
            clusters: config.clusters.clone(),
            prefetch: Prefetch::of(config),
            readiness: Readiness::default(),
            traces,
        }
    }

    fn cluster(&self, name: &str) -> Result<&Cluster, broker::Error> {
        let mut clusters = self.clusters.iter();
        let cluster = clusters.find(|it| it.name == name);
        cluster.ok_or_else(|| broker::Error {
            kind: ErrorKind::Operator,
            detail: format!("no cluster is called {name:?}"),
        })
    }

    /// Producers of published records are made when they are first asked for: what is
    /// wrong with their properties is found out before.
    pub(super) fn check(&self, publish: &Publish) -> Result<(), broker::Error> {
        KafkaProducer::check(self.cluster(&publish.cluster)?, publish)
    }
}

impl publish::Make for Kafka {
    fn make(&self, publish: &Publish, terms: Terms) -> Result<Arc<dyn Write>, broker::Error> {
        let cluster = self.cluster(&publish.cluster)?;
        let within = Patience::of(terms.timeout).time();
        let Terms {
            acks,
            is_idempotent,
            ..
        } = terms;
        let producer = KafkaProducer::publishing(cluster, publish, acks, is_idempotent, within)?;
        Ok(Arc::new(producer))
    }
}

impl Make for Kafka {
    fn make(&self, subscription: &Subscription, source: Source) -> Result<Made, broker::Error> {
        let cluster = self.cluster(&subscription.cluster)?;
        let producer = match &subscription.dead_letter {
            None => None,
            // They are written by the consumer, together with its commits.
            Some(dead_letter) if dead_letter.exactly_once.is_some() => None,
            Some(dead_letter) => {
                let mut properties = SMALL_BATCHES.map(owned).to_vec();
                properties.extend_from_slice(&dead_letter.producer_properties);
                let producer = KafkaProducer::new(cluster, &properties)?;
                Some(Arc::new(producer) as Arc<dyn Producer>)
            }
        };
        self.readiness.begin(cluster, subscription);
        let prefetch = match source {
            Source::Declared => self.prefetch.declared,
            Source::AdHoc => self.prefetch.ad_hoc,
        };
        let connect = KafkaConnect::new(cluster, subscription).within(prefetch);
        let sampling = self.traces.sampling(&cluster.name);
        Ok(Made {
            connect: Arc::new(connect.sampling(sampling)),
            producer,
            tracer: self.traces.tracer(subscription),
        })
    }
}

fn owned((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}
