//! What a lane under test shows and asks for.

use ackgate_lane::{AckMap, Cause, CommitOutcome, Confirmed, Effect, Ready, Subscriber};

use super::{Bench, at, commit};

impl Bench {
    /// The lowest offset that `subscriber` may take.
    pub(crate) fn ready_offset(&self, subscriber: Subscriber) -> Option<u64> {
        let ready = self.lane.ready_for(subscriber)?;
        Some(ready.range.first().get())
    }

    /// The effects so far; commits without their numbers.
    pub(crate) fn effects(&mut self) -> Vec<Effect> {
        self.note_asked();
        std::mem::take(&mut self.pending)
    }

    pub(super) fn note_asked(&mut self) {
        while let Some(effect) = self.lane.poll_effect() {
            if let Effect::Commit { position, serial } = effect {
                self.asked.push((serial, position.get()));
                self.pending.push(commit(position.get()));
            } else {
                self.pending.push(effect);
            }
        }
    }

    /// The map of the last commit asked for, as it would be read.
    pub(crate) fn map(&mut self) -> Option<AckMap> {
        self.note_asked();
        let (serial, _) = *self.asked.last()?;
        let bytes = self.lane.commit_map(serial)?;
        Some(AckMap::decode(bytes).expect("a sound map"))
    }

    /// Offsets whose dead letters go with the last commit asked for.
    pub(crate) fn riding(&mut self) -> Vec<u64> {
        self.note_asked();
        let serial = self.asked.last().map_or(u64::MAX, |asked| asked.0);
        let letters = self.lane.commit_letters(serial).iter();
        letters.map(|letter| letter.offset.get()).collect()
    }

    /// Cause, attempts and deliveries of one of those.
    pub(crate) fn letter(&mut self, offset: u64) -> Option<(Cause, u32, u32)> {
        self.note_asked();
        let (serial, _) = *self.asked.last()?;
        let mut letters = self.lane.commit_letters(serial).iter();
        let letter = letters.find(|letter| letter.offset.get() == offset)?;
        Some((letter.cause, letter.attempts, letter.deliveries))
    }

    /// Waits of `confirm` that have ended.
    pub(crate) fn confirmed(&mut self) -> Vec<(u64, Confirmed)> {
        std::iter::from_fn(|| self.lane.poll_confirmation())
            .map(|confirmation| (confirmation.token, confirmation.result))
            .collect()
    }

    /// Forgets the effects so far.
    pub(crate) fn quiet(&mut self) -> &mut Self {
        self.effects();
        self
    }

    pub(crate) fn floor(&self) -> u64 {
        self.lane.floor().expect("a floor").get()
    }

    pub(crate) fn ready(&self) -> Option<Ready> {
        self.lane.ready()
    }

    /// What is ready as (first, last).
    pub(crate) fn ready_range(&self) -> Option<(u64, u64)> {
        self.ready()
            .map(|ready| (ready.range.first().get(), ready.range.last().get()))
    }

    /// Confirms commits as they come until `ms`; the positions asked for.
    pub(crate) fn commits_until(&mut self, ms: u64) -> Vec<u64> {
        let mut positions = Vec::new();
        loop {
            for effect in self.effects() {
                if let Effect::Commit { position, .. } = effect {
                    positions.push(position.get());
                    self.committed(position.get(), CommitOutcome::Done);
                }
            }
            match self.lane.poll_timeout().filter(|time| *time <= at(ms)) {
                Some(time) => {
                    self.now = self.now.max(time);
                    self.lane.handle_timeout(self.now);
                    self.checked();
                }
                None => break,
            }
        }
        self.now = at(ms);
        positions
    }
}
