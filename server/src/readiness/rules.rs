//! What follows from the facts about a cluster.

use std::collections::BTreeSet;

use ackgate_lane::OnUnwritten;
use serde::Serialize;

use crate::broker::kafka::{self, Keeping};
use crate::config::{Cluster, Config, DeadLetter, Subscription};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// It works, and will bite on some day.
    Warning,
    /// It does not work.
    Error,
}

impl Level {
    /// The word for people.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Error => "ERROR",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// What was looked at, such as `cluster main`.
    pub subject: String,
    /// What was found, in words, without secrets.
    pub text: String,
}

impl Finding {
    pub(crate) fn ok(subject: &str, text: String) -> Self {
        Self {
            level: Level::Ok,
            subject: subject.to_owned(),
            text,
        }
    }

    pub(crate) fn warning(subject: &str, text: String) -> Self {
        Self {
            level: Level::Warning,
            subject: subject.to_owned(),
            text,
        }
    }

    pub(crate) fn error(subject: &str, text: String) -> Self {
        Self {
            level: Level::Error,
            subject: subject.to_owned(),
            text,
        }
    }
}

/// What a cluster says about a topic that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicFacts {
    /// Its name.
    pub name: String,
    /// How many partitions it has.
    pub partitions: usize,
    /// How many of them have no leader now.
    pub leaderless: usize,
    /// Replicas of the partition that has fewest.
    pub replicas: usize,
    /// Replicas in sync of the partition that has fewest.
    pub in_sync: usize,
    /// Its `min.insync.replicas`; `None` if the cluster did not say.
    pub min_in_sync: Option<usize>,
    /// Its `max.message.bytes`; `None` if the cluster did not say.
    pub max_message_bytes: Option<u64>,
    /// What it keeps of its records; `None` if the cluster did not say.
    pub keeping: Option<Keeping>,
}

/// What the rules want to know of a topic.
pub(crate) fn facts(topic: kafka::TopicFacts) -> TopicFacts {
    let partitions = &topic.partitions;
    TopicFacts {
        partitions: partitions.len(),
        leaderless: partitions.iter().filter(|p| !p.has_leader).count(),
        replicas: partitions.iter().map(|p| p.replicas).min().unwrap_or(0),
        in_sync: partitions
            .iter()
            .map(|p| p.in_sync_replicas)
            .min()
            .unwrap_or(0),
        min_in_sync: topic.min_insync_replicas,
        max_message_bytes: topic.max_message_bytes,
        keeping: topic.keeping,
        name: topic.name,
    }
}

/// The configuration in one line.
pub(crate) fn summary(config: &Config) -> String {
    format!(
        "valid; clusters: {}; subscriptions: {}",
        config.clusters.len(),
        config.subscriptions.len()
    )
}

/// Every topic that the configuration expects on a cluster, sorted.
pub(crate) fn topics(config: &Config, cluster: &str) -> Vec<String> {
    let mut topics = BTreeSet::new();
    for subscription in of(config, cluster) {
        topics.extend(subscription.reads());
        topics.extend(
            subscription
                .dead_letter
                .iter()
                .map(|dead| dead.topic.clone()),
        );
    }
    topics.into_iter().collect()
}

fn of<'a>(config: &'a Config, cluster: &str) -> impl Iterator<Item = &'a Subscription> {
    config
        .subscriptions
        .iter()
        .filter(move |subscription| subscription.cluster == cluster)
}

/// Everything about one cluster: its answer, then its subscriptions one by one.
pub(crate) fn cluster(
    config: &Config,
    cluster: &Cluster,
    answer: Result<Vec<TopicFacts>, String>,
) -> Vec<Finding> {
    let subject = format!("cluster {}", cluster.name);
    let brokers = cluster.bootstrap.join(", ");
    let facts = match answer {
        Ok(facts) => facts,
        Err(detail) => {
            let mut findings = vec![Finding::error(&subject, format!("{brokers}: {detail}"))];
            findings.extend(of(config, &cluster.name).map(|subscription| {
                let subject = format!("subscription {}", subscription.name);
                Finding::warning(&subject, "not checked, for want of its cluster".to_owned())
            }));
            return findings;
        }
    };
    let mut findings = vec![Finding::ok(&subject, format!("{brokers}: answers"))];
    for subscription in of(config, &cluster.name) {
        findings.extend(sources(subscription, &facts));
        findings.extend(letters(subscription, &facts));
    }
    findings
}

