//! What a benchmark measures, after the limits of the embedded broker.

use std::time::Duration;

use anyhow::Result;

use super::Args;
use crate::{broker::kafka::embedded::PARTITION_BYTES, cli::target::Target};

/// Bytes that a record takes on the wire beside its value, as an upper bound:
/// length, attributes, two deltas, key and header counts, and its part of a batch.
const OVERHEAD: u64 = 32;

/// What a benchmark measures.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) target: Target,
    /// A broker in this process is used.
    pub(super) embedded: bool,
    pub(super) records: u64,
    /// Bytes of each value.
    pub(super) size: u32,
    pub(super) partitions: u16,
    pub(super) repeat: u32,
    pub(super) credit: u32,
    /// Time for each run.
    pub(super) deadline: Duration,
    /// What telemetry costs is measured, in place of the gateway against a consumer.
    pub(super) telemetry: bool,
    /// What the reader of the figures should know.
    pub(super) notes: Vec<String>,
}

impl Plan {
    /// # Errors
    /// An address or a property is refused.
    pub(super) fn new(args: &Args) -> Result<Self> {
        let embedded = args.target.cluster()?.is_none();
        let mut notes = Vec::new();
        let mut records = args.records;
        if embedded {
            notes.push(
                "the broker is in memory, inside this process: use --bootstrap for figures \
                 that mean something for your cluster"
                    .to_owned(),
            );
            let most = capacity(args.size, args.partitions);
            if records > most {
                notes.push(format!(
                    "{records} records do not fit into it: {most} are used"
                ));
                records = most;
            }
        }
        if cfg!(debug_assertions) {
            notes.push("this is a debug build: build with --release for real figures".to_owned());
        }
        let Args {
            size,
            partitions,
            repeat,
            credit,
            deadline,
            telemetry,
            ..
        } = *args;
        let target = args.target.clone();
        Ok(Self {
            target,
            embedded,
            records,
            size,
            partitions,
            repeat,
            credit,
            deadline,
            telemetry,
            notes,
        })
    }
}

/// Records of `size` bytes that the embedded broker keeps, spread evenly.
fn capacity(size: u32, partitions: u16) -> u64 {
    // A tenth is left free for the headers of batches.
    let kept = PARTITION_BYTES / 10 * 9;
    (kept / (u64::from(size) + OVERHEAD)).max(1) * u64::from(partitions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_embedded_broker_is_given_fits() {
        for size in [1, 128, 4096, 900_000] {
            for partitions in [1, 8] {
                let records = capacity(size, partitions);
                let bytes = records / u64::from(partitions) * (u64::from(size) + OVERHEAD);
                assert!(bytes < PARTITION_BYTES, "{size} {partitions}");
                assert!(records > 0, "{size} {partitions}");
            }
        }
        assert!(capacity(128, 8) > 200_000);
    }
}
