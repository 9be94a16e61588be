//! What the driver asks of a member.

use ackgate_lane::{Generation, Position};

use super::{Run, transient};
use crate::broker::{Commit, Consumer, Event};

impl Consumer for Run {
    fn grant(&self, generation: Generation, records: u32, bytes: u64) {
        self.look(|member| {
            if let Some(reading) = member.lanes.get_mut(&generation) {
                reading.records += records;
                reading.bytes += bytes;
                member.wake.notify_one();
            }
        });
    }

    fn withdraw(&self, generation: Generation) {
        self.look(|member| {
            if let Some(reading) = member.lanes.get_mut(&generation) {
                reading.records = 0;
                reading.bytes = 0;
            }
        });
    }

    fn commit(&self, commits: Vec<Commit>) {
        self.look(|member| {
            member.commits.push_back(commits);
            member.commit_wake.notify_one();
        });
    }

    fn seek(&self, generation: Generation, to: Position, seek: u64) {
        let fails = self.cluster.state.lock().dice.chance(3);
        self.look(|member| {
            let Some(reading) = member.lanes.get_mut(&generation) else {
                return;
            };
            reading.records = 0;
            reading.bytes = 0;
            reading.seek = seek;
            let result = if fails {
                Err(transient("the seek failed"))
            } else {
                reading.position = to.get();
                Ok(())
            };
            member.answers.push_back(Event::Sought {
                generation,
                seek,
                result,
            });
            member.wake.notify_one();
        });
    }

    fn close(&self) {
        self.look(|member| {
            member.closing = true;
            member.wake.notify_one();
        });
    }
}
