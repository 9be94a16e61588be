//! Whether the cluster answers, told on changes only.
//!
//! librdkafka reconnects by itself and for ever; this only watches. A complaint
//! about brokers is a suspicion until a question goes unanswered, because
//! librdkafka also complains when an idle connection is closed.

use std::time::{Duration, Instant};

use rdkafka::{
    consumer::{BaseConsumer, Consumer as _},
    error::{IsError, RDKafkaErrorCode},
};
use tracing::{debug, warn};

use super::{
    error::{self, Trouble},
    rebalance::Context,
};
use crate::{broker::ClusterState, telemetry::episode::Episode};

/// For one question. Nothing is fetched meanwhile, so it is short.
const QUESTION_TIMEOUT: Duration = Duration::from_millis(500);

/// Between questions while something is wrong.
const QUESTION_INTERVAL: Duration = Duration::from_secs(2);

/// An error event of librdkafka.
#[derive(Clone, Debug)]
pub(super) struct Complaint {
    pub(super) code: RDKafkaErrorCode,
    pub(super) reason: String,
}

/// What is known about the cluster.
#[derive(Debug)]
pub(super) struct Health {
    group: String,
    /// A topic that may be missing.
    optional: Option<String>,
    state: State,
    /// Brokers may be down; asked at the next turn.
    suspicion: Option<String>,
    /// The last reason for which a connection failed.
    connection: Option<String>,
    asked: Option<Instant>,
    failures: Episode,
    /// The optional topic is missing.
    spared: Episode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unknown,
    Reachable,
    Unreachable(Trouble),
    Rebuilding,
}

/// What a question brought.
#[derive(Debug)]
enum Answer {
    Fine,
    Silence,
    Refused(String),
}

impl Health {
    pub(super) fn new(group: &str) -> Self {
        Self {
            group: group.to_owned(),
            optional: None,
            state: State::Unknown,
            suspicion: None,
            connection: None,
            asked: None,
            failures: Episode::new(),
            spared: Episode::new(),
        }
    }

    /// That `topic` is missing is no trouble: others are read without it.
    pub(super) fn without(mut self, topic: Option<String>) -> Self {
        self.optional = topic;
        self
    }

    /// A broker answered.
    pub(super) fn contact(&mut self) -> Option<ClusterState> {
        match self.state {
            State::Reachable => None,
            State::Unknown | State::Unreachable(Trouble::Brokers) => Some(self.recover()),
            State::Unreachable(Trouble::Topics | Trouble::Group) | State::Rebuilding => None,
        }
    }

    /// The group took us in, or took a commit.
    pub(super) fn joined(&mut self) -> Option<ClusterState> {
        match self.state {
            // Other topics may be fine; only asking tells about the missing one.
            State::Reachable | State::Unreachable(Trouble::Topics) => None,
            State::Unknown
            | State::Unreachable(Trouble::Brokers | Trouble::Group)
            | State::Rebuilding => Some(self.recover()),
        }
    }

    /// The consumer is given up and built again.
    pub(super) fn rebuilding(&mut self, detail: String) -> Option<ClusterState> {
        // Told by whoever gets the news.
        debug!(group = %self.group, error = %detail, "consumer is built again");
        self.suspicion = None;
        let news = self.state != State::Rebuilding;
        self.state = State::Rebuilding;
        news.then_some(ClusterState::Rebuilding { detail })
    }

    /// Takes note of an error event.
    pub(super) fn complain(&mut self, complaint: Complaint) -> Option<ClusterState> {
        let Complaint { code, reason } = complaint;
        let detail = if reason.is_empty() {
            code.to_string()
        } else {
            reason
        };
        debug!(group = %self.group, error = %detail, "librdkafka reports an error");
        match error::trouble(code) {
            None => {
                if matches!(
                    code,
                    RDKafkaErrorCode::BrokerTransportFailure | RDKafkaErrorCode::Resolve
                ) {
                    self.connection = Some(detail);
                }
                None
            }
            Some(Trouble::Brokers) => {
                let detail = match (&self.connection, code) {
                    (Some(connection), RDKafkaErrorCode::AllBrokersDown) => {
                        format!("no broker can be reached: {connection}")
                    }
                    _ => detail,
                };
                self.suspicion = Some(detail);
                None
            }
            Some(Trouble::Topics) if self.is_optional(&detail) => {
                self.spare(&detail);
                None
            }
            Some(trouble) => self.worsen(trouble, detail),
        }
    }

    /// Whether a complaint is about the topic that may be missing. librdkafka names it
    /// in its text only.
    fn is_optional(&self, detail: &str) -> bool {
        self.optional.as_ref().is_some_and(|topic| {
            let mut words = detail.split([' ', '\'', '"']);
            words.any(|word| word.trim_end_matches(':') == topic)
        })
    }

    fn spare(&mut self, detail: &str) {
        if let Some(count) = self.spared.again(Instant::now()) {
            warn!(
                group = %self.group, error = %detail, count,
                "the retry topic cannot be read: nothing is redriven until it can"
            );
        }
    }

