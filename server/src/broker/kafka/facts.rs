//! Questions about a cluster, for `ackgate check`.
//!
//! Boundary: every call blocks, for its timeout at most; not for threads of the
//! runtime. Nothing is changed on the cluster.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::executor::block_on;
use parking_lot::Mutex;
use rdkafka::{
    ClientConfig, ClientContext,
    admin::{AdminClient, AdminOptions, ConfigResource, ResourceSpecifier},
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, Consumer as _, ConsumerContext},
    error::{IsError, KafkaError, RDKafkaErrorCode},
    metadata::{Metadata, MetadataTopic},
};

use super::{
    client_log::{Origin, log},
    error, settings,
};
use crate::{
    broker::{Error, ErrorKind},
    config::Cluster,
};

/// Events looked at for a reason. Few come within one timeout.
const EVENTS: usize = 100;

/// A connection for asking questions.
pub struct Probe {
    /// Asks for metadata; without a group it joins nothing. An admin client would
    /// do, but tells nobody why it cannot connect.
    client: BaseConsumer<Listener>,
    config: ClientConfig,
    /// The last connection error, which says more than a timeout.
    reason: Arc<Mutex<Option<String>>>,
    timeout: Duration,
    /// The cluster left a question about settings unanswered: there are brokers that know
    /// no such question. It is not asked again.
    is_silent: AtomicBool,
}

/// What is known about a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicFacts {
    /// Its name.
    pub name: String,
    /// Its partitions, by number.
    pub partitions: Vec<PartitionFacts>,
    /// `min.insync.replicas`; `None` if the broker does not say.
    pub min_insync_replicas: Option<usize>,
    /// `max.message.bytes`; `None` if the broker does not say.
    pub max_message_bytes: Option<u64>,
    /// What it keeps of its records; `None` if the broker does not say.
    pub keeping: Option<Keeping>,
}

/// What is known about a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionFacts {
    /// Its number, 0 or more.
    pub id: i32,
    /// Whether it has a leader, without which nothing is read or written.
    pub has_leader: bool,
    /// How many replicas it should have.
    pub replicas: usize,
    /// How many of them are in sync.
    pub in_sync_replicas: usize,
}

/// What a topic keeps of its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keeping {
    /// Of records with one key the last only, sooner or later.
    pub compacted: bool,
    /// Records whose own timestamp is older than this are deleted; `None`: the timestamp
    /// that they come with decides nothing.
    pub deletes_after: Option<Duration>,
}

impl TopicFacts {
    /// Partitions that take no write with acks=all now: without a leader, or with
    /// fewer replicas in sync than the topic demands.
    #[must_use]
    pub fn unwritable(&self) -> Vec<i32> {
        let least = self.min_insync_replicas.unwrap_or(1);
        self.partitions
            .iter()
            .filter(|partition| !partition.has_leader || partition.in_sync_replicas < least)
            .map(|partition| partition.id)
            .collect()
    }
}

impl Probe {
    /// A probe of `cluster` whose calls take `timeout` each at most. Opens nothing
    /// by itself.
    ///
    /// # Errors
    /// librdkafka refuses the settings.
    pub fn new(cluster: &Cluster, timeout: Duration) -> Result<Self, Error> {
        let reason = Arc::default();
        let config = settings::probe(cluster);
        let client = config
            .create_with_context(Listener(Arc::clone(&reason)))
            .map_err(|error| error::mapped(&error, "settings of the client"))?;
        Ok(Self {
            client,
            config,
            reason,
            timeout,
            is_silent: AtomicBool::new(false),
        })
    }

    /// How many brokers the cluster has.
    ///
    /// # Errors
    /// No broker answers; the error says why.
    pub fn brokers(&self) -> Result<usize, Error> {
        // A name that no topic can have: brokers are listed with any answer, and
        // a list of all topics may be long.
        self.metadata("ackgate..probe")
            .map(|metadata| metadata.brokers().len())
    }

