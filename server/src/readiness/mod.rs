//! Whether Kafka has what a subscription needs to write its dead letters: what is asked
//! for is created when a gateway starts, and what will bite some day is said then.
//!
//! Boundary: nothing waits for any of it. `ackgate check` says the same beforehand.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{task::JoinSet, time};

use crate::{
    broker::{
        Error, ErrorKind,
        kafka::{Probe, topics::Topics},
    },
    config::{Cluster, Subscription},
    telemetry::{episode::Episode, logs::millis},
};

pub(crate) mod rules;

use rules::{Finding, Level, TopicFacts};

/// For one question to a cluster.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Before the second try; twice as long before each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause between tries, which go on for ever.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Subscriptions that are seen to at the same time, ad hoc ones among them: beyond that
/// new ones go without.
const AT_ONCE: usize = 256;

/// Sees to subscriptions in tasks of its own, which end with it.
#[derive(Debug, Default)]
pub(crate) struct Readiness(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    tasks: JoinSet<()>,
    /// Ad hoc subscriptions come again and again with the same topics.
    seen: BTreeSet<(String, Vec<String>)>,
}

impl Readiness {
    /// Begins to see to a subscription, unless that has been done. Must be called within
    /// a tokio runtime; never waits.
    pub(crate) fn begin(&self, cluster: &Cluster, subscription: &Subscription) {
        if subscription.dead_letter.is_none() {
            return;
        }
        let mut state = self.0.lock();
        while state.tasks.try_join_next().is_some() {}
        let key = (cluster.name.clone(), topics(subscription));
        if state.tasks.len() >= AT_ONCE
            || state.seen.len() >= 16 * AT_ONCE
            || !state.seen.insert(key)
        {
            return;
        }
        let (cluster, subscription) = (cluster.clone(), subscription.clone());
        state.tasks.spawn(see_to(cluster, subscription));
    }
}

/// Every topic that matters, the sources first.
fn topics(subscription: &Subscription) -> Vec<String> {
    let written = subscription.writes().into_iter();
    subscription.topics.iter().cloned().chain(written).collect()
}

async fn see_to(cluster: Cluster, subscription: Subscription) {
    let creates = creates(&subscription);
    let name = subscription.name.clone();
    let mut pause = FIRST_PAUSE;
    let mut failures = Episode::<Instant>::new();
    loop {
        let (of, subscription) = (cluster.clone(), subscription.clone());
        let looked = tokio::task::spawn_blocking(move || look(&of, &subscription)).await;
        match looked {
            Ok(Ok(findings)) => {
                if let Some(count) = failures.over() {
                    tracing::info!(
                        subscription = name,
                        count,
                        "the topics for dead letters are there"
                    );
                }
                return say(&name, &findings);
            }
            Ok(Err(error)) if creates => {
                if let Some(count) = failures.again(Instant::now()) {
                    tracing::warn!(
                        subscription = name,
                        %error, count,
                        retry_ms = millis(pause),
                        "a topic for dead letters cannot be created: tried again"
                    );
                }
            }
            // That a cluster does not answer is told by whoever reads from it.
            Ok(Err(error)) => tracing::debug!(subscription = name, %error, "not looked at yet"),
            Err(_ended) => return,
        }
        time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn creates(subscription: &Subscription) -> bool {
    let dead_letter = subscription.dead_letter.as_ref();
    dead_letter.is_some_and(|dead_letter| dead_letter.copying.create.is_some())
}

fn say(subscription: &str, findings: &[Finding]) {
    for finding in findings.iter().filter(|it| it.level != Level::Ok) {
        tracing::warn!(
            subscription,
            detail = finding.text,
            "what dead letters need is not as it should be"
        );
    }
}

/// Creates what is missing, where that is asked for, and looks at everything. Blocks.
fn look(cluster: &Cluster, subscription: &Subscription) -> Result<Vec<Finding>, Error> {
    let probe = Probe::new(cluster, ANSWER_WITHIN)?;
    probe.brokers()?;
    let mut known: Vec<TopicFacts> = Vec::new();
    for topic in topics(subscription) {
        known.extend(probe.topic(&topic)?.map(rules::facts));
    }
    if let Some(creation) = subscription
        .dead_letter
        .as_ref()
        .and_then(|it| it.copying.create)
    {
        for topic in subscription.writes() {
            if known.iter().any(|it| it.name == topic) {
                continue;
            }
            let partitions = creation
                .partitions
                .or_else(|| most_partitions(subscription, &known));
            let partitions = partitions.ok_or_else(|| Error {
                kind: ErrorKind::Operator,
                detail: format!(
                    "{topic}: how many partitions it gets follows from the sources, and there is \
                     none yet"
                ),
            })?;
            let admin = Topics::new(cluster, ANSWER_WITHIN)?;
            // What is put back has its old timestamps: it would be deleted by them, unread.
            let settings: &[(&str, &str)] = if subscription.retry_topic() == Some(&topic) {
                &[("retention.ms", "-1")]
            } else {
                &[]
            };
            if admin.ensure(&topic, partitions, creation.replication, settings)? {
                tracing::info!(
                    subscription = subscription.name,
                    topic,
                    partitions,
                    "topic created"
                );
            }
            known.extend(probe.topic(&topic)?.map(rules::facts));
        }
    }
    Ok(rules::letters(subscription, &known))
}

fn most_partitions(subscription: &Subscription, known: &[TopicFacts]) -> Option<u32> {
    let sources = known
        .iter()
        .filter(|it| subscription.topics.contains(&it.name));
    let most = sources.map(|it| it.partitions).max()?;
    u32::try_from(most).ok().filter(|count| *count > 0)
}
