//! What the lane asks for is done, and checked against the rules.

use ackgate_lane::{AckMap, Confirmed, Effect, Offset, invariants};

use super::{Kafka, World, settled};

impl World {
    pub(super) fn follow(&mut self) {
        while let Some(effect) = self.lane.poll_effect() {
            match effect {
                Effect::Commit { position, serial } => {
                    let bytes = self.lane.commit_map(serial).map(<[u8]>::to_vec);
                    let size = bytes.as_ref().map_or(0, Vec::len);
                    assert!(size <= self.most, "the map keeps to its room");
                    let map = bytes.map(|bytes| AckMap::decode(&bytes).expect("a sound map"));
                    let kafka = Kafka {
                        position: position.get(),
                        map,
                    };
                    let below = (0..kafka.position).find(|offset| !self.answered.contains(offset));
                    assert_eq!(below, None, "L2");
                    let untrue = settled(&kafka)
                        .into_iter()
                        .find(|offset| !self.answered.contains(offset));
                    assert_eq!(untrue, None, "the map says more than is true");
                    self.asked.push((serial, kafka, size));
                }
                Effect::DeadLetter { offset, .. } => {
                    self.letters.insert(offset.get());
                }
                Effect::Returned { range, .. } => {
                    self.out
                        .retain(|offset| !range.contains(Offset::new(*offset)));
                }
                Effect::Seek { to } => self.seek = Some(to.get()),
                Effect::MapRefused { .. } => self.count("refused"),
                Effect::Settled { .. }
                | Effect::Skipped { .. }
                | Effect::Lost { .. }
                | Effect::Dropped { .. }
                | Effect::Parked { .. }
                | Effect::Discarded { .. }
                | Effect::Tripped { .. }
                | Effect::CutOff { .. }
                | Effect::Withdrawn { .. }
                | Effect::Drained => {}
            }
        }
        self.hear();
        if self.lane.snapshot().map.is_full {
            self.count("full");
        }
        if let Err(violation) = invariants::check(&self.lane) {
            panic!("{violation}");
        }
    }
    /// Takes the ends of waits: what is confirmed must be known to Kafka.
    fn hear(&mut self) {
        while let Some(confirmation) = self.lane.poll_confirmation() {
            let token = confirmation.token;
            match confirmation.result {
                Confirmed::Void { range } => {
                    self.count("void");
                    let wait = self.waits.get_mut(&token).expect("a wait");
                    wait.retain(|offset| !range.contains(Offset::new(*offset)));
                }
                Confirmed::Durable => {
                    self.count("durable");
                    let wait = self
                        .waits
                        .remove(&token)
                        .expect("a wait that has not ended");
                    let known = settled(&self.kafka);
                    for offset in wait {
                        assert!(
                            offset < self.kafka.position || known.contains(&offset),
                            "L12: {offset} is confirmed and Kafka does not know of it"
                        );
                        self.durable.insert(offset);
                    }
                }
            }
        }
    }
}
