//! How much librdkafka may fetch ahead, so that a subscription stays within its share
//! of memory whatever the number of partitions: with split queues every limit of
//! librdkafka is one per partition.
//!
//! Invariant: what a user's own properties say wins, and is counted as it is.

use rdkafka::ClientConfig;

/// KiB of records for each lane where there is room. Four fetches of the usual 1 MiB
/// keep a lane busy while the next is on its way.
pub const PREFETCH_KIB_PER_LANE: u32 = 4096;

/// Records for each lane where there is room. Enough small ones for the fetcher to
/// stay ahead; it stops at whichever of the two comes first.
const FULL_RECORDS: u64 = 20_000;

/// What librdkafka keeps beside each record.
const RECORD_OVERHEAD: u64 = 384;

/// Asked of one partition at a time where there is room; librdkafka's own default.
const FULL_FETCH: u64 = 1 << 20;

/// Less than this for each lane brings no lane forward.
const LEAST_KIB: u64 = 64;
const LEAST_RECORDS: u64 = 128;

/// The largest response for several partitions where there is room. Records pin the
/// response they came in, so it shrinks with the rest.
const FULL_RESPONSE: u64 = 16 << 20;

/// librdkafka wants room for one message of the usual size.
const LEAST_RESPONSE: u64 = 1 << 20;

/// The limits of one consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Prefetch {
    /// Lanes that these limits are for, at least.
    lanes: u32,
    /// KiB of records for each lane.
    kib: u64,
    /// Records for each lane.
    records: u64,
    /// Bytes asked of one partition at a time.
    fetch: u64,
    /// Bytes of one response.
    response: u64,
}

impl Prefetch {
    /// Limits under which `lanes` lanes stay within `share` bytes, or up to a quarter
    /// more where single fetches have shrunk less than the rest, as far as that leaves
    /// each lane enough to move.
    pub(super) fn plan(share: u64, lanes: u32) -> Self {
        let full = Self {
            lanes: lanes.max(1),
            kib: u64::from(PREFETCH_KIB_PER_LANE),
            records: FULL_RECORDS,
            fetch: FULL_FETCH,
            response: FULL_RESPONSE,
        };
        let wanted = full.cost(lanes.max(1));
        if wanted <= share {
            return full;
        }
        let part = |amount: u64| {
            let scaled = u128::from(amount) * u128::from(share) / u128::from(wanted.max(1));
            u64::try_from(scaled).unwrap_or(amount)
        };
        let kib = part(full.kib).max(LEAST_KIB);
        Self {
            kib,
            records: part(full.records).max(LEAST_RECORDS),
            fetch: (kib * 1024).clamp(LEAST_KIB * 1024, FULL_FETCH),
            response: (share / 4).clamp(LEAST_RESPONSE, FULL_RESPONSE),
            ..full
        }
    }

    /// Whether the limits do for `lanes` lanes: no more than they were made for, or
    /// `share` holds them all the same.
    pub(super) fn fits(&self, share: u64, lanes: u32) -> bool {
        lanes <= self.lanes || self.cost(lanes) <= share
    }

    /// The most that is held for `lanes` lanes: full queues, and one fetch beyond the
    /// limit, which is looked at before a fetch only.
    pub(super) fn cost(&self, lanes: u32) -> u64 {
        let lane = (self.kib * 1024)
            .saturating_add(self.records.saturating_mul(RECORD_OVERHEAD))
            .saturating_add(self.fetch);
        lane.saturating_mul(u64::from(lanes))
    }

    /// Sets what `own`, the user's properties, do not; their values are taken over.
    pub(super) fn apply(mut self, config: &mut ClientConfig, own: &[(String, String)]) -> Self {
        let given = |names: &[&str]| {
            let mut values = own.iter().rev();
            values.find_map(|(name, value)| {
                let meant = names.contains(&name.trim());
                meant.then(|| value.trim().parse::<u64>().ok())
            })
        };
        let mut decide = |names: &[&str], planned: &mut u64| match given(names) {
            // What is no number is for librdkafka to refuse.
            Some(value) => *planned = value.unwrap_or(*planned),
            None => {
                if let Some(name) = names.first() {
                    config.set(*name, planned.to_string());
                }
            }
        };
        decide(&["queued.max.messages.kbytes"], &mut self.kib);
        decide(&["queued.min.messages"], &mut self.records);
        decide(
            &["fetch.message.max.bytes", "max.partition.fetch.bytes"],
            &mut self.fetch,
        );
        decide(&["fetch.max.bytes"], &mut self.response);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn few_lanes_get_all_they_can_use() {
        for lanes in [1, 8, 20] {
            let plan = Prefetch::plan(256 * MIB, lanes);
            assert_eq!((plan.kib, plan.records), (4096, 20_000), "{lanes}");
            assert_eq!((plan.fetch, plan.response), (MIB, 16 * MIB));
        }
    }

    // FC-75.
    #[test]
    fn many_lanes_share_what_there_is() {
        for lanes in [21, 60, 200, 1000] {
            let share = 256 * MIB;
            let plan = Prefetch::plan(share, lanes);
            assert!(plan.cost(lanes) <= share * 5 / 4, "{lanes}: {plan:?}");
            assert!(plan.cost(lanes) >= share / 2, "{lanes}: {plan:?}");
        }
        // Below the least that moves a lane the share is not kept.
        let plan = Prefetch::plan(4 * MIB, 200);
        assert_eq!((plan.kib, plan.records), (64, 128));
    }

    #[test]
    fn limits_hold_until_the_lanes_outgrow_them() {
        let share = 256 * MIB;
        let plan = Prefetch::plan(share, 8);
        assert!(plan.fits(share, 20));
        assert!(!plan.fits(share, 60));
        assert!(Prefetch::plan(share, 60).fits(share, 60));
        assert!(!Prefetch::plan(share, 60).fits(share, 120));
        let least = Prefetch::plan(MIB, 50);
        assert!(least.fits(MIB, 50), "no better plan would come");
    }

    #[test]
    fn users_own_values_win_and_count() {
        let own = [
            ("queued.max.messages.kbytes".to_owned(), "1024".to_owned()),
            (" max.partition.fetch.bytes".to_owned(), "2048".to_owned()),
        ];
        let mut config = ClientConfig::new();
        let plan = Prefetch::plan(256 * MIB, 8).apply(&mut config, &own);
        assert_eq!((plan.kib, plan.fetch, plan.records), (1024, 2048, 20_000));
        // Theirs are in the configuration already.
        assert_eq!(config.get("queued.max.messages.kbytes"), None);
        assert_eq!(config.get("fetch.message.max.bytes"), None);
        assert_eq!(config.get("fetch.max.bytes"), Some("16777216"));
        assert_eq!(config.get("queued.min.messages"), Some("20000"));
    }
}
