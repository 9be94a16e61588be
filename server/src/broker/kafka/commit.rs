//! Commits on a thread of their own.
//!
//! rdkafka reports the result of an asynchronous commit of an explicit list to
//! nobody, and a synchronous one waits for the broker without a deadline. So
//! synchronous commits run here, one request at a time and in order, and whoever
//! waits for them does so for as long as they please.
//!
//! Exactly once all of them go through transactions, and none is answered before its
//! outcome is known: then a deadline ends the wait, and the answer may never be wanted.
//!
//! Invariant: each commit that was handed in is answered exactly once, or, through a
//! transaction, at most once.

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::Instant,
};

use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{BaseConsumer, CommitMode, Consumer as _, ConsumerGroupMetadata},
};

use super::{
    error,
    rebalance::Context,
    transaction::{Settings, Transactor},
    wake::Waker,
};
use crate::{
    broker::{Commit, Error, ErrorKind, TopicPartition},
    fail,
};

/// A commit and the partition that it is for.
pub(super) type Placed = (Commit, TopicPartition);

/// A commit and how it went.
pub(super) type Answer = (Commit, Result<(), Error>);

/// Runs the commits of one consumer.
#[derive(Debug)]
pub(super) struct Committer {
    jobs: SyncSender<Job>,
    results: Receiver<Vec<Answer>>,
    /// What runs now. Emptied when it is answered, also by a deadline.
    running: Vec<Commit>,
    /// Whether the thread still works on something.
    busy: bool,
    /// Whether commits go through transactions.
    atomic: bool,
    /// Nobody waits for answers any more.
    over: Arc<AtomicBool>,
}

struct Job {
    consumer: Arc<BaseConsumer<Context>>,
    /// The member as it was when the job began: its lanes were its own then. Later ones
    /// would let it commit for lanes that it has lost.
    member: Option<ConsumerGroupMetadata>,
    commits: Vec<Placed>,
}

impl Committer {
    /// Starts the thread. It ends with the committer, once what it does is done.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn start(waker: Arc<Waker>, atomic: Option<&Settings>) -> io::Result<Self> {
        let over = Arc::<AtomicBool>::default();
        let transactor = atomic.map(|of| Transactor::new(of.clone(), Arc::clone(&over)));
        let is_atomic = transactor.is_some();
        // One job and one result at most are ever under way.
        let (jobs, todo) = sync_channel::<Job>(1);
        let (done, results) = sync_channel(1);
        thread::Builder::new()
            .name("kafka-commit".to_owned())
            .spawn(move || {
                let (mut accepted, mut transactor) = (0, transactor);
                if let Some(transactor) = &mut transactor {
                    transactor.begin();
                }
                while let Ok(job) = todo.recv() {
                    let Job {
                        consumer,
                        member,
                        commits,
                    } = job;
                    let answers = match (&mut transactor, member) {
                        (Some(transactor), Some(member)) => {
                            transactor.run(&consumer, &member, commits)
                        }
                        (Some(_), None) => not_begun(commits),
                        (None, _) => run(&consumer, commits, &mut accepted),
                    };
                    // Before the answer: whoever closes the consumer waits for it.
                    drop(consumer);
                    if done.send(answers).is_err() {
                        return;
                    }
                    waker.notify();
                }
            })?;
        Ok(Self {
            jobs,
            results,
            running: Vec::new(),
            busy: false,
            atomic: is_atomic,
            over,
        })
    }

    /// Whether nothing can be started now.
    pub(super) fn busy(&self) -> bool {
        self.busy
    }

    /// Starts a commit. Not while busy: then all are answered as transient.
    pub(super) fn begin(
        &mut self,
        consumer: &Arc<BaseConsumer<Context>>,
        commits: Vec<Placed>,
    ) -> Vec<Answer> {
        if commits.is_empty() {
            return Vec::new();
        }
        let running: Vec<Commit> = commits.iter().map(|(commit, _)| commit.clone()).collect();
        let job = Job {
            consumer: Arc::clone(consumer),
            member: self.atomic.then(|| consumer.group_metadata()).flatten(),
            commits,
        };
        if self.busy || self.jobs.try_send(job).is_err() {
            return unanswered(running);
        }
        self.running = running;
        self.busy = true;
        self.over.store(false, Ordering::Release);
        Vec::new()
    }

    /// The answers that have come.
    pub(super) fn poll(&mut self) -> Vec<Answer> {
        self.results
            .try_recv()
            .map_or_else(|_| Vec::new(), |answers| self.finish(answers))
    }

    /// Waits for what runs until `deadline`; what is not done then is answered as
    /// transient, since it may or may not take place, or goes on through transactions.
    pub(super) fn wait(&mut self, deadline: Instant) -> Vec<Answer> {
        if !self.busy {
            return Vec::new();
        }
        let left = deadline.saturating_duration_since(Instant::now());
        match self.results.recv_timeout(left) {
            Ok(answers) => self.finish(answers),
            Err(_) if self.atomic => Vec::new(),
            Err(_) => unanswered(std::mem::take(&mut self.running)),
        }
    }

    /// Whether commits go through transactions.
    pub(super) const fn is_atomic(&self) -> bool {
        self.atomic
    }

    /// Nobody waits for what still runs.
    pub(super) fn give_up(&self) {
        self.over.store(true, Ordering::Release);
    }

    fn finish(&mut self, answers: Vec<Answer>) -> Vec<Answer> {
        self.busy = false;
        // Empty if a deadline has already answered for it.
        if std::mem::take(&mut self.running).is_empty() {
            Vec::new()
        } else {
            answers
        }
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.give_up();
    }
}

