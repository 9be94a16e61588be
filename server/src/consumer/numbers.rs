//! [`Numbers`]: what subscribers call lanes.

/// The numbers by which subscribers name lanes. Each belongs to one topic, partition,
/// assignment and epoch, so a verdict that names an old one is fenced without a look
/// at anything else.
#[derive(Debug)]
pub(super) struct Numbers {
    /// Random, so that a number from another gateway, or from before a restart, means
    /// nothing here.
    base: u64,
    last: u64,
}

impl Default for Numbers {
    fn default() -> Self {
        let base = fastrand::u64(1 << 20..1 << 50);
        Self { base, last: base }
    }
}

impl Numbers {
    pub(super) const fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(super) const fn has_given(&self, number: u64) -> bool {
        self.base < number && number <= self.last
    }
}
