//! The self-fence of a subscription: what follows when its group falls silent.
//!
//! Boundary: when that is, [`ackgate_lane::Fence`] decides; here it is told to lanes,
//! subscribers and the log.

use std::time::Duration;

use ackgate_lane::{Fence, Standing, Time};

use super::{
    driver::Driver,
    handle::{LaneLabel, NoticeKind, Outbound},
    inputs::notice,
};
use crate::telemetry::logs::millis;

impl Driver {
    /// The group's coordinator last answered `age` ago.
    pub(super) fn heard_of_group(&mut self, age: Duration) {
        let now = self.now();
        self.fence.heard(Time(now.0.saturating_sub(age)));
    }

    /// Whether the group's silence means anything: there are lanes, or there were when it
    /// began. A group that is only being joined is not silent.
    pub(super) fn minds_fence(&self) -> bool {
        let is_known = self.fence.standing() != Standing::Sound;
        self.lanes.len() > 0 || (is_known && self.membership.consumer().is_some())
    }

    /// Stops handing out, takes everything back, or goes on.
    pub(super) fn step_fence(&mut self, now: Time) {
        if !self.minds_fence() {
            return;
        }
        let Some(standing) = self.fence.poll(now) else {
            return;
        };
        let silence = self.fence.silence(now);
        let (silent, silent_ms) = (silence.as_secs(), millis(silence));
        let name = &self.parts.subscription.name;
        let (kind, detail) = match standing {
            Standing::Sound => {
                tracing::info!(subscription = name, "the group answers again");
                (NoticeKind::Recovered, "the group answers again".to_owned())
            }
            Standing::Doubtful => {
                tracing::warn!(
                    subscription = name,
                    silent_ms,
                    "the group does not answer: nothing new is handed out"
                );
                let detail = format!(
                    "no answer from the group's coordinator for {silent} s: nothing new is \
                     handed out until it answers"
                );
                (NoticeKind::Held, detail)
            }
            Standing::Fenced => {
                tracing::error!(
                    subscription = name,
                    silent_ms,
                    "the group has not answered for a whole session: what is out is void"
                );
                for generation in self.lanes.generations() {
                    if let Some(entry) = self.lanes.touch(generation) {
                        entry.lane.handle_fenced(now);
                    }
                }
                let detail = format!(
                    "no answer from the group's coordinator for {silent} s, a whole session: \
                     what is out is void and comes again, here or from another gateway"
                );
                (NoticeKind::Fenced, detail)
            }
        };
        self.announce_to_all(kind, &detail);
    }

    /// The consumer has closed: what it was a member of says nothing about what it joins next.
    pub(super) fn forget_group(&mut self, now: Time) {
        let next = Fence::new(now, self.parts.connect.session());
        let before = std::mem::replace(&mut self.fence, next);
        if before.standing() != Standing::Sound {
            let detail = "the group that did not answer is left";
            tracing::info!(
                subscription = self.parts.subscription.name,
                "the group that did not answer is left"
            );
            self.announce_to_all(NoticeKind::Recovered, detail);
        }
    }

    /// Tells every subscriber something that concerns all lanes.
    pub(super) fn announce_to_all(&mut self, kind: NoticeKind, detail: &str) {
        let everything = LaneLabel::everything();
        self.subscribers
            .announce(&Outbound::Lane(notice(everything, kind, None, detail)));
    }
}
