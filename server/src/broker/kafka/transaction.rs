//! Commits through transactions: positions, and the dead letters that go with them.
//!
//! All calls block, so all of this runs on the committer's thread. One producer per
//! consumer is enough: the group's own member and generation travel with the offsets, so
//! a member that was put out cannot commit, whatever producer it has (KIP-447).
//!
//! Invariant: a commit is answered with success if and only if Kafka has it and its
//! letters. Where an error leaves that open, the group is asked once nothing of the
//! former producer can be under way; until it answers nothing is said.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rdkafka::{
    ClientConfig, TopicPartitionList,
    consumer::{BaseConsumer, ConsumerGroupMetadata},
    error::{KafkaError, RDKafkaErrorCode},
    producer::Producer as _,
};
use tracing::{debug, warn};

mod client;
mod letters;
mod outcome;
mod write;

use self::letters::Places;
use super::{
    commit::{Answer, Placed, list_of, size},
    error as errors,
    producer::Client,
    rebalance::Context,
};
use crate::{
    broker::{Error, ErrorKind},
    fail,
    telemetry::episode::Episode,
};

/// For one call; in between it is looked whether anybody still waits.
const CALL: Duration = Duration::from_secs(5);

/// Between calls that fail at once.
const PAUSE: Duration = Duration::from_millis(100);

/// Letters of one transaction, over all lanes. A lane gives at most 256 to a commit, and
/// one commit always goes whole.
const LETTERS: usize = 1024;

/// How the transactions of a subscription are made.
#[derive(Clone)]
pub(super) struct Settings {
    /// Of the producer.
    pub(super) config: ClientConfig,
    /// After which Kafka aborts a transaction of which it hears nothing.
    pub(super) timeout: Duration,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The settings hold secrets.
        f.debug_struct("Settings")
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// Makes the transactions of one consumer.
pub(super) struct Transactor {
    settings: Settings,
    /// Nobody waits for answers any more.
    over: Arc<AtomicBool>,
    producer: Option<Client>,
    /// It has its epoch: nothing of a former producer of its id is under way.
    ready: bool,
    /// The largest metadata that the brokers have taken.
    accepted: usize,
    places: Places,
    /// Transactions of which nobody knew whether they were committed.
    unknown: Episode,
}

/// Why a transaction was not committed.
enum Trouble {
    /// Kafka has none of it.
    Nothing(Error),
    /// Kafka has none of it, and these commits, by index, were why.
    Letters(BTreeMap<usize, Error>),
    /// Nobody knows.
    Unknown(Error),
}

impl Transactor {
    pub(super) fn new(settings: Settings, over: Arc<AtomicBool>) -> Self {
        Self {
            settings,
            over,
            producer: None,
            ready: false,
            accepted: 0,
            places: Places::default(),
            unknown: Episode::new(),
        }
    }

    /// Ends what a predecessor of the same id has left open, as soon as the cluster can
    /// be reached: until then nobody learns where its lanes begin.
    pub(super) fn begin(&mut self) {
        if let Err(error) = self.ready(Instant::now() + self.settings.timeout) {
            debug!(%error, "transactions cannot be begun yet");
        }
    }

    /// Makes `commits` from the member that `group` is. What is not known when nobody
    /// waits any more is not answered.
    pub(super) fn run(
        &mut self,
        consumer: &BaseConsumer<Context>,
        group: &ConsumerGroupMetadata,
        mut commits: Vec<Placed>,
    ) -> Vec<Answer> {
        let mut answers = Vec::with_capacity(commits.len());
        // Nothing else waits for letters, and a size that no broker has taken yet goes
        // alone first: errors tell of a whole transaction.
        commits.sort_by_key(|(commit, _)| (size(commit), !commit.letters.is_empty()));
        while let Some(large) = commits.pop_if(|(commit, _)| size(commit) > self.accepted) {
            let size = size(&large.0);
            let before = answers.len();
            self.make(consumer, group, vec![large], &mut answers);
            match answers.get(before).map(|(_, result)| result) {
                Some(Ok(())) => self.accepted = size,
                Some(Err(error)) if error.kind != ErrorKind::Transient => {}
                // Nothing is known of the others' sizes; all are asked for again.
                Some(Err(error)) => {
                    let error = error.clone();
                    answers.extend(commits.drain(..).map(|of| (of.0, Err(error.clone()))));
                }
                None => return answers,
            }
        }
        let (letters, bare): (Vec<_>, Vec<_>) = commits
            .into_iter()
            .partition(|(commit, _)| !commit.letters.is_empty());
        let mut groups = vec![bare];
        let mut room = 0;
        for placed in letters {
            let count = placed.0.letters.len();
            match groups.last_mut().filter(|_| count <= room) {
                Some(group) => group.push(placed),
                None => {
                    groups.push(vec![placed]);
                    room = LETTERS;
                }
            }
            room = room.saturating_sub(count);
        }
        for commits in groups {
            self.make(consumer, group, commits, &mut answers);
        }
        answers
    }

