//! What the gateway tells of itself, and the reading of it.

/// Which records are traced, and where spans are kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traces {
    /// The part of all traces that is recorded, 0 to 1.
    pub sample: f64,
    /// Whether a record's own header decides instead, where it has one.
    pub trust_parent: bool,
    /// Spans that `/v1/traces` can show.
    pub keep: usize,
}
