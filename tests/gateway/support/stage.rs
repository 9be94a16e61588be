//! What one test is given: a broker, names of its own, a folder of its own.

use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

use super::{Broker, Gateway, Outgoing, Subscription, eventually};

/// Makes names unique within the run.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// One test's surroundings.
#[derive(Debug)]
pub(crate) struct Stage {
    /// The broker.
    pub(crate) broker: Broker,
    /// For names of topics and groups: other tests, and other runs on the same
    /// cluster, have others.
    name: String,
    folder: TempDir,
}

/// A topic of one test.
#[derive(Clone, Debug)]
pub(crate) struct Topic {
    /// Its full name.
    pub(crate) name: String,
}

impl Stage {
    /// Prepares for the test of this name.
    pub(crate) fn new(test: &str, broker: Broker) -> Self {
        let folder = TempDir::new().expect("a temporary folder can be made");
        let file = test.split("::").next().unwrap_or(test).to_owned();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{file}-{}-{number}", std::process::id());
        Self {
            broker,
            name,
            folder,
        }
    }

    /// The same with another broker.
    pub(crate) fn on(self, broker: Broker) -> Self {
        Self { broker, ..self }
    }

    /// The test's folder.
    pub(crate) fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// A name that no other test uses.
    pub(crate) fn named(&self, what: &str) -> String {
        format!("{}-{what}", self.name)
    }

    /// The test's consumer group.
    pub(crate) fn group(&self) -> String {
        self.named("group")
    }

    /// Creates a topic.
    pub(crate) async fn topic(&self, name: &str, partitions: u16) -> Topic {
        let topic = Topic {
            name: self.named(name),
        };
        self.broker.create(&topic.name, partitions, None).await;
        topic
    }

    /// Writes records with these values to partition 0.
    pub(crate) async fn produce(&self, topic: &Topic, values: &[&str]) {
        self.produce_to(topic, 0, values).await;
    }

    /// Writes records with these values to a partition.
    pub(crate) async fn produce_to(&self, topic: &Topic, partition: i32, values: &[&str]) {
        let records = values
            .iter()
            .map(|value| Outgoing::value(partition, *value));
        self.broker.produce(&topic.name, records).await;
    }

    /// A subscription named `orders` that reads the topic from its beginning.
    pub(crate) fn subscription(&self, topic: &Topic) -> Subscription {
        Subscription::new("orders", &topic.name, &self.group())
    }

    /// Starts a gateway with these subscriptions and waits until it listens.
    pub(crate) async fn gateway(&self, subscriptions: &[Subscription]) -> Gateway {
        Gateway::start(self, subscriptions).await
    }

    /// What the test's group has committed on a partition of the topic.
    pub(crate) async fn committed(&self, topic: &Topic, partition: i32) -> Option<i64> {
        self.broker
            .committed(&self.group(), &topic.name)
            .await
            .get(&partition)
            .copied()
    }

    /// Waits until the test's group has committed exactly this on a partition.
    pub(crate) async fn commits(&self, topic: &Topic, partition: i32, position: i64) {
        let what = format!("partition {partition} is committed at {position}");
        eventually(&what, async || {
            let committed = self.committed(topic, partition).await;
            if committed == Some(position) {
                Ok(())
            } else {
                Err(format!("{committed:?}"))
            }
        })
        .await;
    }

    /// Waits until the topic holds this many records, and returns them.
    pub(crate) async fn holds(&self, topic: &Topic, count: usize) -> Vec<super::Seen> {
        let what = format!("{} holds {count} records", topic.name);
        eventually(&what, async || {
            let seen = self.broker.read(&topic.name).await;
            if seen.len() == count {
                Ok(seen)
            } else {
                Err(format!("{seen:?}"))
            }
        })
        .await
    }
}
