//! A member's commits, one request at a time.

use std::{sync::Arc, time::Duration};

use super::{
    super::{Seen, map_of, settled},
    Run, transient,
};
use crate::broker::{Commit, Error, Event};

/// After which the client library gives a request up.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(8);

impl Run {
    /// Makes commits, one request at a time, until the member is gone.
    pub(in crate::sim::cluster) async fn commits(self) {
        let Some(wake) = self.look(|member| Arc::clone(&member.commit_wake)) else {
            return;
        };
        loop {
            let job = self.look(|member| {
                let job = member.commits.pop_front();
                member.committing = job.is_some();
                job
            });
            match job {
                None => return,
                Some(None) => wake.notified().await,
                Some(Some(commits)) => {
                    if self.cluster.reach(REQUEST_TIMEOUT).await {
                        self.carry_out(commits).await;
                    } else {
                        self.answer(commits, |_| Err(transient("no answer in time")));
                    }
                }
            }
        }
    }

    pub(super) async fn carry_out(&self, commits: Vec<Commit>) {
        let is_atomic = self.cluster.plan.is_atomic();
        let (takes, fails, heard) = {
            let mut state = self.cluster.state.lock();
            let weather = state.weather.clone();
            let takes = state.dice.ms(0, weather.commits_take);
            let fails = state.dice.chance(weather.commits_fail);
            (takes, fails, !fails || !state.dice.chance(50))
        };
        tokio::time::sleep(takes / 2).await;
        let mut results = Vec::new();
        for commit in &commits {
            let result = if fails && heard {
                Err(transient("as the dice fell"))
            } else if let Some(refusal) = self.cluster.refusal(commit) {
                Err(refusal)
            } else {
                let most = self.cluster.plan.metadata;
                let done = self.cluster.state.lock().commit(self.id, commit, most);
                if let Ok(partition) = done {
                    self.cluster.store(self.gateway, commit);
                    self.cluster.history.push(Seen::Committed {
                        gateway: self.gateway,
                        lane: commit.generation.0,
                        partition,
                        position: commit.position.get(),
                        settled: settled(
                            map_of(commit.metadata.as_deref(), commit.position.get()).as_ref(),
                        ),
                        told: heard || is_atomic,
                    });
                }
                match done {
                    Ok(_) if !heard && !is_atomic => Err(transient("the answer got lost")),
                    Ok(_) => Ok(()),
                    Err(error) => Err(error),
                }
            };
            results.push(result);
        }
        tokio::time::sleep(takes / 2).await;
        if is_atomic && !heard {
            // The adapter asks the group until it hears what became of it.
            let doubt = self.cluster.state.lock().dice.ms(0, 10_000);
            tokio::time::sleep(doubt).await;
            while !self.cluster.reach(REQUEST_TIMEOUT).await {}
        }
        self.answer(commits, |index| results[index].clone());
    }

    pub(super) fn answer(&self, commits: Vec<Commit>, result: impl Fn(usize) -> Result<(), Error>) {
        let _gone = self.look(|member| {
            for (index, commit) in commits.into_iter().enumerate() {
                member.answers.push_back(Event::Committed {
                    commit,
                    result: result(index),
                });
            }
            member.wake.notify_one();
        });
    }
}
