//! Makes topics for dead letters, and makes and removes them for `ackgate bench` on a real
//! cluster.
//!
//! Every call blocks.

use std::time::Duration;

use futures::executor::block_on;
use rdkafka::{
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    error::RDKafkaErrorCode,
};

use super::{error, settings};
use crate::{
    broker::{Error, ErrorKind},
    config::Cluster,
};

/// Creates and deletes topics of one cluster.
pub struct Topics {
    admin: AdminClient<DefaultClientContext>,
    options: AdminOptions,
}

impl Topics {
    /// Makes a client whose requests take at most `deadline`. Does not wait for the
    /// cluster.
    ///
    /// # Errors
    /// The client library refuses the cluster's properties.
    pub fn new(cluster: &Cluster, deadline: Duration) -> Result<Self, Error> {
        let admin = settings::probe(cluster)
            .create()
            .map_err(|error| error::mapped(&error, "settings of the client"))?;
        let options = AdminOptions::new()
            .request_timeout(Some(deadline))
            .operation_timeout(Some(deadline));
        Ok(Self { admin, options })
    }

    /// Creates a topic with the cluster's own number of replicas.
    ///
    /// # Errors
    /// It exists, the cluster refuses it, or does not answer in time.
    pub fn create(&self, topic: &str, partitions: u16) -> Result<(), Error> {
        // -1: the broker's default.
        let new = NewTopic::new(topic, i32::from(partitions), TopicReplication::Fixed(-1));
        let answers = block_on(self.admin.create_topics([&new], &self.options));
        settle(topic, "created", answers)
    }

    /// Creates a topic unless it exists, and tells whether it did. `None` replicas: the
    /// cluster's own number. `settings` are those of a topic that is created.
    ///
    /// # Errors
    /// The cluster refuses it, or does not answer in time.
    pub fn ensure(
        &self,
        topic: &str,
        partitions: u32,
        replicas: Option<u32>,
        settings: &[(&str, &str)],
    ) -> Result<bool, Error> {
        let number = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
        // -1: the broker's default.
        let replicas = TopicReplication::Fixed(replicas.map_or(-1, number));
        let new = NewTopic::new(topic, number(partitions), replicas);
        let new = settings
            .iter()
            .fold(new, |new, &(name, value)| new.set(name, value));
        let answers = block_on(self.admin.create_topics([&new], &self.options));
        let exists = |answer: &Result<String, (String, RDKafkaErrorCode)>| {
            matches!(answer, Err((_, RDKafkaErrorCode::TopicAlreadyExists)))
        };
        if answers
            .as_ref()
            .is_ok_and(|answers| answers.iter().any(exists))
        {
            return Ok(false);
        }
        settle(topic, "created", answers).map(|()| true)
    }

    /// Deletes a topic.
    ///
    /// # Errors
    /// It does not exist, the cluster refuses, or does not answer in time.
    pub fn delete(&self, topic: &str) -> Result<(), Error> {
        let answers = block_on(self.admin.delete_topics(&[topic], &self.options));
        settle(topic, "deleted", answers)
    }

    /// Deletes a consumer group's offsets.
    ///
    /// # Errors
    /// It has members, does not exist, or the cluster does not answer in time.
    pub fn delete_group(&self, group: &str) -> Result<(), Error> {
        let answers = block_on(self.admin.delete_groups(&[group], &self.options));
        settle(group, "deleted", answers)
    }
}

impl std::fmt::Debug for Topics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Topics").finish_non_exhaustive()
    }
}

type Answers = Vec<Result<String, (String, RDKafkaErrorCode)>>;

fn settle(
    name: &str,
    what: &str,
    answers: rdkafka::error::KafkaResult<Answers>,
) -> Result<(), Error> {
    let refused = |why: String| Error {
        kind: ErrorKind::Operator,
        detail: format!("{name} cannot be {what}: {why}"),
    };
    for answer in answers.map_err(|error| refused(error.to_string()))? {
        answer.map_err(|(_, code)| refused(code.to_string()))?;
    }
    Ok(())
}
