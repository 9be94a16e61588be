//! Compares everything there is to see of the lane and its reference.

use ackgate_lane::{Position, Ready, Subscriber, invariants};

use super::Harness;
use crate::reference::{Did, Is};

/// Offset, attempt, delivery, alone, owner.
fn plain(ready: Option<Ready>) -> Option<(u64, u32, u32, bool, Option<u64>)> {
    let ready = ready?;
    Some((
        ready.range.first().get(),
        ready.attempt,
        ready.delivery,
        ready.alone,
        ready.owner.map(|owner| owner.0),
    ))
}

impl Harness {
    /// Takes the effects of the last input and compares everything there is to see.
    pub(super) fn compare(&mut self) {
        let mut done: Vec<Did> = Vec::new();
        while let Some(effect) = self.lane.poll_effect() {
            self.trace.push(effect);
            done.extend(self.world.carry_out(effect, &self.lane));
        }
        let expected = self.reference.did();
        let mut missing = done.clone();
        let extra: Vec<_> = expected
            .iter()
            .filter(|did| match missing.iter().position(|done| done == *did) {
                Some(index) => {
                    missing.swap_remove(index);
                    false
                }
                None => true,
            })
            .collect();
        assert!(
            missing.is_empty() && extra.is_empty(),
            "only the lane did {missing:?}, only its reference did {extra:?}"
        );
        if let Err(violation) = invariants::check(&self.lane) {
            panic!("{violation}");
        }
        let (lane, reference) = (&self.lane, &self.reference);
        let snapshot = lane.snapshot();
        assert_eq!(
            lane.floor().map(Position::get),
            Some(reference.floor()),
            "floor"
        );
        assert_eq!(u64::from(lane.room()), reference.room(), "room");
        assert_eq!(
            snapshot.next.map(Position::get),
            Some(reference.next),
            "next"
        );
        assert_eq!(snapshot.unsettled, reference.unsettled(), "unsettled");
        assert_eq!(snapshot.in_flight, reference.in_flight(), "in flight");
        assert_eq!(
            snapshot.in_flight,
            self.world.out.len() as u64,
            "L8: credit taken"
        );
        assert_eq!(
            snapshot.delayed,
            reference.count(|is| matches!(is, Is::Delayed(_))),
            "delayed"
        );
        let behind = reference.count(|is| *is == Is::Behind);
        assert_eq!(snapshot.behind, behind, "behind");
        let (letters, parked) = reference.letters();
        assert_eq!(snapshot.dead_lettering, letters, "waiting for dead letters");
        assert_eq!(snapshot.parked, parked, "parked");
        let stopped = reference.is_stopped() && !reference.is_done();
        assert_eq!(snapshot.stop.is_some(), stopped, "stopped");
        assert_eq!(plain(lane.ready()), reference.ready(), "ready");
        assert_eq!(lane.has_ready(), reference.ready().is_some(), "has ready");
        for subscriber in 1..4 {
            assert_eq!(
                plain(lane.ready_for(Subscriber(subscriber))),
                reference.ready_for(subscriber),
                "ready for {subscriber}"
            );
        }
        assert!(
            self.world.commits.len() <= 1 || reference.is_done(),
            "commits outstanding"
        );
    }
}