/// Everything about a subscription's dead letters.
pub(crate) fn letters(subscription: &Subscription, facts: &[TopicFacts]) -> Vec<Finding> {
    let Some(dead_letter) = &subscription.dead_letter else {
        return Vec::new();
    };
    let mut findings = dead_letters(subscription, dead_letter, facts);
    findings.extend(retry(subscription, dead_letter, facts));
    findings
}

/// A breaker that has opened waits for an operator, who needs a way to the gateway.
pub(crate) fn breakers(config: &Config) -> Vec<Finding> {
    let out_of_reach = |subscription: &&Subscription| {
        let breaker = subscription.policy.breaker;
        config.admin.is_none() && (breaker.run.is_some() || breaker.ratio.is_some())
    };
    let finding = |subscription: &Subscription| {
        let subject = format!("subscription {}", subscription.name);
        let text = "has a breaker, and without admin.address `ackgate breaker reset` cannot close \
                    it: a lane goes on only where it is assigned anew, as after a restart";
        Finding::warning(&subject, text.to_owned())
    };
    let subscriptions = config.subscriptions.iter();
    subscriptions.filter(out_of_reach).map(finding).collect()
}

/// Nothing is wrong with a missing topic that the gateway makes.
fn missing(subject: &str, dead_letter: &DeadLetter, what: &str, otherwise: Finding) -> Finding {
    if dead_letter.copying.create.is_none() {
        return otherwise;
    }
    let text = format!("{what} does not exist: a gateway creates it when it starts");
    Finding::ok(subject, text)
}

fn find<'a>(facts: &'a [TopicFacts], topic: &str) -> Option<&'a TopicFacts> {
    facts.iter().find(|facts| facts.name == topic)
}

fn sources(subscription: &Subscription, facts: &[TopicFacts]) -> Vec<Finding> {
    let subject = format!("subscription {}", subscription.name);
    let finding = |topic: &String| match find(facts, topic) {
        None => Finding::error(&subject, format!("topic {topic} does not exist")),
        Some(found) if found.leaderless > 0 => Finding::error(
            &subject,
            format!(
                "topic {topic}: {} of {} partitions have no leader and cannot be read",
                found.leaderless, found.partitions
            ),
        ),
        Some(found) => Finding::ok(
            &subject,
            format!("topic {topic}: partitions: {}", found.partitions),
        ),
    };
    subscription.topics.iter().map(finding).collect()
}

fn dead_letters(
    subscription: &Subscription,
    dead_letter: &DeadLetter,
    facts: &[TopicFacts],
) -> Vec<Finding> {
    let subject = format!("subscription {}", subscription.name);
    let topic = &dead_letter.topic;
    let Some(found) = find(facts, topic) else {
        let then = match subscription.policy.on_unwritten {
            OnUnwritten::Block => "the first rejected record would hold its lane",
            OnUnwritten::Park { .. } => "rejected records would be set aside and wait for it",
            OnUnwritten::Discard { .. } => "rejected records would settle without a copy",
        };
        let text = format!("dead-letter topic {topic} does not exist: {then}");
        let what = format!("dead-letter topic {topic}");
        let otherwise = Finding::error(&subject, text);
        return vec![missing(&subject, dead_letter, &what, otherwise)];
    };
    let mut findings = vec![writable(&subject, found)];
    if found.replicas == 1 {
        let text = format!("dead-letter topic {topic} has one replica: it is lost with its broker");
        findings.push(Finding::warning(&subject, text));
    }
    if let Some(limit) = found.max_message_bytes {
        for source in subscription
            .topics
            .iter()
            .filter_map(|topic| find(facts, topic))
        {
            if let Some(larger) = source.max_message_bytes.filter(|bytes| *bytes > limit) {
                let text = format!(
                    "dead-letter topic {topic} takes messages up to {limit} bytes, and {} up to \
                     {larger}: a large record would be written without its value; raise \
                     max.message.bytes of {topic} to more than {larger}, for the added headers",
                    source.name
                );
                findings.push(Finding::warning(&subject, text));
            }
        }
    }
    findings
}

