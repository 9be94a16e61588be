//! [`Counts`]: what became of a subscription's records without a subscriber's doing.

/// Records since the subscription's driver started, over all lanes. A lane that comes
/// anew counts again what it had not committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Settled because the filter said no.
    pub filtered: u64,
    /// Broadcast: passed over for one subscriber because its own filter said no, once
    /// for each of them.
    pub unwanted: u64,
    /// Handed out, or content-checked, although the filter could say nothing about them.
    pub filter_failures: u64,
    /// Too old before they were handed out; dead letters count once Kafka has them.
    pub expired: u64,
    /// Whose content was refused: dead letters that Kafka has, and dropped ones.
    pub content_rejected: u64,
    /// Settled because their content is not what it should be.
    pub content_skipped: u64,
    /// Handed out although their content is not what it should be.
    pub content_delivered: u64,
    /// Given up and set aside for now, since their dead letters could not be written.
    pub parked: u64,
    /// Given up and settled without a copy, since their dead letters could not be
    /// written.
    pub discarded: u64,
    /// Offsets that the log lost before they were settled.
    pub lost: u64,
}

impl Counts {
    /// Adds what `other` has counted.
    pub(super) const fn add(&mut self, other: &Self) {
        self.filtered += other.filtered;
        self.unwanted += other.unwanted;
        self.filter_failures += other.filter_failures;
        self.expired += other.expired;
        self.content_rejected += other.content_rejected;
        self.content_skipped += other.content_skipped;
        self.content_delivered += other.content_delivered;
        self.parked += other.parked;
        self.discarded += other.discarded;
        self.lost += other.lost;
    }

    /// Whether there is anything to tell.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
