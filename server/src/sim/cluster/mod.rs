//! A broker in memory with a real consumer group: several members, moves of
//! partitions between them, lost members, slow and failing answers. All on virtual
//! time, every choice from the run's seed.
//!
//! What it copies of Kafka: a commit counts from a member that is in the group and
//! whose request came before the partition moved; a member that is gone is noticed
//! after the session timeout; a member that was put out can still fetch; an answer
//! can get lost after its request took effect.

mod coordinator;
mod harm;
mod letters;
mod log;
mod member;
mod node;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use ackgate_lane::{AckMap, Generation, Position};
use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};

use self::log::Log;
pub(super) use self::{log::value, node::Node};
use super::{
    dice::Dice,
    history::{Event as Seen, History},
    plan::Plan,
};
use crate::{
    broker::{self, Commit},
    config::StartAt,
    consumer::Budget,
};

/// What goes wrong now.
#[derive(Clone, Debug, Default)]
pub(super) struct Weather {
    /// The broker answers nothing before this.
    silent_until: Option<Instant>,
    /// Commits that fail, in percent; half of those took effect all the same.
    pub(super) commits_fail: u32,
    /// Dead letters that fail, in percent; a third of those are written all the same.
    pub(super) letters_fail: u32,
    /// Time that a dead letter takes at most, in milliseconds.
    pub(super) letters_take: u64,
    /// Time that a commit takes at most, in milliseconds.
    pub(super) commits_take: u64,
}

/// The position of the group in one partition.
#[derive(Clone, Debug)]
struct Committed {
    position: u64,
    metadata: Option<Arc<str>>,
}

/// What one member reads of one partition.
#[derive(Debug)]
struct Reading {
    partition: i32,
    position: u64,
    seek: u64,
    records: u32,
    bytes: u64,
    /// Being let go: nothing is fetched.
    leaving: bool,
}

/// What the coordinator asks of a member.
#[derive(Debug)]
enum Order {
    Revoke {
        partitions: Vec<i32>,
        done: oneshot::Sender<()>,
    },
    Assign(Vec<i32>),
}

#[derive(Debug)]
struct Member {
    gateway: u64,
    lanes: BTreeMap<Generation, Reading>,
    orders: VecDeque<Order>,
    answers: VecDeque<broker::Event>,
    commits: VecDeque<Vec<Commit>>,
    /// A commit is under way.
    committing: bool,
    /// Where to wake the member and its committer.
    wake: Arc<Notify>,
    commit_wake: Arc<Notify>,
    /// Its process is gone; the group notices at this time.
    dead: Option<Instant>,
    /// The group goes on without it; it learns of that at this time.
    fenced: Option<Instant>,
    closing: bool,
}

#[derive(Debug)]
struct State {
    dice: Dice,
    logs: BTreeMap<i32, Log>,
    committed: BTreeMap<i32, Committed>,
    members: BTreeMap<u64, Member>,
    owners: BTreeMap<i32, u64>,
    /// Gateways whose processes are gone.
    dead: BTreeSet<u64>,
    weather: Weather,
    next_member: u64,
    next_lane: u64,
    /// Turns the assignment, so that partitions move.
    turn: usize,
    /// A rebalance is wanted although the members are the same.
    forced: bool,
}

/// The broker. Clones are one.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
    history: History,
    plan: Arc<Plan>,
}

impl Cluster {
    /// Starts a broker.
    pub(super) fn start(plan: Arc<Plan>, history: History, mut dice: Dice) -> Self {
        let logs = (0..plan.partitions)
            .map(|partition| (partition, Log::default()))
            .collect();
        // Above what liars take for the number of a lane.
        let next_lane = dice.between(1000, 9000);
        let state = State {
            dice,
            logs,
            committed: BTreeMap::new(),
            members: BTreeMap::new(),
            owners: BTreeMap::new(),
            dead: BTreeSet::new(),
            weather: Weather::default(),
            next_member: 1,
            next_lane,
            turn: 0,
            forced: false,
        };
        let cluster = Self {
            state: Arc::new(Mutex::new(state)),
            changed: Arc::default(),
            history,
            plan,
        };
        tokio::spawn(cluster.clone().coordinate());
        cluster
    }

