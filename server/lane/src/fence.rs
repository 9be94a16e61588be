//! Whether this gateway may still count on being in its group: the self-fence.
//!
//! A member that the group's coordinator has not heard for a session is given up, and
//! its lanes go to others without a word to it. So a member that hears nothing stops
//! in time by its own clock.
//!
//! **Invariant**: a session after the last sign of the group nothing is out, and from
//! four fifths of it on nothing new goes out.

use std::time::Duration;

use crate::Time;

/// What may be done with the lanes of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Everything: the group was heard lately.
    Sound,
    /// Nothing new is handed out.
    Doubtful,
    /// Nothing may be out: others may have the lanes.
    Fenced,
}

/// The fence of one member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    session: Duration,
    /// The last sign of the group.
    heard: Time,
    /// Since when no sign could have been seen, had there been one.
    blind: Option<Time>,
    standing: Standing,
}

impl Fence {
    /// The fence of a member that joins, whose group gives it up after `session`
    /// without a sign.
    #[must_use]
    pub const fn new(now: Time, session: Duration) -> Self {
        Self {
            session,
            heard: now,
            blind: None,
            standing: Standing::Sound,
        }
    }

    /// The coordinator answered a heartbeat, or took a commit, at `at`. Of several
    /// signs the newest counts.
    pub fn heard(&mut self, at: Time) {
        self.heard = self.heard.max(at);
    }

    /// Signs cannot be seen for a while, though they may be there: the consumer waits
    /// for verdicts in a revoke. That is bounded, and says nothing about the group.
    pub fn begin_blind(&mut self, now: Time) {
        self.blind.get_or_insert(now);
    }

    /// Signs can be seen again; the time without does not count.
    pub fn end_blind(&mut self, now: Time) {
        if let Some(since) = self.blind.take() {
            self.heard = self.heard.after(now.since(since)).min(now);
        }
    }

    /// The standing at `now`, if it is not what was told last.
    pub fn poll(&mut self, now: Time) -> Option<Standing> {
        let silence = now.since(self.heard);
        let standing = if self.blind.is_some() {
            self.standing
        } else if silence >= self.session {
            Standing::Fenced
        } else if silence >= doubt(self.session) {
            Standing::Doubtful
        } else {
            Standing::Sound
        };
        let changed = standing != self.standing;
        self.standing = standing;
        changed.then_some(standing)
    }

    /// The standing as it was told last.
    #[must_use]
    pub const fn standing(&self) -> Standing {
        self.standing
    }

    /// How long nothing was heard.
    #[must_use]
    pub const fn silence(&self, now: Time) -> Duration {
        now.since(self.heard)
    }

    /// Whether nothing was heard for so long that a poll would not find it sound.
    #[must_use]
    pub fn is_silent(&self, now: Time) -> bool {
        self.silence(now) >= doubt(self.session)
    }

    /// When to poll next, if only time passes.
    #[must_use]
    pub fn due(&self) -> Option<Time> {
        if self.blind.is_some() {
            return None;
        }
        match self.standing {
            Standing::Sound => Some(self.heard.after(doubt(self.session))),
            Standing::Doubtful => Some(self.heard.after(self.session)),
            Standing::Fenced => None,
        }
    }
}

/// Four fifths: what is out then has a fifth of a session to come back by itself.
fn doubt(session: Duration) -> Duration {
    session / 5 * 4
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: Duration = Duration::from_secs(10);

    fn at(ms: u64) -> Time {
        Time(Duration::from_millis(ms))
    }

    fn fence() -> Fence {
        Fence::new(at(0), SESSION)
    }

    #[test]
    fn doubt_comes_at_four_fifths_and_the_fence_at_the_whole() {
        let mut fence = fence();
        assert_eq!(fence.poll(at(7_999)), None);
        assert_eq!(fence.due(), Some(at(8_000)));
        assert_eq!(fence.poll(at(8_000)), Some(Standing::Doubtful));
        assert_eq!(fence.poll(at(9_999)), None, "told once");
        assert_eq!(fence.due(), Some(at(10_000)));
        assert_eq!(fence.poll(at(10_000)), Some(Standing::Fenced));
        assert_eq!(fence.due(), None, "only a sign changes it now");
        fence.heard(at(60_000));
        assert_eq!(fence.poll(at(60_500)), Some(Standing::Sound));
        assert_eq!(fence.due(), Some(at(68_000)));
    }

    #[test]
    fn each_sign_moves_both_and_an_old_one_neither() {
        let mut fence = fence();
        fence.heard(at(5_000));
        fence.heard(at(1_000));
        assert_eq!(fence.poll(at(12_999)), None);
        assert_eq!(fence.poll(at(13_000)), Some(Standing::Doubtful));
        // A sign of long ago that is seen only now helps as far as it goes.
        fence.heard(at(6_000));
        assert_eq!(fence.poll(at(13_500)), Some(Standing::Sound));
        assert_eq!(
            fence.poll(at(16_000)),
            Some(Standing::Fenced),
            "late, but told"
        );
    }

    #[test]
    fn time_in_which_no_sign_could_be_seen_does_not_count() {
        let mut fence = fence();
        fence.begin_blind(at(2_000));
        assert_eq!(fence.poll(at(30_000)), None);
        assert_eq!(fence.due(), None);
        fence.end_blind(at(30_000));
        assert_eq!(fence.poll(at(35_999)), None);
        assert_eq!(fence.poll(at(36_000)), Some(Standing::Doubtful));
        // Blind while in doubt: nothing new goes out all the same.
        fence.begin_blind(at(36_100));
        assert_eq!(fence.poll(at(50_000)), None);
        assert_eq!(fence.standing(), Standing::Doubtful);
    }
}
