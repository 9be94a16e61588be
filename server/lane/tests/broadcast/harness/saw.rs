//! What came about, so that a run that proves nothing is noticed.

/// How often things came about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Saw {
    pub(super) settled: u64,
    pub(super) rejected: u64,
    pub(super) exhausted: u64,
    pub(super) withdrawn: u64,
    pub(super) again_to_others: u64,
    pub(super) returned_to_debts: u64,
    pub(super) discarded: u64,
    pub(super) tripped: u64,
    pub(super) parked: u64,
}

impl Saw {
    pub(crate) fn add(&mut self, other: &Self) {
        self.settled += other.settled;
        self.rejected += other.rejected;
        self.exhausted += other.exhausted;
        self.withdrawn += other.withdrawn;
        self.again_to_others += other.again_to_others;
        self.returned_to_debts += other.returned_to_debts;
        self.discarded += other.discarded;
        self.tripped += other.tripped;
        self.parked += other.parked;
    }

    pub(crate) fn expect_all(&self) {
        let least = [
            self.settled,
            self.rejected,
            self.exhausted,
            self.withdrawn,
            self.again_to_others,
            self.returned_to_debts,
            self.discarded,
            self.tripped,
            self.parked,
        ];
        assert!(least.iter().all(|count| *count >= 10), "{self:?}");
    }
}