    /// Asks the cluster when there is reason to, for half a second per question
    /// at most.
    pub(super) fn ask(
        &mut self,
        consumer: &BaseConsumer<Context>,
        topics: &[String],
    ) -> Option<ClusterState> {
        let now = Instant::now();
        let due = self
            .asked
            .is_none_or(|asked| now >= asked + QUESTION_INTERVAL);
        let wrong = matches!(
            self.state,
            State::Unreachable(Trouble::Brokers | Trouble::Topics)
        );
        if !(due && (wrong || self.suspicion.is_some())) {
            return None;
        }
        let answer = ask(consumer, topics, self.optional.as_deref());
        self.asked = Some(Instant::now());
        let suspicion = self.suspicion.take();
        match answer {
            Answer::Fine if wrong => Some(self.recover()),
            Answer::Fine => None,
            Answer::Refused(detail) => self.worsen(Trouble::Topics, detail),
            Answer::Silence => {
                let detail = suspicion.unwrap_or_else(|| "no broker answers".to_owned());
                self.worsen(Trouble::Brokers, detail)
            }
        }
    }

    fn recover(&mut self) -> ClusterState {
        // Told by whoever gets the answer.
        if let Some(count) = self.failures.over() {
            debug!(group = %self.group, count, "cluster can be used again");
        }
        self.state = State::Reachable;
        self.suspicion = None;
        self.connection = None;
        ClusterState::Reachable
    }

    fn worsen(&mut self, trouble: Trouble, detail: String) -> Option<ClusterState> {
        let news = self.state != State::Unreachable(trouble);
        // News are told by whoever gets them; here it is told that it goes on.
        if let Some(count) = self.failures.again(Instant::now())
            && !news
        {
            warn!(
                group = %self.group, error = %detail, count,
                "cluster still cannot be used"
            );
        }
        self.state = State::Unreachable(trouble);
        news.then_some(ClusterState::Unreachable { detail })
    }
}

fn ask(consumer: &BaseConsumer<Context>, topics: &[String], optional: Option<&str>) -> Answer {
    for topic in topics {
        if Some(topic.as_str()) == optional {
            continue;
        }
        let Ok(metadata) = consumer.fetch_metadata(Some(topic), QUESTION_TIMEOUT) else {
            return Answer::Silence;
        };
        let refusal = metadata
            .topics()
            .iter()
            .filter_map(|found| found.error())
            .find(IsError::is_error)
            .map(RDKafkaErrorCode::from)
            .filter(|code| error::trouble(*code) == Some(Trouble::Topics));
        if let Some(code) = refusal {
            return Answer::Refused(format!("topic {topic}: {code}"));
        }
    }
    Answer::Fine
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(code: RDKafkaErrorCode) -> Complaint {
        Complaint {
            code,
            reason: "why".to_owned(),
        }
    }

    #[test]
    fn missing_topic_is_told_once_and_records_of_other_topics_do_not_hide_it() {
        let mut health = Health::new("group");
        let missing = complaint(RDKafkaErrorCode::UnknownTopicOrPartition);
        let told = ClusterState::Unreachable {
            detail: "why".to_owned(),
        };
        assert_eq!(health.complain(missing.clone()), Some(told));
        assert_eq!(health.complain(missing), None);
        assert_eq!(health.contact(), None);
        assert_eq!(health.joined(), None);
    }

    #[test]
    fn missing_retry_topic_is_no_trouble_and_one_with_a_longer_name_is() {
        let mut health = Health::new("group").without(Some("orders.retry".to_owned()));
        let missing = |topic: &str| Complaint {
            code: RDKafkaErrorCode::UnknownTopicOrPartition,
            reason: format!(
                "Subscribed topic not available: {topic}: Broker: Unknown topic or partition"
            ),
        };
        assert_eq!(health.complain(missing("orders.retry")), None);
        assert!(health.complain(missing("orders.retry2")).is_some());
    }

    #[test]
    fn refused_group_recovers_when_it_takes_us_in() {
        let mut health = Health::new("group");
        health.complain(complaint(RDKafkaErrorCode::GroupAuthorizationFailed));
        assert_eq!(
            health.contact(),
            None,
            "records say nothing about the group"
        );
        assert_eq!(health.joined(), Some(ClusterState::Reachable));
        assert_eq!(health.joined(), None);
    }

    #[test]
    fn lost_connections_are_only_a_suspicion() {
        let mut health = Health::new("group");
        assert_eq!(health.contact(), Some(ClusterState::Reachable));
        health.complain(complaint(RDKafkaErrorCode::BrokerTransportFailure));
        assert_eq!(
            health.complain(complaint(RDKafkaErrorCode::AllBrokersDown)),
            None
        );
        assert_eq!(
            health.suspicion.as_deref(),
            Some("no broker can be reached: why")
        );
    }
}
