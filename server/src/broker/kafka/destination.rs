//! What is known of the topics that a producer writes to: their partitions, and how much
//! they take at once.
//!
//! Boundary: the library's calls for it block, so they run on threads for blocking work,
//! one at a time for each question; everybody else who asks waits for that one's answer.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rdkafka::{
    error::{IsError, KafkaError, RDKafkaErrorCode},
    producer::{Producer as _, ProducerContext, ThreadedProducer},
};
use tokio::sync::Mutex as Turn;

use super::{Probe, error};
use crate::{
    broker::{Error, ErrorKind},
    config::Cluster,
};

/// For one question to the cluster.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Partitions can be added, and limits changed: an answer counts for this long.
const FRESH: Duration = Duration::from_secs(60);

/// After a question without an answer nobody asks again for this long.
const PAUSE: Duration = Duration::from_secs(1);

/// The topics of one producer.
pub(super) struct Destinations {
    cluster: Cluster,
    topics: Mutex<BTreeMap<String, Arc<Topic>>>,
}

#[derive(Default)]
struct Topic {
    partitions: Turn<Option<Answer<u32>>>,
    largest: Turn<Option<Answer<Option<u64>>>>,
}

/// What a question came to.
struct Answer<T> {
    result: Result<T, Error>,
    /// When it is asked again.
    until: Instant,
}

impl Destinations {
    pub(super) fn new(cluster: &Cluster) -> Self {
        Self {
            cluster: cluster.clone(),
            topics: Mutex::default(),
        }
    }

    /// How many partitions a topic has.
    pub(super) async fn partitions<C: ProducerContext + 'static>(
        &self,
        client: Arc<ThreadedProducer<C>>,
        topic: String,
    ) -> Result<u32, Error> {
        let known = self.topic(&topic);
        learn(&known.partitions, move || count(&client, &topic)).await
    }

    /// The bytes that a topic takes in one batch; `None` if the cluster does not say.
    pub(super) async fn largest(&self, topic: String) -> Option<u64> {
        let known = self.topic(&topic);
        let cluster = self.cluster.clone();
        let ask = move || {
            let found = Probe::new(&cluster, ANSWER_WITHIN)?.topic(&topic)?;
            Ok(found.and_then(|topic| topic.max_message_bytes))
        };
        learn(&known.largest, ask).await.ok().flatten()
    }

    /// What is known of the topic may be wrong: it is asked anew.
    pub(super) fn doubt(&self, topic: &str, error: &KafkaError) {
        if is_doubtful(error) {
            self.topics.lock().remove(topic);
        }
    }

    #[cfg(test)]
    pub(super) fn knows_nothing_of(&self, topic: &str) -> bool {
        !self.topics.lock().contains_key(topic)
    }

    fn topic(&self, topic: &str) -> Arc<Topic> {
        let mut topics = self.topics.lock();
        Arc::clone(topics.entry(topic.to_owned()).or_default())
    }
}

/// Whether a write that failed with this says that the topic is not as it was.
pub(super) fn is_doubtful(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(
            RDKafkaErrorCode::UnknownPartition
                | RDKafkaErrorCode::UnknownTopic
                | RDKafkaErrorCode::UnknownTopicOrPartition,
        )
    )
}

/// The answer that counts, or a new one. What was known before is better than no answer.
async fn learn<T: Clone + Send + 'static>(
    turn: &Turn<Option<Answer<T>>>,
    ask: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let mut known = turn.lock().await;
    if let Some(answer) = &*known
        && Instant::now() < answer.until
    {
        return answer.result.clone();
    }
    let asked = tokio::task::spawn_blocking(ask).await;
    let asked = asked.unwrap_or_else(|_| Err(error::transient("asking about a topic ended early")));
    let pause = if asked.is_ok() { FRESH } else { PAUSE };
    let before = known.take().and_then(|answer| answer.result.ok());
    let result = asked.or_else(|error| before.ok_or(error));
    *known = Some(Answer {
        result: result.clone(),
        until: Instant::now() + pause,
    });
    result
}

/// How many partitions a topic has. Blocks, a few seconds at most.
///
/// # Errors
/// It could not be learned, or there is no such topic.
pub(super) fn count<C: ProducerContext + 'static>(
    client: &ThreadedProducer<C>,
    topic: &str,
) -> Result<u32, Error> {
    let what = || format!("topic {topic}");
    let metadata = client
        .client()
        .fetch_metadata(Some(topic), ANSWER_WITHIN)
        .map_err(|error| {
            if matches!(error, KafkaError::Nul(_)) {
                let detail = format!("topic {topic:?}: the name holds a NUL");
                return Error {
                    kind: ErrorKind::Operator,
                    detail,
                };
            }
            error::mapped(&error, &what())
        })?;
    let found = metadata.topics().iter().find(|found| found.name() == topic);
    if let Some(refusal) = found.and_then(|found| found.error().filter(IsError::is_error)) {
        return Err(error::coded(RDKafkaErrorCode::from(refusal), &what()));
    }
    let count = found.map_or(0, |found| found.partitions().len());
    u32::try_from(count)
        .ok()
        .filter(|count| *count > 0)
        .ok_or_else(|| error::transient(format!("topic {topic}: it has no partitions yet")))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn question_is_asked_once_for_all_who_wait() {
        static ASKED: AtomicU32 = AtomicU32::new(0);
        let turn: Turn<Option<Answer<u32>>> = Turn::default();
        let ask = || Ok(ASKED.fetch_add(1, Ordering::SeqCst) + 3);
        let all = futures::future::join_all((0..100).map(|_| learn(&turn, ask))).await;
        assert!(
            all.iter()
                .all(|answer| answer.as_ref().is_ok_and(|n| *n == 3))
        );
        assert_eq!(ASKED.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn failure_is_told_to_all_who_wait_and_what_was_known_outlasts_it() {
        static ASKED: AtomicU32 = AtomicU32::new(0);
        let turn: Turn<Option<Answer<u32>>> = Turn::default();
        let fail = || {
            ASKED.fetch_add(1, Ordering::SeqCst);
            Err(error::transient("nobody answers"))
        };
        let all = futures::future::join_all((0..100).map(|_| learn(&turn, fail))).await;
        assert!(all.iter().all(Result::is_err));
        assert_eq!(ASKED.load(Ordering::SeqCst), 1);

        let old = Answer {
            result: Ok(7),
            until: Instant::now(),
        };
        *turn.lock().await = Some(old);
        assert_eq!(learn(&turn, fail).await.ok(), Some(7));
        assert_eq!(ASKED.load(Ordering::SeqCst), 2);
    }
}
