//! What follows from what clusters and drivers tell: who can serve.

use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    GATEWAY, OVERALL,
    board::{Board, Pen, board},
    clusters::{self, Answers, Doubt},
    subscription,
    view::View,
};
use crate::{
    broker::ClusterState,
    config::Cluster,
    consumer::{Handle, State},
};

/// The gateway's health. When it is dropped nothing is asked any more, and whoever
/// watches is told that the gateway ends.
#[derive(Debug)]
pub(crate) struct Health {
    pen: Pen,
    board: Board,
    view: View,
    _tasks: JoinSet<()>,
    _over: DropGuard,
}

impl Health {
    /// Begins to ask the clusters. Nothing serves until one has answered. Must be
    /// called within a tokio runtime; never waits.
    pub(crate) fn begin(clusters: &[Cluster], subscriptions: Vec<(String, Handle)>) -> Self {
        let over = CancellationToken::new();
        let named = subscriptions.iter().map(|(name, _)| subscription(name));
        let names = [OVERALL.to_owned(), GATEWAY.to_owned()];
        let (pen, board) = board(names.into_iter().chain(named), over.clone());
        let mut tasks = JoinSet::new();
        let (answers, doubts) = clusters::begin(clusters, &mut tasks);
        tasks.spawn(judge_gateway(answers.clone(), pen.clone()));
        let view = View {
            clusters: clusters.iter().map(|it| it.name.clone()).collect(),
            answers: answers.clone(),
            pen: pen.clone(),
        };
        for (name, handle) in subscriptions {
            let one = Subscription {
                service: subscription(&name),
                doubt: doubts.get(&handle.subscription().cluster).cloned(),
                handle,
            };
            tasks.spawn(one.judge(answers.clone(), pen.clone()));
        }
        Self {
            pen,
            board,
            view,
            _tasks: tasks,
            _over: over.drop_guard(),
        }
    }

    /// The gateway stops: from here on nothing serves.
    pub(crate) fn drain(&self) {
        self.pen.drain();
    }

    /// What the health is judged by, for those who want to know why.
    pub(crate) fn view(&self) -> View {
        self.view.clone()
    }

    pub(super) fn board(&self) -> Board {
        self.board.clone()
    }
}

/// The gateway serves while any cluster answers: one that is away must not cost the
/// subscribers of the others their gateway.
fn gateway_serves(answers: &Answers) -> bool {
    answers.values().any(|answer| answer.answers)
}

/// A subscription serves while its cluster answers and a consumer that has joined has
/// no complaint.
fn subscription_serves(answers: Option<bool>, state: &State) -> bool {
    let can = match state {
        State::Away | State::Joined(ClusterState::Reachable) => true,
        State::Joined(ClusterState::Unreachable { .. } | ClusterState::Rebuilding { .. })
        | State::Stopped => false,
    };
    can && answers == Some(true)
}

async fn judge_gateway(mut answers: watch::Receiver<Answers>, pen: Pen) {
    loop {
        let serves = gateway_serves(&answers.borrow_and_update());
        pen.set(OVERALL, serves);
        pen.set(GATEWAY, serves);
        if answers.changed().await.is_err() {
            return;
        }
    }
}

struct Subscription {
    service: String,
    handle: Handle,
    doubt: Option<Doubt>,
}

impl Subscription {
    async fn judge(mut self, mut answers: watch::Receiver<Answers>, pen: Pen) {
        loop {
            let cluster = &self.handle.subscription().cluster;
            let answered = answers
                .borrow_and_update()
                .get(cluster)
                .map(|answer| answer.answers);
            let state = self.handle.state();
            pen.set(&self.service, subscription_serves(answered, &state));
            if let State::Joined(ClusterState::Unreachable { .. }) = state
                && answered == Some(true)
                && let Some(doubt) = &self.doubt
            {
                doubt.notify_one();
            }
            let goes_on = tokio::select! {
                changed = answers.changed() => changed.is_ok(),
                changed = self.handle.changed() => changed.is_ok(),
            };
            if !goes_on {
                pen.set(&self.service, false);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::health::clusters::Answer;

    #[test]
    fn gateway_serves_while_any_cluster_answers() {
        let of = |list: &[(&str, bool)]| {
            let answer = |answers| Answer {
                answers,
                since: SystemTime::UNIX_EPOCH,
                error: None,
            };
            let answers = list
                .iter()
                .map(|(name, good)| ((*name).to_owned(), answer(*good)));
            gateway_serves(&answers.collect())
        };
        assert!(!of(&[]), "nobody was asked yet");
        assert!(!of(&[("a", false), ("b", false)]));
        assert!(of(&[("a", false), ("b", true)]));
    }

    #[test]
    fn subscription_serves_while_its_cluster_answers_and_its_consumer_does_not_complain() {
        let detail = || "why".to_owned();
        let fine = State::Joined(ClusterState::Reachable);
        let unreachable = State::Joined(ClusterState::Unreachable { detail: detail() });
        let rebuilding = State::Joined(ClusterState::Rebuilding { detail: detail() });
        for (answered, state, expected) in [
            (Some(true), State::Away, true),
            (Some(true), fine.clone(), true),
            (None, State::Away, false),
            (Some(false), State::Away, false),
            (Some(false), fine, false),
            (Some(true), unreachable, false),
            (Some(true), rebuilding, false),
            (Some(true), State::Stopped, false),
        ] {
            let serves = subscription_serves(answered, &state);
            assert_eq!(serves, expected, "{answered:?} {state:?}");
        }
    }
}