    /// What is known about the topic `name`; `None` if there is none.
    ///
    /// # Errors
    /// No broker answers, or access is denied.
    pub fn topic(&self, name: &str) -> Result<Option<TopicFacts>, Error> {
        let metadata = self.metadata(name)?;
        let Some(topic) = metadata.topics().iter().find(|topic| topic.name() == name) else {
            return Ok(None);
        };
        if let Some(refusal) = topic.error().filter(IsError::is_error) {
            let code = RDKafkaErrorCode::from(refusal);
            let missing = matches!(
                code,
                RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic
            );
            return if missing {
                Ok(None)
            } else {
                Err(error::coded(code, &format!("topic {name}")))
            };
        }
        let config = self.config(name);
        let number = |property: &str| config.as_ref()?.get(property)?.value.as_ref()?.parse().ok();
        Ok(Some(TopicFacts {
            name: name.to_owned(),
            partitions: partitions(topic),
            min_insync_replicas: number("min.insync.replicas")
                .and_then(|number| usize::try_from(number).ok()),
            max_message_bytes: number("max.message.bytes"),
            keeping: config.as_ref().and_then(keeping),
        }))
    }

    fn metadata(&self, topic: &str) -> Result<Metadata, Error> {
        self.client
            .fetch_metadata(Some(topic), self.timeout)
            .map_err(|error| {
                if matches!(error, KafkaError::Nul(_)) {
                    let detail = format!("topic {topic:?}: the name holds a NUL");
                    return Error {
                        kind: ErrorKind::Operator,
                        detail,
                    };
                }
                let mut mapped = error::mapped(&error, "no broker answers");
                if let Some(reason) = self.reason() {
                    mapped.detail = format!("no broker answers: {reason}");
                }
                mapped
            })
    }

    /// Why connecting failed last; known once events have been polled.
    fn reason(&self) -> Option<String> {
        for _ in 0..EVENTS {
            // Metadata was asked for, nothing else: there are no records.
            drop(self.client.poll(Duration::ZERO));
        }
        self.reason.lock().clone()
    }

    /// `None` where the broker does not tell, as when access to it is denied. Takes half of
    /// the timeout at most, so that the other answers are of use without this one.
    fn config(&self, topic: &str) -> Option<ConfigResource> {
        if self.is_silent.load(Ordering::Relaxed) {
            return None;
        }
        let admin: AdminClient<Listener> = self
            .config
            .create_with_context(Listener(Arc::clone(&self.reason)))
            .ok()?;
        let options = AdminOptions::new().request_timeout(Some(self.timeout / 2));
        let topics = [ResourceSpecifier::Topic(topic)];
        let asked = admin.describe_configs(&topics, &options);
        let Ok(answer) = block_on(asked) else {
            self.is_silent.store(true, Ordering::Relaxed);
            return None;
        };
        answer.into_iter().next()?.ok()
    }
}

fn keeping(config: &ConfigResource) -> Option<Keeping> {
    let value = |property: &str| config.get(property)?.value.as_deref();
    let policy = value("cleanup.policy")?;
    let own_time = value("message.timestamp.type")? == "CreateTime";
    // Below 0: for ever.
    let retention = value("retention.ms").and_then(|ms| ms.parse().ok());
    let deletes = own_time && policy.contains("delete");
    Some(Keeping {
        compacted: policy.contains("compact"),
        deletes_after: retention.filter(|_| deletes).map(Duration::from_millis),
    })
}

fn partitions(topic: &MetadataTopic) -> Vec<PartitionFacts> {
    let mut partitions: Vec<PartitionFacts> = topic
        .partitions()
        .iter()
        .map(|partition| PartitionFacts {
            id: partition.id(),
            has_leader: partition.leader() >= 0,
            replicas: partition.replicas().len(),
            in_sync_replicas: partition.isr().len(),
        })
        .collect();
    partitions.sort_by_key(|partition| partition.id);
    partitions
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe")
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

struct Listener(Arc<Mutex<Option<String>>>);

impl ClientContext for Listener {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        log(Origin::Probe, level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        // That all brokers are down follows from a reason that says more.
        if error.rdkafka_error_code() != Some(RDKafkaErrorCode::AllBrokersDown) {
            *self.0.lock() = Some(reason.to_owned());
        }
    }
}

impl ConsumerContext for Listener {}
