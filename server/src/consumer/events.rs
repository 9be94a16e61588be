//! What the consumer tells, carried to the lanes.

mod owned;

use ackgate_lane::{CommitOutcome, Generation, Offset, Position, SeekOutcome};

use super::{
    driver::Driver,
    handle::{NoticeKind, Outbound, State},
    inputs::notice,
    membership::Revoke,
    meter::{CommitResult, SeekReason},
    mutation,
    standstill::{Standstill, Why},
    tell::tell,
};
use crate::broker::{self, Chunk, ClusterState, ErrorKind, Event};

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
            Event::Revoked(generations) => {
                let now = self.now();
                self.fence.end_blind(now);
                self.lanes_gone(&generations);
                self.trace_revoked();
            }
            Event::Fetched(chunk) => self.fetched(chunk),
            Event::AtEnd {
                generation,
                seek,
                position,
            } => self.at_end(generation, seek, position),
            Event::Gone {
                generation,
                seek,
                oldest,
            } => self.gone(generation, seek, oldest),
            Event::Heads(heads) => {
                let now = self.now();
                for head in heads {
                    if let Some(entry) = self.lanes.get_mut(head.generation) {
                        entry.head = Some(head.end);
                        entry.watched.ends(now, head);
                    }
                }
            }
            Event::Client(stats) => {
                self.meter.client.advance(self.client.as_ref(), &stats);
                self.client = Some(*stats);
            }
            Event::Prefetch { bytes } => self.count_prefetch(bytes),
            Event::Contact { age } => self.heard_of_group(age),
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

    fn fetched(&mut self, mut chunk: Chunk) {
        let now = self.now();
        let Some(entry) = self.lanes.touch(chunk.generation) else {
            return;
        };
        if chunk.seek != entry.seek || entry.failed {
            return;
        }
        let count = u32::try_from(chunk.records.len()).unwrap_or(u32::MAX);
        entry.granted.records = entry.granted.records.saturating_sub(count);
        entry.granted.bytes = entry.granted.bytes.saturating_sub(chunk.bytes.len() as u64);
        let expected = entry
            .fetched
            .or_else(|| entry.start.filter(|_| entry.seek == 0));
        let first = chunk.records.first().map(|record| record.offset);
        if let (Some(expected), Some(first)) = (expected, first)
            && first < expected.get()
        {
            self.log_is_shorter(chunk.generation, expected, first);
            return;
        }
        let Some(last) = chunk.records.last() else {
            return;
        };
        let end = Offset::new(last.offset).next();
        entry.fetched = Some(end);
        entry.at_end = None;
        entry.watched.read_from(first.map(Position::new));
        entry.watched.read_to(now, end);
        let (records, bytes) = (chunk.records.len() as u64, chunk.bytes.len() as u64);
        self.meter.fetched.note(records, bytes);
        self.spans.came(chunk.records.len());
        if let Some(polled) = chunk.polled.take() {
            self.trace_fetched(now, &chunk, *polled);
        }
        self.take_in(now, chunk);
    }

    /// What is fetched ahead counts in the gateway's memory.
    pub(super) fn count_prefetch(&mut self, bytes: u64) {
        self.parts.budget.recount(self.prefetch, bytes);
        self.prefetch = bytes;
    }

    /// The floor may pass what the log does not have (L7).
    fn at_end(&mut self, generation: Generation, seek: u64, position: Position) {
        let now = self.now();
        if let Some(entry) = self.lanes.touch(generation)
            && entry.seek == seek
            && !entry.failed
        {
            self.looks += 1;
            entry.at_end = Some(self.looks);
            entry.told.end = Some(position);
            entry.watched.read_to(now, position);
            entry.hear_of_log(now, None);
        }
    }

    /// Retention has passed what was to be read next.
    fn gone(&mut self, generation: Generation, seek: u64, oldest: Position) {
        let now = self.now();
        if let Some(entry) = self.lanes.touch(generation)
            && entry.seek == seek
            && !entry.failed
        {
            entry.fetched = entry.fetched.max(Some(oldest));
            entry.told.oldest = Some(oldest);
            entry.watched.read_to(now, oldest);
            self.meter.seeks.note(SeekReason::Retention, 1);
            entry.hear_of_log(now, None);
        }
    }

    /// Kafka's log is not the one that was committed for: it was truncated, or the
    /// topic was made anew. What it holds now may never have been answered for, so
    /// nothing of it is passed and nothing is dropped in silence.
    fn log_is_shorter(&mut self, generation: Generation, expected: Position, first: u64) {
        let detail = format!(
            "the log goes on at offset {first}, below position {expected}: it was truncated or \
             the topic was made anew; reset the group's offset with Kafka's own tool"
        );
        let kind = ErrorKind::Operator;
        self.lane_failed(generation, &broker::Error { kind, detail });
    }

    fn committed(&mut self, commit: broker::Commit, result: Result<(), broker::Error>) {
        let now = self.now();
        self.trace_committed(&commit, &result);
        self.meter.commits.note(CommitResult::of(&result), 1);
        self.letters_committed(now, commit.generation, commit.serial, &result);
        let Some(entry) = self.lanes.touch(commit.generation) else {
            return;
        };
        if let Some(took) = entry.watched.answered(now, commit.serial) {
            self.meter.commit_times.note(took, 1);
        }
        let outcome = match result {
            Ok(()) => {
                self.fence.heard(now);
                self.meter.committed_offsets += entry.watched.confirmed(commit.position);
                if let Some(count) = self.commit_failures.over() {
                    tracing::info!(
                        subscription = self.parts.subscription.name,
                        count,
                        "commits succeed again"
                    );
                }
                CommitOutcome::Done
            }
            Err(error) if error.kind == ErrorKind::TooLarge => CommitOutcome::MetadataTooLarge,
            Err(error) if matches!(error.kind, ErrorKind::LetterTooLarge(_)) => {
                CommitOutcome::Failed
            }
            Err(error) => {
                if let Some(count) = self.commit_failures.again(now) {
                    tell!(warn, self, entry;
                        count,
                        %error,
                        "commit failed and is tried again"
                    );
                }
                CommitOutcome::Failed
            }
        };
        let outcome = mutation::outcome(outcome, !commit.letters.is_empty());
        entry.lane.handle_commit(now, commit.serial, outcome);
    }

    fn sought(&mut self, generation: Generation, seek: u64, result: &Result<(), broker::Error>) {
        let now = self.now();
        self.trace_sought(generation, seek, result);
        let Some(entry) = self.lanes.touch(generation) else {
            return;
        };
        if entry.seek != seek {
            return;
        }
        match result {
            Ok(()) => {
                if let Some(count) = self.tally.seek_failures.over() {
                    tell!(info, self, entry; count, "seeks succeed again");
                }
                entry.lane.handle_seek(now, SeekOutcome::Done);
            }
            Err(error) => {
                self.meter.seek_failures += 1;
                if let Some(count) = self.tally.seek_failures.again(now) {
                    tell!(warn, self, entry;
                        %error, count,
                        "seek failed and is tried again"
                    );
                }
                entry.lane.handle_seek(now, SeekOutcome::Failed);
            }
        }
    }

    fn lane_failed(&mut self, generation: Generation, error: &broker::Error) {
        let Some(entry) = self.lanes.get_mut(generation) else {
            return;
        };
        if std::mem::replace(&mut entry.failed, true) {
            return;
        }
        entry.standstill = Some(Standstill {
            why: Why::Unreadable,
            since_ms: self.parts.wall.now_ms(),
            detail: error.detail.clone(),
        });
        tell!(error, self, entry;
            %error,
            "lane cannot be read until an operator acts"
        );
        let news = notice(entry.label(), NoticeKind::Held, None, &error.detail);
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
                tracing::warn!(
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
        self.announce_to_all(kind, &detail);
        self.state.send_replace(State::Joined(state));
    }
}