/// The subscription runs without its retry topic, so nothing about it is an error.
fn retry(
    subscription: &Subscription,
    dead_letter: &DeadLetter,
    facts: &[TopicFacts],
) -> Option<Finding> {
    let subject = format!("subscription {}", subscription.name);
    let topic = dead_letter.retry_topic.as_ref()?;
    let Some(found) = find(facts, topic) else {
        let text = format!(
            "retry topic {topic} does not exist: nothing can be redriven until it is created"
        );
        let what = format!("retry topic {topic}");
        let otherwise = Finding::warning(&subject, text);
        return Some(missing(&subject, dead_letter, &what, otherwise));
    };
    if found.leaderless > 0 {
        let text = format!(
            "retry topic {topic}: {} of {} partitions have no leader: what was redriven there waits",
            found.leaderless, found.partitions
        );
        return Some(Finding::warning(&subject, text));
    }
    let larger = found
        .max_message_bytes
        .zip(find(facts, &dead_letter.topic).and_then(|letters| letters.max_message_bytes));
    if let Some((limit, letters)) = larger.filter(|(limit, letters)| limit < letters) {
        let text = format!(
            "retry topic {topic} takes messages up to {limit} bytes, and {} up to {letters}: a \
             large dead letter could not be put back; raise max.message.bytes of {topic}",
            dead_letter.topic
        );
        return Some(Finding::warning(&subject, text));
    }
    if let Some(text) = found.keeping.and_then(|keeping| loses(topic, keeping)) {
        return Some(Finding::warning(&subject, text));
    }
    Some(Finding::ok(
        &subject,
        format!("retry topic {topic}: partitions: {}", found.partitions),
    ))
}

/// What a retry topic would not keep, if anything.
fn loses(topic: &str, keeping: Keeping) -> Option<String> {
    if keeping.compacted {
        return Some(format!(
            "retry topic {topic} is compacted and keeps one record of each key: nothing is redriven \
             into it; set its cleanup.policy to delete"
        ));
    }
    keeping.deletes_after.map(|after| {
        format!(
            "retry topic {topic} deletes records whose own timestamp is older than {}: such dead \
             letters are not redriven; set its retention.ms to -1, or message.timestamp.type to \
             LogAppendTime",
            humantime::format_duration(after)
        )
    })
}

/// Whether a write with acks=all would be confirmed now.
fn writable(subject: &str, found: &TopicFacts) -> Finding {
    let topic = &found.name;
    if found.leaderless > 0 {
        let text = format!(
            "dead-letter topic {topic}: {} of {} partitions have no leader and take no writes",
            found.leaderless, found.partitions
        );
        return Finding::error(subject, text);
    }
    match found.min_in_sync {
        None => {
            let text = format!(
                "dead-letter topic {topic}: its min.insync.replicas is not known (may this user \
                 describe configs?), so it is not known whether it takes writes"
            );
            Finding::warning(subject, text)
        }
        Some(least) if found.replicas < least => {
            let text = format!(
                "dead-letter topic {topic} has {} replicas, and min.insync.replicas is {least}: older \
                 versions of Kafka refuse every write to it",
                found.replicas
            );
            Finding::error(subject, text)
        }
        Some(least) if found.in_sync < least => {
            let text = format!(
                "dead-letter topic {topic} takes no writes now: {} of {} replicas are in sync, and \
                 min.insync.replicas is {least}",
                found.in_sync, found.replicas
            );
            Finding::error(subject, text)
        }
        Some(least) => {
            let text = format!(
                "dead-letter topic {topic} takes writes: {} of {} replicas in sync, at least \
                 {least} needed",
                found.in_sync, found.replicas
            );
            Finding::ok(subject, text)
        }
    }
}
