//! Settings of a subscription: what is read, from where, and what its lanes may do.

use std::{fmt, time::Duration};

use ackgate_lane::{Order, Policy, Sharing};

use super::{Copying, Intake, kafka::names};

/// Where a group without a committed offset begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartAt {
    /// At the oldest record.
    Earliest,
    /// At the end.
    Latest,
    /// At the first record at or after this time, in milliseconds since the Unix
    /// epoch; at the end if there is none, as Kafka answers.
    Timestamp(i64),
    /// Nowhere: the lane is held until an operator commits an offset.
    Fail,
}

/// How records are spread over subscribers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Each record goes to one of them.
    Competing,
    /// Each record goes to every one of them.
    Broadcast(Sharing),
}

/// What a batch waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batch {
    /// Most records in one batch, 1 or more.
    pub max_records: u32,
    /// Most bytes of records in one batch; a larger record goes alone.
    pub max_bytes: u64,
    /// How long its first record may wait for others.
    pub linger: Duration,
    /// The part of either limit at which it does not wait any longer, above 0 to 1.
    pub min_fill: f64,
}

/// A named reading of topics with one consumer group.
#[derive(Clone)]
pub struct Subscription {
    /// Its name.
    pub name: String,
    /// Name of its cluster.
    pub cluster: String,
    /// Sorted, without repeats, valid Kafka names.
    pub topics: Vec<String>,
    /// The consumer group.
    pub group: String,
    /// Where a group without a committed offset begins.
    pub start: StartAt,
    /// How records are spread.
    pub delivery: Delivery,
    /// Retries, order, limits and commits: what each lane gets.
    pub policy: Policy,
    /// Bytes retained per lane, at which its queue is left unpolled.
    pub window_bytes: u64,
    /// What batches wait for, where a subscriber does not say.
    pub batch: Batch,
    /// Which records are handed out at all, and when.
    pub intake: Intake,
    /// Bytes of the ack map in one commit, before they become text; 0: none is written.
    pub map_bytes: usize,
    /// How long the consumer stays in the group after the last subscriber.
    pub linger: Duration,
    /// How long a revoke waits for verdicts on what is out.
    pub revoke_drain: Duration,
    /// How long what is out to a subscriber that can resume waits for it.
    pub resume_grace: Duration,
    /// For how long a lane stays with one subscriber where it belongs to one.
    pub lease: Lease,
    /// Wait after the group was joined, before the first fetch.
    pub cohort_grace: Duration,
    /// Subscribers that have to be attached before the first fetch, 1 or more.
    pub min_subscribers: u32,
    /// Where rejected and exhausted records go.
    pub dead_letter: Option<DeadLetter>,
    /// Group settings and the like that pass through to this consumer only. Values
    /// may be secret.
    pub consumer_properties: Vec<(String, String)>,
}

/// For how long a lane stays with a subscriber that is not heard of.
///
/// Invariant: two beats fit into the duration, so that one may come late or get lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Silence after which the lane goes to another subscriber.
    pub duration: Duration,
    /// How often a subscriber gives a sign of life.
    pub beat: Duration,
}

/// Where rejected and exhausted records go.
#[derive(Clone)]
pub struct DeadLetter {
    /// The topic, on the subscription's cluster.
    pub topic: String,
    /// Where dead letters are put back to be read again, beside the sources.
    pub retry_topic: Option<String>,
    /// How they are stored together with the commits that settle their records; `None`:
    /// before those, each by itself.
    pub exactly_once: Option<ExactlyOnce>,
    /// What the copies carry, and where they go.
    pub copying: Copying,
    /// Properties that pass through to the producer. Values may be secret.
    pub producer_properties: Vec<(String, String)>,
}

/// How dead letters and commits are made one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExactlyOnce {
    /// After which Kafka aborts a transaction of which it hears nothing.
    pub transaction_timeout: Duration,
    /// Names the gateway; `None`: each start has a name of its own.
    pub transactional_id: Option<String>,
}

impl Subscription {
    /// The topic that its dead letters are put back into, if it has one.
    #[must_use]
    pub fn retry_topic(&self) -> Option<&str> {
        self.dead_letter.as_ref()?.retry_topic.as_deref()
    }

    /// The topics that are written for it and its redrives: for dead letters, and for those
    /// that are put back.
    #[must_use]
    pub fn writes(&self) -> Vec<String> {
        let dead_letter = self.dead_letter.iter();
        dead_letter
            .flat_map(|it| [Some(&it.topic), it.retry_topic.as_ref()])
            .flatten()
            .cloned()
            .collect()
    }

    /// Everything that is read: its topics, then its retry topic.
    #[must_use]
    pub fn reads(&self) -> Vec<String> {
        let retry = self.retry_topic().map(str::to_owned);
        self.topics.iter().cloned().chain(retry).collect()
    }

    /// The terms on which a lane belongs to one subscriber; `None` where any of them
    /// may get any record.
    #[must_use]
    pub const fn lane_lease(&self) -> Option<Lease> {
        match (self.delivery, self.policy.order) {
            (Delivery::Competing, Order::Lane { .. }) => Some(self.lease),
            (Delivery::Competing, Order::None | Order::Key { .. })
            | (Delivery::Broadcast(_), _) => None,
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Taken apart by name, so that a new field cannot be forgotten here.
        let Self {
            name,
            cluster,
            topics,
            group,
            start,
            delivery,
            policy,
            window_bytes,
            batch,
            intake,
            map_bytes,
            linger,
            revoke_drain,
            resume_grace,
            lease,
            cohort_grace,
            min_subscribers,
            dead_letter,
            consumer_properties,
        } = self;
        f.debug_struct("Subscription")
            .field("name", name)
            .field("cluster", cluster)
            .field("topics", topics)
            .field("group", group)
            .field("start", start)
            .field("delivery", delivery)
            .field("policy", policy)
            .field("window_bytes", window_bytes)
            .field("batch", batch)
            .field("intake", intake)
            .field("map_bytes", map_bytes)
            .field("linger", linger)
            .field("revoke_drain", revoke_drain)
            .field("resume_grace", resume_grace)
            .field("lease", lease)
            .field("cohort_grace", cohort_grace)
            .field("min_subscribers", min_subscribers)
            .field("dead_letter", dead_letter)
            .field("consumer_properties", &names(consumer_properties))
            .finish()
    }
}

impl fmt::Debug for DeadLetter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            topic,
            retry_topic,
            exactly_once,
            copying,
            producer_properties,
        } = self;
        f.debug_struct("DeadLetter")
            .field("topic", topic)
            .field("retry_topic", retry_topic)
            .field("exactly_once", exactly_once)
            .field("copying", copying)
            .field("producer_properties", &names(producer_properties))
            .finish()
    }
}