    /// Makes `commits` in one transaction, without those whose letters are refused.
    fn make(
        &mut self,
        consumer: &BaseConsumer<Context>,
        group: &ConsumerGroupMetadata,
        mut commits: Vec<Placed>,
        answers: &mut Vec<Answer>,
    ) {
        while !commits.is_empty() {
            let error = match self.transact(group, &commits) {
                Ok(()) => {
                    answers.extend(commits.into_iter().map(|(commit, _)| (commit, Ok(()))));
                    return;
                }
                Err(Trouble::Letters(mut refused)) => {
                    let mut rest = Vec::with_capacity(commits.len());
                    for (index, placed) in commits.into_iter().enumerate() {
                        match refused.remove(&index) {
                            Some(error) => answers.push((placed.0, Err(error))),
                            None => rest.push(placed),
                        }
                    }
                    commits = rest;
                    continue;
                }
                Err(Trouble::Nothing(error)) => error,
                Err(Trouble::Unknown(error)) => {
                    if let Some(count) = self.unknown.again(Instant::now()) {
                        warn!(%error, count, "it is not known whether a transaction was committed");
                    }
                    answers.extend(self.find_out(consumer, commits, &error));
                    return;
                }
            };
            answers.extend(commits.drain(..).map(|of| (of.0, Err(error.clone()))));
        }
    }

    fn transact(&mut self, group: &ConsumerGroupMetadata, of: &[Placed]) -> Result<(), Trouble> {
        let end = Instant::now() + self.settings.timeout;
        let list = list_of(of).map_err(Trouble::Nothing)?;
        let producer = self.ready(end).map_err(Trouble::Nothing)?;
        if let Err(error) = producer.begin_transaction() {
            self.discard();
            return Err(Trouble::Nothing(errors::mapped(&error, "transaction")));
        }
        fail::point("transaction.begun");
        if let Err(trouble) = self.prepare(&producer, group, of, &list, end) {
            self.abort(&producer);
            return Err(trouble);
        }
        fail::point("transaction.committing");
        let committed = self.insist(end + CALL, || producer.commit_transaction(CALL));
        fail::point("transaction.committed");
        committed.map_err(|error| {
            // Whatever it says: the request may have got there.
            self.discard();
            Trouble::Unknown(errors::mapped(&error, "end of a transaction"))
        })
    }

    /// Everything up to the point from which on it may be committed.
    fn prepare(
        &mut self,
        producer: &Client,
        group: &ConsumerGroupMetadata,
        of: &[Placed],
        list: &TopicPartitionList,
        end: Instant,
    ) -> Result<(), Trouble> {
        self.write(producer, of, end)?;
        fail::point("transaction.produced");
        let sent = self.insist(end, || {
            producer.send_offsets_to_transaction(list, group, CALL)
        });
        sent.map_err(|error| Trouble::Nothing(errors::mapped(&error, "transactional commit")))?;
        fail::point("transaction.offsets-sent");
        Ok(())
    }

    /// Ends a transaction of which nothing may become visible.
    fn abort(&mut self, producer: &Client) {
        let end = Instant::now() + self.settings.timeout;
        if let Err(error) = self.insist(end, || producer.abort_transaction(CALL)) {
            // The next producer of this id ends it.
            debug!(%error, "a transaction could not be aborted");
            self.discard();
        }
    }

    /// Repeats a call that may be repeated, until `end` or nobody waits.
    fn insist(
        &self,
        end: Instant,
        mut call: impl FnMut() -> Result<(), KafkaError>,
    ) -> Result<(), KafkaError> {
        loop {
            let result = call();
            match &result {
                Err(error)
                    if is_retriable(error)
                        && Instant::now() < end
                        && !self.over.load(Ordering::Acquire) =>
                {
                    thread::park_timeout(PAUSE);
                }
                Ok(()) | Err(_) => return result,
            }
        }
    }

    /// What `look` finds, until `end` or nobody waits.
    fn until<T>(&self, end: Instant, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        loop {
            let found = look();
            let is_over = Instant::now() >= end || self.over.load(Ordering::Acquire);
            if found.is_some() || is_over {
                return found;
            }
            thread::park_timeout(PAUSE);
        }
    }
}

impl fmt::Debug for Transactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transactor")
            .field("ready", &self.ready)
            .finish_non_exhaustive()
    }
}

fn is(error: &KafkaError, code: RDKafkaErrorCode) -> bool {
    error.rdkafka_error_code() == Some(code)
}

fn is_retriable(error: &KafkaError) -> bool {
    if let KafkaError::Transaction(error) = error {
        return error.is_retriable();
    }
    // rdkafka's flush before the commit.
    is(error, RDKafkaErrorCode::OperationTimedOut)
}
