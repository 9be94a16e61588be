//! Subscribers that take some records at a time: what is left of it.

use ackgate_lane::{Subscriber, Time};

use super::{
    super::{
        bodies::Size,
        drained::Taking,
        draw::{Draw, Drawing},
    },
    Subscribers,
};

impl Subscribers {
    /// The subscriber takes this much.
    pub(in crate::consumer) fn set_draw(
        &mut self,
        subscriber: Subscriber,
        draw: Draw,
        now: Taking,
    ) {
        if let Some(attached) = self.attached.get_mut(&subscriber) {
            attached.drawing = Some(Drawing::new(draw, now));
        }
    }

    /// Takes a batch off what the subscriber draws, if it does.
    pub(in crate::consumer) fn take_from_draw(
        &mut self,
        subscriber: Subscriber,
        size: Size,
        head: u64,
    ) {
        let attached = self.attached.get_mut(&subscriber);
        if let Some(drawing) = attached.and_then(|attached| attached.drawing.as_mut()) {
            drawing.take(size.records, size.bytes + head);
        }
    }

    /// The subscriber takes nothing any more. Whether it did.
    pub(in crate::consumer) fn end_draw(&mut self, subscriber: Subscriber) -> bool {
        self.attached.get_mut(&subscriber).is_some_and(|attached| {
            attached.reserved = None;
            attached.drawing.take().is_some()
        })
    }

    /// Draws under way.
    pub(in crate::consumer) fn drawing(&self) -> impl Iterator<Item = &Drawing> {
        self.attached.values().filter_map(|a| a.drawing.as_ref())
    }

    /// Whose they are, with the time of their first record.
    pub(in crate::consumer) fn draws(&mut self, now: Time) -> Vec<(Subscriber, Drawing)> {
        let draws = self.attached.iter_mut().filter_map(|(subscriber, it)| {
            let drawing = it.drawing.as_mut()?;
            drawing.see(now);
            Some((*subscriber, *drawing))
        });
        draws.collect()
    }
}
