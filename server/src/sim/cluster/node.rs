//! [`Node`]: the broker as one gateway sees it.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use tokio::sync::mpsc;

use super::{Cluster, Member, Seen, member};
use crate::{
    broker::{self, Connect, Consumer},
    consumer::Budget,
};

/// The broker as one gateway sees it: makes consumers, writes dead letters.
#[derive(Clone, Debug)]
pub(in crate::sim) struct Node {
    pub(super) cluster: Cluster,
    pub(super) gateway: u64,
    /// The gateway's memory, of which every fetch makes a note.
    pub(super) budget: Budget,
}

impl Connect for Node {
    fn consume(
        &self,
        events: mpsc::Sender<broker::Event>,
    ) -> Result<Box<dyn Consumer>, broker::Error> {
        let cluster = &self.cluster;
        let mut state = cluster.state.lock();
        if state.dead.contains(&self.gateway) || state.dice.chance(3) {
            return Err(broker::Error {
                kind: broker::ErrorKind::Transient,
                detail: "the client library refuses".to_owned(),
            });
        }
        let id = state.next_member;
        state.next_member += 1;
        let member = Member {
            gateway: self.gateway,
            lanes: BTreeMap::new(),
            orders: VecDeque::new(),
            answers: VecDeque::new(),
            commits: VecDeque::new(),
            committing: false,
            wake: Arc::default(),
            commit_wake: Arc::default(),
            dead: None,
            fenced: None,
            closing: false,
        };
        let wake = Arc::clone(&member.wake);
        state.members.insert(id, member);
        drop(state);
        cluster.history.push(Seen::Joined {
            member: id,
            gateway: self.gateway,
        });
        let run = member::Run::new(self.clone(), id);
        tokio::spawn(run.clone().run(events, wake));
        tokio::spawn(run.clone().commits());
        cluster.changed.notify_one();
        Ok(Box::new(run))
    }
}