    /// The broker as one gateway sees it.
    pub(super) fn node(&self, gateway: u64, budget: Budget) -> Node {
        Node {
            cluster: self.clone(),
            gateway,
            budget,
        }
    }

    /// Whether the group has passed every record.
    pub(super) fn is_done(&self) -> bool {
        let state = self.state.lock();
        let latest = matches!(self.plan.subscription.start, StartAt::Latest);
        state.logs.iter().all(|(partition, log)| {
            match state.committed.get(partition) {
                Some(committed) => log.records.range(committed.position..).next().is_none(),
                // The end was looked up: it has to be committed.
                None => log.records.is_empty() && !(latest && log.end > 0),
            }
        })
    }

    /// How far the group has come, in words.
    pub(super) fn describe(&self) -> String {
        let state = self.state.lock();
        let partitions: Vec<String> = state
            .logs
            .iter()
            .map(|(partition, log)| {
                let committed = state.committed.get(partition).map(|c| c.position);
                let last = log.records.keys().next_back();
                let owner = state.owners.get(partition);
                format!("{partition}: committed {committed:?}, last {last:?}, member {owner:?}")
            })
            .collect();
        partitions.join("; ")
    }

    fn is_silent(&self) -> Option<Instant> {
        let state = self.state.lock();
        state
            .weather
            .silent_until
            .filter(|until| *until > Instant::now())
    }

    /// Waits while the broker is silent, for `at_most` this long; whether it answers.
    async fn reach(&self, at_most: Duration) -> bool {
        let give_up = Instant::now() + at_most;
        while let Some(until) = self.is_silent() {
            if until > give_up {
                tokio::time::sleep_until(give_up).await;
                return false;
            }
            tokio::time::sleep_until(until).await;
        }
        true
    }
}

impl State {
    /// Members that the coordinator counts on.
    fn present(&self) -> impl Iterator<Item = u64> {
        self.members
            .iter()
            .filter(|(_, m)| m.dead.is_none() && m.fenced.is_none() && !m.closing)
            .map(|(id, _)| *id)
    }

    /// Lets a commit take effect, or not. `Err` with nothing done if it is refused.
    fn commit(&mut self, id: u64, commit: &Commit, most: usize) -> Result<i32, broker::Error> {
        let refused = |kind, detail: &str| broker::Error {
            kind,
            detail: detail.to_owned(),
        };
        let Some(member) = self.members.get(&id).filter(|m| m.dead.is_none()) else {
            return Err(refused(broker::ErrorKind::Fenced, "no such member"));
        };
        let Some(reading) = member.lanes.get(&commit.generation) else {
            return Err(refused(broker::ErrorKind::Fenced, "not assigned"));
        };
        if member.fenced.is_some() {
            return Err(refused(broker::ErrorKind::Transient, "unknown member"));
        }
        let metadata = commit.metadata.clone();
        if metadata.as_ref().is_some_and(|text| text.len() > most) {
            return Err(refused(broker::ErrorKind::TooLarge, "metadata"));
        }
        let position = commit.position.get();
        let partition = reading.partition;
        let committed = Committed { position, metadata };
        self.committed.insert(partition, committed);
        Ok(partition)
    }
}

/// The position of a number.
const fn at(position: u64) -> Position {
    Position::new(position)
}

/// What metadata says, if it is a map of this position.
fn map_of(metadata: Option<&str>, position: u64) -> Option<AckMap> {
    let bytes = STANDARD_NO_PAD.decode(metadata?).ok()?;
    let map = AckMap::decode(&bytes).ok()?;
    (map.floor.get() == position).then_some(map)
}

/// Settled runs of a map: first, last.
fn settled(map: Option<&AckMap>) -> Vec<(u64, u64)> {
    map.map_or_else(Vec::new, |map| {
        let runs = map.settled.iter();
        runs.map(|run| (run.first().get(), run.last().get()))
            .collect()
    })
}
