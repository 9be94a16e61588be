//! What the consumer tells, carried to the lanes.

use std::sync::Arc;

use ackgate_lane::{CommitOutcome, Generation, SeekOutcome};

use super::{
    bodies::trimmed,
    driver::Driver,
    handle::{LaneLabel, NoticeKind, Outbound, State},
    inputs::notice,
    membership::Revoke,
};
use crate::broker::{self, Assigned, Chunk, ClusterState, Event};

impl Driver {
    pub(super) fn handle_event(&mut self, event: Event) {
        match event {
            Event::Assigned(lanes) => self.assigned(lanes),
            Event::Revoking {
                generations,
                lost,
                reply,
            } => {
                self.begin_revoke(Revoke {
                    generations,
                    lost,
                    reply,
                });
            }
            Event::Revoked(generations) => self.lanes_gone(&generations),
            Event::Fetched(chunk) => self.fetched(chunk),
            Event::Committed { commit, result } => self.committed(commit, result),
            Event::Sought {
                generation,
                seek,
                result,
            } => self.sought(generation, seek, &result),
            Event::LaneFailed { generation, error } => self.lane_failed(generation, &error),
            Event::Cluster(state) => self.cluster(state),
            Event::Closed => self.consumer_closed(),
        }
    }

    fn assigned(&mut self, lanes: Vec<Assigned>) {
        let now = self.now();
        for assigned in lanes {
            let generation = assigned.generation;
            tracing::info!(
                subscription = self.parts.subscription.name,
                topic = %assigned.partition.topic,
                partition = assigned.partition.partition,
                position = assigned.start.map(ackgate_lane::Position::get),
                "lane assigned"
            );
            self.lanes.assign(self.parts.subscription.policy, assigned);
            if let Some(entry) = self.lanes.touch(generation) {
                if let Some(deadline) = self.stopping {
                    entry.lane.begin_drain(now, deadline);
                }
                let news = notice(entry.label(generation), NoticeKind::Assigned, None, "");
                self.subscribers.announce(&Outbound::Lane(news));
            }
        }
    }

    fn begin_revoke(&mut self, revoke: Revoke) {
        let now = self.now();
        let wait = if revoke.lost {
            std::time::Duration::ZERO
        } else {
            self.parts.subscription.revoke_drain
        };
        for generation in &revoke.generations {
            if let Some(entry) = self.lanes.touch(*generation) {
                entry.lane.begin_drain(now, now.after(wait));
                let news = notice(entry.label(*generation), NoticeKind::Revoking, None, "");
                self.subscribers.announce(&Outbound::Lane(news));
            }
        }
        self.revokes.push(revoke);
    }

    /// Ends lanes. Those that were not drained in time give their credit back.
    pub(super) fn lanes_gone(&mut self, generations: &[Generation]) {
        let now = self.now();
        for generation in generations {
            if let Some(entry) = self.lanes.touch(*generation) {
                entry.lane.begin_drain(now, now);
                entry.lane.handle_timeout(now);
            }
        }
        self.carry_out(now);
        for generation in generations {
            let Some(entry) = self.lanes.remove(*generation) else {
                continue;
            };
            self.parts.budget.recount(entry.counted, 0);
            tracing::info!(
                subscription = self.parts.subscription.name,
                topic = %entry.partition.topic,
                partition = entry.partition.partition,
                "lane gone"
            );
            let news = notice(entry.label(*generation), NoticeKind::Revoked, None, "");
            self.subscribers.announce(&Outbound::Lane(news));
        }
    }

    fn fetched(&mut self, chunk: Chunk) {
        let now = self.now();
        let Some(entry) = self.lanes.touch(chunk.generation) else {
            return;
        };
        if chunk.seek != entry.seek {
            return;
        }
        let count = u32::try_from(chunk.records.len()).unwrap_or(u32::MAX);
        entry.granted.records = entry.granted.records.saturating_sub(count);
        entry.granted.bytes = entry.granted.bytes.saturating_sub(chunk.bytes.len() as u64);
        let chunk = match entry.fetched {
            Some(known) => trimmed(chunk, known),
            None => chunk,
        };
        let runs = broker::runs(&chunk.records);
        let Some(last) = runs.last() else { return };
        entry.fetched = Some(last.end());
        entry.bodies.insert(chunk);
        for run in runs {
            entry.lane.handle_fetched(now, run);
        }
    }

    fn committed(&mut self, commit: broker::Commit, result: Result<(), broker::Error>) {
        let now = self.now();
        let Some(entry) = self.lanes.touch(commit.generation) else {
            return;
        };
        let outcome = match result {
            Ok(()) => {
                if let Some(count) = self.commit_failures.over() {
                    tracing::info!(count, "commits succeed again");
                }
                CommitOutcome::Done
            }
            Err(error) => {
                if let Some(count) = self.commit_failures.again(now) {
                    tracing::warn!(
                        topic = %entry.partition.topic,
                        partition = entry.partition.partition,
                        count,
                        %error,
                        "commit failed and is tried again"
                    );
                }
                CommitOutcome::Failed
            }
        };
        entry.lane.handle_commit(now, commit.position, outcome);
    }

    fn sought(&mut self, generation: Generation, seek: u64, result: &Result<(), broker::Error>) {
        let now = self.now();
        let Some(entry) = self.lanes.touch(generation) else {
            return;
        };
        if entry.seek != seek {
            return;
        }
        match result {
            Ok(()) => entry.lane.handle_seek(now, SeekOutcome::Done),
            Err(error) => {
                tracing::warn!(
                    topic = %entry.partition.topic,
                    partition = entry.partition.partition,
                    %error,
                    "seek failed and is tried again"
                );
                entry.lane.handle_seek(now, SeekOutcome::Failed);
            }
        }
    }

    fn lane_failed(&mut self, generation: Generation, error: &broker::Error) {
        let Some(entry) = self.lanes.get_mut(generation) else {
            return;
        };
        entry.held = true;
        tracing::error!(
            subscription = self.parts.subscription.name,
            topic = %entry.partition.topic,
            partition = entry.partition.partition,
            %error,
            "lane cannot be read until an operator acts"
        );
        let news = notice(
            entry.label(generation),
            NoticeKind::Held,
            None,
            &error.detail,
        );
        self.subscribers.announce(&Outbound::Lane(news));
    }

    fn cluster(&mut self, state: ClusterState) {
        let (kind, detail) = match &state {
            ClusterState::Reachable => {
                tracing::info!(
                    subscription = self.parts.subscription.name,
                    "cluster reachable"
                );
                (NoticeKind::Recovered, "cluster reachable".to_owned())
            }
            ClusterState::Unreachable { detail } => {
                tracing::warn!(
                    subscription = self.parts.subscription.name,
                    detail,
                    "cluster unreachable: trying for ever"
                );
                (NoticeKind::Held, format!("cluster unreachable: {detail}"))
            }
            ClusterState::Rebuilding { detail } => {
                tracing::error!(
                    subscription = self.parts.subscription.name,
                    detail,
                    "the consumer failed and is built again"
                );
                (
                    NoticeKind::Held,
                    format!("consumer is built again: {detail}"),
                )
            }
        };
        let everything = LaneLabel {
            lane: 0,
            topic: Arc::from(""),
            partition: -1,
            epoch: 0,
        };
        self.subscribers
            .announce(&Outbound::Lane(notice(everything, kind, None, &detail)));
        self.state.send_replace(State::Joined(state));
    }
}
