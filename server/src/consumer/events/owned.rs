//! Lanes that are assigned and revoked: they begin, drain and end.

use std::{sync::Arc, time::Duration};

use ackgate_lane::{Generation, Position};

use super::super::{
    driver::Driver,
    handle::{NoticeKind, Outbound},
    inputs::notice,
    membership::Revoke,
    meter::Rebalance,
    mutation::{self, Mutation},
    tell::tell,
};
use crate::{broker::Assigned, config::StartAt};

impl Driver {
    pub(super) fn assigned(&mut self, lanes: Vec<Assigned>) {
        let now = self.now();
        self.membership.assigned = Some(now);
        self.meter.rebalances.note(Rebalance::Assigned, 1);
        // The coordinator has just given them out.
        self.fence.heard(now);
        let looked_up = match self.parts.subscription.start {
            StartAt::Latest | StartAt::Timestamp(_) => true,
            StartAt::Earliest | StartAt::Fail => false,
        };
        self.leases_moved = true;
        self.trace_assigned(lanes.len());
        for assigned in lanes {
            let generation = assigned.generation;
            let committed = assigned.committed;
            let anew = assigned.anew.clone();
            tell!(info, self, assigned;
                position = assigned.start.map(Position::get),
                "lane assigned"
            );
            let subscription = Arc::clone(&self.parts.subscription);
            self.lanes.assign(now, &subscription, assigned);
            self.members_join(generation, now);
            if let Some(entry) = self.lanes.touch(generation) {
                if let Some(doubt) = entry.lane.snapshot().map.doubt {
                    tracing::warn!(
                        subscription = subscription.name,
                        topic = %entry.partition.topic,
                        partition = entry.partition.partition,
                        detail = %doubt,
                        "the commit's metadata is not used: what was settled above the position \
                         is delivered again"
                    );
                }
                if (looked_up && !committed && !entry.retry) || anew.is_some() {
                    entry.lane.commit_start(now);
                }
                if let Some(deadline) = self.stopping {
                    entry.lane.begin_drain(now, deadline);
                }
                let label = entry.label();
                let news = notice(label.clone(), NoticeKind::Assigned, None, "");
                self.subscribers.announce(&Outbound::Lane(news));
                if let Some(detail) = anew {
                    self.trace_reset(generation);
                    tracing::error!(
                        subscription = self.parts.subscription.name,
                        topic = %label.topic,
                        partition = label.partition,
                        epoch = label.epoch,
                        detail,
                        "lane begins anew at its oldest record"
                    );
                    let news = notice(label, NoticeKind::Reset, None, &detail);
                    self.subscribers.announce(&Outbound::Lane(news));
                }
            }
        }
    }

    pub(super) fn begin_revoke(&mut self, revoke: Revoke) {
        let now = self.now();
        let kind = if revoke.lost {
            Rebalance::Lost
        } else {
            Rebalance::Revoked
        };
        self.meter.rebalances.note(kind, 1);
        let wait = if revoke.lost {
            Duration::ZERO
        } else {
            // The consumer waits for the answer and sees nothing meanwhile.
            self.fence.begin_blind(now);
            self.parts.subscription.revoke_drain
        };
        self.leases_moved = true;
        self.trace_revoking(revoke.generations.len(), revoke.lost);
        for generation in &revoke.generations {
            if let Some(entry) = self.lanes.touch(*generation) {
                if mutation::is_on(Mutation::KeepLaneOverRevoke) {
                    entry.drained = true;
                    continue;
                }
                entry.lane.begin_drain(now, now.after(wait));
                entry.gate.clear();
                let news = notice(entry.label(), NoticeKind::Revoking, None, "");
                self.subscribers.announce(&Outbound::Lane(news));
            }
        }
        self.membership.assigned = None;
        self.revokes.push(revoke);
    }

    /// Ends lanes. Those that were not drained in time give their credit back.
    pub(in crate::consumer) fn lanes_gone(&mut self, generations: &[Generation]) {
        let now = self.now();
        if mutation::is_on(Mutation::KeepLaneOverRevoke) {
            return;
        }
        for generation in generations {
            if let Some(entry) = self.lanes.touch(*generation) {
                entry.lane.begin_drain(now, now);
                entry.lane.handle_timeout(now);
            }
        }
        self.carry_out(now);
        self.leases_moved = true;
        for generation in generations {
            let Some(mut entry) = self.lanes.remove(*generation) else {
                continue;
            };
            self.trace_gone(&mut entry.traces);
            self.subscribers.release_from(*generation);
            self.fence_unconfirmed(*generation);
            self.parts.budget.recount(entry.counted, 0);
            tell!(info, self, entry;
                head = entry.head.map(Position::get),
                "lane gone"
            );
            if !self.tally.counts.is_empty() {
                let counts = self.tally.counts;
                tracing::info!(
                    subscription = self.parts.subscription.name,
                    filtered = counts.filtered,
                    unwanted = counts.unwanted,
                    filter_failures = counts.filter_failures,
                    expired = counts.expired,
                    content_rejected = counts.content_rejected,
                    content_skipped = counts.content_skipped,
                    content_delivered = counts.content_delivered,
                    parked = counts.parked,
                    discarded = counts.discarded,
                    vanished = counts.lost,
                    "records of the subscription so far"
                );
            }
            let news = notice(entry.label(), NoticeKind::Revoked, None, "");
            self.subscribers.announce(&Outbound::Lane(news));
        }
    }
}
