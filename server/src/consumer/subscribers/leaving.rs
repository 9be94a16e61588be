//! Subscribers that have been told that their session ends soon.

use std::time::Duration;

use ackgate_lane::{Subscriber, Time};

use super::{
    super::handle::{End, Outbound},
    Subscribers,
};

/// Time to say goodbye by itself, once nothing is out.
const GOODBYE_WITHIN: Duration = Duration::from_secs(1);

/// How far a session is on its way out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    until: Time,
    /// Since nothing has been out or owed.
    idle: Option<Time>,
}

impl Leaving {
    fn due(&self) -> Time {
        let idle = self.idle.map(|since| since.after(GOODBYE_WITHIN));
        idle.map_or(self.until, |idle| idle.min(self.until))
    }
}

impl Subscribers {
    /// The session takes nothing any more and ends by then; `false` if it knows already.
    pub(in crate::consumer) fn begin_leaving(
        &mut self,
        subscriber: Subscriber,
        until: Time,
    ) -> bool {
        let attached = self.attached.get_mut(&subscriber);
        let attached = attached.filter(|attached| attached.leaving.is_none());
        attached.is_some_and(|attached| {
            attached.leaving = Some(Leaving { until, idle: None });
            attached.reserved = None;
            true
        })
    }

    /// Those whose sessions end soon.
    pub(in crate::consumer) fn leaving(&self) -> Vec<Subscriber> {
        let leaving = self.attached.iter().filter(|(_, it)| it.leaving.is_some());
        leaving.map(|(subscriber, _)| *subscriber).collect()
    }

    /// Whether a session that ends soon ends now. `owed`: it waits for something.
    pub(in crate::consumer) fn is_goodbye_due(
        &mut self,
        subscriber: Subscriber,
        now: Time,
        owed: bool,
    ) -> bool {
        let Some(attached) = self.attached.get_mut(&subscriber) else {
            return false;
        };
        let is_idle = attached.out.records == 0 && !owed;
        attached.leaving.as_mut().is_some_and(|leaving| {
            leaving.idle = is_idle.then(|| leaving.idle.unwrap_or(now));
            leaving.due() <= now
        })
    }

    /// When the next of them ends without anything happening before.
    pub(in crate::consumer) fn next_goodbye(&self) -> Option<Time> {
        let leaving = self.attached.values().filter_map(|it| it.leaving);
        leaving.map(|leaving| leaving.due()).min()
    }

    /// Ends the stream after what waits for it, or at once if it takes nothing.
    pub(in crate::consumer) fn say_last(&mut self, subscriber: Subscriber, end: End) {
        if let Some(attached) = self.attached.get_mut(&subscriber)
            && !attached.send(Outbound::End(end))
        {
            attached.cut(end);
        }
    }
}
