//! What became of a transaction whose end Kafka did not confirm.

use std::{sync::atomic::Ordering, thread, time::Instant};

use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    error::KafkaError,
};
use tracing::debug;

use super::{
    super::{
        commit::{Answer, Placed},
        error as errors,
        guard::guarded,
        rebalance::Context,
    },
    CALL, PAUSE, Transactor,
};
use crate::broker::Error;

impl Transactor {
    /// Asks the group what became of `commits`: a lane never asks for what is committed
    /// already, so its position and metadata are there if and only if its commit is.
    pub(super) fn find_out(
        &mut self,
        consumer: &BaseConsumer<Context>,
        commits: Vec<Placed>,
        error: &Error,
    ) -> Vec<Answer> {
        loop {
            if self.over.load(Ordering::Acquire) {
                return Vec::new();
            }
            // Once there is another producer of the id, Kafka has ended whatever the
            // former one began.
            let ready = self.ready(Instant::now() + CALL);
            match ready.and_then(|_| committed(consumer, &commits)) {
                Ok(found) => {
                    let known = commits.into_iter().zip(found);
                    return known
                        .map(|((commit, _), is_there)| {
                            let result = if is_there { Ok(()) } else { Err(error.clone()) };
                            (commit, result)
                        })
                        .collect();
                }
                Err(error) => debug!(%error, "the outcome of a transaction is asked for again"),
            }
            thread::park_timeout(PAUSE);
        }
    }
}

/// Whether each of `commits` is what the group has committed.
fn committed(consumer: &BaseConsumer<Context>, commits: &[Placed]) -> Result<Vec<bool>, Error> {
    let mapped = |error: KafkaError| errors::mapped(&error, "look-up of committed positions");
    let mut wanted = TopicPartitionList::with_capacity(commits.len());
    for (_, partition) in commits {
        wanted.add_partition(&partition.topic, partition.partition);
    }
    let found = consumer.committed_offsets(wanted, CALL).map_err(mapped)?;
    commits
        .iter()
        .map(|(commit, partition)| {
            let Some(element) = found.find_partition(&partition.topic, partition.partition) else {
                return Err(errors::transient("a partition is missing in the answer"));
            };
            // Also while a transaction is open: then there is no telling yet.
            element.error().map_err(mapped)?;
            let offset = i64::try_from(commit.position.get()).unwrap_or(i64::MAX);
            let text = commit.metadata.as_deref().unwrap_or_default();
            // rdkafka panics at bytes that are not UTF-8, which nobody here has written.
            let is_same = guarded(|| element.metadata() == text).unwrap_or_default();
            Ok(element.offset() == Offset::Offset(offset) && is_same)
        })
        .collect()
}
