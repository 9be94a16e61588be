//! [`Sampler`]: which traces are recorded.
//!
//! **Invariants**: it follows from a trace's id alone, so that every retry and every gateway
//! says the same of a record; what a record's own header says of sampling counts only where
//! the configuration trusts it.

use opentelemetry::{TraceId, trace::SpanContext};

use super::Allowance;

/// Bits of a trace id that decide: those that the SDKs of Rust, Go and Python look at, so
/// that at one ratio a producer and the gateway record the same traces.
const BITS: u32 = 63;

/// Decides by ratio, or by parents that are trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampler {
    /// Traces whose last 64 bits, but for the very last, are below this as a number are
    /// recorded.
    below: u64,
    trusts_parents: bool,
}

impl Sampler {
    /// Records the part `ratio` of all traces, 0 to 1; with `trusts_parents` those of records
    /// that have a parent as the parent's flag says.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "from 0 to 2^63"
    )]
    pub fn new(ratio: f64, trusts_parents: bool) -> Self {
        let all = (1_u64 << BITS) as f64;
        Self {
            below: (all * ratio.clamp(0.0, 1.0)).round() as u64,
            trusts_parents,
        }
    }

    /// Whether any record can be traced at all.
    #[must_use]
    pub const fn is_on(self) -> bool {
        self.trusts_parents || self.below > 0
    }

    /// What holds back records whose producers chose their traces' ids. `None`: nothing does,
    /// since that choice is trusted, or since there is nothing to be gained by it.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "to 53 bits is good enough")]
    pub fn allowance(self) -> Option<Allowance> {
        let all = (1_u64 << BITS) as f64;
        let ratio = self.below as f64 / all;
        (!self.trusts_parents).then(|| Allowance::new(ratio))?
    }

    /// Whether a trace that begins here is recorded: the lower numbers are.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the last 64 bits are meant"
    )]
    pub fn takes(self, trace: TraceId) -> bool {
        let last = u128::from_be_bytes(trace.to_bytes()) as u64;
        last >> 1 < self.below
    }

    /// Whether the trace of a record is recorded whose producer left this context.
    #[must_use]
    pub fn takes_parent(self, parent: &SpanContext) -> bool {
        if self.trusts_parents {
            parent.is_sampled()
        } else {
            self.takes(parent.trace_id())
        }
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry::{SpanId, TraceFlags, trace::TraceState};

    use super::*;

    fn id(low: u64) -> TraceId {
        TraceId::from(u128::from(low) | 0xABCD << 80)
    }

    fn parent(low: u64, sampled: bool) -> SpanContext {
        let flags = TraceFlags::default().with_sampled(sampled);
        SpanContext::new(id(low), SpanId::from(7), flags, true, TraceState::NONE)
    }

    #[test]
    fn ratio_is_of_the_ids_last_64_bits() {
        let half = Sampler::new(0.5, false);
        assert!(half.is_on());
        assert!(half.takes(id((1 << 63) - 1)));
        assert!(!half.takes(id(1 << 63)));
        let all = Sampler::new(1.0, false);
        assert!(all.takes(id(0)) && all.takes(id(u64::MAX)));
        let none = Sampler::new(0.0, false);
        assert!(!none.takes(id(0)) && !none.takes(id(u64::MAX)) && !none.is_on());
        let part = Sampler::new(0.1, false);
        let taken =
            (0..10_000_u64).filter(|n| part.takes(id(n.wrapping_mul(0x9E37_79B9_7F4A_7C15))));
        let taken = taken.count();
        assert!((900..1100).contains(&taken), "{taken} of 10000");
    }

    #[test]
    fn chosen_ids_are_held_back_unless_parents_are_trusted() {
        let allowance = Sampler::new(0.001, false).allowance();
        assert_eq!(allowance, Allowance::new(0.001));
        assert!(allowance.is_some());
        assert_eq!(Sampler::new(0.001, true).allowance(), None);
        assert_eq!(Sampler::new(1.0, false).allowance(), None);
    }

    #[test]
    fn flag_of_a_parent_counts_only_where_it_is_trusted() {
        let (low, high) = (1, u64::MAX);
        let own = Sampler::new(0.5, false);
        assert!(!own.takes_parent(&parent(high, true)), "it forces nothing");
        assert!(own.takes_parent(&parent(low, false)), "it hides nothing");
        let none = Sampler::new(0.0, false);
        assert!(!none.takes_parent(&parent(low, true)));
        let trusting = Sampler::new(0.0, true);
        assert!(trusting.is_on());
        assert!(trusting.takes_parent(&parent(low, true)));
        assert!(!trusting.takes_parent(&parent(high, false)));
        assert!(
            !trusting.takes(id(low)),
            "without a parent the ratio counts"
        );
    }
}
