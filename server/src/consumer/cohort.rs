//! The wait of a group that begins: for siblings that restart at the same time, and for
//! as many subscribers as the subscription wants, before anything is fetched.

use ackgate_lane::Time;

use super::{
    driver::Driver,
    handle::{LaneLabel, NoticeKind, Outbound},
    inputs::notice,
};

/// Whether the first fetch may come.
#[derive(Debug, Default)]
pub(super) struct Cohort {
    /// When the group was joined, until the cohort is complete.
    since: Option<Time>,
    complete: bool,
    /// The subscribers that are still missing, as they were last told.
    told: Option<u32>,
}

impl Driver {
    /// The group has been joined: the wait begins anew.
    pub(super) fn begin_cohort(&mut self, now: Time) {
        self.cohort = Cohort {
            since: Some(now),
            ..Cohort::default()
        };
    }

    /// Whether anything may be fetched. Once it may, it may until the group is left,
    /// whoever goes meanwhile.
    pub(super) fn is_cohort_complete(&mut self, now: Time) -> bool {
        if self.cohort.complete {
            return true;
        }
        let Some(since) = self.cohort.since else {
            return false;
        };
        let wanted = self.parts.subscription.min_subscribers;
        let here = u32::try_from(self.subscribers.len()).unwrap_or(u32::MAX);
        let is_early = now < since.after(self.parts.subscription.cohort_grace);
        self.cohort.complete = !is_early && here >= wanted;
        let missing = wanted.saturating_sub(here);
        let was = self.cohort.told.replace(missing);
        if self.cohort.complete && was.is_some_and(|missing| missing > 0) {
            self.tell_cohort(NoticeKind::Recovered, "enough subscribers are attached");
        } else if missing > 0 && was != Some(missing) {
            self.tell_cohort(NoticeKind::Held, &missing_in_words(wanted, missing));
        }
        self.cohort.complete
    }

    /// When the wait for siblings ends, if it goes on.
    pub(super) fn cohort_due(&self, now: Time) -> Option<Time> {
        let since = self.cohort.since.filter(|_| !self.cohort.complete)?;
        Some(since.after(self.parts.subscription.cohort_grace)).filter(|at| *at > now)
    }

    /// What the first fetch waits for, in words.
    pub(super) fn cohort_waits(&self) -> Option<String> {
        self.cohort.since.filter(|_| !self.cohort.complete)?;
        let wanted = self.parts.subscription.min_subscribers;
        Some(match self.cohort.told {
            Some(missing) if missing > 0 => missing_in_words(wanted, missing),
            Some(_) | None => format!(
                "nothing is fetched until {} after the group was joined (cohort_grace)",
                humantime::format_duration(self.parts.subscription.cohort_grace)
            ),
        })
    }

    fn tell_cohort(&self, kind: NoticeKind, detail: &str) {
        let subscription = self.parts.subscription.name.as_str();
        if matches!(kind, NoticeKind::Held) {
            tracing::info!(subscription, detail, "nothing is fetched yet");
        } else {
            tracing::info!(subscription, "enough subscribers are attached");
        }
        let everything = LaneLabel::everything();
        self.subscribers
            .announce(&Outbound::Lane(notice(everything, kind, None, detail)));
    }
}

fn missing_in_words(wanted: u32, missing: u32) -> String {
    format!(
        "nothing is fetched before {wanted} subscribers are attached (min_subscribers): {missing} \
         more"
    )
}
