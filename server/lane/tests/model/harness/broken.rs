//! Streams that broke, a group that is not heard, and a log that ends or begins anew.

use ackgate_lane::{Position, ResumeAnswer, ResumeResult, Subscriber, Target};

use super::{Harness, range};

fn target(offsets: (u64, u64), delivery: Option<u32>) -> Target {
    Target {
        range: range(offsets),
        delivery,
    }
}

/// Neighbours of one delivery number as one target, as a subscriber names them.
fn runs(list: &[(u64, Option<u32>)]) -> Vec<Target> {
    list.chunk_by(|a, b| a.0 + 1 == b.0 && a.1 == b.1)
        .map(|run| target((run[0].0, run[0].0 + run.len() as u64), run[0].1))
        .collect()
}

impl Harness {
    /// What `subscriber` has is named where its bit of `named` is set, by another
    /// delivery's number where its bit of `wrong` is; and so is the record at `also`.
    pub(super) fn resumed(&mut self, subscriber: u64, named: u16, wrong: u16, also: Option<u64>) {
        let is_set = |bits: u16, offset: u64| bits >> (offset % 16) & 1 == 1;
        let out = self.world.out.iter();
        let has = out.filter(|&(&offset, &holder)| holder == subscriber && is_set(named, offset));
        let mut list: Vec<(u64, Option<u32>)> = has
            .map(|(&offset, _)| {
                let current = self.reference.records[&offset].deliveries;
                (offset, Some(current + u32::from(is_set(wrong, offset))))
            })
            .collect();
        let mut targets = runs(&list);
        let is_named = |also: &u64| list.iter().any(|(offset, _)| offset == also);
        if let Some(also) = also.filter(|also| !is_named(also)) {
            list.push((also, None));
            targets.push(target((also, also + 1), None));
        }
        list.sort_unstable();
        let (now, subscriber_id) = (self.now, Subscriber(subscriber));
        let mut answers: Vec<ResumeAnswer> = Vec::new();
        if let Some(old) = &mut self.old {
            old.handle_resumed(now, subscriber_id, &targets, &mut answers);
            let all_lost = answers.iter().all(|a| a.result == ResumeResult::Lost);
            assert!(all_lost, "L4: {answers:?}");
            assert_eq!(old.poll_effect(), None, "L4: an old generation");
            answers.clear();
        }
        self.lane
            .handle_resumed(now, subscriber_id, &targets, &mut answers);
        let expected = self.reference.resumed(self.now, subscriber, &list);
        let each = |answer: &ResumeAnswer| {
            let (offsets, result) = (answer.range, answer.result);
            (offsets.first().get()..offsets.end().get()).map(move |offset| (offset, result))
        };
        let told: Vec<_> = answers.iter().flat_map(each).collect();
        assert_eq!(told, expected, "what {subscriber} keeps");
        self.resumed.extend(told.iter().map(|(_, result)| *result));
        self.compare();
    }

    pub(super) fn fenced(&mut self) {
        self.lane.handle_fenced(self.now);
        self.reference.fenced(self.now);
        self.compare();
    }

    /// Nothing exists from where the consumer stands to the next record, or the end.
    /// While a seek is awaited that is old news, and is not heard.
    pub(super) fn end(&mut self) {
        let next = self.world.log.range(self.world.position..).next().copied();
        let position = next.unwrap_or(self.world.end).max(self.world.position);
        if self.world.seek.is_none() {
            self.world.position = position;
        }
        self.lane.handle_end(self.now, Position::new(position));
        self.reference.ended(self.now, position);
        self.compare();
    }

    /// As `end`, where there was something.
    pub(super) fn gone_from_the_log(&mut self, count: u64) {
        let oldest = (self.world.position + count).min(self.world.end);
        if oldest <= self.world.position {
            return;
        }
        self.world.log.retain(|offset| *offset >= oldest);
        if self.world.seek.is_none() {
            self.world.position = oldest;
        }
        self.lane.handle_gone(self.now, Position::new(oldest));
        self.reference.gone_from_the_log(self.now, oldest);
        self.compare();
    }
}
