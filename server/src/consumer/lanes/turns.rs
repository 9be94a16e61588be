//! Which lane's turn it is to hand something out, and when the next has to be woken.

use ackgate_lane::{Generation, Time};

use super::{Entry, Lanes};

impl Entry {
    /// When it has to be woken.
    fn timeout(&self) -> Option<Time> {
        let lease = self.lease.and_then(|lease| lease.until());
        let due = [self.lane.poll_timeout(), self.gate.due(), lease];
        due.into_iter().flatten().min()
    }
}

impl Lanes {
    /// Puts the lane's next deadline into the index and the lane into the queue if
    /// it has something to hand out.
    pub(in crate::consumer) fn settle_in(&mut self, generation: Generation) {
        let Some(entry) = self.entries.get_mut(&generation) else {
            return;
        };
        let timeout = entry.timeout();
        if timeout != entry.timeout {
            if let Some(old) = entry.timeout {
                self.timeouts.remove(&(old, generation));
            }
            if let Some(new) = timeout {
                self.timeouts.insert((new, generation));
            }
            entry.timeout = timeout;
        }
        if !entry.queued && entry.lane.has_ready() {
            entry.queued = true;
            self.queue.push_back(generation);
        }
    }

    /// The lane whose turn it is.
    pub(in crate::consumer) fn pop_queue(&mut self) -> Option<Generation> {
        let generation = self.queue.pop_front()?;
        if let Some(entry) = self.entries.get_mut(&generation) {
            entry.queued = false;
        }
        Some(generation)
    }

    pub(in crate::consumer) fn queue_len(&self) -> usize {
        self.queue.len()
    }

    /// Puts a lane back at the end of the queue.
    pub(in crate::consumer) fn requeue(&mut self, generation: Generation) {
        if let Some(entry) = self.entries.get_mut(&generation)
            && !entry.queued
        {
            entry.queued = true;
            self.queue.push_back(generation);
        }
    }

    /// Puts lanes back at the front of the queue, in their order.
    pub(in crate::consumer) fn requeue_first(&mut self, generations: Vec<Generation>) {
        for generation in generations.into_iter().rev() {
            if let Some(entry) = self.entries.get_mut(&generation)
                && !entry.queued
            {
                entry.queued = true;
                self.queue.push_front(generation);
            }
        }
    }

    /// When the next lane has to be woken.
    pub(in crate::consumer) fn next_timeout(&self) -> Option<Time> {
        self.timeouts.first().map(|(time, _)| *time)
    }

    /// Lanes whose time has come.
    pub(in crate::consumer) fn due(&mut self, now: Time) -> Vec<Generation> {
        self.timeouts
            .iter()
            .take_while(|(time, _)| *time <= now)
            .map(|(_, g)| *g)
            .collect()
    }
}