fn not_begun(commits: Vec<Placed>) -> Vec<Answer> {
    let why = error::transient("the consumer is not a member of its group");
    commits
        .into_iter()
        .map(|(commit, _)| (commit, Err(why.clone())))
        .collect()
}

fn unanswered(commits: Vec<Commit>) -> Vec<Answer> {
    let late = error::transient("the broker did not answer the commit in time");
    commits
        .into_iter()
        .map(|commit| (commit, Err(late.clone())))
        .collect()
}

/// One request for each topic: librdkafka tells only of errors that all partitions of a
/// request have in common, and those are a group's or a topic's. The one exception is
/// metadata that a broker finds too large: so a size that none has `accepted` yet goes
/// alone first, the largest of a job for all smaller ones.
fn run(
    consumer: &BaseConsumer<Context>,
    mut commits: Vec<Placed>,
    accepted: &mut usize,
) -> Vec<Answer> {
    let mut answers = Vec::with_capacity(commits.len());
    commits.sort_by_key(|(commit, _)| size(commit));
    while let Some((commit, partition)) = commits.pop_if(|(commit, _)| size(commit) > *accepted) {
        let size = size(&commit);
        let result = commit_topic(
            consumer,
            &partition.topic,
            &[(commit.clone(), partition.partition)],
        );
        match &result {
            Ok(()) => *accepted = size,
            Err(error) if error.kind == ErrorKind::TooLarge => {}
            Err(error) => {
                // Nothing is known of the others' sizes; all are asked for again.
                let rest = commits.drain(..);
                answers.extend(rest.map(|(commit, _)| (commit, Err(error.clone()))));
            }
        }
        answers.push((commit, result));
    }
    let mut topics: BTreeMap<Arc<str>, Vec<(Commit, i32)>> = BTreeMap::new();
    for (commit, partition) in commits {
        topics
            .entry(partition.topic)
            .or_default()
            .push((commit, partition.partition));
    }
    for (topic, commits) in topics {
        let result = commit_topic(consumer, &topic, &commits);
        answers.extend(
            commits
                .into_iter()
                .map(|(commit, _)| (commit, result.clone())),
        );
    }
    answers
}

/// How long the metadata is.
pub(super) fn size(commit: &Commit) -> usize {
    commit.metadata.as_ref().map_or(0, |text| text.len())
}

fn commit_topic(
    consumer: &BaseConsumer<Context>,
    topic: &str,
    commits: &[(Commit, i32)],
) -> Result<(), Error> {
    let mut list = TopicPartitionList::with_capacity(commits.len());
    for (commit, partition) in commits {
        add(&mut list, topic, *partition, commit)?;
    }
    fail::point("commit.before");
    consumer
        .commit(&list, CommitMode::Sync)
        .map_err(|error| error::mapped(&error, &format!("commit of topic {topic}")))?;
    fail::point("commit.done");
    Ok(())
}

/// What `commits` say, of whatever topics.
pub(super) fn list_of(commits: &[Placed]) -> Result<TopicPartitionList, Error> {
    let mut list = TopicPartitionList::with_capacity(commits.len());
    for (commit, of) in commits {
        add(&mut list, &of.topic, of.partition, commit)?;
    }
    Ok(list)
}

fn add(
    list: &mut TopicPartitionList,
    topic: &str,
    partition: i32,
    commit: &Commit,
) -> Result<(), Error> {
    let offset = i64::try_from(commit.position.get()).unwrap_or(i64::MAX);
    let mut element = list.add_partition(topic, partition);
    element
        .set_offset(Offset::Offset(offset))
        .map_err(|error| error::mapped(&error, &format!("commit of topic {topic}")))?;
    // Once only: setting it again would leak the former text.
    if let Some(text) = &commit.metadata {
        element.set_metadata(text);
    }
    Ok(())
}
